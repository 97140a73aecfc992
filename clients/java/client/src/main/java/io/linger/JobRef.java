package io.linger;

import java.util.Optional;

/** Which job is meant, and by which lease. A {@link Job} that was popped is one. */
public interface JobRef {
    /** The topic of the job. */
    String topic();

    /** The name of the job within its topic. */
    String id();

    /** The lease by which it was handed out; without one whoever holds the job is meant. */
    Optional<String> lease();

    /** A job by its name alone, whoever holds it. */
    static JobRef of(String topic, String id) {
        return of(topic, id, null);
    }

    /** A job that was handed out by this lease. */
    static JobRef of(String topic, String id, String lease) {
        return new JobRef() {
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
                return Optional.ofNullable(lease);
            }
        };
    }
}
