package polyshop.service;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Waits that double from {@code first} to {@code most}, each of them shortened by up to a half at
 * random.
 */
public record Backoff(Duration first, Duration most) {
    public static final Backoff DEFAULT =
        new Backoff(Duration.ofMillis(100), Duration.ofSeconds(10));

    /** @param failures how often it has failed by now, at least once */
    public Duration after(int failures) {
        long doubled = first.toMillis() << Math.min(failures - 1, 20);
        long longest = Math.max(1, Math.min(doubled, most.toMillis()));
        return Duration.ofMillis(longest - ThreadLocalRandom.current().nextLong(longest / 2 + 1));
    }
}
