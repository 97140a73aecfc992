package io.linger;

import java.time.Duration;

/** Thrown by a handler: the attempt failed, and the job is to be tried again after this long. */
public class RetryIn extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Duration after;

    /** After so long, and why it failed. */
    public RetryIn(Duration after, String error) {
        super(error);
        this.after = after;
    }

    /** After so long, because of this. */
    public RetryIn(Duration after, Throwable cause) {
        super(cause.getMessage(), cause);
        this.after = after;
    }

    /** How long to wait. */
    public Duration after() {
        return after;
    }
}
