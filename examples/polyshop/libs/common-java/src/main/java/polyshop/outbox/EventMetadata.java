package polyshop.outbox;

import java.util.LinkedHashMap;
import java.util.Map;
import polyshop.consumer.EventEnvelope;

/** What an event says of where it comes from. What is null is left out; nothing is made up. */
public record EventMetadata(
    String correlationId, String idempotencyKey, String causationId, String userId
) {
    /** For an event that follows from another: the same operation, for the same user. */
    public static EventMetadata causedBy(EventEnvelope cause, String userId) {
        String correlationId = cause.metadataText("correlationId");
        return new EventMetadata(correlationId, null, cause.eventId().toString(), userId);
    }

    Map<String, String> entries() {
        Map<String, String> entries = new LinkedHashMap<>();
        entries.put("correlationId", correlationId);
        entries.put("idempotencyKey", idempotencyKey);
        entries.put("causationId", causationId);
        entries.put("userId", userId);
        entries.values().removeIf(value -> value == null || value.isEmpty());
        return entries;
    }
}
