package polyshop.service;

import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.encoder.EncoderBase;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Log lines as PolyShop wants them: one JSON object a line. What stands in the MDC is in every
 * line, so that each line about an event has eventId and traceId.
 */
public final class JsonLines extends EncoderBase<ILoggingEvent> {
    private static final JsonFactory JSON = new JsonFactory();

    @Override
    public byte[] encode(ILoggingEvent event) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("timestamp", event.getInstant());
        fields.put("level", event.getLevel());
        fields.put("service", System.getProperty("polyshop.service", "polyshop"));
        fields.put("target", event.getLoggerName());
        fields.put("message", event.getFormattedMessage());
        fields.putAll(event.getMDCPropertyMap());
        if (event.getKeyValuePairs() != null) {
            event.getKeyValuePairs().forEach(pair -> fields.put(pair.key, pair.value));
        }
        if (event.getThrowableProxy() != null) {
            var thrown = event.getThrowableProxy();
            fields.put("error", thrown.getClassName() + ": " + thrown.getMessage());
        }
        return line(fields);
    }

    private static byte[] line(Map<String, Object> fields) {
        ByteArrayOutputStream line = new ByteArrayOutputStream(256);
        try (JsonGenerator generator = JSON.createGenerator(line)) {
            generator.writeStartObject();
            for (Map.Entry<String, Object> field : fields.entrySet()) {
                generator.writeFieldName(field.getKey());
                if (field.getValue() instanceof Integer number) {
                    generator.writeNumber(number);
                } else {
                    Object value = field.getValue();
                    generator.writeString(value == null ? null : value.toString());
                }
            }
            generator.writeEndObject();
        } catch (IOException impossible) {
            throw new IllegalStateException("memory cannot be written to", impossible);
        }
        line.write('\n');
        return line.toByteArray();
    }

    @Override
    public byte[] headerBytes() {
        return new byte[0];
    }

    @Override
    public byte[] footerBytes() {
        return new byte[0];
    }
}
