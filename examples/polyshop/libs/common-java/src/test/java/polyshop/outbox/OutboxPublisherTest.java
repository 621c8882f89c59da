package polyshop.outbox;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static polyshop.testing.Eventually.eventually;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.opentelemetry.api.trace.Tracer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.ApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;
import polyshop.outbox.UnreliableProducer.Network;
import polyshop.service.Backoff;
import polyshop.testing.TestApplication;
import polyshop.testing.TestShop;

class OutboxPublisherTest {
    private static final String PLACED = "order.order.placed.v1";
    private static final Backoff QUICK = new Backoff(Duration.ofMillis(1), Duration.ofMillis(20));
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String PARENT = "00-" + TRACE + "-00f067aa0ba902b7-01";

    private TestShop shop;
    private ApplicationContext service;
    private Producer<byte[], byte[]> kafka;

    @BeforeEach
    void open() {
        shop = new TestShop("test-service", PLACED);
        service = shop.start(TestApplication.class);
        kafka = TestShop.producer(shop.settings.kafka(), 10_000);
    }

    @AfterEach
    void close() {
        kafka.close();
        shop.close();
    }

    private OutboxPublisher publisher(Producer<byte[], byte[]> producer) {
        ObjectMapper json = service.getBean(ObjectMapper.class);
        EventSender sender = new EventSender(
            producer, new EventEnvelopeBuilder(json, "test-service"), shop.settings,
            service.getBean(Tracer.class), json);
        return new OutboxPublisher(
            service.getBean(OutboxEventRepository.class),
            service.getBean(TransactionTemplate.class), sender, json,
            new SimpleMeterRegistry(), "test-service", QUICK);
    }

    /** As any language would write it. */
    private UUID insert(String eventType, String key, String payload, String metadata) {
        return shop.database.sql("""
            INSERT INTO outbox_events (aggregate_id, event_type, payload, metadata)
            VALUES (?, ?, ?::json, ?::jsonb) RETURNING id""")
            .params(key, eventType, payload, metadata).query(UUID.class).single();
    }

    // A3-02, A3-03, A3-04, A3-15
    @Test
    void aRowByHandBecomesAnEnvelopeAndIsMarkedProcessed() {
        String metadata = "{\"traceId\":\"%s\",\"traceparent\":\"%s\",\"userId\":\"u-1\"}"
            .formatted(TRACE, PARENT);
        UUID id = insert(PLACED, "o-1", "{\"n\": 12345678901234567890.5}", metadata);
        shop.execute("UPDATE outbox_events SET error_message = 'of an earlier try'");
        UUID bare = insert(PLACED, "o-2", "{}", null);

        assertThat(publisher(kafka).pass()).isEqualTo(2);

        Map<String, ConsumerRecord<byte[], byte[]>> byKey = shop.until(PLACED, 2).stream()
            .collect(Collectors.toMap(record -> new String(record.key()), record -> record));
        String text = new String(byKey.get("o-1").value());
        assertThat(text).contains("\"data\":{\"n\": 12345678901234567890.5}");
        JsonNode envelope = TestShop.json(byKey.get("o-1").value());
        assertThat(envelope.path("eventId").asText()).isEqualTo(id.toString());
        assertThat(envelope.path("eventType").asText()).isEqualTo(PLACED);
        assertThat(envelope.path("version").isInt()).isTrue();
        assertThat(envelope.path("source").asText()).isEqualTo("test-service");
        assertThat(envelope.path("metadata")).isEqualTo(TestShop.json(metadata.getBytes()));
        assertThat(shop.count("outbox_events WHERE id = '%s' AND created_at = '%s'".formatted(
            id, envelope.path("timestamp").asText()))).isEqualTo(1);
        String parent = new String(byKey.get("o-1").headers().lastHeader("traceparent").value());
        assertThat(parent).startsWith("00-" + TRACE).isNotEqualTo(PARENT);

        // Nothing is made up for a row that says nothing.
        assertThat(TestShop.json(byKey.get("o-2").value()).path("metadata")).isEmpty();
        assertThat(byKey.get("o-2").headers().lastHeader("traceparent")).isNull();
        assertThat(new String(byKey.get("o-2").headers().lastHeader("event_id").value()))
            .isEqualTo(bare.toString());
        assertThat(shop.count("outbox_events WHERE processed AND processed_at IS NOT NULL"
            + " AND error_message IS NULL")).isEqualTo(2);
        assertThat(publisher(kafka).pass()).isZero();
    }

    /** By default a relay publishes the table, and the service must leave it alone. */
    @Test
    void aServicePublishesItsOutboxOnlyWhenItIsTold() {
        assertThat(service.getBeansOfType(OutboxPublisher.class)).isEmpty();
        insert(PLACED, "o-1", "{}", null);
        shop.start(TestApplication.class, List.of("--polyshop.outbox.publisher=true"));
        shop.until(PLACED, 1);
        eventually(
            "it is marked", () -> shop.count("outbox_events WHERE processed"), it -> it == 1);
        insert(PLACED, "o-1", "{}", null);
        shop.until(PLACED, 2);
    }

