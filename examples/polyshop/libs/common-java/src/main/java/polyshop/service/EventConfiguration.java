package polyshop.service;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.MeterRegistry;
import io.opentelemetry.api.trace.Tracer;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.data.jdbc.JdbcRepositoriesAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Lazy;
import org.springframework.data.jdbc.core.dialect.JdbcDialect;
import org.springframework.data.jdbc.core.dialect.JdbcPostgresDialect;
import org.springframework.data.jdbc.repository.config.AbstractJdbcConfiguration;
import org.springframework.data.jdbc.repository.config.EnableJdbcRepositories;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcOperations;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionTemplate;
import polyshop.consumer.DeadLetters;
import polyshop.consumer.DeliveryHandler;
import polyshop.consumer.EventConsumer;
import polyshop.consumer.EventHandler;
import polyshop.consumer.ProcessedEvents;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventEnvelopeBuilder;
import polyshop.outbox.EventSender;
import polyshop.outbox.OutboxEventRepository;
import polyshop.outbox.OutboxPublisher;

/** Outbox and consumer of a service. A service without an {@link EventHandler} consumes nothing. */
@AutoConfiguration(before = JdbcRepositoriesAutoConfiguration.class)
@EnableJdbcRepositories(basePackageClasses = OutboxEventRepository.class)
public class EventConfiguration extends AbstractJdbcConfiguration {
    private static final int BLOCK_MAX_MS = 5_000;
    private static final int METADATA_AGE_MAX_MS = 10_000;
    private static final int POLL_RECORDS_MAX = 100;

    /** Said, not asked of the database, which may start after the service. */
    @Override
    public JdbcDialect jdbcDialect(NamedParameterJdbcOperations operations) {
        return JdbcPostgresDialect.INSTANCE;
    }

    @Bean
    DomainEventFactory domainEventFactory(ObjectMapper json) {
        return new DomainEventFactory(json);
    }

    /** For dead letters, and for the outbox where the service publishes it. */
    @Bean(destroyMethod = "close")
    @Lazy
    Producer<byte[], byte[]> producer(Settings settings) {
        return producerFor(settings);
    }

    static Producer<byte[], byte[]> producerFor(Settings settings) {
        int timeoutMs = (int) EventSender.DELIVERY_TIMEOUT.toMillis();
        return new KafkaProducer<>(Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, settings.kafka(),
            ProducerConfig.CLIENT_ID_CONFIG, settings.service(),
            ProducerConfig.ACKS_CONFIG, "all",
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true,
            ProducerConfig.MAX_BLOCK_MS_CONFIG, BLOCK_MAX_MS,
            ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, timeoutMs / 2,
            ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, timeoutMs
        ), new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Bean
    @ConditionalOnProperty("polyshop.outbox.publisher")
    OutboxPublisher outboxPublisher(
        OutboxEventRepository repository, TransactionTemplate transactions,
        Producer<byte[], byte[]> producer, Settings settings, Tracer tracer, ObjectMapper json,
        MeterRegistry metrics
    ) {
        EventEnvelopeBuilder envelopes = new EventEnvelopeBuilder(json, settings.service());
        EventSender sender = new EventSender(producer, envelopes, settings, tracer, json);
        return new OutboxPublisher(
            repository, transactions, sender, json, metrics, settings.service(), Backoff.DEFAULT);
    }

    @Bean
    @ConditionalOnBean(EventHandler.class)
    EventConsumer eventConsumer(
        List<EventHandler> handlers, JdbcClient database, TransactionTemplate transactions,
        Producer<byte[], byte[]> producer, Settings settings, Tracer tracer, ObjectMapper json,
        MeterRegistry metrics
    ) {
        DeliveryHandler deliveries = new DeliveryHandler(
            handlers, new ProcessedEvents(database), transactions,
            new DeadLetters(producer, json, settings.service()), json, tracer, metrics,
            settings.service());
        List<String> topics = handlers.stream()
            .map(EventHandler::eventType).map(settings::topic).toList();
        return new EventConsumer(
            () -> consumerFor(settings), topics, deliveries, Backoff.DEFAULT,
            PolyshopService::fail);
    }

    static KafkaConsumer<byte[], byte[]> consumerFor(Settings settings) {
        return new KafkaConsumer<>(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, settings.kafka(),
            ConsumerConfig.CLIENT_ID_CONFIG, settings.service(),
            ConsumerConfig.GROUP_ID_CONFIG, settings.group(),
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
            // A topic that is made after the service has started is found within this time.
            ConsumerConfig.METADATA_MAX_AGE_CONFIG, METADATA_AGE_MAX_MS,
            ConsumerConfig.MAX_POLL_RECORDS_CONFIG, POLL_RECORDS_MAX
        ), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
