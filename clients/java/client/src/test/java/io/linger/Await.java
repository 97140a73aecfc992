package io.linger;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Looks again and again until something holds. */
public final class Await {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private Await() {}

    public static void until(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!holds.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + DEADLINE.toSeconds() + " s: " + what);
            }
            Thread.sleep(10);
        }
    }
}
