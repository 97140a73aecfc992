package io.linger.spring;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings of the starter.
 *
 * @param servers addresses of Linger's servers; those in LINGER_SERVER unless set
 * @param key the API key; the one in LINGER_KEY unless set
 * @param ca a file in PEM with authorities to trust besides those of the system
 * @param connectTimeout how long it may take until a connection stands
 * @param timeout how long an answer may take
 * @param mode whether handlers get jobs by popping them, or by being called
 * @param concurrency in worker mode: how many jobs at once
 * @param ttr in worker mode: how long a lease lasts between two touches; the jobs' own unless set
 * @param grace how long handlers may work on when the application stops
 * @param secret in service mode: what signs calls; several while they are rotated
 * @param unsigned in service mode: without secrets, takes calls from whoever reaches the application
 * @param path in service mode: where the application is called
 * @param url in service mode: the whole URL where it is called, if it is not reached at its own address
 * @param lease in service mode: how long the instance is known without a heartbeat
 * @param registry in service mode: who tells Linger of the instance
 */
@ConfigurationProperties("linger")
public record LingerProperties(
        @DefaultValue List<String> servers,
        String key,
        Path ca,
        @DefaultValue("5s") Duration connectTimeout,
        @DefaultValue("10s") Duration timeout,
        @DefaultValue("worker") Mode mode,
        @DefaultValue("8") int concurrency,
        Duration ttr,
        @DefaultValue("30s") Duration grace,
        @DefaultValue List<String> secret,
        @DefaultValue("false") boolean unsigned,
        @DefaultValue("/linger") String path,
        String url,
        @DefaultValue("30s") Duration lease,
        @DefaultValue("linger") Registry registry) {

    /** How handlers get their jobs. */
    public enum Mode {
        /** They are popped. */
        WORKER,
        /** Linger calls the application for jobs with its name as their target. */
        SERVICE
    }

    /** Who tells Linger of an instance. */
    public enum Registry {
        /** The application registers with Linger. */
        LINGER,
        /** The application is in Eureka, where Linger finds it. */
        EUREKA
    }
}
