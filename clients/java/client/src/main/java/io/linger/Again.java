package io.linger;

import java.time.Duration;
import java.util.Optional;

/** Thrown by a handler: nothing is wrong, but it is not yet time. Told apart from failures. */
public class Again extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Duration after;

    /** At the next step of the job's retries. */
    public Again() {
        this(null);
    }

    /** After so long. */
    public Again(Duration after) {
        super("not yet");
        this.after = after;
    }

    /** How long to wait, if it was said. */
    public Optional<Duration> after() {
        return Optional.ofNullable(after);
    }
}
