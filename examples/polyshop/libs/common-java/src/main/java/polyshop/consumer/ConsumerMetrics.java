package polyshop.consumer;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Named as Postrider's own consumers name them, so that one set of alert rules does for all
 * languages.
 */
final class ConsumerMetrics {
    final Counter handled;
    final Counter duplicates;
    final Counter deadLettered;
    final Counter retried;
    final AtomicLong lag;

    ConsumerMetrics(MeterRegistry registry, String service) {
        handled = counter(registry, "handled", service);
        duplicates = counter(registry, "duplicates", service);
        deadLettered = counter(registry, "dead.lettered", service);
        retried = counter(registry, "retried", service);
        lag = new AtomicLong();
        registry.gauge("postrider.consumer.lag", Tags.of("consumer", service), lag);
    }

    private static Counter counter(MeterRegistry registry, String name, String service) {
        return registry.counter("postrider.consumer." + name, "consumer", service);
    }
}
