package polyshop.consumer;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.Eventually.eventually;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.dao.TransientDataAccessResourceException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionTemplate;
import polyshop.testing.TestApplication;
import polyshop.testing.TestShop;

class EventConsumerTest {
    private static final String PLACED = "order.order.placed.v1";

    record Order(String orderId, int n) {}

    private TestShop shop;
    private ServletWebServerApplicationContext service;

    @BeforeEach
    void open() {
        shop = new TestShop("test-service", PLACED);
        shop.execute("CREATE TABLE effects (id bigserial, event_id uuid, key text, n integer)");
    }

    @AfterEach
    void close() {
        shop.close();
    }

    /**
     * Starts a service that writes down what it does, in the consumer's transaction, and then does
     * this.
     */
    private void start(Consumer<Order> then) {
        AtomicReference<JdbcClient> database = new AtomicReference<>();
        service = shop.start(TestApplication.class, EventHandler.of(PLACED, event -> {
            Order order = event.data(Order.class);
            eventually("the service has started", database::get, it -> it != null)
                .sql("INSERT INTO effects (event_id, key, n) VALUES (?, ?, ?)")
                .params(event.eventId(), order.orderId(), order.n()).update();
            then.accept(order);
        }));
        database.set(service.getBean(JdbcClient.class));
    }

    private UUID send(String key, int n) {
        return shop.send(PLACED, key, Map.of("orderId", key, "n", n), Map.of());
    }

    private double counted(String name) {
        return service.getBean(MeterRegistry.class)
            .counter("postrider.consumer." + name, "consumer", "test-service").count();
    }

    private List<Integer> effects(String key) {
        return shop.database.sql("SELECT n FROM effects WHERE key = ? ORDER BY id").param(key)
            .query(Integer.class).list();
    }

    private static RuntimeException temporary() {
        return new TransientDataAccessResourceException("the network was cut");
    }

    // A3-09
    @Test
    void anEventThatComesTwiceHasOneEffect() {
        start(order -> {});
        UUID id = UUID.randomUUID();
        byte[] event = TestShop.bytes(
            TestShop.envelope(id, PLACED, Map.of("orderId", "o-1", "n", 1), Map.of()));
        for (int time = 0; time < 3; time++) {
            shop.send(PLACED, "o-1", event);
        }
        shop.untilConsumed(PLACED);
        assertThat(effects("o-1")).containsExactly(1);
        assertThat(shop.count("processed_events WHERE event_id = '%s' AND event_type = '%s'"
            .formatted(id, PLACED) + " AND source = 'test' AND processed_at IS NOT NULL"))
            .isEqualTo(1);
        assertThat(counted("handled")).isEqualTo(1);
        assertThat(counted("duplicates")).isEqualTo(2);
    }

    // A3-09: handled at the same time, the second waits for the first, and goes on only if that is
    // undone.
    @Test
    void anEventInTwoTransactionsIsEnteredByOne() throws Exception {
        start(order -> {});
        var transactions = service.getBean(TransactionTemplate.class);
        var processed = new ProcessedEvents(service.getBean(JdbcClient.class));
        for (boolean isUndone : new boolean[] {true, false}) {
            EventEnvelope event = EventEnvelope.of(new ObjectMapper(),
                TestShop.json(TestShop.bytes(
                    TestShop.envelope(UUID.randomUUID(), PLACED, Map.of(), Map.of()))));
            var second = transactions.execute(status -> {
                assertThat(processed.enter(event)).isTrue();
                var other = CompletableFuture.supplyAsync(
                    () -> transactions.execute(it -> processed.enter(event)));
                String waits = "pg_stat_activity WHERE wait_event_type = 'Lock'"
                    + " AND application_name = '%s'".formatted(shop.sessions());
                eventually("the other waits", () -> shop.count(waits), it -> it == 1);
                if (isUndone) {
                    status.setRollbackOnly();
                }
                return other;
            });
            assertThat(second.get()).isEqualTo(isUndone);
        }
    }

    // A3-10, A3-11
    @Test
    void aTemporaryErrorIsTriedAgainWithGrowingWaits() {
        List<Instant> tries = Collections.synchronizedList(new ArrayList<>());
        start(order -> {
            tries.add(Instant.now());
            if (tries.size() <= 3) {
                throw temporary();
            }
        });
        UUID id = send("o-1", 1);
        shop.untilConsumed(PLACED);
        assertThat(effects("o-1")).containsExactly(1);
        assertThat(tries).hasSize(4);
        Duration first = Duration.between(tries.get(0), tries.get(1));
        Duration third = Duration.between(tries.get(2), tries.get(3));
        assertThat(third).isGreaterThan(first);
        assertThat(counted("retried")).isEqualTo(3);
        assertThat(shop.count("processed_events WHERE event_id = '%s'".formatted(id))).isEqualTo(1);
        assertThat(shop.records(PLACED + ".dlt")).isEmpty();
    }

