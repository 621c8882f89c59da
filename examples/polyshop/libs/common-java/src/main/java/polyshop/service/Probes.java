package polyshop.service;

import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.util.List;
import java.util.Set;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.dao.DataAccessException;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import polyshop.consumer.EventConsumer;

/** For Prometheus and for whoever restarts services. */
@RestController
public class Probes {
    static final Set<String> PATHS = Set.of("/metrics", "/livez", "/readyz");

    private final PrometheusMeterRegistry metrics;
    private final JdbcClient database;
    private final List<EventConsumer> consumers;

    Probes(
        PrometheusMeterRegistry metrics, JdbcClient database,
        ObjectProvider<EventConsumer> consumers
    ) {
        this.metrics = metrics;
        this.database = database;
        this.consumers = consumers.stream().toList();
    }

    @GetMapping(value = "/metrics", produces = "text/plain; version=0.0.4; charset=utf-8")
    String metrics() {
        return metrics.scrape("text/plain");
    }

    /**
     * A restart helps when this fails; it does not look at other servers, whose outage a restart
     * cannot end.
     */
    @GetMapping("/livez")
    ResponseEntity<String> live() {
        boolean isRunning = consumers.stream().allMatch(EventConsumer::isRunning);
        return answer(isRunning, "the consumer has ended");
    }

    @GetMapping("/readyz")
    ResponseEntity<String> ready() {
        if (!consumers.stream().allMatch(EventConsumer::isConsuming)) {
            return answer(false, "the consumer has not joined its group");
        }
        try {
            return answer(database.sql("SELECT 1").query(Integer.class).single() == 1, "");
        } catch (DataAccessException error) {
            return answer(false, "the database does not answer");
        }
    }

    private static ResponseEntity<String> answer(boolean isSound, String problem) {
        return isSound ? ResponseEntity.ok("ok\n")
            : ResponseEntity.status(HttpStatus.SERVICE_UNAVAILABLE).body(problem + "\n");
    }
}
