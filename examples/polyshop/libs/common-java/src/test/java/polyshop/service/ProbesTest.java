package polyshop.service;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.Eventually.eventually;
import static polyshop.testing.TestShop.request;

import org.junit.jupiter.api.Test;
import polyshop.consumer.EventHandler;
import polyshop.testing.TestApplication;
import polyshop.testing.TestShop;

class ProbesTest {
    private static final String PLACED = "order.order.placed.v1";

    @Test
    void aServiceTellsHowItIs() {
        try (TestShop shop = new TestShop("test-service", PLACED)) {
            var service = shop.start(TestApplication.class, EventHandler.of(PLACED, event -> {}));
            assertThat(request(service, "GET", "/livez", "").statusCode()).isEqualTo(200);
            eventually("it joins its group",
                () -> request(service, "GET", "/readyz", "").statusCode(), it -> it == 200);
            var metrics = request(service, "GET", "/metrics", "");
            assertThat(metrics.headers().firstValue("content-type").get()).startsWith("text/plain");
            assertThat(metrics.body())
                .contains("postrider_consumer_dead_lettered_total{consumer=\"test-service\"} 0.0");
        }
    }
}