    // A3-07
    @Test
    void severalPublishersOnABadNetworkKeepTheOrderOfEachKey() {
        int keys = 6;
        int each = 25;
        for (int n = 0; n < each; n++) {
            for (int key = 0; key < keys; key++) {
                insert(PLACED, "o-" + key, "{\"n\":" + n + "}", null);
            }
        }
        AtomicBoolean done = new AtomicBoolean();
        List<CompletableFuture<Void>> publishers = IntStream.range(0, 3).mapToObj(seed -> {
            Random random = new Random(seed);
            OutboxPublisher publisher = publisher(UnreliableProducer.over(kafka, message ->
                switch (random.nextInt(8)) {
                    case 0 -> Network.LOSES_THE_MESSAGE;
                    case 1 -> Network.LOSES_THE_ACKNOWLEDGEMENT;
                    default -> Network.WORKS;
                }));
            return CompletableFuture.runAsync(() -> {
                while (!done.get()) {
                    publisher.pass();
                }
            });
        }).toList();
        eventually(
            "all are sent", () -> shop.count("outbox_events WHERE NOT processed"), it -> it == 0);
        done.set(true);
        publishers.forEach(CompletableFuture::join);

        Map<String, List<Integer>> byKey = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : shop.records(PLACED)) {
            int n = TestShop.json(record.value()).at("/data/n").asInt();
            byKey.computeIfAbsent(new String(record.key()), key -> new ArrayList<>()).add(n);
        }
        assertThat(byKey).hasSize(keys);
        byKey.values().forEach(sent -> {
            assertThat(sent).isSorted();
            assertThat(sent.stream().distinct()).hasSize(each);
        });
        assertThat(shop.count("outbox_events WHERE error_message IS NOT NULL")).isZero();
    }

    // A3-05
    @Test
    void anOutageLeavesRowsThatAreSentAfterIt() {
        for (int n = 0; n < 5; n++) {
            insert(PLACED, "o-" + n, "{}", null);
        }
        try (Producer<byte[], byte[]> nowhere = TestShop.producer("127.0.0.1:1", 200)) {
            assertThat(publisher(nowhere).pass()).isZero();
        }
        assertThat(shop.count("outbox_events WHERE processed")).isZero();
        assertThat(shop.count("outbox_events WHERE error_message IS NOT NULL")).isPositive();

        assertThat(publisher(kafka).pass()).isEqualTo(5);
        assertThat(shop.until(PLACED, 5)).hasSize(5);
        assertThat(shop.count("outbox_events WHERE processed AND error_message IS NULL"))
            .isEqualTo(5);
    }

    // A3-08
    @Test
    void rowsThatCanNeverBeSentStarveNobodyAndAreKnownFromSentOnes() {
        for (int n = 0; n < OutboxPublisher.BATCH_SIZE + 1; n++) {
            insert("no topic has this name!", "bad-" + n, "{}", null);
        }
        insert(PLACED, "large", "{\"text\":\"%s\"}".formatted("x".repeat(1_100_000)), null);
        UUID behind = insert(PLACED, "large", "{}", null);
        UUID healthy = insert(PLACED, "o-1", "{}", null);

        OutboxPublisher publisher = publisher(kafka);
        eventually("the healthy row is sent", publisher::pass, sent -> sent == 1);
        assertThat(TestShop.json(shop.until(PLACED, 1).get(0).value()).path("eventId").asText())
            .isEqualTo(healthy.toString());
        assertThat(shop.count("outbox_events WHERE processed AND processed_at IS NULL"
            + " AND error_message IS NOT NULL")).isEqualTo(OutboxPublisher.BATCH_SIZE + 2);
        // The key keeps its order: what is behind the row that was given up waits for an operator.
        assertThat(publisher.pass()).isZero();
        assertThat(shop.count("outbox_events WHERE id = '%s' AND NOT processed".formatted(behind)))
            .isEqualTo(1);
        shop.execute("UPDATE outbox_events SET error_message = NULL WHERE aggregate_id = 'large'");
        assertThat(publisher.pass()).isEqualTo(1);
    }

    // A3-06
    @Test
    void aPublisherWhoseSessionDiesMidBatchHasItsRowsSentAgainUnderTheSameIds() {
        List<String> ids = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            ids.add(insert(PLACED, "o-1", "{}", null).toString());
        }
        AtomicBoolean killed = new AtomicBoolean();
        OutboxPublisher dying = publisher(UnreliableProducer.over(kafka, message -> {
            // The first row is acknowledged by now, and this is the second.
            if (!shop.records(PLACED).isEmpty() && killed.compareAndSet(false, true)) {
                shop.database.sql("""
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE application_name = ? AND state = 'idle in transaction'""")
                    .param(shop.sessions()).query().listOfRows();
            }
            return Network.WORKS;
        }));
        assertThatThrownBy(dying::pass).isInstanceOf(RuntimeException.class);
        assertThat(killed).isTrue();
        assertThat(shop.count("outbox_events WHERE processed")).isZero();

        assertThat(publisher(kafka).pass()).isEqualTo(3);
        List<String> sent = shop.records(PLACED).stream()
            .map(record -> TestShop.json(record.value()).path("eventId").asText()).toList();
        assertThat(sent).hasSizeGreaterThan(3);
        assertThat(sent.stream().distinct()).containsExactlyElementsOf(ids);
        assertThat(sent.subList(sent.size() - 3, sent.size())).isEqualTo(ids);
    }
}
