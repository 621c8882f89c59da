package polyshop.consumer;

import org.springframework.jdbc.core.simple.JdbcClient;

/** The inbox: which events this service has handled. */
public final class ProcessedEvents {
    private final JdbcClient database;

    public ProcessedEvents(JdbcClient database) {
        this.database = database;
    }

    /**
     * Enters the event in the current transaction, and says whether it is new. It comes before the
     * handler's own work: a second delivery waits here for the first, and goes on only if that is
     * rolled back.
     */
    public boolean enter(EventEnvelope event) {
        int entered = database.sql("""
            INSERT INTO processed_events (event_id, event_type, source) VALUES (?, ?, ?)
            ON CONFLICT DO NOTHING""")
            .params(event.eventId(), event.eventType(), event.source())
            .update();
        return entered == 1;
    }
}
