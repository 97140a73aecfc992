package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.linger.Await;
import io.linger.Client;
import io.linger.Code;
import io.linger.Job;
import io.linger.Json;
import io.linger.LingerException;
import io.linger.NewJob;
import io.linger.Retry;
import io.linger.TestServer;
import io.linger.spring.LingerHandler;
import io.linger.spring.LingerTemplate;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

@Timeout(120)
class StarterTest {
    private static final Retry LATE = Retry.attempts(3).backoff(Duration.ofHours(1), Duration.ofHours(1));

    private final TestServer server = TestServer.shared();
    private final Client client = server.client();
    private String topic;

    @BeforeEach
    void fresh() {
        topic = TestServer.freshTopic();
    }

    @Test
    void in_worker_mode_bean_methods_get_what_they_ask_for() throws Exception {
        try (ConfigurableApplicationContext context = worker()) {
            LingerTemplate linger = context.getBean(LingerTemplate.class);
            linger.addOwn(topic + ".object", new Shop.Order(1, "é"), Duration.ZERO);
            linger.addOwn(NewJob.of(topic + ".job").id("7").bodyJson("{\"a\": 1.0}"));
            linger.addOwn(topic + ".text", "words", Duration.ofMillis(1));
            linger.addOwn(topic + ".more", "more", Duration.ZERO);
            linger.addOwn(topic + ".number", 42, Duration.ZERO);
            linger.client().add(NewJob.of(topic + ".nothing"));
            Shop shop = context.getBean(Shop.class);
            Await.until("all are handled", () -> shop.handled.size() == 6);
            assertEquals(Set.of("1 é", "7 {\"a\": 1.0}", "words", "more", "number 42", "nothing"), Set.copyOf(shop.handled));
        }
    }

    @Test
    void what_a_bean_method_throws_is_the_outcome() throws Exception {
        try (ConfigurableApplicationContext context = worker()) {
            assertEquals("the bank is closed", thrown("exception").lastError().orElseThrow());
            Job retried = thrown("retry");
            assertEquals("later", retried.lastError().orElseThrow());
            assertTrue(retried.due().isAfter(Instant.now().plus(Duration.ofHours(4))));
            assertTrue(thrown("again").lastError().isEmpty());
        }
    }

    private Job thrown(String how) throws Exception {
        String throwing = topic + ".throws";
        client.add(NewJob.of(throwing).id(how).body(how).retry(LATE));
        Await.until("it was tried", () -> client.get(throwing, how).state().equals("retry"));
        return client.get(throwing, how);
    }

    @Test
    void an_application_that_stops_lets_its_handlers_end() throws Exception {
        ConfigurableApplicationContext context = worker();
        Shop shop = context.getBean(Shop.class);
        client.add(NewJob.of(topic + ".slow").id("1"));
        assertTrue(shop.started.await(30, TimeUnit.SECONDS));
        Thread closer = new Thread(context::close);
        closer.start();
        Await.until("it waits", () -> closer.getState() == Thread.State.TIMED_WAITING || closer.getState() == Thread.State.WAITING);
        shop.goOn.countDown();
        closer.join();
        assertEquals(List.of("slow"), List.copyOf(shop.handled));
        assertEquals(Code.NOT_FOUND, assertThrows(LingerException.class, () -> client.get(topic + ".slow", "1")).code());
    }

    @Test
    void in_service_mode_it_registers_is_called_and_leaves() throws Exception {
        String secret = server.call("POST", "/v1/secrets", "{\"topic\":\"" + topic + ".object\"}").get("secret").text();
        String app = "shop-" + topic;
        try (ConfigurableApplicationContext context = Shop.start(WebApplicationType.SERVLET, "linger.mode=service",
                "linger.servers=" + server.url(), "linger.secret=whsec_AAAAAAAAAAAAAAAA," + secret, "linger.path=/hooks/linger",
                "server.servlet.context-path=/base", "spring.application.name=" + app, "shop.topic=" + topic)) {
            Shop shop = context.getBean(Shop.class);
            Job job = context.getBean(LingerTemplate.class).addOwn(topic + ".object", Map.of("order", 5, "name", "x"), Duration.ZERO);
            assertEquals("worker:" + app, client.get(topic + ".object", job.id()).json().get("target").text());
            Await.until("it is handled", () -> shop.handled.contains("5 x"));

            context.getBean(LingerTemplate.class).addOwn(NewJob.of(topic + ".text").id("unsigned").body("words").retry(LATE));
            Await.until("it was refused", () -> client.get(topic + ".text", "unsigned").state().equals("retry"));
            assertFalse(shop.handled.contains("words"), "nothing signs this topic");

            String url = workers(app).get(0).get("url").text();
            assertTrue(url.endsWith("/base/hooks/linger"), url);
            HttpRequest forged = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString("{}")).build();
            assertEquals(401, HttpClient.newHttpClient().send(forged, HttpResponse.BodyHandlers.discarding()).statusCode());
        }
        assertEquals(List.of(), workers(app));
    }

    private List<Json> workers(String app) {
        return server.call("GET", "/v1/workers?app=" + app, "").get("workers").items();
    }

    @Test
    void service_mode_without_a_server_says_what_is_missing() {
        Throwable refused = assertThrows(Exception.class, () -> Shop.start(WebApplicationType.NONE, "linger.mode=service",
                "linger.servers=" + server.url(), "spring.application.name=shop", "shop.topic=" + topic));
        assertNotNull(causedBy(refused, "spring-boot-starter-web"));
    }

    @Test
    void service_mode_without_secrets_lets_nobody_in() {
        Throwable refused = assertThrows(Exception.class, () -> Shop.start(WebApplicationType.SERVLET, "linger.mode=service",
                "linger.registry=eureka", "linger.servers=" + server.url(), "spring.application.name=shop", "shop.topic=" + topic));
        assertNotNull(causedBy(refused, "linger.unsigned=true"));
    }

    @Test
    void a_topic_has_one_handler() {
        SpringApplicationBuilder both = new SpringApplicationBuilder(Shop.class, Second.class).web(WebApplicationType.NONE);
        Throwable refused = assertThrows(Exception.class,
                () -> Shop.start(both, "linger.servers=" + server.url(), "shop.topic=" + topic));
        assertNotNull(causedBy(refused, "two handlers"));
    }

    static class Second {
        @LingerHandler("${shop.topic}.text")
        void again(String body) {}
    }

    private static Throwable causedBy(Throwable thrown, String text) {
        while (thrown != null && !String.valueOf(thrown.getMessage()).contains(text)) {
            thrown = thrown.getCause();
        }
        return thrown;
    }

    private ConfigurableApplicationContext worker() {
        return Shop.start(WebApplicationType.NONE, "linger.servers=" + server.url(), "linger.concurrency=3", "shop.topic=" + topic);
    }
}
