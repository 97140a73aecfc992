"""Service mode, with a real server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
import uvicorn
import werkzeug.serving
from harness import Scripted, Server, call, eventually, free_port, refusal

import linger
from linger.webhook import BODY_BYTES_MAX, Delivery

HERE = ("127.0.0.1", 0)


def instances(server: Server, app: str) -> list[dict[str, Any]]:
    workers: list[dict[str, Any]] = server.call("GET", "/v1/workers")["workers"]
    return [worker for worker in workers if worker["app"] == app]


def test_a_service_registers_and_is_called_for_its_topic(
    server: Server, client: linger.Client, topic: str
) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    seen: list[Delivery] = []

    @service.handler(topic)
    def work(job: Delivery) -> None:
        seen.append(job)
        if job.attempt == 1:
            raise linger.RetryIn("10ms", "not now")

    with service:
        (instance,) = instances(server, topic)
        assert (instance["id"], instance["url"]) == (service.id, service.url)
        assert (instance["topics"], instance["lease"]) == ([topic], "30s")
        client.add(topic, {"order": 1}, id="1", target=f"worker:{topic}", retain="1h")
        eventually(lambda: client.get(topic, "1").state == "finished")
        # Without a body a push has no length.
        client.add(topic, id="2", target=f"worker:{topic}", retain="1h")
        eventually(lambda: client.get(topic, "2").state == "finished")
    assert [(job.id, job.attempt, job.body) for job in seen[:2]] == [
        ("1", 1, {"order": 1}),
        ("1", 2, {"order": 1}),
    ]
    assert seen[-1].body == ""


def test_calls_are_verified_if_there_are_secrets(
    server: Server, client: linger.Client, topic: str
) -> None:
    secret = server.call("POST", "/v1/secrets", {"topic": topic})["secret"]
    service = linger.Service(topic, client=client, listen=HERE, secrets=secret)
    seen: list[Delivery] = []
    service.handler(topic)(seen.append)
    with service:
        assert service.url
        assert call(service.url, "POST", b"1", {"linger-topic": topic})[0] == 401
        client.add(topic, 1, id="1", target=f"worker:{topic}", retain="1h")
        eventually(lambda: client.get(topic, "1").state == "finished")
    assert [job.body for job in seen] == [1]


def test_heartbeats_keep_it_registered(server: Server, client: linger.Client, topic: str) -> None:
    service = linger.Service(topic, client=client, listen=HERE, lease="3s")
    service.handler(topic)(lambda _: None)
    with service:
        (first,) = instances(server, topic)

        def moved_by_two_leases() -> bool:
            (now,) = instances(server, topic)
            return bool(now["id"] == first["id"] and seconds(now) - seconds(first) > 6)

        eventually(moved_by_two_leases)


def seconds(instance: dict[str, Any]) -> float:
    return linger._times.moment(instance["expires"]).timestamp()


def test_a_service_that_was_forgotten_registers_again(
    server: Server, client: linger.Client, topic: str
) -> None:
    service = linger.Service(topic, client=client, listen=HERE, lease="1s")
    service.handler(topic)(lambda _: None)
    with service:
        before = service.id
        server.call("DELETE", f"/v1/workers/{before}")
        eventually(lambda: service.id != before)
        assert [each["id"] for each in instances(server, topic)] == [service.id]
        client.add(topic, id="1", target=f"worker:{topic}", retain="1h")
        eventually(lambda: client.get(topic, "1").state == "finished")


def test_stop_drains_lets_calls_end_and_deregisters(
    server: Server, client: linger.Client, topic: str
) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    working, go_on = threading.Event(), threading.Event()

    @service.handler(topic)
    def slow(job: Delivery) -> None:
        working.set()
        assert go_on.wait(20)

    service.start()
    client.add(topic, id="1", target=f"worker:{topic}", retain="1h")
    assert working.wait(20)
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    eventually(lambda: instances(server, topic)[0]["state"] == "draining")
    assert stopping.is_alive()
    go_on.set()
    stopping.join()
    assert instances(server, topic) == []
    eventually(lambda: client.get(topic, "1").state == "finished")


def test_stop_waits_for_the_grace_time_only(
    server: Server, client: linger.Client, topic: str
) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    working, go_on = threading.Event(), threading.Event()

    @service.handler(topic)
    def stuck(job: Delivery) -> None:
        working.set()
        go_on.wait(20)

    service.start()
    client.add(topic, id="1", target=f"worker:{topic}")
    assert working.wait(20)
    service.stop("10ms")
    assert instances(server, topic) == []
    go_on.set()


def test_stop_from_another_thread_ends_run(
    server: Server, client: linger.Client, topic: str
) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    service.handler(topic)(lambda _: None)
    running = threading.Thread(target=lambda: service.run(signals=False))
    running.start()
    eventually(lambda: service.id)
    service.stop()
    running.join(20)
    assert not running.is_alive()
    assert instances(server, topic) == []


def test_a_first_registration_that_failed_is_soon_tried_again(topic: str) -> None:
    registered = (201, b'{"id":"w1"}')
    away = refusal(503, "unavailable")
    with Scripted(away, away, registered) as stub, linger.Client(stub.url) as client:
        service = linger.Service(topic, client=client, listen=HERE, lease="10m")
        service.handler(topic)(lambda _: None)
        with service:
            # And not after a third of the lease.
            eventually(lambda: service.id == "w1")


def test_a_server_that_is_away_at_first_is_registered_with_later(store: Path, topic: str) -> None:
    port = free_port()
    with linger.Client(f"http://127.0.0.1:{port}") as client:
        service = linger.Service(topic, client=client, listen=HERE, lease="1s")
        service.handler(topic)(lambda _: None)
        service.start()
        assert service.id is None
        server = Server(store, port=port)
        try:
            eventually(lambda: instances(server, topic))
            service.stop()
        finally:
            server.stop()


def test_a_server_that_will_not_have_it_is_told_at_once(topic: str) -> None:
    with Scripted(refusal(403, "forbidden")) as stub, linger.Client(stub.url) as client:
        service = linger.Service(topic, client=client, listen=HERE)
        service.handler(topic)(lambda _: None)
        with pytest.raises(linger.Forbidden):
            service.start()


@pytest.fixture
def mounted() -> Iterator[Callable[[str, Any], str]]:
    """Serves a WSGI or an ASGI application; its URL."""
    endings: list[Callable[[], None]] = []

    def wsgi(app: Any) -> str:
        server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        endings.extend([server.server_close, thread.join, server.shutdown])
        return f"http://127.0.0.1:{server.server_port}/"

    def asgi(app: Any) -> str:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        endings.extend([thread.join, lambda: setattr(server, "should_exit", True)])
        eventually(lambda: server.started)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"

    yield lambda kind, app: {"wsgi": wsgi, "asgi": asgi}[kind](app)
    for end in reversed(endings):
        end()


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_a_service_may_be_mounted_elsewhere(
    server: Server,
    client: linger.Client,
    topic: str,
    mounted: Callable[[str, Any], str],
    kind: str,
) -> None:
    service = linger.Service(topic, "http://to.be.replaced/", client=client)
    seen: list[Delivery] = []
    service.handler(topic)(seen.append)
    service._url = mounted(kind, getattr(service, kind))
    with service:
        client.add(topic, [1], id="1", target=f"worker:{topic}", retain="1h")
        eventually(lambda: client.get(topic, "1").state == "finished")
    assert [job.body for job in seen] == [[1]]


def test_a_service_must_be_reachable() -> None:
    with pytest.raises(ValueError, match="listen"):
        linger.Service("app")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (f"content-length: {BODY_BYTES_MAX + 1}", b"413"),
        ("content-length: many", b"411"),
        ("transfer-encoding: chunked", b"411"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    client: linger.Client, topic: str, headers: str, status: bytes
) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    service.handler(topic)(lambda _: None)
    with service:
        assert service._server
        with socket.create_connection(("127.0.0.1", service._server.server_port), 20) as sock:
            sock.sendall(f"POST / HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n".encode())
            assert sock.recv(1000).split(b" ")[1] == status


def test_a_body_that_was_cut_off_is_refused(client: linger.Client, topic: str) -> None:
    service = linger.Service(topic, client=client, listen=HERE)
    service.handler(topic)(lambda _: pytest.fail("it did not come whole"))
    with service:
        assert service._server
        with socket.create_connection(("127.0.0.1", service._server.server_port), 20) as sock:
            head = f"POST / HTTP/1.1\r\nhost: x\r\nlinger-topic: {topic}\r\n"
            sock.sendall(f"{head}content-length: 9\r\n\r\nshort".encode())
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1000).split(b" ")[1] == b"400"