    @Test
    void aKeyThatFailsKeepsItsOrderAndOthersGoOn() {
        AtomicBoolean isMended = new AtomicBoolean();
        start(order -> {
            if (order.orderId().equals("stuck") && !isMended.get()) {
                throw temporary();
            }
        });
        for (int n = 0; n < 5; n++) {
            send("stuck", n);
        }
        // In twenty keys there are some of every partition.
        for (int key = 0; key < 20; key++) {
            send("o-" + key, 0);
        }
        var records = shop.records(PLACED);
        int stuck = records.stream().filter(it -> new String(it.key()).equals("stuck"))
            .findFirst().get().partition();
        long elsewhere = records.stream().filter(it -> it.partition() != stuck).count();
        assertThat(elsewhere).isPositive();
        eventually("the other partitions", () -> shop.count("effects"), it -> it == elsewhere);
        assertThat(effects("stuck")).isEmpty();
        isMended.set(true);
        shop.untilConsumed(PLACED);
        assertThat(effects("stuck")).containsExactly(0, 1, 2, 3, 4);
        assertThat(shop.count("effects")).isEqualTo(25);
    }

    // A3-12
    @Test
    void aPermanentErrorIsADeadLetter() {
        start(order -> {
            throw new PermanentException("Validation failed: product not found");
        });
        UUID id = UUID.randomUUID();
        String event = TestShop.envelope(id, PLACED, Map.of("orderId", "o-1", "n", 1), Map.of());
        shop.send(PLACED, "o-1", TestShop.bytes(event));
        ConsumerRecord<byte[], byte[]> record = shop.until(PLACED + ".dlt", 1).get(0);
        assertThat(new String(record.key())).isEqualTo("o-1");
        assertThat(new String(record.value())).contains("\"originalEvent\":" + event);
        JsonNode letter = TestShop.json(record.value());
        assertThat(letter.path("eventId").asText()).isEqualTo(id.toString());
        assertThat(letter.path("errorMessage").asText())
            .isEqualTo("Validation failed: product not found");
        assertThat(letter.path("consumerService").asText()).isEqualTo("test-service");
        assertThat(Instant.parse(letter.path("failedAt").asText())).isAfter(Instant.EPOCH);
        assertThat(letter).hasSize(5);
        shop.untilConsumed(PLACED);
        assertThat(shop.count("effects")).isZero();
        assertThat(shop.count("processed_events")).isZero();
        assertThat(counted("dead.lettered")).isEqualTo(1);
    }

    // A3-12
    @Test
    void whatIsNoEventIsADeadLetterAndHoldsUpNobody() {
        start(order -> {});
        Map<String, ?> data = Map.of("orderId", "o-1", "n", 1);
        String sound = TestShop.envelope(UUID.randomUUID(), PLACED, data, Map.of());
        List<String> malformed = List.of(
            "[]", "\"text\"", "{}",
            sound.replaceFirst("\"eventId\":\"[^\"]*\"", "\"eventId\":\"1-1-1-1-1\""),
            sound.replaceFirst("\"eventId\":\"[^\"]*\"", "\"eventId\":7"),
            sound.replace("\"version\":1", "\"version\":\"1\""),
            sound.replace("\"data\":", "\"other\":"),
            sound.replace("\"n\":1", "\"n\":\"1\""),
            sound.replace("\"n\":1", "\"n\":1.5"),
            sound.replace(",\"n\":1", "").replace("\"n\":1,", ""),
            sound.replace(PLACED, "order.order.unheard.v1"),
            // The database refuses it: no text has a NUL.
            sound.replace("\"o-1\"", "\"o\\u0000\""));
        for (String message : malformed) {
            assertThat(message).isNotEqualTo(sound);
            shop.send(PLACED, "o-1", TestShop.bytes(message));
        }
        byte[] notJson = {'{', (byte) 0xff};
        shop.send(PLACED, "o-1", notJson);
        shop.send(PLACED, "o-1", (byte[]) null);
        shop.send(PLACED, "o-1", TestShop.bytes(sound));

        var letters = shop.until(PLACED + ".dlt", malformed.size() + 2);
        for (int i = 0; i < malformed.size(); i++) {
            JsonNode original = TestShop.json(letters.get(i).value()).path("originalEvent");
            assertThat(original).isEqualTo(TestShop.json(TestShop.bytes(malformed.get(i))));
        }
        ConsumerRecord<byte[], byte[]> raw = letters.get(malformed.size());
        assertThat(raw.value()).isEqualTo(notJson);
        assertThat(new String(raw.headers().lastHeader("dlt_error_message").value()))
            .isEqualTo("message is no event: it is no JSON object");
        assertThat(new String(raw.headers().lastHeader("dlt_original_position").value()))
            .startsWith(shop.settings.topic(PLACED) + "[").endsWith("]@" + malformed.size());
        shop.untilConsumed(PLACED);
        assertThat(effects("o-1")).containsExactly(1);
        assertThat(shop.count("processed_events")).isEqualTo(1);
    }
}
