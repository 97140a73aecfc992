package io.linger;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/**
 * Takes deliveries of Linger in whatever framework there is: verifies each, calls the handler of its topic, and tells what
 * to answer.
 */
public final class Receiver {
    private static final Logger LOG = System.getLogger("io.linger.Receiver");

    private final Map<String, Handler> handlers;
    private final List<String> secrets;
    private final Mapper mapper;
    private final AtomicInteger underWay = new AtomicInteger();

    /**
     * A receiver with a handler for each topic.
     *
     * @param secrets which sign deliveries, as {@link Webhook#verify} takes them; there has to be one
     * @param mapper by which {@link Body#as} reads objects, or null
     */
    public Receiver(Map<String, Handler> handlers, Collection<String> secrets, Mapper mapper) {
        this(handlers, mapper, List.copyOf(secrets));
        if (secrets.isEmpty()) {
            throw new IllegalArgumentException("without secrets nobody is let in: give some, or say unsigned");
        }
        secrets.forEach(Webhook::checkSecret);
    }

    private Receiver(Map<String, Handler> handlers, Mapper mapper, List<String> secrets) {
        this.handlers = Map.copyOf(handlers);
        this.secrets = secrets;
        this.mapper = mapper;
    }

    /** A receiver that takes deliveries from whoever reaches it: for a network without strangers. */
    public static Receiver unsigned(Map<String, Handler> handlers, Mapper mapper) {
        return new Receiver(handlers, mapper, List.of());
    }

    /**
     * Takes a delivery, and returns when its handler does.
     *
     * @param headers a header by its name, null if there is none
     * @param body the body as it came, byte for byte
     */
    public Reply receive(Function<String, String> headers, byte[] body) {
        underWay.incrementAndGet();
        try {
            return reply(headers, body);
        } finally {
            underWay.decrementAndGet();
        }
    }

    /** The topics that have a handler. */
    public Set<String> topics() {
        return handlers.keySet();
    }

    /** How many deliveries are being handled. */
    public int underWay() {
        return underWay.get();
    }

    private Reply reply(Function<String, String> headers, byte[] body) {
        Job job;
        try {
            job = secrets.isEmpty() ? Webhook.read(headers, body, mapper) : Webhook.verify(secrets, headers, body, mapper);
        } catch (LingerException refused) {
            LOG.log(Level.WARNING, "a delivery was refused: {0}", refused.getMessage());
            return Reply.of(refused.code() == Code.UNAUTHORIZED ? 401 : 400, Map.of("error", refused.getMessage()));
        }
        Handler handler = handlers.get(job.topic());
        if (handler == null) {
            return Reply.of(404, Map.of("error", "nobody handles the topic " + job.topic()));
        }
        Failure failure = Threads.outcome(handler, job);
        return failure == null ? new Reply(204, new byte[0]) : Reply.of(200, outcome(failure));
    }

    private static Map<String, Object> outcome(Failure failure) {
        Map<String, Object> outcome = new LinkedHashMap<>(failure.fields());
        boolean again = outcome.remove("again") != null;
        outcome.put("outcome", again ? "again" : "failed");
        return outcome;
    }

    /** What to answer to a delivery. */
    public static final class Reply {
        private final int status;
        private final byte[] body;

        private Reply(int status, byte[] body) {
            this.status = status;
            this.body = body;
        }

        private static Reply of(int status, Map<String, Object> json) {
            return new Reply(status, Json.write(json).getBytes(StandardCharsets.UTF_8));
        }

        /** The HTTP status. */
        public int status() {
            return status;
        }

        /** What stands in it, as {@code application/json}; empty with 204. */
        public byte[] body() {
            return body.clone();
        }
    }
}
