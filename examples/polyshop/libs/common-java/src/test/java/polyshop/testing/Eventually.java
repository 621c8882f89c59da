package polyshop.testing;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.function.Supplier;

/** Waits for what comes about in another thread or process. */
public final class Eventually {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration LOOK_EVERY = Duration.ofMillis(50);

    private Eventually() {}

    /** Gives the first value that is as expected, and fails with the last one that is not. */
    public static <T> T eventually(String what, Supplier<T> look, Predicate<T> isExpected) {
        Instant deadline = Instant.now().plus(PATIENCE);
        while (true) {
            T seen = look.get();
            if (isExpected.test(seen)) {
                return seen;
            }
            if (Instant.now().isAfter(deadline)) {
                throw new AssertionError(
                    what + ": not within " + PATIENCE + ", last seen: " + seen);
            }
            LockSupport.parkNanos(LOOK_EVERY.toNanos());
        }
    }
}
