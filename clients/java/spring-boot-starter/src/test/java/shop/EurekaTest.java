package shop;

import io.linger.Await;
import io.linger.TestServer;
import io.linger.spring.LingerTemplate;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.ConfigurableApplicationContext;

/** With the real Eureka server, which `clients/java/test` builds. */
@Timeout(180)
class EurekaTest {
    @Test
    @EnabledIfEnvironmentVariable(named = "EUREKA_JAR", matches = ".+")
    void an_application_in_eureka_is_called_for_the_topics_of_its_handlers() throws Exception {
        int port = TestServer.freePort();
        Process eureka = new ProcessBuilder("java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-jar", System.getenv("EUREKA_JAR"),
                "--server.port=" + port).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        String zone = "http://127.0.0.1:" + port + "/eureka";
        String topic = TestServer.freshTopic();
        try {
            awaitEureka(zone);
            Map<String, String> settings = Map.of("LINGER_WORKERS_EUREKA", zone, "LINGER_WORKERS_EUREKA_POLL", "200ms");
            try (TestServer server = TestServer.start(settings);
                    ConfigurableApplicationContext context = Shop.start(WebApplicationType.SERVLET, "linger.mode=service",
                            "linger.registry=eureka", "linger.unsigned=true", "linger.servers=" + server.url(), "spring.application.name=shop",
                            "shop.topic=" + topic, "eureka.client.enabled=true", "eureka.client.fetch-registry=false",
                            "eureka.client.service-url.defaultZone=" + zone, "eureka.instance.hostname=127.0.0.1",
                            "eureka.client.initial-instance-info-replication-interval-seconds=1")) {
                Shop shop = context.getBean(Shop.class);
                context.getBean(LingerTemplate.class).addOwn(topic + ".text", "found", Duration.ZERO);
                Await.until("it was called", () -> shop.handled.contains("found"));
            }
        } finally {
            eureka.destroy();
            if (!eureka.waitFor(20, TimeUnit.SECONDS)) {
                eureka.destroyForcibly();
            }
        }
    }

    private static void awaitEureka(String zone) throws Exception {
        HttpRequest apps = HttpRequest.newBuilder(URI.create(zone + "/apps")).build();
        HttpClient http = HttpClient.newHttpClient();
        Await.until("Eureka answers", () -> isUp(http, apps));
    }

    private static boolean isUp(HttpClient http, HttpRequest apps) throws InterruptedException {
        try {
            return http.send(apps, HttpResponse.BodyHandlers.discarding()).statusCode() == 200;
        } catch (IOException notYet) {
            return false;
        }
    }
}
