package polyshop.order;

import java.util.Map;
import java.util.UUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import polyshop.outbox.OutboxEvent;

@RestController
class OrderController {
    private static final Logger LOG = LoggerFactory.getLogger(OrderController.class);

    private final OrderService orders;

    OrderController(OrderService orders) {
        this.orders = orders;
    }

    @PostMapping("/orders")
    @ResponseStatus(HttpStatus.CREATED)
    Map<String, UUID> place(
        @RequestBody OrderService.PlaceOrder order,
        @RequestHeader(name = "X-Correlation-Id", required = false) String correlationId,
        @RequestHeader(name = "Idempotency-Key", required = false) String idempotencyKey
    ) {
        OutboxEvent event = orders.createOrder(order, correlationId, idempotencyKey);
        LOG.atInfo().addKeyValue("eventId", event.id()).addKeyValue("orderId", event.aggregateId())
            .log("order placed");
        return Map.of("orderId", UUID.fromString(event.aggregateId()), "eventId", event.id());
    }
}
