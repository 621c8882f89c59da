package polyshop.inventory;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import polyshop.consumer.EventHandler;
import polyshop.service.PolyshopService;

/**
 * inventory-service: knows the stock, reserves it for orders, and takes it back from cancelled
 * ones.
 */
@SpringBootApplication(proxyBeanMethods = false)
public class InventoryApplication {
    public static final String SERVICE = "inventory-service";

    public static void main(String[] arguments) {
        PolyshopService.main(InventoryApplication.class, SERVICE);
    }

    @Bean
    EventHandler orderPlaced(Reservations reservations) {
        return EventHandler.of("order.order.placed.v1", reservations::reserve);
    }

    @Bean
    EventHandler orderCancelled(Reservations reservations) {
        return EventHandler.of("order.order.cancelled.v1", reservations::release);
    }
}
