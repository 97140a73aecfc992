"""What a user of the clients sees: values of the language, kept connections, time-outs."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable

import pytest
from harness import Proxy, Scripted, Server, Stub, call, eventually, free_port

import linger
import linger.aio
from linger import _calls, _times

Make = Callable[..., Any]


def test_times_are_those_of_the_language(make: Make, server: Server, topic: str) -> None:
    client = make(server.url)
    at = datetime(2999, 1, 1, 9, tzinfo=timezone(timedelta(hours=8)))
    job = client.add(topic, at=at, ttr=timedelta(minutes=2), retain=90)
    assert job.due == at
    assert job.due.tzinfo is not None
    assert job.ttr == timedelta(minutes=2)
    assert job.retain == timedelta(seconds=90)
    before = datetime.now(timezone.utc)
    moved = client.update(topic, job.id, delay=timedelta(hours=1, milliseconds=1)).job
    assert timedelta(hours=1) <= moved.due - before < timedelta(hours=1, minutes=1)


def test_a_moment_without_a_zone_is_local_time(make: Make, server: Server, topic: str) -> None:
    local = datetime(2999, 1, 1, 9)
    assert make(server.url).add(topic, at=local).due == local.astimezone()


def test_times_within_retry_and_repeat_are_taken_too(
    make: Make, server: Server, topic: str
) -> None:
    job = make(server.url).add(
        topic,
        retry={"ladder": [timedelta(seconds=15), "3m"]},
        repeat={"every": timedelta(hours=1), "until": datetime(2999, 1, 1, tzinfo=timezone.utc)},
    )
    assert job.retry["ladder"] == ["15s", "3m"]
    assert job.repeat["every"] == "1h"


@pytest.mark.parametrize(
    "body",
    [None, True, 0, -1.5, "", "text", "世界\u2028", [], {"a": [1, {"b": None}]}, b"", b"\x00\xff"],
)
def test_a_body_comes_back_as_it_was_given(
    make: Make, server: Server, topic: str, body: object
) -> None:
    client = make(server.url)
    client.add(topic, body, id="1")
    for job in (client.get(topic, "1"), client.pop(topic)[0]):
        assert (job.body, type(job.body)) == (body, type(body))


def test_a_body_that_is_json_is_sent_as_it_is(make: Make, server: Server, topic: str) -> None:
    client, text = make(server.url), '{ "price": 1.10,  "big": 1e400 }'
    client.add(topic, linger.Json(text), id="1")
    client.add_many([{"topic": topic, "id": "2", "body": linger.Json(text.encode())}])
    client.add(topic, id="3")
    client.update(topic, "3", body=linger.Json(text))
    for id in "123":
        _, answer = call(f"{server.url}/v1/topics/{topic}/jobs/{id}")
        assert text.encode() in answer


def test_json_that_is_more_than_one_value_is_refused_here() -> None:
    with pytest.raises(ValueError, match="Extra data"):
        linger.Json('1}, {"topic": "another"')


def test_a_body_that_json_cannot_hold_is_refused_here(make: Make, server: Server) -> None:
    with pytest.raises(TypeError):
        make(server.url).add("t", datetime.now())


def test_lists_are_read_page_after_page(make: Make, server: Server, topic: str) -> None:
    client = make(server.url)
    client.add_many([{"topic": f"{topic}.{n}", "id": str(n), "body": n} for n in range(5)])
    client.add_many([{"topic": topic, "id": str(n), "body": n, "delay": "1h"} for n in range(5)])
    assert sorted(job.id for job in client.jobs(topic, limit=2)) == list("01234")
    assert sorted(job.body for job in client.jobs(topic, limit=2, body=True)) == [0, 1, 2, 3, 4]
    assert list(client.jobs(topic, state="ready")) == []
    soon = datetime.now(timezone.utc)
    assert list(client.jobs(topic, due_before=soon)) == []
    assert len(list(client.jobs(topic, due_after=soon, id_prefix="1"))) == 1
    names = [each.topic for each in client.topics(prefix=f"{topic}.", limit=2)]
    assert sorted(names) == [f"{topic}.{n}" for n in range(5)]


def test_an_error_has_its_class_code_field_and_status(make: Make, server: Server) -> None:
    with pytest.raises(linger.Invalid) as raised:
        make(server.url).add("t", delay="soon")
    error = raised.value
    assert (error.code, error.field, error.status) == ("invalid", "delay", 400)
    assert "soon" in error.message
    assert str(error).startswith("invalid: ")


def test_each_of_many_is_a_job_or_its_error(make: Make, server: Server, topic: str) -> None:
    good, bad = make(server.url).add_many([{"topic": topic}, {"topic": topic, "delay": "soon"}])
    assert isinstance(good, linger.Job)
    assert isinstance(bad, linger.Invalid)
    assert bad.field == "delay"


def test_dead_jobs_are_redriven_by_filter(make: Make, server: Server, topic: str) -> None:
    client = make(server.url)
    for id in ("a1", "a2", "b1"):
        client.add(topic, id=id, retry={"attempts": 1})
    for job in client.pop(topic, max=3):
        client.fail(job)
    assert client.redrive(topic, where={"id_prefix": "a"}) == 2
    assert client.redrive(topic) == 1


def test_a_job_is_named_by_itself_or_by_topic_and_id(
    make: Make, server: Server, topic: str
) -> None:
    client = make(server.url)
    client.add(topic, id="1")
    job = client.pop(topic)[0]
    with pytest.raises(TypeError, match="without an id"):
        client.finish(topic)
    with pytest.raises(TypeError, match="of its own"):
        client.finish(job, "1")
    assert client.finish(topic, "1", lease=job.lease).changed


def test_a_request_that_is_too_large_is_told_so(make: Make, server: Server) -> None:
    with pytest.raises(linger.TooLarge):
        make(server.url).add("t", "x" * (2 << 20))


def test_servers_and_key_are_those_of_the_environment(
    make: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scripted((200, b'{"topics":[]}')) as stub:
        away = f"http://127.0.0.1:{free_port()}"
        monkeypatch.setenv("LINGER_SERVER", f"{away}, {stub.url}/behind/a/proxy/")
        monkeypatch.setenv("LINGER_KEY", "lk_1")
        assert list(make().topics()) == []
        assert stub.requests == [("GET", "/behind/a/proxy/v1/topics")]
        assert stub.headers[0]["authorization"] == "Bearer lk_1"


def test_without_any_the_server_is_on_this_machine() -> None:
    assert next(linger.Client()._servers.in_turn()).url == "http://127.0.0.1:7300"


@pytest.mark.parametrize("given", ["queue:7300", "ftp://queue", "http://", ",", []])
def test_an_address_that_is_none_is_told_at_once(given: Any) -> None:
    with pytest.raises(ValueError, match="address"):
        linger.Client(given)


def test_a_header_cannot_be_smuggled_in(make: Make, server: Server) -> None:
    with pytest.raises(ValueError, match="idempotency-key"):
        make(server.url).add("t", idempotency_key="a\r\nx-evil: 1")
    with pytest.raises(ValueError, match="API key"):
        make(server.url, key="a\r\nx-evil: 1")


def test_a_connection_is_kept(make: Make) -> None:
    with Scripted((200, b'{"topics":[]}')) as stub:
        client = make(stub.url)
        for _ in range(5):
            list(client.topics())
        assert (len(stub.requests), stub.connections) == (5, 1)


def test_a_kept_connection_that_the_server_has_closed_is_not_used(
    make: Make, store: Path, topic: str
) -> None:
    server = Server(store)
    client = make(server.url)
    client.add(topic, id="1", delay="1h")
    server.stop()
    server = Server(store, port=int(server.url.rpartition(":")[2]))
    try:
        # A call that is never repeated, so that it cannot succeed by a second try.
        assert client.run(topic, "1").changed
    finally:
        server.stop()


class Slow(Stub):
    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        time.sleep(0.6)
        return 200, b'{"jobs":[]}' if method == "POST" else b'{"topics":[]}'


def test_an_answer_that_does_not_come_in_time_is_unavailable(make: Make) -> None:
    with Slow() as stub:
        client = make(stub.url, timeout="200ms")
        with pytest.raises(linger.Unavailable, match="in time") as raised:
            list(client.topics())
        assert raised.value.status is None
        assert len(stub.requests) == 2


def test_a_pop_has_the_wait_besides(make: Make) -> None:
    with Slow() as stub:
        client = make(stub.url, timeout=timedelta(milliseconds=200))
        assert client.pop("t", wait="10s") == []
        assert client.pop("t", wait=timedelta(seconds=10)) == []
        with pytest.raises(linger.Unavailable):
            client.pop("t", wait="1ms")


def test_a_server_that_takes_no_connection_in_time_is_unavailable(make: Make) -> None:
    # An address of the net that is for documentation, where nobody is; some networks refuse it.
    client = make("http://192.0.2.1:7300", connect_timeout=0.1)
    began = time.monotonic()
    with pytest.raises(linger.Unavailable, match=r"reached"):
        client.topic("t")
    assert time.monotonic() - began < 20


def test_threads_share_a_client(server: Server, topic: str) -> None:
    with linger.Client(server.url) as client:
        threads = [
            threading.Thread(target=lambda: [client.add(topic, delay="1h") for _ in range(20)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.topic(topic).counts["delayed"] == 160


def _add_in_child(client: linger.Client, topic: str) -> None:
    client.add(topic, id="child")
    client.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_use_its_parents_connections(server: Server, topic: str) -> None:
    with Proxy(server.url) as proxy, linger.Client(proxy.url) as client:
        client.add(topic, id="parent")
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=_add_in_child, args=(client, topic))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert proxy.connections == 2


def test_a_pop_that_is_cancelled_leases_nothing(
    server: Server, client: linger.Client, topic: str
) -> None:
    async def story() -> None:
        async with linger.aio.Client(server.url) as queue:
            popping = asyncio.ensure_future(queue.pop(topic, wait="60s"))
            while not await _waits(queue, topic):
                await asyncio.sleep(0.01)
            popping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await popping

    asyncio.run(story())
    eventually(lambda: not any(each.waiting for each in client.topics(prefix=topic)))
    client.add(topic, id="1")
    assert client.get(topic, "1").state == "ready"


async def _waits(client: linger.aio.Client, topic: str) -> bool:
    return any([each.waiting async for each in client.topics(prefix=topic)])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_outlives_its_event_loop(server: Server, topic: str) -> None:
    client = linger.aio.Client(server.url)

    async def once(id: str) -> linger.Job:
        job = await client.add(topic, id=id)
        if id == "2":
            await client.close()
        return job

    assert asyncio.run(once("1")).id == "1"
    assert asyncio.run(once("2")).id == "2"
    # Here, where it may complain of the connection that ended with its loop.
    gc.collect()


def test_chunked_answers_are_read(make: Make) -> None:
    answer = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b'a;x=y\r\n{"topics":\r\n3\r\n[]}\r\n0\r\ntrailer: 1\r\n\r\n'
    )
    with Raw(answer) as url:
        assert list(make(url).topics()) == []


def test_an_answer_that_ends_with_the_connection_is_read(make: Make) -> None:
    with Raw(b'HTTP/1.0 200 OK\r\n\r\n{"topics":[]}') as url:
        assert list(make(url).topics()) == []


class Raw:
    """Answers every connection with these bytes."""

    def __init__(self, answer: bytes) -> None:
        import socketserver

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.recv(65536)
                self.request.sendall(answer)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.parametrize(
    ("length", "seconds"),
    [("500ms", 0.5), ("2h30m", 9000), ("7d", 604800), ("1.5s", 1.5), ("90", 90), (0.25, 0.25)],
)
def test_a_length_of_time_in_seconds(length: _times.Duration, seconds: float) -> None:
    assert _times.seconds(length) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 s", "s", "5x", "-1s"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="no length of time"):
        _times.seconds(text)


@pytest.mark.parametrize(
    ("here", "clock"),
    [("09:00:00.7", "09:00:00.7"), ("08:59:00", "09:00:01"), ("09:30:00", "09:00:01")],
)
def test_a_lease_is_measured_by_the_servers_clock(here: str, clock: str) -> None:
    def at(text: str) -> datetime:
        day = f"2026-12-01T{text}" + ("00000" if "." in text else "")
        return datetime.fromisoformat(day + "+00:00")

    assert _calls._server_clock("Tue, 01 Dec 2026 09:00:00 GMT", at(here)) == at(clock)
