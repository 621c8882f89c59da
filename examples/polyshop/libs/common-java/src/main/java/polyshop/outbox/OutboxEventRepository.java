package polyshop.outbox;

import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.springframework.data.jdbc.repository.query.Modifying;
import org.springframework.data.jdbc.repository.query.Query;
import org.springframework.data.repository.Repository;

/**
 * The statements on outbox_events. All of them belong into a transaction of the caller's.
 *
 * <p>A row that was given up has {@code processed} set and still an {@code error_message}; one that
 * was sent has none.
 */
public interface OutboxEventRepository extends Repository<OutboxEvent, UUID> {
    /**
     * Writes the event in the current transaction. The database says when, after the entity's lock
     * was taken.
     */
    default void save(OutboxEvent event) {
        insert(event.id(), event.aggregateId(), event.eventType(), event.version(), event.payload(),
            event.metadata());
    }

    @Modifying
    @Query("""
        INSERT INTO outbox_events (id, aggregate_id, event_type, version, payload, metadata)
        VALUES (:id, :aggregateId, :eventType, :version,
          CAST(:payload AS json), CAST(:metadata AS jsonb))""")
    void insert(
        UUID id, String aggregateId, String eventType, int version, String payload,
        String metadata);

    /**
     * Locks the next rows to publish, until the transaction ends. Several publishers get different
     * rows, and none gets a row while an earlier one of the same key is not settled, whoever has
     * that.
     *
     * @param waiting keys to leave alone, as a JSON array
     */
    @Query("""
        WITH claimed AS (
          SELECT id, aggregate_id, event_type, version, payload, metadata, created_at
          FROM outbox_events AS o
          WHERE processed = false
            AND aggregate_id NOT IN (SELECT jsonb_array_elements_text(CAST(:waiting AS jsonb)))
            AND NOT EXISTS (
              SELECT FROM outbox_events AS dead
              WHERE dead.aggregate_id = o.aggregate_id
                AND dead.processed AND dead.error_message IS NOT NULL)
          ORDER BY created_at, id
          LIMIT :batch
          FOR UPDATE OF o SKIP LOCKED)
        SELECT id, aggregate_id, event_type, version, CAST(payload AS text) AS payload,
          CAST(metadata AS text) AS metadata, created_at
        FROM claimed AS c
        WHERE NOT EXISTS (
          SELECT FROM outbox_events AS earlier
          WHERE earlier.processed = false AND earlier.aggregate_id = c.aggregate_id
            AND (earlier.created_at, earlier.id) < (c.created_at, c.id)
            AND earlier.id NOT IN (SELECT id FROM claimed))
        ORDER BY created_at, id""")
    List<OutboxEvent> claim(int batch, String waiting);

    @Modifying
    @Query("""
        UPDATE outbox_events
        SET processed = true, processed_at = clock_timestamp(), error_message = NULL
        WHERE id IN (:ids)""")
    void markProcessed(Collection<UUID> ids);

    /** The event is tried again later. */
    @Modifying
    @Query("UPDATE outbox_events SET error_message = :error WHERE id = :id")
    void markFailed(UUID id, String error);

    /**
     * The event can never be sent. Its key waits until an operator has decided what becomes of it.
     */
    @Modifying
    @Query("UPDATE outbox_events SET processed = true, error_message = :error WHERE id = :id")
    void markDead(UUID id, String error);

    /**
     * Finds the keys that wait behind an event that was given up. A hash bears keys of any length.
     */
    @Modifying
    @Query("""
        CREATE INDEX IF NOT EXISTS outbox_events_dead_idx
        ON outbox_events USING hash (aggregate_id)
        WHERE processed AND error_message IS NOT NULL""")
    void createDeadIndex();
}
