package io.linger;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/** A job as the server tells it: added, looked at, popped, or pushed. */
public final class Job implements JobRef {
    private final Map<String, Json> fields;
    private final Json json;
    private final Body body;
    private final long leaseEnds;
    private final String topic;
    private final String id;
    private volatile boolean lost;

    Job(Json json, Mapper mapper, Instant serverTime) {
        this.json = json;
        this.fields = json.fields();
        this.body = Body.ofAnswer(fields.get("body"), fields.get("body_base64"), mapper);
        this.topic = text("topic").orElseThrow();
        this.id = text("id").orElseThrow();
        this.leaseEnds = Lease.ends(fields.get("reserved_until"), serverTime);
    }

    private Job(Json json, Body body) {
        this.json = json;
        this.fields = json.fields();
        this.body = body;
        this.topic = text("topic").orElseThrow();
        this.id = text("id").orElseThrow();
        this.leaseEnds = Lease.ends(null, null);
    }

    /** A job that was pushed: its fields are those of the headers. */
    static Job pushed(Map<String, Object> fields, Body body) {
        return new Job(Json.parse(Json.write(fields)), body);
    }

    @Override
    public String topic() {
        return topic;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public Optional<String> lease() {
        return text("lease");
    }

    /** {@code delayed}, {@code ready}, {@code reserved}, {@code retry}, {@code held}, {@code dead} or {@code finished}. */
    public String state() {
        return text("state").orElse("reserved");
    }

    /** How often it was handed out, this time included. */
    public int attempt() {
        return fields.get("attempt").number().intValue();
    }

    /** When it is, or was, due. */
    public Instant due() {
        return Instant.parse(fields.get("due").text());
    }

    /** When it was added; not known of one that was pushed. */
    public Optional<Instant> created() {
        return field("created", value -> Instant.parse(value.text()));
    }

    /** Counts its changes, for {@link Changes#ifVersion}; 0 of one that was pushed. */
    public long version() {
        return field("version", value -> value.number().longValue()).orElse(0L);
    }

    /** Smaller is sooner among ready jobs. */
    public Optional<Long> priority() {
        return field("priority", value -> value.number().longValue());
    }

    /** How long an attempt may take, if it has a ttr of its own. */
    public Optional<Duration> ttr() {
        return field("ttr", value -> Durations.parse(value.text()));
    }

    /** When its lease ends, by the server's clock. */
    public Optional<Instant> reservedUntil() {
        return field("reserved_until", value -> Instant.parse(value.text()));
    }

    /** Why it last failed. */
    public Optional<String> lastError() {
        return text("last_error");
    }

    /** Of one that was pushed: the same for every attempt at this occurrence, so that what is known can be dropped. */
    public Optional<String> webhookId() {
        return text("webhook_id");
    }

    /** What it carries; null in answers that come without bodies: to add, and of {@link Client#jobs} unless asked for. */
    public Body body() {
        return body;
    }

    /**
     * Whether the lease was lost while the handler worked, or the worker gave the job back: somebody else may have it,
     * so stop. The handler's thread is interrupted as well.
     */
    public boolean lost() {
        return lost;
    }

    /** All that the server told of it. */
    public Json json() {
        return json;
    }

    @Override
    public String toString() {
        return "job " + id + " of " + topic;
    }

    void lose() {
        lost = true;
    }

    /** When the lease ends, by this machine's {@link System#nanoTime()}. */
    long leaseEnds() {
        return leaseEnds;
    }

    private Optional<String> text(String name) {
        return field(name, Json::text);
    }

    private <T> Optional<T> field(String name, Function<Json, T> read) {
        return Optional.ofNullable(fields.get(name)).map(read);
    }
}
