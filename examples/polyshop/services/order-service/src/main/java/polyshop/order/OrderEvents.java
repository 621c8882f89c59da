package polyshop.order;

import java.util.List;
import java.util.UUID;

/**
 * What this service emits and reads, as Section B has it: with every field, so that none may be
 * missing.
 */
final class OrderEvents {
    static final String PLACED = "order.order.placed.v1";
    static final String COMPLETED = "order.order.completed.v1";
    static final String CANCELLED = "order.order.cancelled.v1";

    private OrderEvents() {}

    record Item(String productId, int quantity, long price) {}

    record Placed(UUID orderId, String userId, List<Item> items, long totalAmount) {}

    record Completed(UUID orderId, String userId, long totalAmount) {}

    record Cancelled(UUID orderId, String userId, String reason) {}

    record PaymentSucceeded(UUID paymentId, UUID orderId, String userId, long amount) {}

    record StockReserved(
        String movementId, UUID orderId, String productId, int quantity, long remaining
    ) {}

    record StockRejected(
        String movementId, UUID orderId, String productId, int quantity, long available
    ) {}
}
