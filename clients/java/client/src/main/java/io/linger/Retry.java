package io.linger;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How many attempts a job has, and the waits between them. */
public final class Retry extends Fields<Retry> {
    private Retry() {}

    /** So many attempts; 0 is no limit. */
    public static Retry attempts(long attempts) {
        return new Retry().set("attempts", attempts);
    }

    /** These waits, one after the other. */
    public static Retry ladder(Duration... waits) {
        return new Retry().set("ladder", List.of(waits));
    }

    /** Waits that double from one length to another. */
    public Retry backoff(Duration base, Duration max) {
        return set("backoff", Map.of("base", base, "max", max));
    }

    /** Waits that double from one length to another, each longer or shorter by chance by up to this share. */
    public Retry backoff(Duration base, Duration max, double jitter) {
        Map<String, Object> backoff = new LinkedHashMap<>();
        backoff.put("base", base);
        backoff.put("max", max);
        backoff.put("jitter", jitter);
        return set("backoff", backoff);
    }

    /** The steps of a ladder count from the first due time and not from each failure. */
    public Retry fromDue() {
        return set("from", "due");
    }
}
