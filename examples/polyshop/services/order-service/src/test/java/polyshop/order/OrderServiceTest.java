package polyshop.order;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.Eventually.eventually;
import static polyshop.testing.TestShop.request;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import polyshop.testing.TestShop;

class OrderServiceTest {
    private static final String PAID = "payment.payment.succeeded.v1";
    private static final String RESERVED = "inventory.stock.reserved.v1";
    private static final String REJECTED = "inventory.stock.rejected.v1";
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String ORDER = """
        {"userId": "u-1", "items": [
          {"productId": "book", "quantity": 2, "price": 750},
          {"productId": "pen", "quantity": 1, "price": 100}]}""";

    private TestShop shop;
    private ServletWebServerApplicationContext service;

    @BeforeEach
    void open() {
        shop = new TestShop(OrderApplication.SERVICE, PAID, RESERVED, REJECTED);
        service = shop.start(OrderApplication.class);
    }

    @AfterEach
    void close() {
        shop.close();
    }

    private UUID place() {
        var answer = request(service, "POST", "/orders", ORDER);
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(201);
        return UUID.fromString(TestShop.json(answer.body().getBytes()).path("orderId").asText());
    }

    private void paid(UUID order) {
        shop.send(PAID, order.toString(), Map.of(
            "paymentId", UUID.randomUUID(), "orderId", order, "userId", "u-1", "amount", 1600),
            Map.of("correlationId", "c-1"));
    }

    private void stock(String eventType, UUID order, String product) {
        shop.send(eventType, product, Map.of(
            "movementId", order + ":" + product, "orderId", order, "productId", product,
            "quantity", 2, "remaining", 5, "available", 1), Map.of());
    }

    private List<String> emitted(UUID order) {
        return shop.database.sql("""
            SELECT event_type FROM outbox_events WHERE aggregate_id = ? ORDER BY created_at""")
            .param(order.toString()).query(String.class).list();
    }

    private void untilAllConsumed() {
        List.of(PAID, RESERVED, REJECTED).forEach(shop::untilConsumed);
    }

    private void assertOrder(UUID order, String status, String... events) {
        assertThat(shop.count("orders WHERE id = '%s' AND status = '%s'".formatted(order, status)))
            .isEqualTo(1);
        assertThat(emitted(order)).containsExactly(events);
    }

    // A3-01, A3-03
    @Test
    void anOrderItsItemsAndItsEventAreWrittenTogether() {
        var answer = request(service, "POST", "/orders", ORDER, "x-correlation-id", "c-1",
            "idempotency-key", "i-1", "traceparent", "00-" + TRACE + "-00f067aa0ba902b7-01");
        JsonNode placed = TestShop.json(answer.body().getBytes());
        String order = placed.path("orderId").asText();
        assertThat(shop.count(
            "orders WHERE total_amount = 1600 AND status = 'PLACED' AND NOT paid")).isEqualTo(1);
        assertThat(shop.count("order_items WHERE NOT reserved")).isEqualTo(2);
        Map<String, Object> row = shop.database.sql("""
            SELECT id::text, aggregate_id, event_type, version, payload::text, metadata::text,
              processed
            FROM outbox_events""").query().singleRow();
        assertThat(row).containsEntry("id", placed.path("eventId").asText())
            .containsEntry("aggregate_id", order)
            .containsEntry("event_type", "order.order.placed.v1")
            .containsEntry("version", 1).containsEntry("processed", false);
        JsonNode payload = TestShop.json(row.get("payload").toString().getBytes());
        assertThat(payload).isEqualTo(TestShop.json("""
            {"orderId": "%s", "userId": "u-1", "totalAmount": 1600, "items": [
              {"productId": "book", "quantity": 2, "price": 750},
              {"productId": "pen", "quantity": 1, "price": 100}]}""".formatted(order).getBytes()));
        JsonNode metadata = TestShop.json(row.get("metadata").toString().getBytes());
        assertThat(metadata.path("traceId").asText()).isEqualTo(TRACE);
        assertThat(metadata.path("traceparent").asText()).startsWith("00-" + TRACE);
        assertThat(metadata.path("correlationId").asText()).isEqualTo("c-1");
        assertThat(metadata.path("idempotencyKey").asText()).isEqualTo("i-1");
        assertThat(metadata.path("userId").asText()).isEqualTo("u-1");
    }

    // A3-01
    @Test
    void anOrderThatIsRefusedLeavesNothing() {
        String item = "{\"productId\": \"book\", \"quantity\": %s, \"price\": %s}";
        for (String items : List.of(
            "", item.formatted(0, 1), item.formatted(1, -1), item.formatted(1.5, 1),
            item.formatted("\"1\"", 1), item.formatted(1, 1) + "," + item.formatted(2, 1),
            item.formatted(2, Long.MAX_VALUE), "null", "{\"productId\": \"book\", \"quantity\": 1}",
            item.formatted(1, 1).replace("book", "b\\u0000"))) {
            String body = "{\"userId\": \"u-1\", \"items\": [%s]}".formatted(items);
            assertThat(request(service, "POST", "/orders", body).statusCode()).as(body)
                .isEqualTo(422);
        }
        assertThat(request(service, "POST", "/orders", "{").statusCode()).isEqualTo(422);
        for (String table : List.of("orders", "order_items", "outbox_events")) {
            assertThat(shop.count(table)).as(table).isZero();
        }
    }

    @Test
    void anOrderIsCompletedOnceItIsPaidAndReservedInWhateverOrder() {
        UUID paidFirst = place();
        UUID paidLast = place();
        UUID unpaid = place();
        paid(paidFirst);
        shop.untilConsumed(PAID);
        for (UUID order : List.of(paidFirst, paidLast, unpaid)) {
            stock(RESERVED, order, "book");
            stock(RESERVED, order, "pen");
        }
        shop.untilConsumed(RESERVED);
        paid(paidLast);
        paid(paidLast);
        untilAllConsumed();
        String placed = "order.order.placed.v1";
        assertOrder(paidFirst, "COMPLETED", placed, "order.order.completed.v1");
        assertOrder(paidLast, "COMPLETED", placed, "order.order.completed.v1");
        assertOrder(unpaid, "PLACED", placed);
        Map<String, Object> event = shop.database.sql("""
            SELECT payload->>'totalAmount' AS total, metadata->>'correlationId' AS correlation
            FROM outbox_events
            WHERE aggregate_id = ? AND event_type = 'order.order.completed.v1'""")
            .param(paidLast.toString()).query().singleRow();
        assertThat(event).containsEntry("total", "1600").containsEntry("correlation", "c-1");
    }

    @Test
    void anOrderWithARejectedItemIsCancelledOnce() {
        UUID order = place();
        stock(REJECTED, order, "book");
        stock(REJECTED, order, "pen");
        stock(RESERVED, order, "book");
        paid(order);
        untilAllConsumed();
        eventually("cancelled", () -> emitted(order).size(), size -> size == 2);
        assertOrder(order, "CANCELLED", "order.order.placed.v1", "order.order.cancelled.v1");
    }

    @Test
    void eventsOfUnknownOrdersAreDeadLetters() {
        paid(UUID.randomUUID());
        stock(RESERVED, place(), "nothing of the order");
        JsonNode letter = TestShop.json(shop.until(PAID + ".dlt", 1).get(0).value());
        assertThat(letter.path("errorMessage").asText())
            .isEqualTo("Validation failed: order not found");
        assertThat(letter.path("consumerService").asText()).isEqualTo("order-service");
        shop.until(RESERVED + ".dlt", 1);
        assertThat(shop.count("processed_events")).isZero();
    }
}
