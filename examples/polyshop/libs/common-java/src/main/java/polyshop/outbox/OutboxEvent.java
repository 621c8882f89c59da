package polyshop.outbox;

import java.time.Instant;
import java.util.UUID;
import org.springframework.data.annotation.Id;
import org.springframework.data.relational.core.mapping.Table;

/**
 * A row of outbox_events.
 *
 * @param payload the event's data as JSON, without an envelope: whoever publishes the row builds
 *   that
 * @param metadata what was known when the event was emitted, as a JSON object, or null
 * @param createdAt set by the database; null in a row that is still to be written
 */
@Table("outbox_events")
public record OutboxEvent(
    @Id UUID id,
    String aggregateId,
    String eventType,
    int version,
    String payload,
    String metadata,
    Instant createdAt
) {}
