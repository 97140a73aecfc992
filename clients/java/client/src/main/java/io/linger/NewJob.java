package io.linger;

import java.time.Duration;
import java.time.Instant;

/** A job to add. What is not set is up to the topic and the server. */
public final class NewJob extends Fields<NewJob> {
    private String idempotencyKey;

    private NewJob() {}

    /** A job of this topic, due at once. */
    public static NewJob of(String topic) {
        return new NewJob().set("topic", topic);
    }

    /** Its name within the topic; one is made unless given. */
    public NewJob id(String id) {
        return set("id", id);
    }

    /**
     * What it carries: null, Boolean, Number, String, Map, List, {@link Json}; a byte[] as bytes; anything else if the
     * client has a {@link Mapper}.
     */
    public NewJob body(Object body) {
        return set("body", body);
    }

    /** What it carries, as JSON that is written already; it is passed on as it is. */
    public NewJob bodyJson(String json) {
        return set("body", Json.parse(json));
    }

    /** How long from now it is due. */
    public NewJob delay(Duration delay) {
        return set("delay", delay);
    }

    /** How long from now it is due, such as {@code "30m"}. */
    public NewJob delay(String delay) {
        return set("delay", delay);
    }

    /** When it is due. */
    public NewJob at(Instant at) {
        return set("at", at);
    }

    /** How long an attempt may take. */
    public NewJob ttr(Duration ttr) {
        return set("ttr", ttr);
    }

    /** How long an attempt may take, such as {@code "60s"}. */
    public NewJob ttr(String ttr) {
        return set("ttr", ttr);
    }

    /** Smaller is sooner among ready jobs; 1024 unless given. */
    public NewJob priority(long priority) {
        return set("priority", priority);
    }

    /** How many attempts, and the waits between them. */
    public NewJob retry(Retry retry) {
        return set("retry", retry);
    }

    /** When it runs again. */
    public NewJob repeat(Repeat repeat) {
        return set("repeat", repeat);
    }

    /** Where it is pushed: an URL, {@code worker:APP}, {@code sink:NAME}. A job with a target is not popped. */
    public NewJob target(String target) {
        return set("target", target);
    }

    /** When a push counts as finished: {@code "delivery"} or {@code "finish"}. */
    public NewJob confirm(String confirm) {
        return set("confirm", confirm);
    }

    /** What a push makes of the body: {@code "body"}, {@code "cloudevents"} or {@code "task"}. */
    public NewJob envelope(String envelope) {
        return set("envelope", envelope);
    }

    /** How long it stays visible when finished. */
    public NewJob retain(Duration retain) {
        return set("retain", retain);
    }

    /** Sets it aside from the start, until {@link Client#unhold}. */
    public NewJob held() {
        return set("held", true);
    }

    /** What the body is, kept with it. */
    public NewJob contentType(String contentType) {
        return set("content_type", contentType);
    }

    /** The trace that it belongs to, kept with it. */
    public NewJob traceparent(String traceparent) {
        return set("traceparent", traceparent);
    }

    /** What to do if the topic has a job of this id; refused unless given. */
    public NewJob onConflict(OnConflict onConflict) {
        return set("on_conflict", onConflict.word());
    }

    /** For {@link Client#add} without an id: the same key again finds the job that the first has added. */
    public NewJob idempotencyKey(String key) {
        idempotencyKey = key;
        return this;
    }

    String idempotencyKey() {
        return idempotencyKey;
    }

    boolean hasId() {
        return fields().get("id") != null;
    }

    /** Whether adding it twice comes to the same as adding it once. */
    boolean isHarmlessTwice() {
        Object conflict = fields().get("on_conflict");
        return OnConflict.KEEP.word().equals(conflict) || OnConflict.REPLACE.word().equals(conflict);
    }

    NewJob copy() {
        NewJob copy = new NewJob();
        fields().forEach(copy::set);
        return copy;
    }
}
