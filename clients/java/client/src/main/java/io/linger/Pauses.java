package io.linger;

import java.time.Duration;

/** Growing pauses, for a server that is away. */
final class Pauses {
    private static final Duration FIRST = Duration.ofMillis(100);
    private static final Duration LONGEST = Duration.ofSeconds(5);

    private Duration next = FIRST;

    Duration next() {
        Duration pause = next;
        Duration doubled = next.multipliedBy(2);
        next = doubled.compareTo(LONGEST) > 0 ? LONGEST : doubled;
        return pause;
    }

    void reset() {
        next = FIRST;
    }
}
