package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is done about an answer that was lost, or that says that nothing was done. */
@Timeout(120)
class RetryTest {
    private static TestServer server;
    private static Client direct;
    private Proxy proxy;
    private Client client;
    private String topic;

    @BeforeAll
    static void start() {
        server = TestServer.shared();
        direct = server.client();
    }

    @AfterAll
    static void nothing_is_left_behind() {
        direct.topics("java.").forEach(topic -> direct.forget(topic.name()));
    }

    @BeforeEach
    void through_a_proxy() throws IOException {
        proxy = new Proxy(server);
        client = Client.of(proxy.url());
        topic = TestServer.freshTopic();
    }

    @AfterEach
    void close() throws IOException {
        proxy.close();
    }

    @Test
    void a_job_without_an_id_is_added_exactly_once() {
        Job added = repeated(() -> client.add(NewJob.of(topic).body(1).delay("1h")));
        assertEquals(List.of(added.id()), ids());
    }

    @Test
    void a_job_with_a_key_of_the_callers_is_added_exactly_once() {
        Job first = repeated(() -> client.add(NewJob.of(topic).idempotencyKey("order-1").delay("1h")));
        Job second = client.add(NewJob.of(topic).idempotencyKey("order-1").delay("1h"));
        assertEquals(first.id(), second.id());
        assertEquals(1, ids().size());
    }

    @Test
    void a_job_with_an_id_is_added_again_only_if_a_conflict_is_harmless() {
        repeated(() -> client.add(NewJob.of(topic).id("keep").delay("1h").onConflict(OnConflict.KEEP)));
        repeated(() -> client.add(NewJob.of(topic).id("replace").delay("1h").onConflict(OnConflict.REPLACE)));
        notRepeated(() -> client.add(NewJob.of(topic).id("reject").delay("1h")));
        assertEquals(3, ids().size(), "what was not repeated was done all the same");
    }

    @Test
    void many_jobs_without_ids_are_added_exactly_once() {
        List<NewJob> jobs = List.of(NewJob.of(topic).delay("1h"), NewJob.of(topic).delay("1h"), NewJob.of(topic).delay("1h"));
        List<Added> added = repeated(() -> client.addMany(jobs));
        assertEquals(3, ids().size());
        assertTrue(added.stream().allMatch(one -> ids().contains(one.job().id())));
        assertFalse(jobs.get(0).hasId(), "what the caller gave is left as it is");
    }

    @Test
    void many_jobs_are_not_added_again_if_one_of_them_might_conflict() {
        notRepeated(() -> client.addMany(List.of(NewJob.of(topic).delay("1h"), NewJob.of(topic).id("1").delay("1h"))));
    }

    @Test
    void looking_is_repeated() {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        repeatedAtLeast(() -> client.get(topic, "1"));
        repeatedAtLeast(() -> client.history(topic, "1"));
        repeatedAtLeast(() -> client.jobs(topic));
        repeatedAtLeast(() -> client.topics(topic));
        repeatedAtLeast(() -> client.topic(topic));
    }

    @Test
    void pop_is_repeated_and_what_was_lost_comes_back_with_its_ttr() {
        direct.add(NewJob.of(topic).id("1").priority(1).ttr("1s"));
        direct.add(NewJob.of(topic).id("2").priority(2));
        List<Job> jobs = repeated(() -> client.pop(Pop.from(topic)));
        assertEquals("2", jobs.get(0).id());
        assertEquals("1", client.pop(Pop.from(topic).wait("10s")).get(0).id());
    }

    @Test
    void a_lease_is_settled_once_and_the_second_answer_is_taken_as_done() {
        assertTrue(repeated(() -> client.finish(popped("finish"))).changed());
        assertTrue(repeated(() -> client.fail(popped("fail"), "no")).changed());
        assertTrue(repeated(() -> client.release(popped("release"))).changed());
        assertEquals("no", direct.get(topic, "fail").lastError().orElse(null));
        assertThrows(LingerException.class, () -> direct.get(topic, "finish"));
    }

    @Test
    void a_lease_that_was_lost_before_is_no_success() {
        Job job = popped("1");
        direct.release(job);
        LingerException lost = assertThrows(LingerException.class, () -> client.finish(job));
        assertEquals(Code.LEASE_LOST, lost.code());
    }

    @Test
    void what_has_no_lease_is_not_settled_twice() {
        popped("1");
        notRepeated(() -> client.fail(JobRef.of(topic, "1"), "no"));
        popped("2");
        notRepeated(() -> client.release(JobRef.of(topic, "2")));
        popped("3");
        notRepeated(() -> client.finish(JobRef.of(topic, "3")));
    }

