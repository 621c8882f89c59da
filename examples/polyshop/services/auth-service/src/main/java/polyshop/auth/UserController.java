package polyshop.auth;

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
class UserController {
    private static final Logger LOG = LoggerFactory.getLogger(UserController.class);

    private final UserService users;

    UserController(UserService users) {
        this.users = users;
    }

    @PostMapping("/users")
    @ResponseStatus(HttpStatus.CREATED)
    Map<String, UUID> register(
        @RequestBody UserService.RegisterUser user,
        @RequestHeader(name = "X-Correlation-Id", required = false) String correlationId,
        @RequestHeader(name = "Idempotency-Key", required = false) String idempotencyKey
    ) {
        OutboxEvent event = users.register(user, correlationId, idempotencyKey);
        LOG.atInfo().addKeyValue("eventId", event.id()).addKeyValue("userId", event.aggregateId())
            .log("user registered");
        return Map.of("userId", UUID.fromString(event.aggregateId()), "eventId", event.id());
    }
}
