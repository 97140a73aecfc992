package io.linger;

import java.time.Duration;
import java.util.Map;

/** What holds for the jobs of a topic that do not say otherwise, and how fast they are handed out. */
public final class Settings extends Fields<Settings> {
    private Settings() {}

    /** Nothing set. */
    public static Settings of() {
        return new Settings();
    }

    /** How long an attempt may take. */
    public Settings ttr(Duration ttr) {
        return set("ttr", ttr);
    }

    /** How many attempts, and the waits between them. */
    public Settings retry(Retry retry) {
        return set("retry", retry);
    }

    /** Where its jobs are pushed. */
    public Settings target(String target) {
        return set("target", target);
    }

    /** When a push counts as finished: {@code "delivery"} or {@code "finish"}. */
    public Settings confirm(String confirm) {
        return set("confirm", confirm);
    }

    /** What a push makes of the body: {@code "body"}, {@code "cloudevents"} or {@code "task"}. */
    public Settings envelope(String envelope) {
        return set("envelope", envelope);
    }

    /** The most that a push may take. */
    public Settings timeout(Duration timeout) {
        return set("timeout", timeout);
    }

    /** What every push brings along besides. */
    public Settings headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    /** Where jobs go that have ended: {@code "files"}, or a target. */
    public Settings archive(String archive) {
        return set("archive", archive);
    }

    /** How long finished jobs stay visible. */
    public Settings retain(Duration retain) {
        return set("retain", retain);
    }

    /** How long dead jobs stay. */
    public Settings retainDead(Duration retain) {
        return set("retain_dead", retain);
    }

    /** How many are handed out in a length of time, such as {@code "10/m"}. */
    public Settings rate(String rate) {
        return set("rate", rate);
    }

    /** So many handed out at once. */
    public Settings concurrency(long concurrency) {
        return set("concurrency", concurrency);
    }

    /** The most jobs it may have; more are refused. */
    public Settings jobsMax(long jobs) {
        return set("jobs_max", jobs);
    }

    /** The most bytes that their bodies may have together. */
    public Settings bytesMax(long bytes) {
        return set("bytes_max", bytes);
    }

    /** Over how many parts of a shared store its jobs are spread. */
    public Settings partitions(int partitions) {
        return set("partitions", partitions);
    }
}
