package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class FailoverTest {
    @Test
    void the_server_that_answered_is_kept() throws IOException {
        String topic = TestServer.freshTopic();
        try (Stub away = Stub.refusing(503, "unavailable")) {
            Client client = Client.of(away.url(), TestServer.shared().url());
            String id = client.add(NewJob.of(topic)).id();
            client.get(topic, id);
            client.delete(topic, id);
            assertEquals(1, away.requests());
        }
    }

    @Test
    void every_server_is_asked_at_most_once_a_call() throws IOException {
        try (Stub first = Stub.refusing(503, "unavailable");
                Stub second = Stub.refusing(503, "unavailable");
                Stub third = Stub.refusing(503, "unavailable")) {
            Client client = Client.of(first.url() + "," + second.url(), third.url());
            LingerException error = assertThrows(LingerException.class, () -> client.topic("a"));
            assertEquals(Code.UNAVAILABLE, error.code());
            assertEquals(3, first.requests() + second.requests() + third.requests());
            assertEquals(1, second.requests());
        }
    }

    @Test
    void a_worker_waits_for_a_server_that_is_away() throws Exception {
        String topic = TestServer.freshTopic();
        Set<String> done = ConcurrentHashMap.newKeySet();
        try (TestServer server = TestServer.start()) {
            server.client().add(NewJob.of(topic).id("1").ttr("10m"));
            try (Worker worker = Worker.builder(server.client()).handle(topic, job -> {
                // Its server is away when the job is done, and hears of it when it is back.
                if (done.isEmpty()) {
                    server.stop();
                }
                done.add(job.id());
            }).start()) {
                Await.until("it is done", () -> done.contains("1"));
                server.restart();
                Await.until("the server knows", () -> server.client().jobs(topic).items().isEmpty());
                server.client().add(NewJob.of(topic).id("2"));
                Await.until("the next is done", () -> done.contains("2"));
            }
        }
    }

    @Test
    void a_worker_keeps_consuming_through_a_rolling_restart_of_two_servers_on_one_redis(@TempDir Path folder) throws Exception {
        int port = TestServer.freePort();
        Process redis = new ProcessBuilder("redis-server", "--port", "" + port, "--save", "", "--appendonly", "no")
                .directory(folder.toFile()).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        try {
            Await.until("Redis listens", () -> isOpen(port));
            String store = "redis://127.0.0.1:" + port;
            try (TestServer first = TestServer.start("--store", store); TestServer second = TestServer.start("--store", store)) {
                roll(first, second);
            }
        } finally {
            redis.destroyForcibly().waitFor();
        }
    }

    private static void roll(TestServer first, TestServer second) throws Exception {
        String topic = TestServer.freshTopic();
        Client client = Client.of(first.url(), second.url());
        Set<String> added = ConcurrentHashMap.newKeySet();
        Set<String> done = ConcurrentHashMap.newKeySet();
        Thread producer = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted() && added.size() < 5_000) {
                try {
                    added.add(client.add(NewJob.of(topic)).id());
                    Thread.sleep(2);
                } catch (LingerException | InterruptedException stop) {
                    if (stop instanceof InterruptedException) {
                        return;
                    }
                }
            }
        });
        try (Worker worker = Worker.builder(client).handle(topic, job -> done.add(job.id()))
                .ttr(Duration.ofSeconds(3)).start()) {
            producer.start();
            for (TestServer server : new TestServer[] {first, second}) {
                goesOn(done);
                server.stop();
                goesOn(done);
                server.restart();
                goesOn(done);
            }
            producer.interrupt();
            producer.join();
            Await.until("all that were added are done", () -> done.containsAll(added));
            Await.until("the topic is empty", () -> client.jobs(topic).items().isEmpty());
        }
    }

    private static void goesOn(Set<String> done) throws Exception {
        int before = done.size();
        Await.until("more are done", () -> done.size() >= before + 20);
    }

    private static boolean isOpen(int port) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException notYet) {
            return false;
        }
    }
}
