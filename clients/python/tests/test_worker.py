"""The worker for threads, with a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Optional

import pytest
from harness import Proxy, Reply, Scripted, Server, Stub, eventually, refusal

import linger


@pytest.fixture
def worker(client: linger.Client) -> Iterator[linger.Worker]:
    made = linger.Worker(client, concurrency=4)
    yield made
    made.stop(0)


def counts(client: linger.Client, topic: str) -> dict[str, int]:
    try:
        found = client.topic(topic).counts
    except linger.NotFound:
        # Nothing names it any more.
        return {}
    return {state: count for state, count in found.items() if count}


def test_as_many_jobs_as_hands_are_worked_on_at_once(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    # Nobody gets past it unless four are there at once.
    together = threading.Barrier(4, timeout=20)
    done: list[str] = []

    @worker.handler(topic)
    def meet(job: linger.WorkerJob) -> None:
        together.wait()
        done.append(job.id)

    client.add_many([{"topic": topic, "id": str(number)} for number in range(8)])
    with worker:
        eventually(lambda: len(done) == 8)
    assert len(set(done)) == 8
    assert counts(client, topic) == {}


def test_no_more_jobs_are_popped_than_hands_are_free(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    go_on = threading.Event()
    worker.handler(topic)(lambda _: go_on.wait(20))
    client.add_many([{"topic": topic, "id": str(number)} for number in range(6)])
    with worker:
        eventually(lambda: counts(client, topic) == {"reserved": 4, "ready": 2})
        go_on.set()
        eventually(lambda: counts(client, topic) == {})


def test_all_topics_are_popped_and_each_job_comes_to_its_handler(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    seen: list[tuple[str, object]] = []
    worker.handler(topic)(lambda job: seen.append(("one", job.body)))
    worker.handler(topic + ".b")(lambda job: seen.append(("two", job.body)))
    with worker:
        client.add(topic, {"n": 1})
        client.add(topic + ".b", b"\x00\xff")
        eventually(lambda: len(seen) == 2)
    assert sorted(seen, key=str) == [("one", {"n": 1}), ("two", b"\x00\xff")]


def test_a_handler_that_raises_fails_its_job_with_the_text(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    @worker.handler(topic)
    def fail(job: linger.WorkerJob) -> None:
        raise RuntimeError("the bank is closed")

    client.add(topic, id="1", retry={"ladder": ["1h"]})
    with worker:
        eventually(lambda: client.get(topic, "1").state == "retry")
    job = client.get(topic, "1")
    assert (job.last_error, job.attempt) == ("the bank is closed", 1)


def test_a_handler_that_is_to_be_awaited_fails_its_job(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    @worker.handler(topic)
    async def never(job: linger.WorkerJob) -> None:
        pytest.fail("nobody awaits it")

    client.add(topic, id="1", retry={"ladder": ["1h"]})
    with worker:
        eventually(lambda: client.get(topic, "1").state == "retry")
    assert "linger.aio.Worker" in (client.get(topic, "1").last_error or "")


def test_a_hand_survives_an_outcome_that_cannot_be_told(client: linger.Client, topic: str) -> None:
    worker = linger.Worker(client, concurrency=1, ttr="1s")
    attempts: list[int] = []

    @worker.handler(topic)
    def odd(job: linger.WorkerJob) -> None:
        attempts.append(job.attempt)
        if job.attempt == 1:
            raise linger.RetryIn(object())  # type: ignore[arg-type]

    client.add(topic, id="1", retain="1h", retry={"ladder": ["10ms"]})
    with worker:
        eventually(lambda: client.get(topic, "1").state == "finished")
    assert attempts == [1, 2]


def test_whatever_ends_the_asking_is_raised_by_run(
    client: linger.Client, worker: linger.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    worker.handler("t")(lambda _: None)
    monkeypatch.setattr(client, "_do", broken)
    with pytest.raises(ZeroDivisionError):
        worker.run(signals=False)


def test_stop_from_another_thread_ends_run(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    worker.handler(topic)(lambda _: None)
    running = threading.Thread(target=lambda: worker.run(signals=False))
    running.start()
    eventually(lambda: waiting(client, topic) == 1)
    worker.stop()
    running.join(20)
    assert not running.is_alive()


def test_no_more_are_asked_for_than_may_be(topic: str) -> None:
    asked: list[bytes] = []

    class Listening(Stub):
        def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
            asked.append(body)
            return refusal(401, "unauthorized")

    with Listening() as stub, linger.Client(stub.url) as client:
        worker = linger.Worker(client)
        worker._free = 2000
        worker.handler(topic)(lambda _: None)
        worker._ask([topic])
    assert json.loads(asked[0])["max"] == 1000


def test_a_handler_may_say_when_to_try_again(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    attempts: list[int] = []

    @worker.handler(topic)
    def fail_once(job: linger.WorkerJob) -> None:
        attempts.append(job.attempt)
        if job.attempt == 1:
            raise linger.RetryIn("10ms", "not now")

    client.add(topic, id="1", retry={"ladder": ["1h"]}, retain="1h")
    with worker:
        eventually(lambda: client.get(topic, "1").state == "finished")
    assert attempts == [1, 2]
    assert "not now" in [event.error for event in client.history(topic, "1")]


def test_again_is_told_apart_from_a_failure(
    server: Server, client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    @worker.handler(topic)
    def not_yet(job: linger.WorkerJob) -> None:
        raise linger.Again

    before = server.call("GET", "/v1/stats")["totals"]
    client.add(topic, id="1", retry={"ladder": ["1h"]})
    with worker:
        eventually(lambda: client.get(topic, "1").state == "retry")
    after = server.call("GET", "/v1/stats")["totals"]
    assert after["again"] - before["again"] == 1
    assert after["failed"] == before["failed"]


def test_a_job_is_touched_for_as_long_as_its_handler_works(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    attempts: list[int] = []

    @worker.handler(topic)
    def slow(job: linger.WorkerJob) -> None:
        attempts.append(job.attempt)
        # Its ttr is over two times and more before it ends.
        assert not job.lost.wait(4.5)

    client.add(topic, id="1", ttr="2s", retain="1h")
    with worker:
        eventually(lambda: client.get(topic, "1").state == "finished")
    assert attempts == [1]


def test_a_workers_own_ttr_is_that_of_its_leases(client: linger.Client, topic: str) -> None:
    seen: list[linger.WorkerJob] = []
    worker = linger.Worker(client, ttr="10m")
    worker.handler(topic)(seen.append)
    client.add(topic, id="1", ttr="1s")
    with worker:
        eventually(lambda: seen)
    assert seen[0].lease_seconds is not None
    assert 598 < seen[0].lease_seconds <= 600


def test_a_lost_lease_is_told_to_the_handler_and_its_outcome_to_nobody(
    server: Server, client: linger.Client, topic: str
) -> None:
    with Proxy(server.url) as proxy, linger.Client(proxy.url) as through:
        worker = linger.Worker(through)
        working, told = threading.Event(), threading.Event()

        @worker.handler(topic)
        def slow(job: linger.WorkerJob) -> None:
            working.set()
            if job.lost.wait(20):
                told.set()

        client.add(topic, id="1", ttr="1s")
        with worker:
            assert working.wait(20)
            client.release(topic, "1", delay="1h")
            assert told.wait(20)
        assert settled(proxy) == []
    job = client.get(topic, "1")
    assert (job.state, job.last_error) == ("delayed", None)


def settled(proxy: Proxy) -> list[str]:
    return [path for _, path in proxy.requests if path.endswith(("/finish", "/fail", "/release"))]


def test_a_lease_that_cannot_be_touched_in_time_is_lost(server: Server, topic: str) -> None:
    with Proxy(server.url) as proxy, linger.Client(proxy.url, timeout="1s") as client:
        worker = linger.Worker(client, ttr="1s", grace=0)
        working, told = threading.Event(), threading.Event()

        @worker.handler(topic)
        def slow(job: linger.WorkerJob) -> None:
            working.set()
            if job.lost.wait(20):
                told.set()

        client.add(topic, id="1")
        with worker:
            assert working.wait(20)
            proxy.lose = 1_000_000
            assert told.wait(20)


def test_stop_waits_for_handlers(client: linger.Client, worker: linger.Worker, topic: str) -> None:
    working, go_on = threading.Event(), threading.Event()

    @worker.handler(topic)
    def slow(job: linger.WorkerJob) -> None:
        working.set()
        assert go_on.wait(20)

    client.add(topic, id="1", retain="1h")
    worker.start()
    assert working.wait(20)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    eventually(lambda: client.topic(topic).waiting == 0)
    assert stopping.is_alive()
    go_on.set()
    stopping.join()
    assert client.get(topic, "1").state == "finished"


def test_what_is_left_after_the_grace_time_is_released(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    working, go_on = threading.Event(), threading.Event()
    lost: list[bool] = []

    @worker.handler(topic)
    def stuck(job: linger.WorkerJob) -> None:
        working.set()
        go_on.wait(20)
        lost.append(job.lost.is_set())

    client.add(topic, id="1")
    worker.start()
    assert working.wait(20)
    worker.stop("50ms")
    # At once, and not when its ttr runs out; and it was no attempt.
    job = client.get(topic, "1")
    assert (job.state, job.attempt) == ("ready", 0)
    go_on.set()
    eventually(lambda: lost)
    assert lost == [True]
    assert client.get(topic, "1").state == "ready"


def test_stop_hangs_up_a_pop_that_waits_and_leases_nothing(
    client: linger.Client, worker: linger.Worker, topic: str
) -> None:
    worker.handler(topic)(lambda _: None)
    worker.start()
    eventually(lambda: waiting(client, topic) == 1)
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 20, "the pop would have waited for 30 s"
    eventually(lambda: waiting(client, topic) == 0)
    client.add(topic, id="1")
    assert client.get(topic, "1").state == "ready"


def waiting(client: linger.Client, topic: str) -> int:
    try:
        return client.topic(topic).waiting
    except linger.NotFound:
        return 0


class Late(Stub):
    """Hands out a job just after the worker was told to stop."""

    worker: linger.Worker
    stopping: Optional[threading.Thread] = None

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        if path != "/v1/pop":
            return 200, b'{"changed":true}'
        self.stopping = threading.Thread(target=self.worker.stop)
        self.stopping.start()
        eventually(lambda: self.worker._hang_up._now)
        return (
            200,
            b'{"jobs":[{"lease":"ad3634b49cdfd149","topic":"t","id":"1","number":1,'
            b'"state":"reserved","due":"2026-11-17T20:05:17.224Z","attempt":1,"version":2,'
            b'"priority":1024,"created":"2026-11-17T20:05:17.222Z",'
            b'"reserved_until":"2999-11-17T20:06:17.263Z","body":"x"}]}',
        )


def test_jobs_that_come_while_it_stops_are_given_back() -> None:
    with Late() as stub, linger.Client(stub.url) as client:
        stub.worker = linger.Worker(client)
        stub.worker.handler("t")(lambda _: pytest.fail("it was stopped"))
        stub.worker.start()
        stopping = eventually(lambda: stub.stopping)
        assert stopping
        stopping.join()
        assert ("POST", "/v1/topics/t/jobs/1/release") in stub.requests


class Broken(Late):
    """Refuses a request that was broken off because the worker was told to stop."""

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        super().answer(method, path, headers, body)
        return refusal(400, "invalid")


def test_a_request_that_was_broken_off_by_stop_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Broken() as stub, linger.Client(stub.url) as client:
        stub.worker = linger.Worker(client)
        stub.worker.handler("t")(lambda _: None)
        stub.worker.start()
        stopping = eventually(lambda: stub.stopping)
        assert stopping
        stopping.join()
    assert caplog.records == []


def test_stop_does_not_wait_for_a_proxy_that_does_not_hang_up(server: Server, topic: str) -> None:
    with Proxy(server.url) as proxy, linger.Client(proxy.url) as client:
        worker = linger.Worker(client)
        worker.handler(topic)(lambda _: None)
        worker.start()
        eventually(lambda: waiting(client, topic) == 1)
        began = time.monotonic()
        worker.stop()
        assert time.monotonic() - began < 20, "the pop would have waited for 30 s"


def test_a_server_that_is_away_is_asked_again(topic: str) -> None:
    with Scripted(refusal(503, "unavailable")) as stub, linger.Client(stub.url) as client:
        worker = linger.Worker(client)
        worker.handler(topic)(lambda _: None)
        with worker:
            eventually(lambda: len(stub.requests) >= 6)


def test_a_server_that_will_not_have_it_ends_the_worker(topic: str) -> None:
    with Scripted(refusal(401, "unauthorized")) as stub, linger.Client(stub.url) as client:
        worker = linger.Worker(client)
        worker.handler(topic)(lambda _: None)
        with pytest.raises(linger.Unauthorized):
            worker.run(signals=False)


def test_an_outcome_is_told_when_the_server_is_back(server: Server, topic: str) -> None:
    class Away(Proxy):
        away = False

        def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
            if self.away:
                return refusal(503, "unavailable")
            return super().answer(method, path, headers, body)

    with Away(server.url) as proxy, linger.Client(proxy.url) as client:
        worker = linger.Worker(client)
        seen: list[int] = []

        @worker.handler(topic)
        def work(job: linger.WorkerJob) -> None:
            seen.append(job.attempt)
            proxy.away = True

        client.add(topic, id="1", retain="1h")
        with worker:
            eventually(lambda: len([path for _, path in proxy.requests if "finish" in path]) > 3)
            proxy.away = False
            eventually(lambda: client.get(topic, "1").state == "finished")
    assert seen == [1]


def test_a_topic_has_one_handler(worker: linger.Worker) -> None:
    worker.handler("t")(lambda _: None)
    with pytest.raises(ValueError, match="has a handler already"):
        worker.handler("t")(lambda _: None)


def test_a_worker_without_handlers_does_not_start(worker: linger.Worker) -> None:
    with pytest.raises(ValueError, match="no handlers"):
        worker.start()


def test_a_worker_that_was_stopped_does_not_start_again(worker: linger.Worker, topic: str) -> None:
    worker.handler(topic)(lambda _: None)
    with worker:
        pass
    with pytest.raises(RuntimeError, match="make another"):
        worker.start()
