package io.linger;

import java.time.Duration;
import java.time.Instant;

/** What {@link Client#update} changes of a job. Null takes its own ttr, retry or target away, so that its topic's hold. */
public final class Changes extends Fields<Changes> {
    private Changes() {}

    /** No change yet. */
    public static Changes of() {
        return new Changes();
    }

    /** Due so long from now. */
    public Changes delay(Duration delay) {
        return set("delay", delay);
    }

    /** Due so long from now, such as {@code "30m"}. */
    public Changes delay(String delay) {
        return set("delay", delay);
    }

    /** Due then. */
    public Changes at(Instant at) {
        return set("at", at);
    }

    /** What it carries from now on; see {@link NewJob#body}. */
    public Changes body(Object body) {
        return set("body", body);
    }

    /** What it carries from now on, as JSON that is written already. */
    public Changes bodyJson(String json) {
        return set("body", Json.parse(json));
    }

    /** Smaller is sooner among ready jobs. */
    public Changes priority(long priority) {
        return set("priority", priority);
    }

    /** How long an attempt may take. */
    public Changes ttr(Duration ttr) {
        return set("ttr", ttr);
    }

    /** How long an attempt may take, such as {@code "60s"}. */
    public Changes ttr(String ttr) {
        return set("ttr", ttr);
    }

    /** How many attempts, and the waits between them. */
    public Changes retry(Retry retry) {
        return set("retry", retry);
    }

    /** Where it is pushed. */
    public Changes target(String target) {
        return set("target", target);
    }

    /** Only if the job's version is still this, else {@link Code#VERSION_MISMATCH}. */
    public Changes ifVersion(long version) {
        return set("if_version", version);
    }
}
