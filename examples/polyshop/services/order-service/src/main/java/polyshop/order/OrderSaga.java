package polyshop.order;

import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import polyshop.consumer.EventEnvelope;
import polyshop.consumer.PermanentException;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.outbox.OutboxEventRepository;

/**
 * Takes an order from PLACED to its end. Paid and with all items reserved, whichever comes first,
 * it is COMPLETED; with an item rejected it is CANCELLED. Each end is reached once: the order's row
 * is locked by every step.
 *
 * <p>The methods run in the transactions of the event consumer.
 */
@Component
class OrderSaga {
    private record Order(UUID id, String userId, long totalAmount, String status, boolean paid) {
        boolean isPlaced() {
            return status.equals("PLACED");
        }
    }

    private final JdbcClient database;
    private final OutboxEventRepository outbox;
    private final DomainEventFactory events;

    OrderSaga(JdbcClient database, OutboxEventRepository outbox, DomainEventFactory events) {
        this.database = database;
        this.outbox = outbox;
        this.events = events;
    }

    /**
     * Noted also of an order that was cancelled meanwhile; payment-service gives the money back.
     */
    void paid(EventEnvelope event) {
        UUID id = event.data(OrderEvents.PaymentSucceeded.class).orderId();
        lock(id);
        database.sql("UPDATE orders SET paid = true WHERE id = ?").param(id).update();
        completeIfDone(id, event);
    }

    void reserved(EventEnvelope event) {
        var reserved = event.data(OrderEvents.StockReserved.class);
        lock(reserved.orderId());
        int found = database.sql("""
            UPDATE order_items SET reserved = true WHERE order_id = ? AND product_id = ?""")
            .params(reserved.orderId(), reserved.productId()).update();
        if (found == 0) {
            throw new PermanentException("Validation failed: the order has no such item");
        }
        completeIfDone(reserved.orderId(), event);
    }

    void rejected(EventEnvelope event) {
        var rejected = event.data(OrderEvents.StockRejected.class);
        Order order = lock(rejected.orderId());
        if (!order.isPlaced()) {
            return;
        }
        String reason = "%s: %d wanted, %d available".formatted(
            rejected.productId(), rejected.quantity(), rejected.available());
        end(order, "CANCELLED", OrderEvents.CANCELLED,
            new OrderEvents.Cancelled(order.id(), order.userId(), reason), event);
    }

    private void completeIfDone(UUID id, EventEnvelope event) {
        Order order = lock(id);
        boolean isReserved = database.sql("""
            SELECT NOT EXISTS (SELECT FROM order_items WHERE order_id = ? AND NOT reserved)""")
            .param(id).query(Boolean.class).single();
        if (order.isPlaced() && order.paid() && isReserved) {
            end(order, "COMPLETED", OrderEvents.COMPLETED,
                new OrderEvents.Completed(id, order.userId(), order.totalAmount()), event);
        }
    }

    private void end(
        Order order, String status, String eventType, Object data, EventEnvelope cause
    ) {
        database.sql("UPDATE orders SET status = ? WHERE id = ?")
            .params(status, order.id()).update();
        EventMetadata metadata = EventMetadata.causedBy(cause, order.userId());
        outbox.save(events.create(eventType, order.id().toString(), data, metadata));
    }

    private Order lock(UUID id) {
        return database.sql("""
            SELECT id, user_id, total_amount, status, paid FROM orders WHERE id = ? FOR UPDATE""")
            .param(id).query(Order.class).optional()
            .orElseThrow(() -> new PermanentException("Validation failed: order not found"));
    }
}
