package io.linger;

import java.time.Instant;
import java.util.Optional;

/** What a call made of a job. */
public final class Changed {
    private final Json json;
    private final Json job;
    private final long leaseEnds;

    Changed(Json json, Instant serverTime) {
        this.json = json;
        this.job = json.get("job");
        this.leaseEnds = Lease.ends(job == null ? null : job.get("reserved_until"), serverTime);
    }

    /** Whether the call changed anything. */
    public boolean changed() {
        return json.get("changed").truth();
    }

    /** Whether the job is gone. */
    public boolean gone() {
        return job == null;
    }

    /** The state it is in now; empty if it is gone. */
    public Optional<String> state() {
        return Optional.ofNullable(job).map(standing -> standing.get("state").text());
    }

    /** When it is due; empty if it is gone. */
    public Optional<Instant> due() {
        return Optional.ofNullable(job).map(standing -> Instant.parse(standing.get("due").text()));
    }

    /** Its version now; empty if it is gone. */
    public Optional<Long> version() {
        return Optional.ofNullable(job).map(standing -> standing.get("version").number().longValue());
    }

    /** All that the server told. */
    public Json json() {
        return json;
    }

    @Override
    public String toString() {
        return json.raw();
    }

    long leaseEnds() {
        return leaseEnds;
    }
}
