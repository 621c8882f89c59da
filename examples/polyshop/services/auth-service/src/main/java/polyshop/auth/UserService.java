package polyshop.auth;

import static polyshop.service.InvalidRequestException.require;

import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import polyshop.outbox.DomainEventFactory;
import polyshop.outbox.EventMetadata;
import polyshop.outbox.OutboxEvent;
import polyshop.outbox.OutboxEventRepository;

@Service
class UserService {
    static final String REGISTERED = "auth.user.registered.v1";

    record RegisterUser(String email, String name) {}

    record Registered(UUID userId, String email, String name) {}

    private final JdbcClient database;
    private final OutboxEventRepository outbox;
    private final DomainEventFactory events;

    UserService(JdbcClient database, OutboxEventRepository outbox, DomainEventFactory events) {
        this.database = database;
        this.outbox = outbox;
        this.events = events;
    }

    /** Writes the user and the event, or neither. */
    @Transactional
    public OutboxEvent register(RegisterUser user, String correlationId, String idempotencyKey) {
        require(user.email().matches("[^@\\s]+@[^@\\s]+"), "an email address has an @ within it");
        require(!user.name().isBlank(), "a user has a name");
        UUID id = UUID.randomUUID();
        database.sql("INSERT INTO users (id, email, name) VALUES (?, ?, ?)")
            .params(id, user.email(), user.name()).update();
        OutboxEvent event = events.create(
            REGISTERED, id.toString(), new Registered(id, user.email(), user.name()),
            new EventMetadata(correlationId, idempotencyKey, null, id.toString()));
        outbox.save(event);
        return event;
    }
}
