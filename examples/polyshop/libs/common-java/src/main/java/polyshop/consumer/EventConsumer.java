package polyshop.consumer;

import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;
import polyshop.service.Backoff;

/**
 * The consumer loop of a service: reads topics, has each event handled, and commits an offset only
 * when the event's effects are committed or its dead letter is acknowledged.
 *
 * <p>A partition is read in order. If an event fails temporarily, its partition pauses and goes on
 * with the same event after a wait that grows from try to try, as long as it takes; the other
 * partitions go on meanwhile.
 */
public final class EventConsumer implements SmartLifecycle {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration STOP = Duration.ofSeconds(20);
    private static final Duration ALIVE = Duration.ofSeconds(30);
    private static final Logger LOG = LoggerFactory.getLogger(EventConsumer.class);

    /** A partition that waits for the next try of its first event. */
    private record Wait(int failures, Instant until) {}

    private final Supplier<Consumer<byte[], byte[]>> connect;
    private final List<String> topics;
    private final DeliveryHandler deliveries;
    private final ConsumerMetrics metrics;
    private final Backoff backoff;
    private final Runnable died;
    private final Map<TopicPartition, Wait> waits = new HashMap<>();
    private volatile Consumer<byte[], byte[]> consumer;
    private volatile Thread thread;
    private volatile boolean stopping;
    private volatile Instant lastPoll = Instant.MIN;
    private volatile boolean joined;

    /**
     * @param died is run if the loop ends by itself: a service that no longer consumes must not
     * look as if it did
     */
    public EventConsumer(
        Supplier<Consumer<byte[], byte[]>> connect, List<String> topics, DeliveryHandler deliveries,
        Backoff backoff, Runnable died
    ) {
        this.connect = connect;
        this.topics = topics;
        this.deliveries = deliveries;
        this.metrics = deliveries.metrics();
        this.backoff = backoff;
        this.died = died;
    }

    private void run() {
        try (Consumer<byte[], byte[]> kafka = consumer) {
            kafka.subscribe(topics, new Rebalancing());
            LOG.info("consumer runs");
            while (!stopping) {
                resumeDue(kafka);
                ConsumerRecords<byte[], byte[]> records = kafka.poll(untilNextTry());
                lastPoll = Instant.now();
                commit(kafka, handle(kafka, records));
                noteLag(kafka);
            }
        } catch (RuntimeException error) {
            LOG.atError().addKeyValue("error", Failures.message(error)).log("consumer ended");
            died.run();
        }
    }

    /** Says up to where each partition is done. */
    private Map<TopicPartition, OffsetAndMetadata> handle(
        Consumer<byte[], byte[]> kafka, ConsumerRecords<byte[], byte[]> records
    ) {
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                if (stopping) {
                    return done;
                }
                int failures = waits.containsKey(partition) ? waits.get(partition).failures() : 0;
                if (!deliveries.settle(record, failures + 1)) {
                    Duration wait = backoff.after(failures + 1);
                    waits.put(partition, new Wait(failures + 1, Instant.now().plus(wait)));
                    kafka.seek(partition, record.offset());
                    kafka.pause(Set.of(partition));
                    break;
                }
                waits.remove(partition);
                done.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
        }
        return done;
    }

    private Duration untilNextTry() {
        Instant now = Instant.now();
        return waits.values().stream()
            .map(wait -> Duration.between(now, wait.until()))
            .filter(wait -> !wait.isNegative() && wait.compareTo(POLL) < 0)
            .min(Duration::compareTo)
            .orElse(POLL);
    }

    private void resumeDue(Consumer<byte[], byte[]> kafka) {
        Instant now = Instant.now();
        waits.forEach((partition, wait) -> {
            if (!wait.until().isAfter(now) && kafka.paused().contains(partition)) {
                kafka.resume(Set.of(partition));
            }
        });
    }

    private void commit(
        Consumer<byte[], byte[]> kafka, Map<TopicPartition, OffsetAndMetadata> done
    ) {
        if (done.isEmpty()) {
            return;
        }
        try {
            kafka.commitSync(done);
        } catch (KafkaException error) {
            // The events come again, to us or to whom the partition has gone, and are duplicates
            // then.
            LOG.atWarn().addKeyValue("error", error.getMessage()).log("offsets not committed");
        }
    }

    private void noteLag(Consumer<byte[], byte[]> kafka) {
        long lag = 0;
        for (TopicPartition partition : kafka.assignment()) {
            OptionalLong known = kafka.currentLag(partition);
            lag += known.orElse(0);
        }
        metrics.lag.set(lag);
    }

    /** Whether the group has taken it in and it has polled lately. */
    public boolean isConsuming() {
        return joined && lastPoll.isAfter(Instant.now().minus(ALIVE));
    }

    @Override
    public void start() {
        consumer = connect.get();
        thread = new Thread(this::run, "event-consumer");
        thread.start();
    }

    /** Lets the event in hand come to its end, and leaves the group. */
    @Override
    public void stop() {
        stopping = true;
        try {
            thread.join(STOP.toMillis());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean isRunning() {
        return thread != null && thread.isAlive();
    }

    private final class Rebalancing implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(waits::remove);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            joined = true;
        }
    }
}
