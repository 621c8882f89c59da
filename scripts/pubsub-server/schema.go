package main

import (
	"context"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/linkedin/goavro/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// schemaChecker refuses messages that do not fit their topic's schema, and with one of them the whole request, as the
// service does. pstest keeps schemas and does not look at them. Only Avro in JSON is known.
type schemaChecker struct{ *pstest.GServer }

func (s schemaChecker) Publish(ctx context.Context, req *pb.PublishRequest) (*pb.PublishResponse, error) {
	topic, err := s.GetTopic(ctx, &pb.GetTopicRequest{Topic: req.Topic})
	if err == nil && topic.SchemaSettings != nil {
		if err := s.check(ctx, topic.SchemaSettings, req.Messages); err != nil {
			return nil, err
		}
	}
	return s.GServer.Publish(ctx, req)
}

func (s schemaChecker) check(ctx context.Context, settings *pb.SchemaSettings, messages []*pb.PubsubMessage) error {
	schema, err := s.GetSchema(ctx, &pb.GetSchemaRequest{Name: settings.Schema})
	if err != nil {
		return err
	}
	if schema.Type != pb.Schema_AVRO || settings.Encoding != pb.Encoding_JSON {
		return status.Errorf(codes.Unimplemented, "this server checks Avro in JSON only")
	}
	codec, err := goavro.NewCodec(schema.Definition)
	if err != nil {
		return status.Errorf(codes.FailedPrecondition, "schema %s: %v", settings.Schema, err)
	}
	for _, message := range messages {
		if _, rest, err := codec.NativeFromTextual(message.Data); err != nil || len(rest) > 0 {
			return status.Error(codes.InvalidArgument, "Invalid data in message: Message failed schema validation.")
		}
	}
	return nil
}
