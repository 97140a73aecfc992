"""Several addresses: calls go on at the next, and none is lost when servers restart."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from harness import Scripted, Server, eventually, free_port, numbers, refusal

import linger
import linger.aio

Make = Callable[..., Any]

COUNTED = (200, b'{"count":1}')


def test_a_server_that_is_away_is_left_for_the_next_which_is_kept(make: Make) -> None:
    with Scripted(COUNTED) as up:
        client = make([f"http://127.0.0.1:{free_port()}", up.url])
        assert client.redrive("t") == 1
        assert client.redrive("t") == 1
        assert len(up.requests) == 2


def test_a_server_that_is_unavailable_is_left_for_the_next_which_is_kept(make: Make) -> None:
    with Scripted(refusal(503, "unavailable")) as down, Scripted(COUNTED) as up:
        client = make(f"{down.url},{up.url}")
        for _ in range(3):
            assert client.empty("t") == 1
        assert (len(down.requests), len(up.requests)) == (1, 3)


def test_a_server_that_is_overloaded_is_asked_first_the_next_time(make: Make) -> None:
    with Scripted(refusal(503, "overloaded"), COUNTED) as busy, Scripted(COUNTED) as other:
        client = make([busy.url, other.url])
        client.redrive("t")
        client.redrive("t")
        assert (len(busy.requests), len(other.requests)) == (2, 1)


def test_every_address_is_tried_once(make: Make) -> None:
    refused = refusal(503, "unavailable")
    with Scripted(refused) as a, Scripted(refused) as b, Scripted(refused) as c:
        with pytest.raises(linger.Unavailable):
            make([a.url, b.url, c.url]).get("t", "1")
        assert [len(each.requests) for each in (a, b, c)] == [1, 1, 1]


def test_a_lost_answer_is_asked_for_at_the_next(make: Make) -> None:
    with Scripted(None) as lossy, Scripted((200, b'{"jobs":[]}')) as up:
        client = make([lossy.url, up.url])
        assert client.pop("t") == []
        assert (len(lossy.requests), len(up.requests)) == (1, 1)


def test_no_server_at_all_is_unavailable_without_a_status(make: Make) -> None:
    with pytest.raises(linger.Unavailable) as raised:
        make(f"http://127.0.0.1:{free_port()}").topic("t")
    assert raised.value.status is None


def test_one_address_is_tried_again_when_it_refuses_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Scripted(COUNTED) as up, linger.Client(up.url) as client:
        connect, refused = client._pool._connect, [ConnectionRefusedError("not yet")]

        def second_time(server: Any) -> Any:
            if refused:
                raise refused.pop()
            return connect(server)

        monkeypatch.setattr(client._pool, "_connect", second_time)
        assert client.redrive("t") == 1


@pytest.fixture
def redis() -> Iterator[str]:
    binary = shutil.which("redis-server")
    assert binary, "redis-server is not on the PATH"
    port = free_port()
    command = [
        binary,
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: answers(port))
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(7) == b"+PONG\r\n"
    except OSError:
        return False


def test_a_worker_goes_on_through_a_rolling_restart(redis: str) -> None:
    ports = [free_port(), free_port()]
    servers = [Server(redis, port=port) for port in ports]
    urls = [server.url for server in servers]
    done: Counter[str] = Counter()
    client, workers_client = linger.Client(urls), linger.Client(urls)
    worker = linger.Worker(workers_client, concurrency=4, ttr="5s")
    added = 0
    added_all = threading.Event()

    @worker.handler("roll")
    def count(job: linger.WorkerJob) -> None:
        done[job.id] += 1

    def add() -> None:
        nonlocal added
        while not added_all.is_set():
            client.add("roll", id=str(added), on_conflict="keep")
            added += 1
            added_all.wait(0.005)

    adding = threading.Thread(target=add)
    try:
        worker.start()
        adding.start()
        for number, port in enumerate(ports):
            before = len(done)
            eventually(lambda before=before: len(done) > before + 20)  # type: ignore[misc]
            servers[number].stop()
            servers[number] = Server(redis, port=port)
        before = len(done)
        eventually(lambda: len(done) > before + 20)
        added_all.set()
        adding.join()
        eventually(lambda: len(done) == added)
        worker.stop()
        assert set(done) == set(numbers(added))
        assert list(client.jobs("roll")) == []
    finally:
        added_all.set()
        worker.stop(0)
        workers_client.close()
        client.close()
        for server in servers:
            server.stop()
