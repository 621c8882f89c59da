package polyshop.product;

import static polyshop.service.InvalidRequestException.require;

import java.util.UUID;
import org.springframework.http.HttpStatus;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.server.ResponseStatusException;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.outbox.OutboxEvent;
import polyshop.outbox.OutboxEventRepository;

/** Every change of a product raises its revision, so that who reads the events knows the newest. */
@Service
class ProductService {
    static final String CREATED = "product.product.created.v1";
    static final String UPDATED = "product.product.updated.v1";

    record Description(String name, String description, long price) {}

    record Product(String productId, String name, String description, long price, int revision) {}

    private final JdbcClient database;
    private final OutboxEventRepository outbox;
    private final DomainEventFactory events;

    ProductService(JdbcClient database, OutboxEventRepository outbox, DomainEventFactory events) {
        this.database = database;
        this.outbox = outbox;
        this.events = events;
    }

    /** Writes the product and the event, or neither. */
    @Transactional
    public OutboxEvent create(Description product, String correlationId) {
        validate(product);
        String id = UUID.randomUUID().toString();
        database.sql("""
            INSERT INTO products (id, name, description, price, revision) VALUES (?, ?, ?, ?, 1)""")
            .params(id, product.name(), product.description(), product.price()).update();
        return emit(CREATED, id, product, 1, correlationId);
    }

    /** The row's lock keeps the events of two changes in the order of their revisions. */
    @Transactional
    public OutboxEvent update(String id, Description product, String correlationId) {
        validate(product);
        int revision = database.sql("""
            UPDATE products SET name = ?, description = ?, price = ?, revision = revision + 1
            WHERE id = ? RETURNING revision""")
            .params(product.name(), product.description(), product.price(), id)
            .query(Integer.class).optional()
            .orElseThrow(() ->
                new ResponseStatusException(HttpStatus.NOT_FOUND, "no such product"));
        return emit(UPDATED, id, product, revision, correlationId);
    }

    private OutboxEvent emit(
        String eventType, String id, Description product, int revision, String correlationId
    ) {
        Product data = new Product(
            id, product.name(), product.description(), product.price(), revision);
        OutboxEvent event = events.create(
            eventType, id, data, new EventMetadata(correlationId, null, null, null));
        outbox.save(event);
        return event;
    }

    private static void validate(Description product) {
        require(!product.name().isBlank(), "a product has a name");
        require(product.price() >= 0, "a price is not negative");
    }
}
