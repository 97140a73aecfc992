package io.linger.spring;

import io.linger.Client;
import io.linger.Job;
import io.linger.NewJob;
import java.time.Duration;

/** Adds jobs for the application itself, so that the same code serves in worker mode and in service mode. */
public class LingerTemplate {
    private final Client client;
    private final String target;

    LingerTemplate(Client client, String target) {
        this.client = client;
        this.target = target;
    }

    /** Adds a job that a handler of this application gets after the delay. */
    public Job addOwn(String topic, Object body, Duration delay) {
        return addOwn(NewJob.of(topic).body(body).delay(delay));
    }

    /** Adds a job that a handler of this application gets: in service mode its target is {@code worker:} and its name. */
    public Job addOwn(NewJob job) {
        return client.add(target == null ? job : job.target(target));
    }

    /** The client, for everything else. */
    public Client client() {
        return client;
    }
}
