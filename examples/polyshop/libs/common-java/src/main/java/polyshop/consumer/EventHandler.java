package polyshop.consumer;

import java.util.function.Consumer;

/** What a service does upon an event. */
public interface EventHandler {
    /** The type of event that it handles, such as {@code order.order.placed.v1}. */
    String eventType();

    /**
     * Runs in a transaction with the event's row in processed_events: whatever it writes is
     * committed with that or not at all, and a duplicate never gets here. A {@link
     * PermanentException} dead-letters the event; see {@link Failures} for the other exceptions.
     */
    void handle(EventEnvelope event);

    static EventHandler of(String eventType, Consumer<EventEnvelope> handle) {
        return new EventHandler() {
            @Override
            public String eventType() {
                return eventType;
            }

            @Override
            public void handle(EventEnvelope event) {
                handle.accept(event);
            }
        };
    }
}
