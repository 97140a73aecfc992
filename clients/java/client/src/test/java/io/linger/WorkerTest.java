package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class WorkerTest {
    private final Client client = TestServer.shared().client();
    private String topic;

    @BeforeEach
    void fresh() {
        topic = TestServer.freshTopic();
    }

    @Test
    void as_many_handlers_work_at_once_as_it_has_hands_and_no_more() throws Exception {
        AtomicInteger now = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CyclicBarrier four = new CyclicBarrier(4);
        client.addMany(IntStream.range(0, 12).mapToObj(n -> NewJob.of(topic).id("" + n)).collect(Collectors.toList()));
        Handler handler = job -> {
            most.accumulateAndGet(now.incrementAndGet(), Math::max);
            four.await(30, TimeUnit.SECONDS);
            now.decrementAndGet();
        };
        try (Worker worker = Worker.builder(client).handle(topic, handler).concurrency(4).start()) {
            Await.until("all are finished", () -> client.jobs(topic).items().isEmpty());
        }
        assertEquals(4, most.get());
    }

    @Test
    void each_topic_has_its_handler_and_a_job_its_body() throws Exception {
        String other = TestServer.freshTopic();
        AtomicReference<String> first = new AtomicReference<>();
        AtomicReference<String> second = new AtomicReference<>();
        try (Worker worker = Worker.builder(client)
                .handle(topic, job -> first.set(job.body().json().get("n").raw()))
                .handle(other, job -> second.set(job.body().text()))
                .start()) {
            client.add(NewJob.of(topic).bodyJson("{\"n\":1.0}"));
            client.add(NewJob.of(other).body("two"));
            Await.until("both are handled", () -> first.get() != null && second.get() != null);
        }
        assertEquals("1.0", first.get());
        assertEquals("two", second.get());
        assertTrue(client.jobs(topic).items().isEmpty());
    }

    @Test
    void a_worker_goes_on_after_an_answer_that_nobody_can_read() throws Exception {
        try (Stub strange = Stub.answering(200, "{}");
                Worker worker = Worker.builder(Client.of(strange.url())).handle(topic, job -> {}).start()) {
            Await.until("it has asked again", () -> strange.requests() >= 3);
        }
    }

    @Test
    void an_error_is_clipped_at_4096_characters() throws Exception {
        String euro = new String(Character.toChars(0x1F4B6));
        assertEquals(euro.repeat(4096), Failure.of(euro.repeat(5000)).fields().get("error"));
    }

    @Test
    void a_handler_that_throws_fails_the_job_with_its_text() throws Exception {
        Job job = failed(thrown -> {
            throw new IllegalStateException("the bank is closed");
        });
        assertEquals("the bank is closed", job.lastError().orElseThrow());
        assertEquals(1, job.attempt());
    }

    @Test
    void a_handler_that_leaves_its_thread_interrupted_has_finished_all_the_same() throws Exception {
        client.add(NewJob.of(topic).id("1"));
        try (Worker worker = Worker.builder(client).handle(topic, job -> Thread.currentThread().interrupt()).start()) {
            Await.until("it is finished", () -> client.jobs(topic).items().isEmpty());
        }
    }

    @Test
    void an_error_without_a_text_is_told_by_its_name_and_a_long_one_clipped() throws Exception {
        assertEquals("java.lang.StackOverflowError", failed(job -> {
            throw new StackOverflowError();
        }).lastError().orElseThrow());
        String text = failed(job -> {
            throw new IllegalStateException("😀".repeat(5_000));
        }).lastError().orElseThrow();
        assertTrue(text.startsWith("😀😀"), text);
    }

    @Test
    void retry_in_says_when() throws Exception {
        Job job = failed(thrown -> {
            throw new RetryIn(Duration.ofHours(5), "the bank is closed");
        });
        assertEquals("the bank is closed", job.lastError().orElseThrow());
        assertTrue(job.due().isAfter(Instant.now().plus(Duration.ofHours(4))), job.due().toString());
    }

    @Test
    void again_is_told_apart_from_a_failure() throws Exception {
        Job job = failed(thrown -> {
            throw new Again(Duration.ofHours(5));
        });
        assertTrue(job.lastError().isEmpty(), job.json().raw());
        assertTrue(job.due().isAfter(Instant.now().plus(Duration.ofHours(4))), job.due().toString());
        assertEquals("retry", failed(thrown -> {
            throw new Again();
        }).state());
    }

    /** What the job is after one attempt. */
    private Job failed(Handler handler) throws Exception {
        Retry retry = Retry.attempts(5).backoff(Duration.ofHours(1), Duration.ofHours(1));
        String id = client.add(NewJob.of(topic).retry(retry)).id();
        try (Worker worker = Worker.builder(client).handle(topic, handler).start()) {
            Await.until("it was tried", () -> client.get(topic, id).state().equals("retry"));
        }
        return client.get(topic, id);
    }

    @Test
    void a_handler_that_takes_longer_than_its_ttr_keeps_its_job() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        client.add(NewJob.of(topic).id("own").ttr("1s"));
        client.add(NewJob.of(topic).id("topics"));
        client.configure(topic, Settings.of().ttr(Duration.ofSeconds(1)));
        Handler slow = job -> {
            calls.incrementAndGet();
            Thread.sleep(3500);
        };
        try (Worker worker = Worker.builder(client).handle(topic, slow).start()) {
            Await.until("they are finished", () -> client.jobs(topic).items().isEmpty());
        }
        assertEquals(2, calls.get());
    }

    @Test
    void a_ttr_of_the_worker_holds_for_touches_too() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        client.add(NewJob.of(topic).ttr("1h"));
        Handler slow = job -> {
            calls.incrementAndGet();
            Thread.sleep(2500);
        };
        try (Worker worker = Worker.builder(client).handle(topic, slow).ttr(Duration.ofSeconds(1)).start()) {
            Await.until("it is finished", () -> client.jobs(topic).items().isEmpty());
        }
        assertEquals(1, calls.get());
    }

    @Test
    void a_lost_lease_is_told_to_the_handler_and_nothing_to_the_server() throws Exception {
        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch told = new CountDownLatch(1);
        AtomicReference<Job> handled = new AtomicReference<>();
        client.add(NewJob.of(topic).id("1").ttr("1s"));
        Handler handler = job -> {
            handled.set(job);
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException interrupted) {
                told.countDown();
            }
        };
        Job other;
        try (Worker worker = Worker.builder(client).handle(topic, handler).concurrency(1).grace(Duration.ZERO).start()) {
            assertTrue(started.await(30, TimeUnit.SECONDS));
            assertFalse(handled.get().lost());
            client.release(JobRef.of(topic, "1"));
            other = client.pop(Pop.from(topic).ttr("60s").wait("5s")).get(0);
            assertTrue(told.await(30, TimeUnit.SECONDS));
            assertTrue(handled.get().lost());
            // Its one hand is free again, and its thread as good as new.
            client.add(NewJob.of(topic).id("2").ttr("60s"));
            Await.until("the next is taken", () -> handled.get().id().equals("2"));
            assertFalse(handled.get().lost());
            assertEquals("reserved", client.get(topic, "1").state());
        }
        assertTrue(client.finish(other).changed(), "the lease of the other is untouched");
    }

    @Test
    void stop_waits_for_handlers() throws Exception {
        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        client.add(NewJob.of(topic).id("1"));
        Worker worker = Worker.builder(client).handle(topic, job -> {
            started.countDown();
            goOn.await();
        }).start();
        assertTrue(started.await(30, TimeUnit.SECONDS));
        Thread closer = new Thread(worker::close);
        closer.start();
        Await.until("it waits for the handler", () -> closer.getState() == Thread.State.TIMED_WAITING);
        client.add(NewJob.of(topic).id("2"));
        assertEquals("reserved", client.get(topic, "1").state());
        goOn.countDown();
        worker.join();
        assertEquals(Code.NOT_FOUND, assertThrows(LingerException.class, () -> client.get(topic, "1")).code());
        assertEquals("ready", client.get(topic, "2").state(), "what came later was not asked for");
    }

    @Test
    void after_the_grace_what_is_left_is_given_back() throws Exception {
        CountDownLatch started = new CountDownLatch(2);
        CountDownLatch interrupted = new CountDownLatch(2);
        client.addMany(List.of(NewJob.of(topic).id("1"), NewJob.of(topic).id("2")));
        Worker worker = Worker.builder(client).handle(topic, job -> {
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } finally {
                if (job.lost()) {
                    interrupted.countDown();
                }
            }
        }).grace(Duration.ofMillis(100)).start();
        assertTrue(started.await(30, TimeUnit.SECONDS));
        worker.close();
        assertTrue(interrupted.await(30, TimeUnit.SECONDS));
        for (String id : List.of("1", "2")) {
            Job job = client.get(topic, id);
            assertEquals("ready", job.state());
            assertEquals(0, job.attempt());
            assertTrue(job.lastError().isEmpty());
        }
    }

    @Test
    void a_pop_that_waits_is_hung_up_and_leases_nothing() throws Exception {
        // Well before its wait of 30 s is over.
        assertTimeout(Duration.ofSeconds(20), () -> stopWhileWaiting(Worker.builder(client)));
    }

    @Test
    void where_java_cannot_hang_up_stop_waits_for_the_pop() throws Exception {
        stopWhileWaiting(Worker.builder(client).withoutHangingUp());
    }

    private void stopWhileWaiting(Worker.Builder builder) throws Exception {
        AtomicInteger calls = new AtomicInteger();
        Worker worker = builder.handle(topic, job -> calls.incrementAndGet()).start();
        client.configure(topic, Settings.of().ttr(Duration.ofMinutes(1)));
        Await.until("it waits", () -> waiting() == 1);
        worker.close();
        Await.until("it waits no more", () -> waiting() == 0);
        client.add(NewJob.of(topic).id("1"));
        assertEquals(1, client.pop(Pop.from(topic).wait("5s")).get(0).attempt());
        assertEquals(0, calls.get());
    }

    @Test
    void where_java_cannot_hang_up_a_worker_with_full_hands_still_stops() throws Exception {
        CountDownLatch started = new CountDownLatch(1);
        client.add(NewJob.of(topic).id("1"));
        Worker worker = Worker.builder(client).handle(topic, job -> {
            started.countDown();
            new CountDownLatch(1).await();
        }).concurrency(1).grace(Duration.ofMillis(100)).withoutHangingUp().start();
        assertTrue(started.await(30, TimeUnit.SECONDS));
        worker.close();
        assertEquals("ready", client.get(topic, "1").state());
    }

    private int waiting() {
        return client.topic(topic).json().get("waiting").number().intValue();
    }
}
