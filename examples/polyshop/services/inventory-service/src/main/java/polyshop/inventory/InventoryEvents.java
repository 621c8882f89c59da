package polyshop.inventory;

import java.util.List;
import java.util.UUID;

/**
 * What this service emits and reads, as Section B has it: with every field, so that none may be
 * missing.
 */
final class InventoryEvents {
    static final String RESERVED = "inventory.stock.reserved.v1";
    static final String REJECTED = "inventory.stock.rejected.v1";

    private InventoryEvents() {}

    record Reserved(
        String movementId, UUID orderId, String productId, int quantity, long remaining
    ) {}

    record Rejected(
        String movementId, UUID orderId, String productId, int quantity, long available
    ) {}

    record Item(String productId, int quantity, long price) {}

    record OrderPlaced(UUID orderId, String userId, List<Item> items, long totalAmount) {}

    record OrderCancelled(UUID orderId, String userId, String reason) {}
}
