package polyshop.inventory;

import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import polyshop.consumer.EventEnvelope;
import polyshop.consumer.PermanentException;
import polyshop.inventory.InventoryEvents.Item;
import polyshop.inventory.InventoryEvents.OrderCancelled;
import polyshop.inventory.InventoryEvents.OrderPlaced;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.outbox.OutboxEventRepository;

/**
 * What orders do to the stock. Each item of an order is a movement with an id of its own, so that
 * nothing is taken or given back twice, whatever comes again under whichever event id.
 *
 * <p>The methods run in the transactions of the event consumer.
 */
@Component
class Reservations {
    private final JdbcClient database;
    private final OutboxEventRepository outbox;
    private final DomainEventFactory events;

    Reservations(JdbcClient database, OutboxEventRepository outbox, DomainEventFactory events) {
        this.database = database;
        this.outbox = outbox;
        this.events = events;
    }

    /**
     * Every item is reserved or rejected by itself; with an unknown product among them, none is.
     */
    void reserve(EventEnvelope event) {
        OrderPlaced order = event.data(OrderPlaced.class);
        SortedMap<String, Integer> wanted = wanted(order.items());
        // In the order of their ids, so that two orders of the same products never wait for each
        // other.
        SortedMap<String, Long> available = new TreeMap<>();
        for (String product : wanted.keySet()) {
            available.put(product, lock(product));
        }
        EventMetadata metadata = EventMetadata.causedBy(event, order.userId());
        wanted.forEach((product, quantity) ->
            move(order.orderId(), product, quantity, available.get(product), metadata));
    }

    private static SortedMap<String, Integer> wanted(List<Item> items) {
        SortedMap<String, Integer> wanted = new TreeMap<>();
        for (Item item : items) {
            if (item == null || item.quantity() <= 0) {
                throw new PermanentException("Validation failed: a quantity is positive");
            }
            wanted.merge(item.productId(), item.quantity(), Reservations::sum);
        }
        return wanted;
    }

    private static int sum(int one, int other) {
        try {
            return Math.addExact(one, other);
        } catch (ArithmeticException tooLarge) {
            throw new PermanentException("Validation failed: a quantity is too large", tooLarge);
        }
    }

    private long lock(String product) {
        return database.sql("SELECT quantity FROM stock WHERE product_id = ? FOR UPDATE")
            .param(product).query(Long.class).optional()
            .orElseThrow(() -> new PermanentException("Validation failed: product not found"));
    }

    private void move(
        UUID order, String product, int quantity, long available, EventMetadata metadata
    ) {
        boolean isEnough = available >= quantity;
        String movement = order + ":" + product;
        int entered = database.sql("""
            INSERT INTO movements (movement_id, order_id, product_id, quantity, status)
            VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""")
            .params(movement, order, product, quantity, isEnough ? "RESERVED" : "REJECTED")
            .update();
        if (entered == 0) {
            return;
        }
        if (isEnough) {
            add(product, -quantity);
            long remaining = available - quantity;
            outbox.save(events.create(InventoryEvents.RESERVED, product,
                new InventoryEvents.Reserved(movement, order, product, quantity, remaining),
                metadata));
        } else {
            outbox.save(events.create(InventoryEvents.REJECTED, product,
                new InventoryEvents.Rejected(movement, order, product, quantity, available),
                metadata));
        }
    }

    /** Gives back what was reserved for an order. */
    void release(EventEnvelope event) {
        UUID order = event.data(OrderCancelled.class).orderId();
        List<Map<String, Object>> released = database.sql("""
            UPDATE movements SET status = 'RELEASED' WHERE order_id = ? AND status = 'RESERVED'
            RETURNING product_id, quantity""")
            .param(order).query().listOfRows();
        SortedMap<String, Integer> quantities = new TreeMap<>();
        released.forEach(row ->
            quantities.put((String) row.get("product_id"), (Integer) row.get("quantity")));
        quantities.forEach(this::add);
    }

    private void add(String product, int quantity) {
        database.sql("UPDATE stock SET quantity = quantity + ? WHERE product_id = ?")
            .params(quantity, product).update();
    }
}
