package io.linger.spring;

import io.linger.Client;
import io.linger.Handler;
import io.linger.Worker;
import java.util.Map;
import java.util.function.Supplier;
import org.springframework.context.SmartLifecycle;

/** Works from when the application is up until it stops: it starts last, and stops first. */
final class WorkerLifecycle implements SmartLifecycle {
    private final Client client;
    private final LingerProperties properties;
    private final Supplier<Map<String, Handler>> handlers;
    private Worker worker;

    WorkerLifecycle(Client client, LingerProperties properties, Supplier<Map<String, Handler>> handlers) {
        this.client = client;
        this.properties = properties;
        this.handlers = handlers;
    }

    @Override
    public synchronized void start() {
        Map<String, Handler> all = handlers.get();
        if (all.isEmpty()) {
            return;
        }
        Worker.Builder builder = Worker.builder(client)
                .concurrency(properties.concurrency())
                .ttr(properties.ttr())
                .grace(properties.grace());
        all.forEach(builder::handle);
        worker = builder.start();
    }

    @Override
    public synchronized void stop() {
        if (worker != null) {
            worker.close();
            worker = null;
        }
    }

    @Override
    public synchronized boolean isRunning() {
        return worker != null;
    }
}
