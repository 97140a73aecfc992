package io.linger;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Makes an instance of an application known to Linger, and keeps it known by heartbeats. */
public final class Registration implements AutoCloseable {
    private static final Logger LOG = System.getLogger("io.linger.Registration");
    private static final Duration LOOK = Duration.ofMillis(50);

    private final Client client;
    private final Receiver receiver;
    private final Map<String, Object> fields = new LinkedHashMap<>();
    private final Duration lease;
    private final Duration grace;
    private final Pauses pauses = new Pauses();
    private final ScheduledThreadPoolExecutor heart = new ScheduledThreadPoolExecutor(1, Threads.daemons("linger-heartbeat"));
    private volatile String id;
    private boolean closed;

    private Registration(Builder builder) {
        client = builder.client;
        receiver = builder.receiver;
        lease = builder.lease;
        grace = builder.grace;
        fields.put("app", builder.app);
        fields.put("topics", List.copyOf(receiver.topics()));
        fields.put("url", builder.url);
        fields.put("lease", lease);
    }

    /** A registration for the topics of a receiver, which is called at an URL that is yours to serve. */
    public static Builder builder(Client client, Receiver receiver) {
        return new Builder(client, receiver);
    }

    /** The name of this instance, once it is registered, else null. */
    public String id() {
        return id;
    }

    /** Takes no new jobs, waits for calls under way to end, and deregisters. */
    @Override
    public void close() {
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
        }
        heart.shutdownNow();
        boolean interrupted = Thread.interrupted();
        try {
            // A heartbeat that is under way must not register again what is deregistered here.
            heart.awaitTermination(grace.toNanos(), TimeUnit.NANOSECONDS);
            drain();
            awaitCalls();
        } catch (InterruptedException hurry) {
            interrupted = true;
        }
        tell(Call.of("DELETE", path(), null).repeatable(true).doneWhen(Code.NOT_FOUND));
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void begin() {
        try {
            register();
        } catch (LingerException error) {
            if (error.code() != Code.UNAVAILABLE && error.code() != Code.OVERLOADED) {
                heart.shutdownNow();
                throw error;
            }
            LOG.log(Level.WARNING, "cannot register, and will try again: {0}", error.getMessage());
        }
        beatIn(id == null ? pauses.next() : lease.dividedBy(3));
    }

    /** The same application at the same URL keeps its id, so that to register twice is to do it once. */
    private void register() {
        id = client.send(Call.of("POST", "/v1/workers", fields).repeatable(true)).json.get("id").text();
    }

    private void beatIn(Duration wait) {
        if (!heart.isShutdown()) {
            heart.schedule(this::beat, wait.toNanos(), TimeUnit.NANOSECONDS);
        }
    }

    private void beat() {
        try {
            if (id == null) {
                register();
            } else {
                client.send(Call.of("PUT", path() + "/heartbeat", Map.of()).repeatable(true));
            }
            pauses.reset();
            beatIn(lease.dividedBy(3));
        } catch (RuntimeException error) {
            // Whatever it was: a heart that stops at an answer that nobody foresaw is not heard of again.
            boolean forgotten = error instanceof LingerException && ((LingerException) error).code() == Code.NOT_FOUND;
            if (forgotten) {
                id = null;
            } else if (!heart.isShutdown()) {
                LOG.log(Level.WARNING, "cannot send a heartbeat, and will try again: {0}", error.getMessage());
            }
            beatIn(forgotten ? Duration.ZERO : pauses.next());
        }
    }

    private void drain() {
        tell(Call.of("POST", path() + "/drain", Map.of()).repeatable(true));
    }

    private void awaitCalls() throws InterruptedException {
        long until = System.nanoTime() + grace.toNanos();
        while (System.nanoTime() - until < 0 && (receiver.underWay() > 0 || isCalled())) {
            Thread.sleep(LOOK.toMillis());
        }
    }

    /** Whether the server has a call under way, which may not have arrived here yet. */
    private boolean isCalled() {
        Answer answer = tell(Call.get(path()));
        return answer != null && answer.json.get("under_way").number().signum() > 0;
    }

    /** Says it if it can be said: nobody is helped by an error while we leave. */
    private Answer tell(Call call) {
        try {
            return id == null ? null : client.send(call);
        } catch (LingerException error) {
            LOG.log(Level.WARNING, "while leaving: {0}", error.getMessage());
            return null;
        }
    }

    private String path() {
        return "/v1/workers/" + (id == null ? "" : Client.encoded(id));
    }

    /** How a registration is made. */
    public static final class Builder {
        private final Client client;
        private final Receiver receiver;
        private String app;
        private String url;
        private Duration lease = Duration.ofSeconds(30);
        private Duration grace = Duration.ofSeconds(30);

        private Builder(Client client, Receiver receiver) {
            this.client = client;
            this.receiver = receiver;
        }

        /** The application's name: jobs with the target {@code worker:NAME} come here. */
        public Builder app(String name) {
            this.app = name;
            return this;
        }

        /** Where Linger reaches this instance. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** How long the instance is known without a heartbeat: 30 s unless set. */
        public Builder lease(Duration lease) {
            this.lease = lease;
            return this;
        }

        /** How long {@link Registration#close} lets calls end: 30 s unless set. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Registers the instance; if Linger is away, as soon as it is back. */
        public Registration start() {
            Registration registration = new Registration(this);
            registration.begin();
            return registration;
        }
    }
}
