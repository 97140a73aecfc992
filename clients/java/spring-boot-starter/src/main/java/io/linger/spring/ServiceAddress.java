package io.linger.spring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.URI;
import org.springframework.core.env.Environment;
import org.springframework.util.StringUtils;

/** The name of the application, and where it is called. */
final class ServiceAddress {
    private final Environment environment;
    private final LingerProperties properties;
    private final String server;

    ServiceAddress(Environment environment, LingerProperties properties, String server) {
        this.environment = environment;
        this.properties = properties;
        this.server = server;
    }

    static String app(Environment environment) {
        String name = environment.getProperty("spring.application.name");
        if (!StringUtils.hasText(name)) {
            throw new IllegalStateException("linger.mode=service needs a name for the application: set spring.application.name");
        }
        return name;
    }

    /** The path behind the host, with whatever the server puts before it. */
    static String path(Environment environment) {
        return prefix(environment, "server.servlet.context-path") + prefix(environment, "spring.mvc.servlet.path")
                + environment.getProperty("linger.path", "/linger");
    }

    String app() {
        return app(environment);
    }

    String url() {
        if (StringUtils.hasText(properties.url())) {
            return properties.url();
        }
        boolean tls = environment.getProperty("server.ssl.enabled", Boolean.class, true)
                && (environment.containsProperty("server.ssl.key-store") || environment.containsProperty("server.ssl.certificate")
                        || environment.containsProperty("server.ssl.bundle"));
        String host = environment.getProperty("server.address", "");
        host = host.isEmpty() || host.equals("0.0.0.0") || host.equals("::") ? towards(URI.create(server)) : host;
        return (tls ? "https://" : "http://") + (host.contains(":") ? "[" + host + "]" : host)
                + ":" + environment.getRequiredProperty("local.server.port") + path(environment);
    }

    private static String prefix(Environment environment, String property) {
        String prefix = environment.getProperty(property, "");
        return prefix.endsWith("/") ? prefix.substring(0, prefix.length() - 1) : prefix;
    }

    /** This machine's address on the way to Linger; nothing is sent to find it out. */
    private static String towards(URI server) {
        int port = server.getPort() > 0 ? server.getPort() : 80;
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(server.getHost(), port));
            return socket.getLocalAddress().getHostAddress();
        } catch (IOException cause) {
            throw new UncheckedIOException("there is no way to " + server + "; set linger.url", cause);
        }
    }
}
