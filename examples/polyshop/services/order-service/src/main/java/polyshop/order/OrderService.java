package polyshop.order;

import static polyshop.service.InvalidRequestException.require;

import java.util.List;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.outbox.OutboxEvent;
import polyshop.outbox.OutboxEventRepository;
import polyshop.service.InvalidRequestException;

/** Takes orders. */
@Service
class OrderService {
    record PlaceOrder(String userId, List<OrderEvents.Item> items) {}

    private final JdbcClient database;
    private final OutboxEventRepository outbox;
    private final DomainEventFactory events;

    OrderService(JdbcClient database, OutboxEventRepository outbox, DomainEventFactory events) {
        this.database = database;
        this.outbox = outbox;
        this.events = events;
    }

    /** Writes the order, its items and the event, or nothing of it. */
    @Transactional
    public OutboxEvent createOrder(PlaceOrder order, String correlationId, String idempotencyKey) {
        validate(order);
        UUID id = UUID.randomUUID();
        long total = total(order.items());
        database.sql("INSERT INTO orders (id, user_id, total_amount) VALUES (?, ?, ?)")
            .params(id, order.userId(), total).update();
        for (OrderEvents.Item item : order.items()) {
            database.sql("""
                INSERT INTO order_items (order_id, product_id, quantity, price)
                VALUES (?, ?, ?, ?)""")
                .params(id, item.productId(), item.quantity(), item.price()).update();
        }
        String correlation = correlationId == null ? id.toString() : correlationId;
        OutboxEvent event = events.create(
            OrderEvents.PLACED, id.toString(),
            new OrderEvents.Placed(id, order.userId(), order.items(), total),
            new EventMetadata(correlation, idempotencyKey, null, order.userId()));
        outbox.save(event);
        return event;
    }

    private static void validate(PlaceOrder order) {
        require(!order.userId().isBlank(), "an order has a user");
        require(!order.items().isEmpty(), "an order has items");
        for (OrderEvents.Item item : order.items()) {
            require(item != null && item.quantity() > 0 && item.price() >= 0,
                "quantities are positive, and prices not negative");
        }
        long products = order.items().stream().map(OrderEvents.Item::productId).distinct().count();
        require(products == order.items().size(),
            "a product stands in an order once, with its quantity");
    }

    private static long total(List<OrderEvents.Item> items) {
        try {
            long total = 0;
            for (OrderEvents.Item item : items) {
                total = Math.addExact(total, Math.multiplyExact(item.quantity(), item.price()));
            }
            return total;
        } catch (ArithmeticException tooLarge) {
            throw new InvalidRequestException("the total is too large");
        }
    }
}
