// Watermill's outbox: its SQL subscriber on PostgreSQL, a router, its Kafka publisher.
// The flags are the settings of watermill-sql by their own names; left out, they are its defaults.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// The subscriber reads the table watermill_<outboxTopic>.
const outboxTopic = "orders"

var (
	initialize = flag.Bool("initialize", false, "make the tables and exit")
	batchSize  = flag.Int("SubscribeBatchSize", 0, "messages per query")
	poll       = flag.Duration("PollInterval", 0, "wait after an empty query")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "watermill relay:", err)
		os.Exit(1)
	}
}

func run() error {
	logger := watermill.NewStdLogger(false, false)
	subscriber, err := newSubscriber(*batchSize, *poll, logger)
	if err != nil {
		return err
	}
	if *initialize {
		return subscriber.SubscribeInitialize(outboxTopic)
	}
	publisher, err := newPublisher(logger)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	forward := func(m *message.Message) ([]*message.Message, error) { return []*message.Message{m}, nil }
	router.AddHandler("relay", outboxTopic, subscriber, os.Getenv("BENCH_TOPIC"), publisher, forward)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return router.Run(ctx)
}

func newSubscriber(batch int, poll time.Duration, logger watermill.LoggerAdapter) (*wsql.Subscriber, error) {
	db, err := sql.Open("pgx", os.Getenv("BENCH_POSTGRES"))
	if err != nil {
		return nil, err
	}
	return wsql.NewSubscriber(wsql.BeginnerFromStdSQL(db), wsql.SubscriberConfig{
		ConsumerGroup:    "bench",
		PollInterval:     poll,
		SchemaAdapter:    wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch},
		OffsetsAdapter:   wsql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true,
	}, logger)
}

func newPublisher(logger watermill.LoggerAdapter) (*kafka.Publisher, error) {
	settings := kafka.DefaultSaramaSyncPublisherConfig()
	settings.Producer.RequiredAcks = sarama.WaitForAll
	key := func(_ string, m *message.Message) (string, error) { return m.Metadata.Get("key"), nil }
	return kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:               []string{os.Getenv("BENCH_KAFKA")},
		Marshaler:             kafka.NewWithPartitioningMarshaler(key),
		OverwriteSaramaConfig: settings,
	}, logger)
}
