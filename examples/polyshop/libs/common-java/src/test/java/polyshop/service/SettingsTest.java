package polyshop.service;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private static Settings with(String name, String value) {
        Map<String, String> environment = new HashMap<>(Map.of(
            "DATABASE_URL", "postgres://u:p%40+@db/shop?options=-csearch_path%3Ds",
            "KAFKA_BOOTSTRAP", "k:9092"));
        environment.put(name, value);
        return Settings.from(environment, "order-service");
    }

    @Test
    void aDatabaseUrlIsReadAsOtherLanguagesReadIt() {
        Settings settings = with("TOPIC_PREFIX", "t.");
        assertThat(settings.jdbcUrl())
            .isEqualTo("jdbc:postgresql://db:5432/shop?options=-csearch_path%3Ds");
        assertThat(settings.databaseUser()).isEqualTo("u");
        assertThat(settings.databasePassword()).isEqualTo("p@+");
        assertThat(settings.topic("a.b.c.v1")).isEqualTo("t.a.b.c.v1");
        assertThat(settings.group()).isEqualTo("t.order-service");
        assertThat(with("DATABASE_URL", "postgres://db:1/s").databaseUser()).isNull();
    }

    @Test
    void whatIsMissingOrMalformedIsNamed() {
        assertThatThrownBy(() -> with("KAFKA_BOOTSTRAP", ""))
            .hasMessage("please set KAFKA_BOOTSTRAP");
        assertThatThrownBy(() -> with("LISTEN", "8080")).hasMessageContaining("LISTEN is 8080");
        assertThatThrownBy(() -> with("DATABASE_URL", "shop")).hasMessageContaining("DATABASE_URL")
            .hasMessageContaining("postgres://");
    }

    @Test
    void waitsDoubleUpToTheirLimit() {
        Backoff backoff = new Backoff(Duration.ofMillis(100), Duration.ofSeconds(10));
        for (int failures = 1; failures < 100; failures++) {
            long longest = failures > 7 ? 10_000 : 100L << (failures - 1);
            assertThat(backoff.after(failures).toMillis()).isBetween(longest / 2, longest);
        }
    }
}
