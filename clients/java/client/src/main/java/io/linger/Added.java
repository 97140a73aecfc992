package io.linger;

import java.util.Optional;

/** What became of one of several jobs that were added together. */
public final class Added {
    private final Json json;
    private final Job job;
    private final LingerException error;

    Added(Json json, Job job, LingerException error) {
        this.json = json;
        this.job = job;
        this.error = error;
    }

    /**
     * The job.
     *
     * @throws LingerException if it was refused
     */
    public Job job() {
        if (error != null) {
            throw error;
        }
        return job;
    }

    /** Why it was refused, if it was. */
    public Optional<LingerException> error() {
        return Optional.ofNullable(error);
    }

    /** All that the server told of it. */
    public Json json() {
        return json;
    }
}
