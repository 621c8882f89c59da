// Command pubsub-server is a Pub/Sub server for tests: Google's in-memory pstest behind one port that speaks
// gRPC, as every client does, and the REST admin calls that the official Rust client makes.
// Nothing is stored: topics and messages end with the process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// Pub/Sub takes publish requests of 10 MB; gRPC's own default is 4 MB.
	maxRequestBytes = 11 << 20
	// How long open calls may take to end after SIGTERM. Streaming pulls never end by themselves.
	shutdownGrace = time.Second
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8085", "listen address")
	refuse := flag.Bool("refuse-publish", false, "refuse to publish, as the service does when credentials have run out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, *addr, *refuse); err != nil {
		log.Fatal(err)
	}
}

// serve answers on addr until ctx ends or one of the servers fails.
func serve(ctx context.Context, addr string, refusePublish bool) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	fake := pstest.NewServer()
	defer fake.Close()
	grpcServer := newGRPCServer(&fake.GServer, refusePublish)
	restServer := &http.Server{Handler: restRoutes(&fake.GServer)}
	grpcConns, restConns := newConnQueue(listener.Addr()), newConnQueue(listener.Addr())

	failed := make(chan error, 3)
	go func() { failed <- grpcServer.Serve(grpcConns) }()
	go func() { failed <- restServer.Serve(restConns) }()
	go func() { failed <- split(listener, grpcConns, restConns) }()
	log.Printf("listening on %s", listener.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, listener.Close(), shutDown(grpcServer, restServer))
}

func newGRPCServer(fake *pstest.GServer, refusePublish bool) *grpc.Server {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(maxRequestBytes)}
	if refusePublish {
		options = append(options, grpc.UnaryInterceptor(refuse))
	}
	server := grpc.NewServer(options...)
	pb.RegisterPublisherServer(server, schemaChecker{fake})
	pb.RegisterSubscriberServer(server, fake)
	pb.RegisterSchemaServiceServer(server, fake)
	return server
}

func refuse(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if info.FullMethod == pb.Publisher_Publish_FullMethodName {
		return nil, status.Error(codes.Unauthenticated, "this server refuses to publish")
	}
	return handler(ctx, req)
}

// shutDown lets open calls finish within the grace and then cuts them off.
func shutDown(grpcServer *grpc.Server, restServer *http.Server) error {
	cutOff := time.AfterFunc(shutdownGrace, grpcServer.Stop)
	defer cutOff.Stop()
	grpcServer.GracefulStop()
	return restServer.Close()
}
