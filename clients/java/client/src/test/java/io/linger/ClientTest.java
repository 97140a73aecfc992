package io.linger;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ClientTest {
    @Test
    void an_address_that_is_none_is_refused() {
        for (String none : List.of("127.0.0.1:7300", "localhost:7300", "ftp://127.0.0.1", "http://", "http:///v1", "http://a b")) {
            assertThrows(IllegalArgumentException.class, () -> Client.of(none), none);
        }
    }

    @Test
    void names_that_look_like_steps_in_a_path_are_encoded() {
        assertEquals(List.of("%2E", "%2E%2E", "a.b"), List.of(Client.encoded("."), Client.encoded(".."), Client.encoded("a.b")));
        Client client = TestServer.shared().client();
        client.add(NewJob.of("..").id("."));
        assertEquals(".", client.get("..", ".").id());
        client.delete("..", ".");
    }

    private final Client client = TestServer.shared().client();
    private String topic;

    @BeforeEach
    void fresh() {
        topic = TestServer.freshTopic();
    }

    @Test
    void a_job_is_told_in_the_types_of_the_language() {
        Instant due = Instant.parse("2999-01-01T00:00:00.123Z");
        client.add(NewJob.of(topic).id("1").at(due).ttr(Duration.ofSeconds(90)).priority(7).body(Map.of("order", 1)));
        Job job = client.get(topic, "1");
        assertEquals(List.of(topic, "1", "delayed"), List.of(job.topic(), job.id(), job.state()));
        assertEquals(due, job.due());
        assertEquals(Duration.ofSeconds(90), job.ttr().orElseThrow());
        assertEquals(7, job.priority().orElseThrow());
        assertEquals(0, job.attempt());
        assertEquals(1, job.version());
        assertTrue(job.lease().isEmpty() && job.reservedUntil().isEmpty() && job.lastError().isEmpty());
        assertTrue(job.created().orElseThrow().isBefore(Instant.now().plusSeconds(60)));
        assertEquals("added", client.history(topic, "1").get(0).what());
        Changed changed = client.update(topic, "1", Changes.of().at(due.plusSeconds(1)));
        assertEquals(due.plusSeconds(1), changed.due().orElseThrow());
        assertEquals(2, changed.version().orElseThrow());
        assertTrue(client.delete(topic, "1").gone());
    }

    @Test
    void a_body_comes_back_byte_for_byte() {
        String json = "{ \"price\" : 1.10, \"a\":1e2, \"big\": 12345678901234567890123 }";
        client.add(NewJob.of(topic).id("json").bodyJson(json));
        assertEquals(json, client.get(topic, "json").body().json().raw());
        byte[] bytes = {0, -1, -2};
        client.add(NewJob.of(topic).id("bytes").body(bytes));
        Body body = client.get(topic, "bytes").body();
        assertTrue(body.isBytes());
        assertArrayEquals(bytes, body.as(byte[].class));
        assertThrows(IllegalStateException.class, body::json);
        client.add(NewJob.of(topic).id("text").body("hello \"you\""));
        assertEquals("hello \"you\"", client.get(topic, "text").body().as(String.class));
        assertNull(client.jobs(topic).items().get(0).body());
        assertThrows(IllegalArgumentException.class, () -> NewJob.of(topic).bodyJson("1,\"target\":\"http://evil\""));
    }

    @Test
    void a_body_deeper_than_any_stack_does_no_harm() {
        String deep = "[".repeat(50_000) + "]".repeat(50_000);
        client.add(NewJob.of(topic).id("1").bodyJson(deep));
        assertEquals(deep, client.pop(Pop.from(topic).wait("5s")).get(0).body().json().raw());
    }

    @Test
    void a_mapper_writes_and_reads_objects() {
        Mapper mapper = Mapper.of(value -> "{\"day\":\"" + value + "\"}", ClientTest::day);
        Client mapping = Client.builder().servers(TestServer.shared().url()).mapper(mapper).build();
        mapping.add(NewJob.of(topic).id("1").body(LocalDate.of(2026, 12, 1)));
        Body body = mapping.get(topic, "1").body();
        assertEquals("{\"day\":\"2026-12-01\"}", body.json().raw());
        assertEquals(LocalDate.of(2026, 12, 1), body.as(LocalDate.class));
        assertThrows(IllegalArgumentException.class, () -> client.add(NewJob.of(topic).body(LocalDate.EPOCH)));
    }

    private static <T> T day(String json, Class<T> type) {
        return type.cast(LocalDate.parse(Json.parse(json).get("day").text()));
    }

    @Test
    void to_go_through_a_page_is_to_go_through_all() {
        client.addMany(IntStream.range(0, 25).mapToObj(n -> NewJob.of(topic).id("" + n).delay("1h")).collect(Collectors.toList()));
        Page<Job> first = client.jobs(topic, Filter.all().limit(10));
        assertEquals(10, first.items().size());
        List<String> ids = new ArrayList<>();
        first.forEach(job -> ids.add(job.id()));
        assertEquals(25, ids.stream().distinct().count());
        assertEquals(5, first.next().orElseThrow().next().orElseThrow().items().size());
        assertEquals(11, client.jobs(topic, Filter.all().idPrefix("1").limit(2)).stream().count());
        assertEquals(topic, client.topics(topic).items().get(0).name());
        assertEquals(25, client.topic(topic).count("delayed"));
    }

    @Test
    void names_in_a_query_are_encoded() {
        client.add(NewJob.of(topic).id("a&b=c #ü").delay("1h"));
        assertEquals(1, client.jobs(topic, Filter.all().idPrefix("a&b=c #")).items().size());
    }

    @Test
    void one_of_many_that_is_refused_says_why() {
        List<Added> added = client.addMany(List.of(NewJob.of(topic).id("1"), NewJob.of(topic).id("1")));
        assertTrue(added.get(0).error().isEmpty());
        LingerException error = assertThrows(LingerException.class, () -> added.get(1).job());
        assertEquals(Code.ALREADY_EXISTS, error.code());
        assertEquals("id", error.field().orElseThrow());
    }

    @Test
    void a_server_that_does_not_answer_in_time_is_unavailable() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
            Client hasty = Client.builder().servers("http://127.0.0.1:" + silent.getLocalPort())
                    .timeout(Duration.ofMillis(200)).build();
            LingerException error = assertThrows(LingerException.class, () -> hasty.run("a", "1"));
            assertEquals(Code.UNAVAILABLE, error.code());
            assertTrue(error.status().isEmpty());
        }
    }

    @Test
    void a_body_that_never_ends_is_unavailable_too() throws Exception {
        try (ServerSocket slow = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
            Thread server = new Thread(() -> answerHalf(slow));
            server.setDaemon(true);
            server.start();
            Client hasty = Client.builder().servers("http://127.0.0.1:" + slow.getLocalPort())
                    .timeout(Duration.ofMillis(300)).build();
            assertEquals(Code.UNAVAILABLE, assertThrows(LingerException.class, () -> hasty.run("a", "1")).code());
        }
    }

    private static void answerHalf(ServerSocket listener) {
        try (Socket socket = listener.accept()) {
            socket.getOutputStream().write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".getBytes());
            socket.getInputStream().readAllBytes();
        } catch (IOException closed) {
            // The client has hung up.
        }
    }

    @Test
    void a_wait_is_added_to_the_time_an_answer_may_take() {
        Client hasty = Client.builder().servers(TestServer.shared().url()).timeout(Duration.ofMillis(800)).build();
        assertEquals(List.of(), hasty.pop(Pop.from(topic).wait(Duration.ofSeconds(1))));
    }

    @Test
    void a_caller_who_is_interrupted_hangs_up_and_leases_nothing() throws Exception {
        Thread caller = new Thread(() -> assertThrows(LingerException.class, () -> client.pop(Pop.from(topic).wait("10m"))));
        caller.start();
        Await.until("the pop waits", () -> waiting() == 1);
        caller.interrupt();
        caller.join();
        Await.until("the pop was hung up", () -> waiting() == 0);
    }

    private int waiting() {
        try {
            return client.topic(topic).json().get("waiting").number().intValue();
        } catch (LingerException none) {
            return 0;
        }
    }

    @Test
    void a_server_with_keys_asks_for_one() {
        String key = "lk_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789abcdef";
        try (TestServer server = TestServer.start(Map.of("LINGER_BOOTSTRAP_KEY", key))) {
            LingerException error = assertThrows(LingerException.class, () -> server.client().topics());
            assertEquals(Code.UNAUTHORIZED, error.code());
            assertEquals(401, error.status().orElseThrow());
            Client keyed = Client.builder().servers(server.url()).key(key).build();
            assertEquals("1", keyed.add(NewJob.of(topic).id("1")).id());
        }
    }

    @Test
    void an_authority_of_ones_own_is_trusted_if_it_is_named(@TempDir Path folder) throws Exception {
        openssl(folder, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem");
        openssl(folder, "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout key.pem -out request.pem");
        Files.writeString(folder.resolve("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        openssl(folder, "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem");
        Map<String, String> tls = Map.of("LINGER_TLS_CERT", folder.resolve("cert.pem").toString(),
                "LINGER_TLS_KEY", folder.resolve("key.pem").toString());
        try (TestServer server = TestServer.start(tls)) {
            assertTrue(server.url().startsWith("https://"));
            Client trusting = Client.builder().servers(server.url()).ca(folder.resolve("ca.pem")).build();
            assertEquals("1", trusting.add(NewJob.of(topic).id("1")).id());
            LingerException error = assertThrows(LingerException.class, () -> server.client().topics());
            assertEquals(Code.UNAVAILABLE, error.code());
        }
        assertThrows(IllegalArgumentException.class, () -> Client.builder().ca(folder.resolve("names")));
    }

    private static void openssl(Path folder, String arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of("openssl"));
        command.addAll(List.of(arguments.split(" ")));
        Process openssl = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
        String output = new String(openssl.getInputStream().readAllBytes());
        assertEquals(0, openssl.waitFor(), output);
    }

    @Test
    void a_lease_is_measured_by_the_servers_clock_if_the_clocks_differ() {
        Instant there = Instant.now().plusSeconds(3600).truncatedTo(ChronoUnit.SECONDS);
        String date = DateTimeFormatter.RFC_1123_DATE_TIME.format(there.atZone(ZoneOffset.UTC));
        assertEquals(there, Lease.serverTime(date));
        assertFalse(Lease.serverTime("no date").isAfter(Instant.now()));
    }

    @Test
    void an_answer_that_is_not_lingers_is_told_as_such() throws IOException {
        try (Stub page = Stub.answering(200, "<html>")) {
            assertEquals(Code.UNKNOWN, assertThrows(LingerException.class, () -> Client.of(page.url()).topic("a")).code());
        }
        try (Stub newer = Stub.refusing(418, "teapot")) {
            LingerException error = assertThrows(LingerException.class, () -> Client.of(newer.url()).topic("a"));
            assertEquals(Code.UNKNOWN, error.code());
            assertEquals("said the stub", error.getMessage());
        }
    }
}
