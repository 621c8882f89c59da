package polyshop.inventory;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.TestShop.request;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import polyshop.testing.TestShop;

class InventoryServiceTest {
    private static final String PLACED = "order.order.placed.v1";
    private static final String CANCELLED = "order.order.cancelled.v1";

    private TestShop shop;
    private ServletWebServerApplicationContext service;

    @BeforeEach
    void open() {
        shop = new TestShop(InventoryApplication.SERVICE, PLACED, CANCELLED);
        service = shop.start(InventoryApplication.class);
        stock("book", 5);
        stock("pen", 1);
    }

    @AfterEach
    void close() {
        shop.close();
    }

    private void stock(String product, long quantity) {
        String body = "{\"quantity\": " + quantity + "}";
        var answer = request(service, "PUT", "/stock/" + product, body);
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
    }

    private long left(String product) {
        return shop.database.sql("SELECT quantity FROM stock WHERE product_id = ?").param(product)
            .query(Long.class).single();
    }

    /** @param items product, quantity, product, quantity, … */
    private void place(UUID order, Object... items) {
        var wanted = new ArrayList<Map<String, Object>>();
        for (int i = 0; i < items.length; i += 2) {
            wanted.add(Map.of("productId", items[i], "quantity", items[i + 1], "price", 100));
        }
        shop.send(PLACED, order.toString(), Map.of(
            "orderId", order, "userId", "u-1", "items", wanted, "totalAmount", 1), Map.of());
    }

    private void cancel(UUID order) {
        shop.send(CANCELLED, order.toString(), Map.of(
            "orderId", order, "userId", "u-1", "reason", "too little"), Map.of());
    }

    private List<String> emitted() {
        return shop.database.sql("""
            SELECT event_type || ' ' || aggregate_id || ' ' || payload::text
            FROM outbox_events ORDER BY created_at""").query(String.class).list();
    }

    @Test
    void eachItemIsReservedOrRejected() {
        UUID order = UUID.randomUUID();
        place(order, "book", 2, "pen", 2);
        shop.untilConsumed(PLACED);
        assertThat(left("book")).isEqualTo(3);
        assertThat(left("pen")).isEqualTo(1);
        String common = "{\"movementId\":\"%s:%s\",\"orderId\":\"%s\",\"productId\":\"%s\","
            + "\"quantity\":2,";
        assertThat(emitted()).containsExactly(
            "inventory.stock.reserved.v1 book "
                + common.formatted(order, "book", order, "book") + "\"remaining\":3}",
            "inventory.stock.rejected.v1 pen "
                + common.formatted(order, "pen", order, "pen") + "\"available\":1}");
        assertThat(shop.count("outbox_events WHERE metadata->>'causationId' ="
            + " (SELECT event_id::text FROM processed_events)")).isEqualTo(2);
    }

    /** S3-53: also under another event id, as an order that was placed again by hand would come. */
    @Test
    void theSameOrderTakesItsStockOnce() {
        UUID order = UUID.randomUUID();
        place(order, "book", 2);
        place(order, "book", 2);
        shop.untilConsumed(PLACED);
        assertThat(left("book")).isEqualTo(3);
        assertThat(emitted()).hasSize(1);
        assertThat(shop.count("processed_events")).isEqualTo(2);
    }

    // A3-12
    @Test
    void anUnknownProductIsADeadLetterAndNothingIsReserved() {
        UUID order = UUID.randomUUID();
        place(order, "book", 1, "unheard of", 1);
        JsonNode letter = TestShop.json(shop.until(PLACED + ".dlt", 1).get(0).value());
        assertThat(letter.path("errorMessage").asText())
            .isEqualTo("Validation failed: product not found");
        assertThat(letter.path("consumerService").asText()).isEqualTo("inventory-service");
        assertThat(letter.at("/originalEvent/data/orderId").asText()).isEqualTo(order.toString());
        assertThat(left("book")).isEqualTo(5);
        for (String table : List.of("movements", "outbox_events", "processed_events")) {
            assertThat(shop.count(table)).as(table).isZero();
        }
        // Once the product is there, the event can be sent again.
        stock("unheard of".replace(" ", "%20"), 1);
        byte[] original = TestShop.bytes(letter.path("originalEvent").toString());
        shop.send(PLACED, order.toString(), original);
        shop.untilConsumed(PLACED);
        assertThat(left("book")).isEqualTo(4);
    }

    @Test
    void aCancelledOrderGivesBackWhatItHadOnce() {
        UUID order = UUID.randomUUID();
        place(order, "book", 2, "pen", 2);
        shop.untilConsumed(PLACED);
        cancel(order);
        cancel(order);
        shop.untilConsumed(CANCELLED);
        assertThat(left("book")).isEqualTo(5);
        assertThat(left("pen")).isEqualTo(1);
        assertThat(shop.count("movements WHERE status = 'RELEASED'")).isEqualTo(1);
        assertThat(shop.count("movements WHERE status = 'REJECTED'")).isEqualTo(1);
    }

    /** Also a field that this service makes no use of: the event is not what Section B says. */
    @Test
    void anOrderWithoutASoundAmountIsADeadLetter() {
        UUID order = UUID.randomUUID();
        shop.send(PLACED, order.toString(), Map.of(
            "orderId", order, "userId", "u-1", "items", List.of(), "totalAmount", "much"),
            Map.of());
        JsonNode letter = TestShop.json(shop.until(PLACED + ".dlt", 1).get(0).value());
        assertThat(letter.path("errorMessage").asText()).startsWith("Validation failed: ");
    }

    @Test
    void aNegativeStockIsRefused() {
        var answer = request(service, "PUT", "/stock/book", "{\"quantity\": -1}");
        assertThat(answer.statusCode()).isEqualTo(422);
        assertThat(left("book")).isEqualTo(5);
    }
}
