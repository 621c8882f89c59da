package polyshop.outbox;

import java.time.Clock;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import polyshop.service.Backoff;

/**
 * Keys whose first event has failed, and until when they are left alone. The table has no column
 * for it, so it is kept here: another publisher, or this one after a restart, may try a key
 * earlier, which does no harm.
 */
final class WaitingKeys {
    /** Beyond this, keys are tried again at once: more of them would make the claim slow. */
    private static final int KEYS_MAX = 10_000;

    private record Wait(int failures, Instant until) {}

    private final Map<String, Wait> waits = new HashMap<>();
    private final Backoff backoff;
    private final Clock clock;

    WaitingKeys(Backoff backoff, Clock clock) {
        this.backoff = backoff;
        this.clock = clock;
    }

    void failed(String key) {
        if (waits.size() < KEYS_MAX || waits.containsKey(key)) {
            int failures = waits.containsKey(key) ? waits.get(key).failures() + 1 : 1;
            waits.put(key, new Wait(failures, clock.instant().plus(backoff.after(failures))));
        }
    }

    void succeeded(String key) {
        waits.remove(key);
    }

    /** The keys whose time has not come. */
    Set<String> waiting() {
        Instant now = clock.instant();
        return waits.entrySet().stream()
            .filter(entry -> entry.getValue().until().isAfter(now))
            .map(Map.Entry::getKey)
            .collect(Collectors.toSet());
    }
}
