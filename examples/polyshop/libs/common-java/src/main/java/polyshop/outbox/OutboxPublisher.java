package polyshop.outbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;
import org.springframework.dao.InvalidDataAccessResourceUsageException;
import org.springframework.dao.PermissionDeniedDataAccessException;
import org.springframework.transaction.support.TransactionTemplate;
import polyshop.service.Backoff;

/**
 * Publishes the rows of outbox_events from a thread of the service.
 *
 * <p>Used only where {@code polyshop.outbox.publisher=true}. By default {@code postrider relay}
 * publishes the table. <b>Never run both on one table:</b> each keeps the order of a key among its
 * own kind only, by locks that the other does not look at, so together they send events twice and
 * out of order. Several services with this publisher on the same table are fine.
 *
 * <p>Each pass is one transaction that holds its rows' locks until their fate is known. If the
 * process dies, the database lets go of them and they are sent again, with the same eventId. A row
 * is marked processed after the broker has acknowledged it, not before. After a failure the later
 * rows of that key wait; other keys go on.
 */
public final class OutboxPublisher implements SmartLifecycle {
    static final int BATCH_SIZE = 100;
    static final Duration IDLE_SLEEP = Duration.ofMillis(200);
    private static final int ERROR_LENGTH_MAX = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(OutboxPublisher.class);

    private final OutboxEventRepository repository;
    private final TransactionTemplate transactions;
    private final EventSender sender;
    private final ObjectMapper json;
    private final WaitingKeys keys;
    private final Backoff backoff;
    private final Counter published;
    private final Counter failed;
    private final Counter dead;
    private final CountDownLatch stopping = new CountDownLatch(1);
    private volatile Thread thread;

    public OutboxPublisher(
        OutboxEventRepository repository, TransactionTemplate transactions, EventSender sender,
        ObjectMapper json, MeterRegistry metrics, String service, Backoff backoff
    ) {
        this.repository = repository;
        this.transactions = transactions;
        this.sender = sender;
        this.json = json;
        this.backoff = backoff;
        this.keys = new WaitingKeys(backoff, Clock.systemUTC());
        // Named as the relay's, so that one set of alert rules does for both.
        this.published = metrics.counter("postrider.published", "outbox", service);
        this.failed = metrics.counter("postrider.failed", "outbox", service);
        this.dead = metrics.counter("postrider.dead", "outbox", service);
    }

    /** Publishes one batch, and says how many rows the broker has acknowledged. */
    int pass() {
        return transactions.execute(status -> {
            List<OutboxEvent> rows = repository.claim(BATCH_SIZE, waitingKeys());
            return settle(rows);
        });
    }

    /**
     * In rounds: of each key the next row, all at once, and when they are acknowledged the rows
     * after them. So a row is never on its way while an earlier one of its key may still fail.
     */
    private int settle(List<OutboxEvent> rows) {
        Map<String, Deque<OutboxEvent>> byKey = new LinkedHashMap<>();
        for (OutboxEvent row : rows) {
            byKey.computeIfAbsent(row.aggregateId(), key -> new ArrayDeque<>()).add(row);
        }
        Set<String> brokenTopics = new HashSet<>();
        int acknowledged = 0;
        while (!byKey.isEmpty()) {
            acknowledged += round(byKey, brokenTopics);
        }
        return acknowledged;
    }

    private int round(Map<String, Deque<OutboxEvent>> byKey, Set<String> brokenTopics) {
        List<EventSender.Sending> sendings = new ArrayList<>();
        for (String key : List.copyOf(byKey.keySet())) {
            OutboxEvent row = byKey.get(key).peek();
            if (brokenTopics.contains(row.eventType())) {
                // The producer would wait for this topic once more, and hold up the pass.
                keys.failed(key);
                byKey.remove(key);
                continue;
            }
            EventSender.Sending sending = sender.send(row);
            if (sending.hasNotLeft()) {
                brokenTopics.add(row.eventType());
            }
            sendings.add(sending);
        }
        List<UUID> acknowledged = new ArrayList<>();
        for (EventSender.Sending sending : sendings) {
            Deque<OutboxEvent> queue = byKey.get(sending.event().aggregateId());
            if (acknowledged(sending)) {
                acknowledged.add(queue.remove().id());
            } else {
                queue.clear();
            }
            if (queue.isEmpty()) {
                byKey.remove(sending.event().aggregateId());
            }
        }
        if (!acknowledged.isEmpty()) {
            repository.markProcessed(acknowledged);
            published.increment(acknowledged.size());
        }
        return acknowledged.size();
    }

    private boolean acknowledged(EventSender.Sending sending) {
        OutboxEvent event = sending.event();
        Exception error = sending.await();
        if (error == null) {
            keys.succeeded(event.aggregateId());
            return true;
        }
        String message = String.valueOf(error.getMessage());
        String shortened = message.substring(0, Math.min(message.length(), ERROR_LENGTH_MAX));
        if (EventSender.isPermanent(error)) {
            repository.markDead(event.id(), shortened);
            dead.increment();
        } else {
            repository.markFailed(event.id(), shortened);
            keys.failed(event.aggregateId());
            failed.increment();
        }
        return false;
    }

    private String waitingKeys() {
        try {
            return json.writeValueAsString(keys.waiting());
        } catch (JsonProcessingException error) {
            throw new IllegalStateException("keys cannot be written as JSON", error);
        }
    }

    @Override
    public void start() {
        thread = new Thread(this::loop, "outbox-publisher");
        thread.start();
    }

    private void loop() {
        int failures = 0;
        boolean isIndexed = false;
        while (!isStopping()) {
            try {
                isIndexed = isIndexed || createIndex();
                int acknowledged = pass();
                failures = 0;
                if (acknowledged == 0) {
                    pause(IDLE_SLEEP);
                }
            } catch (RuntimeException error) {
                // The database does not answer. What was sent and not marked is sent again.
                failures++;
                LOG.atWarn().addKeyValue("error", error.getMessage())
                    .log("outbox pass failed, is tried again");
                pause(backoff.after(failures));
            }
        }
    }

    /** Without it everything works as well, only slower when the table is large. */
    private boolean createIndex() {
        try {
            transactions.executeWithoutResult(status -> repository.createDeadIndex());
        } catch (
            InvalidDataAccessResourceUsageException | PermissionDeniedDataAccessException error
        ) {
            LOG.atWarn().addKeyValue("error", error.getMessage())
                .log("this role cannot create the index outbox_events_dead_idx");
        }
        return true;
    }

    private boolean isStopping() {
        return stopping.getCount() == 0;
    }

    private void pause(Duration duration) {
        try {
            stopping.await(duration.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            stopping.countDown();
        }
    }

    /** Lets the pass that is under way come to its end. */
    @Override
    public void stop() {
        stopping.countDown();
        try {
            thread.join(EventSender.DELIVERY_TIMEOUT.toMillis());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean isRunning() {
        return thread != null && thread.isAlive();
    }
}
