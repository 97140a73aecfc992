package shop;

import io.linger.Again;
import io.linger.Job;
import io.linger.RetryIn;
import io.linger.spring.LingerHandler;
import java.time.Duration;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** An application as anybody writes it. */
@SpringBootApplication
class Shop {
    final Queue<String> handled = new ConcurrentLinkedQueue<>();
    final CountDownLatch started = new CountDownLatch(1);
    final CountDownLatch goOn = new CountDownLatch(1);

    record Order(int order, String name) {}

    static ConfigurableApplicationContext start(WebApplicationType web, String... properties) {
        return start(new SpringApplicationBuilder(Shop.class).web(web), properties);
    }

    static ConfigurableApplicationContext start(SpringApplicationBuilder application, String... properties) {
        return application.run(Arrays.stream(properties).map(property -> "--" + property).toArray(String[]::new));
    }

    @LingerHandler("${shop.topic}.object")
    void close(Order order) {
        handled.add(order.order() + " " + order.name());
    }

    @LingerHandler("${shop.topic}.job")
    void job(Job job) {
        handled.add(job.id() + " " + job.body().json().raw());
    }

    @LingerHandler({"${shop.topic}.text", "${shop.topic}.more"})
    void text(String body) {
        handled.add(body);
    }

    @LingerHandler("${shop.topic}.number")
    void number(int body) {
        handled.add("number " + body);
    }

    @LingerHandler("${shop.topic}.nothing")
    void nothing() {
        handled.add("nothing");
    }

    @LingerHandler("${shop.topic}.throws")
    void fails(String how) throws Exception {
        switch (how) {
            case "retry":
                throw new RetryIn(Duration.ofHours(5), "later");
            case "again":
                throw new Again(Duration.ofHours(5));
            default:
                throw new Exception("the bank is closed");
        }
    }

    @LingerHandler("${shop.topic}.slow")
    void slow() throws InterruptedException {
        started.countDown();
        goOn.await();
        handled.add("slow");
    }
}
