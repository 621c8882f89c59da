package polyshop.consumer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/** An event as it came, checked for what every consumer relies on. */
public final class EventEnvelope {
    // UUID.fromString takes shorter groups, too.
    private static final Pattern UUID_FORM =
        Pattern.compile("\\p{XDigit}{8}(-\\p{XDigit}{4}){3}-\\p{XDigit}{12}");

    private final ObjectMapper json;
    private final JsonNode envelope;
    private final UUID eventId;

    private EventEnvelope(ObjectMapper json, JsonNode envelope) {
        this.json = json;
        this.envelope = envelope;
        String id = required("eventId", JsonNode::isTextual).asText();
        if (!UUID_FORM.matcher(id).matches()) {
            throw new PermanentException("message is no event: eventId is no UUID");
        }
        this.eventId = UUID.fromString(id);
        required("eventType", JsonNode::isTextual);
        required("version", JsonNode::isInt);
        required("data", JsonNode::isObject);
        JsonNode metadata = envelope.path("metadata");
        if (!metadata.isMissingNode() && !metadata.isObject()) {
            throw new PermanentException("message is no event: metadata is malformed");
        }
    }

    /**
     * @param message what {@link #read} gave
     * @throws PermanentException if it is no envelope
     */
    static EventEnvelope of(ObjectMapper json, JsonNode message) {
        if (message == null || !message.isObject()) {
            throw new PermanentException("message is no event: it is no JSON object");
        }
        return new EventEnvelope(json, message);
    }

    /** What the bytes are as JSON in UTF-8, or null. */
    static JsonNode read(ObjectMapper json, byte[] message) {
        try {
            if (message == null) {
                return null;
            }
            // Strictly, unlike Jackson, which would take UTF-16 as well.
            var text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(message));
            JsonNode read = json.readTree(text.toString());
            return read.isMissingNode() ? null : read;
        } catch (IOException notJson) {
            return null;
        }
    }

    private JsonNode required(String name, Predicate<JsonNode> isSound) {
        JsonNode value = envelope.path(name);
        if (!isSound.test(value)) {
            boolean isMissing = value.isMissingNode() || value.isNull();
            throw new PermanentException(
                "message is no event: " + name + (isMissing ? " is missing" : " is malformed"));
        }
        return value;
    }

    public UUID eventId() {
        return eventId;
    }

    public String eventType() {
        return envelope.path("eventType").asText();
    }

    /** The service that the event comes from, or null. */
    public String source() {
        return envelope.path("source").textValue();
    }

    /** An entry of the metadata, or null. */
    public String metadataText(String name) {
        return envelope.path("metadata").path(name).textValue();
    }

    /**
     * The event's data as an object of this type.
     *
     * @throws PermanentException if it has not the fields of that
     */
    public <T> T data(Class<T> type) {
        try {
            return json.treeToValue(envelope.path("data"), type);
        } catch (JsonProcessingException | IllegalArgumentException error) {
            throw new PermanentException(
                "Validation failed: data is no " + type.getSimpleName(), error);
        }
    }
}
