package polyshop.order;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import polyshop.consumer.EventHandler;
import polyshop.service.PolyshopService;

/** order-service: takes orders, and follows each of them to its end. */
@SpringBootApplication(proxyBeanMethods = false)
public class OrderApplication {
    public static final String SERVICE = "order-service";

    public static void main(String[] arguments) {
        PolyshopService.main(OrderApplication.class, SERVICE);
    }

    @Bean
    EventHandler paymentSucceeded(OrderSaga saga) {
        return EventHandler.of("payment.payment.succeeded.v1", saga::paid);
    }

    @Bean
    EventHandler stockReserved(OrderSaga saga) {
        return EventHandler.of("inventory.stock.reserved.v1", saga::reserved);
    }

    @Bean
    EventHandler stockRejected(OrderSaga saga) {
        return EventHandler.of("inventory.stock.rejected.v1", saga::rejected);
    }
}
