package polyshop.product;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.TestShop.request;

import java.util.List;
import org.junit.jupiter.api.Test;
import polyshop.testing.TestShop;

class ProductServiceTest {
    @Test
    void everyChangeOfAProductIsAnEventWithItsRevision() {
        try (TestShop shop = new TestShop(ProductApplication.SERVICE)) {
            var service = shop.start(ProductApplication.class);
            String product = "{\"name\": \"Book\", \"description\": \"Of paper\", \"price\": 750}";
            var answer = request(service, "POST", "/products", product);
            assertThat(answer.statusCode()).isEqualTo(201);
            String id = TestShop.json(answer.body().getBytes()).path("productId").asText();
            String cheaper = product.replace("750", "700");
            assertThat(request(service, "PUT", "/products/" + id, cheaper).statusCode())
                .isEqualTo(200);

            String data = "{\"productId\":\"" + id
                + "\",\"name\":\"Book\",\"description\":\"Of paper\",";
            List<String> events = shop.database.sql("""
                SELECT event_type || ' ' || aggregate_id || ' ' || payload::text
                FROM outbox_events ORDER BY created_at""").query(String.class).list();
            assertThat(events).containsExactly(
                "product.product.created.v1 " + id + " " + data + "\"price\":750,\"revision\":1}",
                "product.product.updated.v1 " + id + " " + data + "\"price\":700,\"revision\":2}");

            assertThat(request(service, "PUT", "/products/none", cheaper).statusCode())
                .isEqualTo(404);
            String negative = product.replace("750", "-1");
            assertThat(request(service, "POST", "/products", negative).statusCode()).isEqualTo(422);
            assertThat(shop.count("products WHERE revision = 2")).isEqualTo(1);
            assertThat(shop.count("outbox_events")).isEqualTo(2);
        }
    }
}
