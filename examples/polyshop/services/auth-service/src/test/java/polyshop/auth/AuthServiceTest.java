package polyshop.auth;

import static org.assertj.core.api.Assertions.assertThat;
import static polyshop.testing.TestShop.request;

import org.junit.jupiter.api.Test;
import polyshop.testing.TestShop;

class AuthServiceTest {
    @Test
    void aUserIsRegisteredOnceWithAnEvent() {
        try (TestShop shop = new TestShop(AuthApplication.SERVICE)) {
            var service = shop.start(AuthApplication.class);
            String user = "{\"email\": \"a@example.org\", \"name\": \"A\"}";
            var answer = request(service, "POST", "/users", user);
            assertThat(answer.statusCode()).isEqualTo(201);
            String id = TestShop.json(answer.body().getBytes()).path("userId").asText();
            String event = shop.database.sql("""
                SELECT event_type || ' ' || aggregate_id || ' ' || payload::text
                FROM outbox_events""")
                .query(String.class).single();
            assertThat(event).isEqualTo("auth.user.registered.v1 " + id + " {\"userId\":\"" + id
                + "\",\"email\":\"a@example.org\",\"name\":\"A\"}");

            assertThat(request(service, "POST", "/users", user).statusCode()).isEqualTo(409);
            String noAddress = user.replace("@", "");
            assertThat(request(service, "POST", "/users", noAddress).statusCode()).isEqualTo(422);
            assertThat(shop.count("users")).isEqualTo(1);
            assertThat(shop.count("outbox_events")).isEqualTo(1);
        }
    }
}
