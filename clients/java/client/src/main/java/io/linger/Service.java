package io.linger;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * An application that Linger calls: listens, registers its instance, and hands the jobs of {@code worker:APP} to the
 * handlers of their topics.
 */
public final class Service implements AutoCloseable {
    private static final int BODY_BYTES_MAX = 64 * 1024 * 1024;

    private final Receiver receiver;
    private final HttpServer server;
    private final ExecutorService pool;
    private final Registration registration;
    private final String url;
    private Thread hook;

    private Service(Builder builder) throws IOException {
        receiver = builder.receiver();
        server = HttpServer.create(builder.listen, 0);
        url = builder.url == null ? own(server.getAddress()) : builder.url;
        pool = Executors.newFixedThreadPool(builder.concurrency, Threads.daemons("linger-service"));
        String path = URI.create(url).getPath();
        server.createContext(path.isEmpty() ? "/" : path, this::serve);
        server.setExecutor(pool);
        server.start();
        try {
            registration = Registration.builder(builder.client, receiver)
                    .app(builder.app)
                    .url(url)
                    .lease(builder.lease)
                    .grace(builder.grace)
                    .start();
        } catch (RuntimeException refused) {
            stopServing();
            throw refused;
        }
        if (builder.onSignals) {
            hook = new Thread(this::close, "linger-stop");
            Runtime.getRuntime().addShutdownHook(hook);
        }
    }

    /** A service of this client's servers, with no handlers yet. */
    public static Builder builder(Client client) {
        return new Builder(client);
    }

    /** Where it is called. */
    public String url() {
        return url;
    }

    /** The name under which Linger knows this instance; null while it does not. */
    public String id() {
        return registration.id();
    }

    /** Takes no new jobs, lets calls under way end for the grace time, deregisters, and listens no more. */
    @Override
    public void close() {
        registration.close();
        stopServing();
        try {
            if (hook != null) {
                Runtime.getRuntime().removeShutdownHook(hook);
            }
        } catch (IllegalStateException alreadyShuttingDown) {
            // The hook is what runs this.
        }
    }

    private void stopServing() {
        server.stop(0);
        pool.shutdownNow();
    }

    private void serve(HttpExchange exchange) throws IOException {
        try {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
            if (!exchange.getRequestMethod().equals("POST") || body.length > BODY_BYTES_MAX) {
                exchange.sendResponseHeaders(body.length > BODY_BYTES_MAX ? 413 : 405, -1);
                return;
            }
            Receiver.Reply reply = receiver.receive(exchange.getRequestHeaders()::getFirst, body);
            byte[] answer = reply.body();
            exchange.getResponseHeaders().set("content-type", "application/json");
            exchange.sendResponseHeaders(reply.status(), answer.length == 0 ? -1 : answer.length);
            if (answer.length > 0) {
                exchange.getResponseBody().write(answer);
            }
        } finally {
            exchange.close();
        }
    }

    private static String own(InetSocketAddress listens) {
        String host = listens.getAddress().getHostAddress();
        return "http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + listens.getPort() + "/";
    }

    /** How a service is made. */
    public static final class Builder {
        private final Client client;
        private final Map<String, Handler> handlers = new LinkedHashMap<>();
        private final List<String> secrets = new ArrayList<>();
        private String app;
        private String url;
        private InetSocketAddress listen = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        private int concurrency = 32;
        private Duration lease = Duration.ofSeconds(30);
        private Duration grace = Duration.ofSeconds(30);
        private boolean onSignals;
        private boolean unsigned;

        private Builder(Client client) {
            this.client = client;
        }

        /** The application's name: jobs with the target {@code worker:NAME} come here. */
        public Builder app(String name) {
            this.app = name;
            return this;
        }

        /** Where it listens; unless set on loopback, at a port that is free. */
        public Builder listen(InetSocketAddress address) {
            this.listen = address;
            return this;
        }

        /** Where Linger reaches it; unless set at the address where it listens. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** What is done with the jobs of a topic. */
        public Builder handle(String topic, Handler handler) {
            handlers.put(topic, handler);
            return this;
        }

        /** Which secrets sign calls, as {@link Webhook#verify} takes them; without any, {@link #unsigned} has to be said. */
        public Builder secrets(String... secrets) {
            this.secrets.addAll(List.of(secrets));
            return this;
        }

        /** Without secrets, takes calls from whoever reaches it: for a network without strangers. */
        public Builder unsigned() {
            unsigned = true;
            return this;
        }

        /** How many jobs at once: 32 unless set, which is what Linger has under way to one application and topic. */
        public Builder concurrency(int concurrency) {
            this.concurrency = concurrency;
            return this;
        }

        /** How long the instance is known without a heartbeat: 30 s unless set. */
        public Builder lease(Duration lease) {
            this.lease = lease;
            return this;
        }

        /** How long {@link Service#close} lets calls end: 30 s unless set. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Closes the service on SIGTERM and SIGINT, as part of the shutdown of Java. */
        public Builder stopOnSignals() {
            onSignals = true;
            return this;
        }

        private Receiver receiver() {
            return unsigned && secrets.isEmpty()
                    ? Receiver.unsigned(handlers, client.mapper())
                    : new Receiver(handlers, secrets, client.mapper());
        }

        /** Listens and registers; the program goes on until the service is closed. */
        public Service start() {
            if (app == null || handlers.isEmpty()) {
                throw new IllegalArgumentException("a service needs the name of its application, and a handler");
            }
            try {
                return new Service(this);
            } catch (IOException cause) {
                throw new UncheckedIOException("cannot listen on " + listen, cause);
            }
        }
    }
}
