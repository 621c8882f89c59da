package polyshop.consumer;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.Eventually.eventually;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.testing.TestApplication;
import polyshop.testing.TestShop;

// A3-14
class TraceTest {
    private static final String PLACED = "order.order.placed.v1";
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String PARENT = "00-" + TRACE + "-00f067aa0ba902b7-01";

    record Seen(JsonNode metadata, Map<String, String> log) {}

    /** From the header where the message has one, else from the envelope. */
    @Test
    void whatFollowsFromAnEventBelongsToItsTrace() {
        List<Seen> seen = new CopyOnWriteArrayList<>();
        DomainEventFactory events = new DomainEventFactory(new ObjectMapper());
        try (TestShop shop = new TestShop("test-service", PLACED)) {
            shop.start(TestApplication.class, EventHandler.of(PLACED, event -> {
                EventMetadata metadata = EventMetadata.causedBy(event, "u-1");
                var emitted = events.create("test.thing.done.v1", "t-1", Map.of(), metadata);
                JsonNode described = TestShop.json(TestShop.bytes(emitted.metadata()));
                seen.add(new Seen(described, MDC.getCopyOfContextMap()));
            }));
            var metadata = Map.of("traceparent", PARENT, "traceId", TRACE, "correlationId", "c-1");
            var id = shop.send(PLACED, "o-1", Map.of(), metadata);
            eventually("the event is handled", seen::size, size -> size == 1);
            JsonNode follows = seen.get(0).metadata();
            assertThat(follows.path("traceId").asText()).isEqualTo(TRACE);
            assertThat(follows.path("traceparent").asText())
                .startsWith("00-" + TRACE).isNotEqualTo(PARENT);
            assertThat(follows.path("correlationId").asText()).isEqualTo("c-1");
            assertThat(follows.path("causationId").asText()).isEqualTo(id.toString());
            assertThat(follows.has("idempotencyKey")).isFalse();
            assertThat(seen.get(0).log()).containsEntry("eventId", id.toString())
                .containsEntry("traceId", TRACE);

            String other = "00-" + "a".repeat(32) + "-" + "b".repeat(16) + "-01";
            String event = TestShop.envelope(UUID.randomUUID(), PLACED, Map.of(), Map.of());
            shop.send(PLACED, "o-1", TestShop.bytes(event), "traceparent", other);
            eventually("the event is handled", seen::size, size -> size == 2);
            assertThat(seen.get(1).metadata().path("traceId").asText()).isEqualTo("a".repeat(32));
        }
    }
}
