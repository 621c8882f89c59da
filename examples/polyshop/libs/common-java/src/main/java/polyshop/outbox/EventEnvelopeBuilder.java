package polyshop.outbox;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;

/**
 * Wraps a row into the envelope of Section B. The stored JSON goes into it as it is: no number is
 * rounded, no name is reordered, and no metadata is added.
 */
public final class EventEnvelopeBuilder {
    private final ObjectMapper json;
    private final String source;

    /** @param source the service's name */
    public EventEnvelopeBuilder(ObjectMapper json, String source) {
        this.json = json;
        this.source = source;
    }

    /** @throws IllegalArgumentException if the row's metadata is no JSON object */
    public byte[] build(OutboxEvent event) {
        String metadata = event.metadata() == null ? "{}" : event.metadata();
        ByteArrayOutputStream envelope = new ByteArrayOutputStream(event.payload().length() + 512);
        try (JsonGenerator generator = json.createGenerator(envelope)) {
            if (!json.readTree(metadata).isObject()) {
                throw new IllegalArgumentException("the row's metadata is no JSON object");
            }
            generator.writeStartObject();
            generator.writeStringField("eventId", event.id().toString());
            generator.writeStringField("timestamp", event.createdAt().toString());
            generator.writeStringField("eventType", event.eventType());
            generator.writeNumberField("version", event.version());
            generator.writeStringField("source", source);
            generator.writeFieldName("data");
            generator.writeRawValue(event.payload());
            generator.writeFieldName("metadata");
            generator.writeRawValue(metadata);
            generator.writeEndObject();
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("the row holds what is no JSON", error);
        } catch (IOException error) {
            throw new IllegalStateException("memory cannot be written to", error);
        }
        return envelope.toByteArray();
    }
}
