package io.linger.spring;

import io.linger.Client;
import io.linger.Receiver;
import io.linger.Registration;
import java.util.function.Supplier;
import org.springframework.context.SmartLifecycle;

/** Makes the application known to Linger from when it is up until it stops: it starts last, and stops first. */
final class ServiceLifecycle implements SmartLifecycle {
    private final Client client;
    private final LingerProperties properties;
    private final ServiceAddress address;
    private final Supplier<Receiver> receiver;
    private Registration registration;

    ServiceLifecycle(Client client, LingerProperties properties, ServiceAddress address, Supplier<Receiver> receiver) {
        this.client = client;
        this.properties = properties;
        this.address = address;
        this.receiver = receiver;
    }

    @Override
    public synchronized void start() {
        registration = Registration.builder(client, receiver.get())
                .app(address.app())
                .url(address.url())
                .lease(properties.lease())
                .grace(properties.grace())
                .start();
    }

    @Override
    public synchronized void stop() {
        if (registration != null) {
            registration.close();
            registration = null;
        }
    }

    @Override
    public synchronized boolean isRunning() {
        return registration != null;
    }
}
