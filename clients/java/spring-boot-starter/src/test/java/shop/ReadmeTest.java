package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.linger.Await;
import io.linger.Client;
import io.linger.NewJob;
import io.linger.Readme;
import io.linger.Settings;
import io.linger.TestServer;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.io.DefaultResourceLoader;

/** The application of the README, with the controller that verifies webhooks in it. */
@Timeout(120)
class ReadmeTest {
    @Test
    void the_spring_application_works_as_shown(@TempDir Path folder) throws Exception {
        TestServer server = TestServer.shared();
        Client client = server.client();
        String secret = server.call("POST", "/v1/secrets", "{\"topic\":\"mail.send\"}").get("secret").text();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        try (URLClassLoader loader = compiled(folder, "ShopApplication", "HookController")) {
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            SpringApplicationBuilder application = new SpringApplicationBuilder(loader.loadClass("com.example.shop.ShopApplication"))
                    .resourceLoader(new DefaultResourceLoader(loader));
            try (ConfigurableApplicationContext context = Shop.start(application, "linger.servers=" + server.url(),
                    "spring.application.name=shop", "shop.webhook-secrets=" + secret)) {
                Await.until("the handler was called", () -> printed.toString().contains("ship 1001\n"));
                String port = context.getEnvironment().getRequiredProperty("local.server.port");
                client.configure("mail.send", Settings.of().target("http://127.0.0.1:" + port + "/hooks/linger"));
                client.add(NewJob.of("mail.send").body("hello"));
                Await.until("the webhook was verified", () -> printed.toString().contains("send hello\n"));
                Await.until("it is finished", () -> client.jobs("mail.send").items().isEmpty());
            }
        } finally {
            System.setOut(before);
        }
        assertTrue(client.jobs("order.ship").items().isEmpty());
    }

    private static URLClassLoader compiled(Path folder, String... names) throws Exception {
        for (String name : names) {
            int result = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-parameters", "-d", folder.toString(),
                    "-cp", System.getProperty("java.class.path"), Readme.program(name, folder).toString());
            assertEquals(0, result, name + " does not compile");
        }
        return new URLClassLoader(new URL[] {folder.toUri().toURL()}, ReadmeTest.class.getClassLoader());
    }
}
