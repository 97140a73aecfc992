package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class ServiceTest {
    private static final String BODY = "{\"order\": 1.0}";
    private static final Retry LATE = Retry.attempts(3).backoff(Duration.ofHours(1), Duration.ofHours(1));

    private final TestServer server = TestServer.shared();
    private final Client client = server.client();
    private final Queue<Job> called = new ConcurrentLinkedQueue<>();
    private String topic;
    private String app;

    @BeforeEach
    void fresh() {
        topic = TestServer.freshTopic();
        app = "app-" + topic;
    }

    @Test
    void a_push_is_verified_and_handed_over() throws Exception {
        String secret = server.call("POST", "/v1/secrets", Json.write(Map.of("topic", topic))).get("secret").text();
        try (Service service = service().secrets("whsec_" + "AAAA".repeat(8), secret).handle(topic, called::add).start()) {
            client.configure(topic, Settings.of().target(service.url()).retry(LATE));
            client.add(NewJob.of(topic).id("a/ü 1").bodyJson(BODY));
            Await.until("it is finished", () -> client.jobs(topic).items().isEmpty());
            Job job = called.remove();
            assertEquals(List.of(topic, "a/ü 1", BODY), List.of(job.topic(), job.id(), job.body().json().raw()));
            assertEquals(1, job.attempt());
            assertTrue(job.lease().isPresent() && job.webhookId().isPresent());
        }
    }

    @Test
    void a_push_by_ed25519_is_verified_too() throws Exception {
        String key = server.call("POST", "/v1/secrets", "{\"topic\":\"" + topic + "\",\"kind\":\"ed25519\"}").get("public_key").text();
        try (Service service = service().secrets(key).handle(topic, called::add).start()) {
            client.configure(topic, Settings.of().target(service.url()).retry(LATE));
            client.add(NewJob.of(topic).id("1").body("text"));
            Await.until("it is finished", () -> client.jobs(topic).items().isEmpty());
            assertEquals("text", called.remove().body().text());
        }
    }

    @Test
    void what_nobody_has_signed_is_not_handed_over() throws Exception {
        try (Service service = service().secrets("whsec_" + "AAAA".repeat(8)).handle(topic, called::add).start()) {
            client.configure(topic, Settings.of().target(service.url()).retry(LATE));
            client.add(NewJob.of(topic).id("1"));
            Await.until("it was refused", () -> client.get(topic, "1").state().equals("retry"));
            assertTrue(lastError("1").contains("401"));
            assertTrue(called.isEmpty());
        }
    }

    @Test
    void without_secrets_nobody_is_let_in_unless_that_was_said() {
        Map<String, Handler> handlers = Map.of(topic, called::add);
        assertThrows(IllegalArgumentException.class, () -> service().handle(topic, called::add).start());
        assertThrows(IllegalArgumentException.class, () -> new Receiver(handlers, List.of(), null));
        for (String none : List.of("", "whsec_", "whsec_AAA", "whsec_AAB=", "whsec_AAAA\n", "whpk_AAAA")) {
            assertThrows(IllegalArgumentException.class, () -> new Receiver(handlers, List.of(none), null), none);
        }
        assertEquals(400, Receiver.unsigned(handlers, null).receive(name -> null, new byte[0]).status());
    }

    @Test
    void outcomes_are_told_and_the_job_is_at_fault_and_not_the_service() throws Exception {
        Handler handler = job -> {
            switch (job.id()) {
                case "throws":
                    throw new IllegalStateException("the bank is closed");
                case "long":
                    throw new IllegalStateException("x".repeat(200_000));
                case "retry":
                    throw new RetryIn(Duration.ofHours(5), "later");
                case "again":
                    throw new Again(Duration.ofHours(5));
                default:
                    throw new Again();
            }
        };
        try (Service service = service().unsigned().handle(topic, handler).start()) {
            for (String id : List.of("throws", "long", "retry", "again", "soon")) {
                client.add(NewJob.of(topic).id(id).target("worker:" + app).retry(LATE));
                Await.until(id + " was tried", () -> client.get(topic, id).state().equals("retry"));
            }
            assertTrue(lastError("throws").endsWith(": the bank is closed"), lastError("throws"));
            assertTrue(lastError("long").endsWith("xxx"), lastError("long"));
            assertTrue(lastError("retry").endsWith(": later"), lastError("retry"));
            assertTrue(client.get(topic, "again").lastError().isEmpty());
            for (String id : List.of("retry", "again")) {
                assertTrue(client.get(topic, id).due().isAfter(Instant.now().plus(Duration.ofHours(4))));
            }
            assertEquals("0", worker(service.id()).get("failures").raw());
        }
    }

    @Test
    void a_topic_without_a_handler_is_404_and_a_get_405() throws Exception {
        try (Service service = service().unsigned().handle(topic, called::add).start()) {
            String other = TestServer.freshTopic();
            client.add(NewJob.of(other).id("1").target(service.url()).retry(LATE));
            Await.until("it was refused", () -> client.get(other, "1").state().equals("retry"));
            assertTrue(client.get(other, "1").lastError().orElseThrow().contains("404"));
            HttpRequest get = HttpRequest.newBuilder(URI.create(service.url())).build();
            assertEquals(405, HttpClient.newHttpClient().send(get, HttpResponse.BodyHandlers.discarding()).statusCode());
        }
    }

    @Test
    void jobs_of_the_application_come_to_it() throws Exception {
        try (Service service = service().unsigned().handle(topic, called::add).start()) {
            client.add(NewJob.of(topic).id("1").target("worker:" + app).bodyJson(BODY));
            Await.until("it was called", () -> called.size() == 1);
            Json worker = worker(service.id());
            assertEquals(app, worker.get("app").text());
            assertEquals(topic, worker.get("topics").items().get(0).text());
        }
    }

    @Test
    void heartbeats_keep_it_known() throws Exception {
        try (Service service = service().unsigned().lease(Duration.ofSeconds(1)).handle(topic, called::add).start()) {
            String id = service.id();
            Instant first = expires(id);
            // Two leases later it would be forgotten three times over.
            Await.until("it was renewed", () -> expires(id).isAfter(first.plusSeconds(2)));
            assertEquals(id, service.id());
        }
    }

    @Test
    void what_was_forgotten_registers_again() throws Exception {
        try (Service service = service().unsigned().lease(Duration.ofSeconds(1)).handle(topic, called::add).start()) {
            String first = service.id();
            server.call("DELETE", "/v1/workers/" + first, "");
            Await.until("it has another id", () -> service.id() != null && !service.id().equals(first));
            client.add(NewJob.of(topic).target("worker:" + app));
            Await.until("it is called again", () -> called.size() == 1);
        }
    }

    @Test
    void stop_drains_lets_calls_end_and_deregisters() throws Exception {
        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        Service service = service().unsigned().handle(topic, job -> {
            started.countDown();
            goOn.await();
        }).start();
        String id = service.id();
        client.add(NewJob.of(topic).id("1").target("worker:" + app));
        assertTrue(started.await(30, TimeUnit.SECONDS));
        Thread closer = new Thread(service::close);
        closer.start();
        Await.until("it drains", () -> worker(id).get("state").text().equals("draining"));
        client.add(NewJob.of(topic).id("2").target("worker:" + app));
        goOn.countDown();
        closer.join();
        assertNotNull(worker(id).get("error"), "it is deregistered");
        assertEquals(Code.NOT_FOUND, assertThrows(LingerException.class, () -> client.get(topic, "1")).code());
        assertEquals("ready", client.get(topic, "2").state(), "what came later waits for the next instance");
        assertEquals(0, client.get(topic, "2").attempt());
    }

    @Test
    void a_service_may_be_there_before_its_server() throws Exception {
        try (TestServer late = TestServer.start()) {
            late.stop();
            try (Service service = Service.builder(late.client()).app(app).unsigned().handle(topic, called::add).start()) {
                assertNull(service.id());
                late.restart();
                Await.until("it is registered", () -> service.id() != null);
            }
        }
    }

    @Test
    void what_the_server_refuses_is_told_at_once() {
        LingerException error = assertThrows(LingerException.class,
                () -> Service.builder(client).app("not a name").unsigned().handle(topic, called::add).start());
        assertEquals(Code.INVALID, error.code());
        assertEquals("app", error.field().orElseThrow());
    }

    private String lastError(String id) {
        return client.get(topic, id).lastError().orElseThrow();
    }

    private Service.Builder service() {
        return Service.builder(client).app(app);
    }

    private Json worker(String id) {
        return server.call("GET", "/v1/workers/" + id, "");
    }

    private Instant expires(String id) {
        return Instant.parse(worker(id).get("expires").text());
    }
}
