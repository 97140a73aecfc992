package io.linger;

import java.time.Duration;
import java.util.List;

/** What to pop, and how long to wait for it. */
public final class Pop extends Fields<Pop> {
    private Duration wait = Duration.ZERO;

    private Pop() {}

    /** From these topics, whichever has a job. */
    public static Pop from(String... topics) {
        return from(List.of(topics));
    }

    /** From these topics, whichever has a job. */
    public static Pop from(List<String> topics) {
        return new Pop().set("topics", topics);
    }

    /** At most so many; one unless given. */
    public Pop max(int max) {
        return set("max", max);
    }

    /** How long to wait for the first; not at all unless given. */
    public Pop wait(Duration wait) {
        this.wait = wait;
        return set("wait", wait);
    }

    /** How long to wait for the first, such as {@code "30s"}. */
    public Pop wait(String wait) {
        return wait(Durations.parse(wait));
    }

    /** How long these attempts may take, in place of the jobs' own ttr. */
    public Pop ttr(Duration ttr) {
        return set("ttr", ttr);
    }

    /** How long these attempts may take, such as {@code "60s"}. */
    public Pop ttr(String ttr) {
        return set("ttr", ttr);
    }

    Duration waits() {
        return wait;
    }
}