    @Test
    void a_delete_is_repeated_and_not_found_is_taken_as_done() {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        assertTrue(repeated(() -> client.delete(topic, "1")).changed());
        assertEquals(Code.NOT_FOUND, assertThrows(LingerException.class, () -> client.delete(topic, "1")).code());
    }

    @Test
    void changes_that_come_to_the_same_are_repeated() {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        repeated(() -> client.update(topic, "1", Changes.of().priority(5)));
        repeated(() -> client.hold(topic, "1"));
        repeated(() -> client.unhold(topic, "1"));
        Job job = popped("2");
        repeated(() -> client.touch(job));
        repeated(() -> client.pause(topic));
        repeated(() -> client.resume(topic));
        repeated(() -> client.configure(topic, Settings.of().ttr(Duration.ofMinutes(1))));
        repeated(() -> client.empty(topic));
        repeated(() -> client.forget(topic));
        assertEquals(Code.NOT_FOUND, assertThrows(LingerException.class, () -> client.forget(topic)).code());
    }

    @Test
    void changes_that_do_not_are_left_to_the_caller() {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        notRepeated(() -> client.run(topic, "1"));
        notRepeated(() -> client.redrive(topic));
        notRepeated(() -> client.update(topic, "1", Changes.of().priority(5).ifVersion(2)));
        notRepeated(() -> client.delete(topic, "1", 3));
    }

    @Test
    void a_second_loss_is_an_error() {
        proxy.lose(2);
        LingerException error = assertThrows(LingerException.class, () -> client.hold(topic, "1"));
        assertEquals(Code.UNAVAILABLE, error.code());
        assertEquals(2, proxy.requests());
    }

    @Test
    void what_was_never_sent_goes_to_the_next_server_whatever_it_is() {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        Client several = Client.of("http://127.0.0.1:" + TestServer.freePort(), server.url());
        assertEquals("ready", several.run(topic, "1").state().orElse(null));
    }

    @Test
    void overloaded_is_tried_again_whatever_it_is() throws IOException {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        try (Stub busy = Stub.refusing(503, "overloaded")) {
            assertEquals("ready", Client.of(busy.url(), server.url()).run(topic, "1").state().orElse(null));
            LingerException error = assertThrows(LingerException.class, () -> Client.of(busy.url()).run(topic, "1"));
            assertEquals(503, error.status().orElse(0));
            assertEquals(3, busy.requests(), "once with another server beside it, twice alone");
        }
    }

    @Test
    void unavailable_is_tried_again_if_that_is_harmless() throws IOException {
        direct.add(NewJob.of(topic).id("1").delay("1h"));
        try (Stub away = Stub.refusing(503, "unavailable")) {
            assertEquals("1", Client.of(away.url(), server.url()).get(topic, "1").id());
            assertThrows(LingerException.class, () -> Client.of(away.url(), server.url()).run(topic, "1"));
            assertEquals(2, away.requests());
            assertEquals("delayed", direct.get(topic, "1").state());
        }
    }

    @Test
    void too_fast_is_not_made_faster() throws IOException {
        try (Stub strict = Stub.refusing(429, "rate_limited")) {
            LingerException error = assertThrows(LingerException.class, () -> Client.of(strict.url()).get("a", "1"));
            assertEquals(Code.RATE_LIMITED, error.code());
            assertEquals(1, strict.requests());
        }
    }

    @Test
    void a_gateway_that_knows_nothing_is_an_answer_that_was_lost() throws IOException {
        try (Stub gateway = Stub.answering(502, "<h1>Bad Gateway</h1>")) {
            assertEquals(Code.UNAVAILABLE, assertThrows(LingerException.class, () -> Client.of(gateway.url()).run("a", "1")).code());
            assertEquals(1, gateway.requests());
        }
    }

    private <T> T repeated(Supplier<T> call) {
        proxy.lose(1);
        T answer = call.get();
        assertEquals(2, proxy.requests());
        return answer;
    }

    /** Java's own client asks for a GET more often than it is told to, which is as harmless. */
    private void repeatedAtLeast(Supplier<?> call) {
        proxy.lose(1);
        call.get();
        assertTrue(proxy.requests() >= 2);
    }

    private void notRepeated(Supplier<?> call) {
        proxy.lose(1);
        LingerException error = assertThrows(LingerException.class, call::get);
        assertEquals(Code.UNAVAILABLE, error.code());
        assertTrue(error.status().isEmpty());
        assertEquals(1, proxy.requests());
    }

    private Job popped(String id) {
        direct.add(NewJob.of(topic).id(id));
        return direct.pop(Pop.from(topic).wait("5s")).get(0);
    }

    private List<String> ids() {
        List<String> ids = new ArrayList<>();
        direct.jobs(topic).forEach(job -> ids.add(job.id()));
        return ids;
    }
}
