package polyshop.product;

import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import polyshop.outbox.OutboxEvent;

@RestController
class ProductController {
    private static final Logger LOG = LoggerFactory.getLogger(ProductController.class);

    private final ProductService products;

    ProductController(ProductService products) {
        this.products = products;
    }

    @PostMapping("/products")
    @ResponseStatus(HttpStatus.CREATED)
    Map<String, String> create(
        @RequestBody ProductService.Description product,
        @RequestHeader(name = "X-Correlation-Id", required = false) String correlationId
    ) {
        return answer(products.create(product, correlationId), "product created");
    }

    @PutMapping("/products/{id}")
    Map<String, String> update(
        @PathVariable String id, @RequestBody ProductService.Description product,
        @RequestHeader(name = "X-Correlation-Id", required = false) String correlationId
    ) {
        return answer(products.update(id, product, correlationId), "product updated");
    }

    private static Map<String, String> answer(OutboxEvent event, String message) {
        LOG.atInfo().addKeyValue("eventId", event.id())
            .addKeyValue("productId", event.aggregateId()).log(message);
        return Map.of("productId", event.aggregateId(), "eventId", event.id().toString());
    }
}
