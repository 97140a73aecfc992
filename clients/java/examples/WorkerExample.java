import io.linger.Client;
import io.linger.Worker;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/**
 * Works on the jobs of a topic, and writes down the id of each when it is done, until it is told to stop.
 *
 * <p>{@code java -cp linger-client.jar WorkerExample.java TOPIC FILE}, with the address of the server in LINGER_SERVER.
 */
public class WorkerExample {
    public static void main(String[] args) throws Exception {
        String topic = args[0];
        Path done = Path.of(args[1]);
        Worker worker = Worker.builder(Client.create())
                .handle(topic, job -> {
                    String line = job.id() + "\n";
                    Files.writeString(done, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                })
                .concurrency(4)
                .ttr(Duration.ofSeconds(2))
                .stopOnSignals()
                .start();
        worker.join();
    }
}
