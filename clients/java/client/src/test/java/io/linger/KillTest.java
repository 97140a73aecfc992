package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class KillTest {
    @Test
    void a_worker_that_is_killed_in_the_middle_of_1000_jobs_and_started_again_loses_none(@TempDir Path folder) throws Exception {
        String topic = TestServer.freshTopic();
        Path done = Files.createFile(folder.resolve("done"));
        Client client = TestServer.shared().client();
        List<String> ids = IntStream.range(0, 1000).mapToObj(Integer::toString).collect(Collectors.toList());
        client.addMany(ids.stream().map(id -> NewJob.of(topic).id(id)).collect(Collectors.toList()));

        Process first = worker(topic, done);
        try {
            Await.until("some are done", () -> Files.readAllLines(done).size() >= 200);
        } finally {
            first.destroyForcibly().waitFor();
        }
        assertTrue(new HashSet<>(Files.readAllLines(done)).size() < 1000, "it was killed too late to be in the middle");

        Process second = worker(topic, done);
        try {
            Await.until("the topic is empty", () -> client.jobs(topic).items().isEmpty());
            assertEquals(Set.copyOf(ids), new HashSet<>(Files.readAllLines(done)));
            second.destroy();
            assertTrue(second.waitFor(30, TimeUnit.SECONDS), "SIGTERM ends it");
        } finally {
            second.destroyForcibly();
        }
    }

    private static Process worker(String topic, Path done) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(Java.command(
                TestServer.clients().resolve("java/examples/WorkerExample.java").toString(), topic, done.toString()));
        builder.environment().put("LINGER_SERVER", TestServer.shared().url());
        return builder.inheritIO().start();
    }
}
