package io.linger;

import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/** The threads that handlers run in, and what becomes of them there. */
final class Threads {
    private Threads() {}

    /** Threads that keep no program alive: whoever made them waits for them. */
    static ThreadFactory daemons(String name) {
        AtomicInteger count = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Runs the handler, and tells what it failed with; null if it did not. */
    static Failure outcome(Handler handler, Job job) {
        try {
            handler.handle(job);
            return null;
        } catch (Throwable thrown) {
            // Errors too: a job whose handler died must not wait for its lease to run out.
            return Failure.of(thrown);
        }
    }
}
