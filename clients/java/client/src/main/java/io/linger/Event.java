package io.linger;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** Something that happened to a job. */
public final class Event {
    private final Json json;

    Event(Json json) {
        this.json = json;
    }

    /** When it happened. */
    public Instant at() {
        return Instant.parse(json.get("at").text());
    }

    /** What happened, such as {@code added} or {@code failed}. */
    public String what() {
        return json.get("what").text();
    }

    /** At which attempt. */
    public int attempt() {
        return json.get("attempt").number().intValue();
    }

    /** What went wrong, if something did. */
    public Optional<String> error() {
        return Optional.ofNullable(json.get("error")).map(Json::text);
    }

    /** How long it took, if that is known. */
    public Optional<Duration> took() {
        return Optional.ofNullable(json.get("took")).map(took -> Durations.parse(took.text()));
    }

    /** All that the server told of it. */
    public Json json() {
        return json;
    }

    @Override
    public String toString() {
        return json.raw();
    }
}
