"""The worker for asyncio, with a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Callable

import pytest
from harness import Proxy, Scripted, Server, refusal, soon

import linger
import linger.aio

Story = Callable[[linger.aio.Client, linger.aio.Worker], Coroutine[Any, Any, None]]


def tell(url: str, story: Story, **settings: Any) -> None:
    """Runs a story with a client and a worker that has not started."""

    async def told() -> None:
        async with linger.aio.Client(url) as client:
            worker = linger.aio.Worker(client, **{"concurrency": 4, **settings})
            try:
                await story(client, worker)
            finally:
                await worker.stop(0)

    asyncio.run(told())


async def state(client: linger.aio.Client, topic: str, wanted: str) -> linger.Job:
    end = time.monotonic() + 30
    while True:
        job = await client.get(topic, "1")
        if job.state == wanted:
            return job
        assert time.monotonic() < end, job
        await asyncio.sleep(0.01)


async def waiting(client: linger.aio.Client, topic: str, wanted: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            found = (await client.topic(topic)).waiting
        except linger.NotFound:
            found = 0
        if found == wanted:
            return
        assert time.monotonic() < end, found
        await asyncio.sleep(0.01)


def test_as_many_jobs_as_hands_are_worked_on_at_once(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        here, most, done = 0, 0, 0
        go_on = asyncio.Event()

        @worker.handler(topic)
        async def meet(job: linger.Job) -> None:
            nonlocal here, most, done
            here += 1
            most = max(most, here)
            if here == 4:
                go_on.set()
            await go_on.wait()
            here -= 1
            done += 1

        await client.add_many([{"topic": topic} for _ in range(12)])
        async with worker:
            await soon(lambda: done == 12)
        assert most == 4

    tell(server.url, story)


def test_a_handler_that_raises_fails_its_job_with_the_text(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        @worker.handler(topic)
        async def fail(job: linger.Job) -> None:
            raise RuntimeError("the bank is closed")

        await client.add(topic, id="1", retry={"ladder": ["1h"]})
        async with worker:
            job = await state(client, topic, "retry")
        assert (job.last_error, job.attempt) == ("the bank is closed", 1)

    tell(server.url, story)


def test_a_handler_may_say_again_and_when(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        attempts = []

        @worker.handler(topic)
        async def later(job: linger.Job) -> None:
            attempts.append(job.attempt)
            if job.attempt == 1:
                raise linger.Again("10ms")
            if job.attempt == 2:
                raise linger.RetryIn("10ms", "not now")

        await client.add(topic, id="1", retry={"ladder": ["1h", "1h"]}, retain="1h")
        async with worker:
            await state(client, topic, "finished")
        assert attempts == [1, 2, 3]
        errors = [event.error for event in await client.history(topic, "1")]
        assert "not now" in errors

    tell(server.url, story)


def test_a_job_is_touched_for_as_long_as_its_handler_works(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        attempts = []

        @worker.handler(topic)
        async def slow(job: linger.Job) -> None:
            attempts.append(job.attempt)
            # Its ttr is over two times and more before it ends.
            await asyncio.sleep(4.5)

        await client.add(topic, id="1", ttr="2s", retain="1h")
        async with worker:
            await state(client, topic, "finished")
        assert attempts == [1]

    tell(server.url, story)


def test_a_lost_lease_cancels_the_handler_and_its_outcome_is_told_to_nobody(
    server: Server, client: linger.Client, topic: str
) -> None:
    with Proxy(server.url) as proxy:

        async def story(_: linger.aio.Client, worker: linger.aio.Worker) -> None:
            working, cancelled = asyncio.Event(), asyncio.Event()

            @worker.handler(topic)
            async def slow(job: linger.Job) -> None:
                working.set()
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise

            async with worker:
                await asyncio.wait_for(working.wait(), 20)
                client.release(topic, "1", delay="1h")
                await asyncio.wait_for(cancelled.wait(), 20)

        client.add(topic, id="1", ttr="1s")
        tell(proxy.url, story)
        settled = [path for _, path in proxy.requests if not path.endswith(("/pop", "/touch"))]
        assert settled == []
    job = client.get(topic, "1")
    assert (job.state, job.last_error) == ("delayed", None)


def test_a_lease_that_cannot_be_touched_in_time_is_lost(server: Server, topic: str) -> None:
    with Proxy(server.url) as proxy:

        async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
            working, cancelled = asyncio.Event(), asyncio.Event()

            @worker.handler(topic)
            async def slow(job: linger.Job) -> None:
                working.set()
                try:
                    await asyncio.sleep(30)
                finally:
                    cancelled.set()

            await client.add(topic, id="1")
            async with worker:
                await asyncio.wait_for(working.wait(), 20)
                proxy.lose = 1_000_000
                await asyncio.wait_for(cancelled.wait(), 20)

        tell(proxy.url, story, ttr="1s", grace=0)


def test_stop_waits_for_handlers(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        working, go_on = asyncio.Event(), asyncio.Event()

        @worker.handler(topic)
        async def slow(job: linger.Job) -> None:
            working.set()
            await go_on.wait()

        await client.add(topic, id="1", retain="1h")
        worker.start()
        await asyncio.wait_for(working.wait(), 20)
        stopping = asyncio.ensure_future(worker.stop())
        await waiting(client, topic, 0)
        assert not stopping.done()
        go_on.set()
        await stopping
        assert (await client.get(topic, "1")).state == "finished"

    tell(server.url, story)


def test_what_is_left_after_the_grace_time_is_cancelled_and_released(
    server: Server, topic: str
) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        working, cancelled = asyncio.Event(), asyncio.Event()

        @worker.handler(topic)
        async def stuck(job: linger.Job) -> None:
            working.set()
            try:
                await asyncio.sleep(30)
            finally:
                cancelled.set()

        await client.add(topic, id="1")
        worker.start()
        await asyncio.wait_for(working.wait(), 20)
        await worker.stop("50ms")
        assert cancelled.is_set()
        job = await client.get(topic, "1")
        assert (job.state, job.attempt) == ("ready", 0)

    tell(server.url, story)


def test_stop_hangs_up_a_pop_that_waits_and_leases_nothing(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        @worker.handler(topic)
        async def nothing(job: linger.Job) -> None:
            pass

        worker.start()
        await waiting(client, topic, 1)
        await asyncio.wait_for(worker.stop(), 20)
        await waiting(client, topic, 0)
        await client.add(topic, id="1")
        assert (await client.get(topic, "1")).state == "ready"

    tell(server.url, story)


def test_a_worker_with_all_hands_full_can_be_stopped(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        working = asyncio.Event()

        @worker.handler(topic)
        async def stuck(job: linger.Job) -> None:
            working.set()
            await asyncio.sleep(30)

        await client.add(topic, id="1")
        worker.start()
        await asyncio.wait_for(working.wait(), 20)
        await asyncio.wait_for(worker.stop(0), 20)

    tell(server.url, story, concurrency=1)


def test_a_server_that_is_away_is_asked_again() -> None:
    with Scripted(refusal(503, "unavailable")) as stub:

        async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
            @worker.handler("t")
            async def nothing(job: linger.Job) -> None:
                pass

            async with worker:
                await soon(lambda: len(stub.requests) >= 6)

        tell(stub.url, story)


def test_a_server_that_will_not_have_it_ends_the_worker() -> None:
    with Scripted(refusal(401, "unauthorized")) as stub:

        async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
            @worker.handler("t")
            async def nothing(job: linger.Job) -> None:
                pass

            with pytest.raises(linger.Unauthorized):
                await worker.run(signals=False)

        tell(stub.url, story)


def test_stop_while_run_runs_ends_it(server: Server, topic: str) -> None:
    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        @worker.handler(topic)
        async def nothing(job: linger.Job) -> None:
            pass

        running = asyncio.ensure_future(worker.run(signals=False))
        await waiting(client, topic, 1)
        await asyncio.gather(worker.stop(), worker.stop())
        await asyncio.wait_for(running, 20)

    tell(server.url, story)


def test_a_loop_that_lends_no_socket_hangs_up(
    server: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pseudo:
        """What uvloop gives."""

        def shutdown(self, how: int) -> None:
            raise TypeError("not supported")

    monkeypatch.setattr(asyncio.StreamWriter, "get_extra_info", lambda *_: Pseudo())

    async def story(client: linger.aio.Client, worker: linger.aio.Worker) -> None:
        @worker.handler(topic)
        async def nothing(job: linger.Job) -> None:
            pass

        worker.start()
        await waiting(client, topic, 1)
        await asyncio.wait_for(worker.stop(), 20)
        await waiting(client, topic, 0)

    tell(server.url, story)
