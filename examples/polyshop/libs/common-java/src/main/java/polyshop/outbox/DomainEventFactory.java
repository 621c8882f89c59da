package polyshop.outbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.opentelemetry.api.trace.Span;
import java.util.Map;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import polyshop.service.Tracing;

/** Makes the outbox row of a domain event. The trace is that of the current span. */
public final class DomainEventFactory {
    private static final Pattern VERSION = Pattern.compile("\\.v([1-9][0-9]{0,8})$");

    private final ObjectMapper json;

    public DomainEventFactory(ObjectMapper json) {
        this.json = json;
    }

    /**
     * @param eventType ends in the version of its data, such as {@code order.order.placed.v1}
     * @param aggregateId the entity, by which events are kept in order
     * @param data what Section B says, as an object that Jackson can write
     */
    public OutboxEvent create(
        String eventType, String aggregateId, Object data, EventMetadata metadata
    ) {
        Matcher version = VERSION.matcher(eventType);
        if (!version.find()) {
            throw new IllegalArgumentException(
                "event type " + eventType + " has no version, as in .v1");
        }
        Map<String, String> entries = metadata.entries();
        if (Span.current().getSpanContext().isValid()) {
            entries.put("traceId", Span.current().getSpanContext().getTraceId());
            entries.put("traceparent", Tracing.currentTraceparent());
        }
        String described = entries.isEmpty() ? null : text(entries);
        return new OutboxEvent(UUID.randomUUID(), aggregateId, eventType,
            Integer.parseInt(version.group(1)), text(data), described, null);
    }

    private String text(Object value) {
        try {
            return json.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("the event's data cannot be written as JSON", error);
        }
    }
}
