package polyshop.service;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.spi.LoggingEvent;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.slf4j.event.KeyValuePair;
import polyshop.testing.TestShop;

class JsonLinesTest {
    // A3-14
    @Test
    void aLogLineIsOneJsonObjectWithTheEventsIds() {
        var logger = new LoggerContext().getLogger("polyshop");
        LoggingEvent event = new LoggingEvent("", logger, Level.WARN, "said", null, null);
        event.setMDCPropertyMap(Map.of("eventId", "e-1", "traceId", "t-1"));
        event.setKeyValuePairs(List.of(
            new KeyValuePair("port", 7), new KeyValuePair("error", "a \"quoted\"\nline"),
            new KeyValuePair("nothing", null)));
        byte[] encoded = new JsonLines().encode(event);
        assertThat(new String(encoded)).endsWith("}\n").hasLineCount(1);
        JsonNode line = TestShop.json(encoded);
        assertThat(line.path("message").asText()).isEqualTo("said");
        assertThat(line.path("level").asText()).isEqualTo("WARN");
        assertThat(line.path("eventId").asText()).isEqualTo("e-1");
        assertThat(line.path("traceId").asText()).isEqualTo("t-1");
        assertThat(line.path("port").isInt()).isTrue();
        assertThat(line.path("error").asText()).isEqualTo("a \"quoted\"\nline");
        assertThat(line.path("nothing").isNull()).isTrue();
    }
}
