package io.linger;

import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** What {@link Client#fail} says of an attempt. */
public final class Failure extends Fields<Failure> {
    /** As much of a text as is told: an answer to a push must not grow beyond what it reads. */
    private static final int ERROR_CHARS_MAX = 4096;

    private Failure() {}

    /** It failed, and this is why. */
    public static Failure of(String error) {
        boolean isLong = error.codePointCount(0, error.length()) > ERROR_CHARS_MAX;
        String clipped = isLong ? error.substring(0, error.offsetByCodePoints(0, ERROR_CHARS_MAX)) : error;
        // Through bytes, which leaves no half of a surrogate pair: the server would refuse to hear of the failure.
        return new Failure().set("error", new String(clipped.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8));
    }

    /** It failed without a word. */
    public static Failure of() {
        return new Failure();
    }

    /** It did not fail: it is only not yet time. Told apart from failures. */
    public static Failure again() {
        return new Failure().set("again", true);
    }

    /** When to try again, in place of the next step of its retries. */
    public Failure retryIn(Duration wait) {
        return set("retry_in", wait);
    }

    /** When to try again, such as {@code "30s"}. */
    public Failure retryIn(String wait) {
        return set("retry_in", wait);
    }

    /** What a handler says by what it throws. */
    static Failure of(Throwable thrown) {
        if (thrown instanceof Again) {
            Failure again = again();
            return ((Again) thrown).after().map(again::retryIn).orElse(again);
        }
        Failure failure = of(thrown.getMessage() == null ? thrown.getClass().getName() : thrown.getMessage());
        return thrown instanceof RetryIn ? failure.retryIn(((RetryIn) thrown).after()) : failure;
    }
}
