package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const apiPrefix = "/v1/"

// restRoutes maps the admin calls of Pub/Sub's REST API to the methods that gRPC clients call.
func restRoutes(fake *pstest.GServer) http.Handler {
	const topics = apiPrefix + "projects/{project}/topics"
	const subscriptions = apiPrefix + "projects/{project}/subscriptions"
	mux := http.NewServeMux()

	mux.Handle("GET "+topics, transcode(fake.ListTopics, func(r *http.Request) (*pb.ListTopicsRequest, error) {
		return &pb.ListTopicsRequest{Project: projectName(r)}, nil
	}))
	mux.Handle("PUT "+topics+"/{id}", transcode(fake.CreateTopic, func(r *http.Request) (*pb.Topic, error) {
		topic := &pb.Topic{}
		err := readBody(r, topic)
		topic.Name = resourceName(r)
		return topic, err
	}))
	mux.Handle("GET "+topics+"/{id}", transcode(fake.GetTopic, func(r *http.Request) (*pb.GetTopicRequest, error) {
		return &pb.GetTopicRequest{Topic: resourceName(r)}, nil
	}))
	mux.Handle("DELETE "+topics+"/{id}", transcode(fake.DeleteTopic, func(r *http.Request) (*pb.DeleteTopicRequest, error) {
		return &pb.DeleteTopicRequest{Topic: resourceName(r)}, nil
	}))

	mux.Handle("GET "+subscriptions, transcode(fake.ListSubscriptions, func(r *http.Request) (*pb.ListSubscriptionsRequest, error) {
		return &pb.ListSubscriptionsRequest{Project: projectName(r)}, nil
	}))
	mux.Handle("PUT "+subscriptions+"/{id}", transcode(fake.CreateSubscription, func(r *http.Request) (*pb.Subscription, error) {
		subscription := &pb.Subscription{}
		err := readBody(r, subscription)
		subscription.Name = resourceName(r)
		return subscription, err
	}))
	mux.Handle("GET "+subscriptions+"/{id}", transcode(fake.GetSubscription, func(r *http.Request) (*pb.GetSubscriptionRequest, error) {
		return &pb.GetSubscriptionRequest{Subscription: resourceName(r)}, nil
	}))
	mux.Handle("DELETE "+subscriptions+"/{id}", transcode(fake.DeleteSubscription, func(r *http.Request) (*pb.DeleteSubscriptionRequest, error) {
		return &pb.DeleteSubscriptionRequest{Subscription: resourceName(r)}, nil
	}))

	mux.Handle("POST "+apiPrefix+"projects/{project}/schemas", transcode(fake.CreateSchema, func(r *http.Request) (*pb.CreateSchemaRequest, error) {
		schema := &pb.Schema{}
		err := readBody(r, schema)
		return &pb.CreateSchemaRequest{Parent: projectName(r), SchemaId: r.URL.Query().Get("schemaId"), Schema: schema}, err
	}))

	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		replyError(w, status.Errorf(codes.Unimplemented, "no REST call %s %s in this server", r.Method, r.URL.Path))
	})
	return mux
}

// transcode answers a REST call with what method returns for the request that read finds in it.
func transcode[Request, Reply proto.Message](
	method func(context.Context, Request) (Reply, error),
	read func(*http.Request) (Request, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := read(r)
		if err != nil {
			replyError(w, err)
			return
		}
		reply, err := method(r.Context(), request)
		if err != nil {
			replyError(w, err)
			return
		}
		body, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(reply)
		if err != nil {
			replyError(w, fmt.Errorf("encode %T: %w", reply, err))
			return
		}
		replyJSON(w, http.StatusOK, body)
	}
}

func projectName(r *http.Request) string  { return "projects/" + r.PathValue("project") }
func resourceName(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, apiPrefix) }

// readBody decodes a request's JSON. Clients leave the body out when only the name matters.
func readBody(r *http.Request, message proto.Message) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes))
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "read the request body: %v", err)
	}
	if len(body) == 0 {
		return nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, message); err != nil {
		return status.Errorf(codes.InvalidArgument, "decode the request body: %v", err)
	}
	return nil
}

var httpStatus = map[codes.Code]int{
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
}

// replyError writes the error document of Google's REST APIs.
func replyError(w http.ResponseWriter, err error) {
	grpcStatus := status.Convert(err)
	httpCode, known := httpStatus[grpcStatus.Code()]
	if !known {
		httpCode = http.StatusInternalServerError
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code":    httpCode,
		"message": grpcStatus.Message(),
		"status":  code.Code(grpcStatus.Code()).String(),
	}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	replyJSON(w, httpCode, body)
}

func replyJSON(w http.ResponseWriter, httpCode int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpCode)
	if _, err := w.Write(body); err != nil {
		log.Printf("write a reply: %v", err)
	}
}
