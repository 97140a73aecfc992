package io.linger;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/** A real server, at a port and with a store of its own. */
public final class TestServer implements AutoCloseable {
    private static final AtomicInteger TOPICS = new AtomicInteger();
    private static TestServer shared;

    private final Path folder;
    private final Map<String, String> environment;
    private final List<String> arguments;
    private Process process;
    private String url;

    private TestServer(Path folder, Map<String, String> environment, List<String> arguments) {
        this.folder = folder;
        this.environment = environment;
        this.arguments = arguments;
    }

    /** One for all tests that do nothing to it but call it. */
    public static synchronized TestServer shared() {
        if (shared == null) {
            shared = start();
            Runtime.getRuntime().addShutdownHook(new Thread(shared::close));
        }
        return shared;
    }

    /** One with a folder, and these arguments besides. */
    public static TestServer start(String... arguments) {
        return start(Map.of(), arguments);
    }

    public static TestServer start(Map<String, String> environment, String... arguments) {
        try {
            TestServer server = new TestServer(Files.createTempDirectory("linger-java"), environment, List.of(arguments));
            server.launch("127.0.0.1:" + freePort());
            return server;
        } catch (IOException cause) {
            throw new IllegalStateException(cause);
        }
    }

    public static String required(String variable) {
        String value = System.getenv(variable);
        if (value == null) {
            throw new IllegalStateException("set " + variable + ", as `clients/java/test` does");
        }
        return value;
    }

    /** The folder `clients` of the sources. */
    public static Path clients() {
        return Path.of(required("LINGER_CLIENTS"));
    }

    /** A topic that no other test has. */
    public static String freshTopic() {
        return "java." + ProcessHandle.current().pid() + "." + TOPICS.incrementAndGet();
    }

    /** A port where nobody listens, below those that the system gives out: it stays free while a server is away. */
    public static int freePort() {
        for (;;) {
            int port = ThreadLocalRandom.current().nextInt(15_000, 32_000);
            try (ServerSocket socket = new ServerSocket(port, 0, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                // Another one, then.
            } catch (IOException cause) {
                throw new IllegalStateException(cause);
            }
        }
    }

    public String url() {
        return url;
    }

    public int port() {
        return URI.create(url).getPort();
    }

    public Client client() {
        return Client.builder().servers(url).key(null).build();
    }

    /** A call that the client has no method for. */
    public Json call(String method, String path, String body) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                    .method(method, HttpRequest.BodyPublishers.ofString(body))
                    .build();
            String answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
            return Json.parse(answer);
        } catch (IOException | InterruptedException cause) {
            throw new IllegalStateException(cause);
        }
    }

    /** SIGTERM if it runs, and a start at the same port once it has ended. */
    public void restart() throws IOException {
        stop();
        launch("127.0.0.1:" + port());
    }

    public void stop() {
        process.destroy();
        awaitEnd();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        awaitEnd();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException cause) {
            throw new IllegalStateException(cause);
        }
    }

    private void awaitEnd() {
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the server does not end");
            }
        } catch (InterruptedException cause) {
            throw new IllegalStateException(cause);
        }
    }

    private void launch(String listen) throws IOException {
        List<String> command = new ArrayList<>(List.of(required("LINGER_BIN"), "serve", "--listen", listen));
        if (!arguments.contains("--store")) {
            command.addAll(List.of("--store", folder.resolve("store").toString()));
        }
        command.addAll(arguments);
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).directory(folder.toFile());
        // To a server they are settings, and it refuses those that it does not know.
        builder.environment().keySet().removeIf(name -> name.startsWith("LINGER_"));
        builder.environment().putAll(environment);
        process = builder.start();
        CompletableFuture<Void> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(process, ready), "server-output");
        reader.setDaemon(true);
        reader.start();
        try {
            ready.get(60, TimeUnit.SECONDS);
        } catch (Exception cause) {
            process.destroyForcibly();
            throw new IOException("the server does not get ready", cause);
        }
    }

    private void read(Process from, CompletableFuture<Void> ready) {
        StringBuilder all = new StringBuilder();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(from.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("linger listens on ")) {
                    url = line.substring("linger listens on ".length()).split(",")[0];
                }
                if (line.endsWith(" ready")) {
                    ready.complete(null);
                }
                if (!ready.isDone()) {
                    all.append(line).append('\n');
                }
            }
        } catch (IOException ended) {
            all.append(ended);
        }
        ready.completeExceptionally(new IllegalStateException("it ended:\n" + all));
    }
}
