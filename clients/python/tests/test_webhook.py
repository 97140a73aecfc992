"""Deliveries: who signed them, and what they are answered."""

from __future__ import annotations

import asyncio
import base64
import builtins
import io
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Callable, Optional

import fastapi
import flask
import pytest
import standardwebhooks
import starlette.applications
import uvicorn
import werkzeug.serving
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from harness import Server, eventually

import linger
from linger.webhook import Delivery, Receiver, VerificationError, verify

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ...").decode()
OTHER = "whsec_" + base64.b64encode(b"another one of thirty-two bytes.").decode()
BODY = b'{"order": 1001}'
NOW = 1790000000


def signed(*secrets: str, at: int = NOW, more: Optional[dict[str, str]] = None) -> dict[str, str]:
    """The headers of a delivery, signed as the published library signs it."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    signatures = [
        standardwebhooks.Webhook(secret).sign("lg_1_0", moment, BODY.decode()) for secret in secrets
    ]
    return {
        "Content-Type": "application/json",
        "Webhook-Id": "lg_1_0",
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": " ".join(signatures),
        "Linger-Topic": "s%2F%E6%94%AF",
        "Linger-Job": "1%20%2B1",
        "Linger-Attempt": "2",
        "Linger-Due": "2026-09-21T14:13:20.000Z",
        "Linger-Lease": "8c1f000000000000",
        **(more or {}),
    }


def test_a_good_signature_gives_back_the_job() -> None:
    job = verify(SECRET, signed(SECRET), BODY, now=NOW + 299)
    assert job.topic == "s/支"
    assert (job.id, job.attempt, job.lease) == ("1 +1", 2, "8c1f000000000000")
    assert job.due == datetime(2026, 9, 21, 14, 13, 20, tzinfo=timezone.utc)
    assert (job.body, job.raw, job.webhook_id) == ({"order": 1001}, BODY, "lg_1_0")


def test_what_is_verified_here_is_what_the_published_library_verifies() -> None:
    headers = signed(SECRET, at=int(time.time()))
    assert verify(SECRET, headers, BODY)
    standardwebhooks.Webhook(SECRET).verify(BODY, {k.lower(): v for k, v in headers.items()})


@pytest.mark.parametrize(
    "secrets", [[SECRET, OTHER], [OTHER, SECRET], (s for s in (OTHER, SECRET))]
)
def test_any_of_several_secrets_will_do(secrets: Any) -> None:
    assert verify(secrets, signed(SECRET), BODY, now=NOW)


def test_while_secrets_are_rotated_any_of_several_signatures_will_do() -> None:
    assert verify(SECRET, signed(OTHER, SECRET), BODY, now=NOW)


def test_a_secret_without_its_beginning_is_one() -> None:
    assert verify(SECRET[6:], signed(SECRET), BODY, now=NOW)


REFUSED: dict[str, Callable[[], Delivery]] = {
    "by another secret": lambda: verify(OTHER, signed(SECRET), BODY, now=NOW),
    "without secrets": lambda: verify([], signed(SECRET), BODY, now=NOW),
    "too old": lambda: verify(SECRET, signed(SECRET), BODY, now=NOW + 301),
    "too early": lambda: verify(SECRET, signed(SECRET), BODY, now=NOW - 301),
    "another body": lambda: verify(SECRET, signed(SECRET), BODY + b" ", now=NOW),
    "another id": lambda: verify(
        SECRET, signed(SECRET, more={"Webhook-Id": "lg_2_0"}), BODY, now=NOW
    ),
    "another time": lambda: verify(
        SECRET, signed(SECRET, more={"Webhook-Timestamp": str(NOW + 1)}), BODY, now=NOW
    ),
    "no time": lambda: verify(
        SECRET, signed(SECRET, more={"Webhook-Timestamp": "today"}), BODY, now=NOW
    ),
    "another version": lambda: verify(
        SECRET,
        signed(SECRET, more={"Webhook-Signature": signed(SECRET)["Webhook-Signature"][1:]}),
        BODY,
        now=NOW,
    ),
    "no signature": lambda: verify(
        SECRET, signed(SECRET, more={"Webhook-Signature": "v1,"}), BODY, now=NOW
    ),
    "no base64": lambda: verify(
        SECRET, signed(SECRET, more={"Webhook-Signature": "v1,ö v1 v1,!"}), BODY, now=NOW
    ),
    "headers of someone else": lambda: verify(
        SECRET, signed(SECRET, more={"Linger-Attempt": "many"}), BODY, now=NOW
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_delivery_is_refused(name: str) -> None:
    with pytest.raises(VerificationError):
        REFUSED[name]()


@pytest.mark.parametrize("name", ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"])
def test_a_delivery_without_the_header_is_refused(name: str) -> None:
    headers = signed(SECRET)
    del headers[name]
    with pytest.raises(VerificationError, match=name.lower()):
        verify(SECRET, headers, BODY, now=NOW)


def ed25519(key: Ed25519PrivateKey) -> tuple[str, dict[str, str]]:
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    signature = base64.b64encode(key.sign(b"lg_1_0.%d." % NOW + BODY)).decode()
    headers = signed(SECRET, more={"Webhook-Signature": f"v1,AAAA v1a,{signature}"})
    return "whpk_" + base64.b64encode(public).decode(), headers


def test_a_signature_by_ed25519_is_verified() -> None:
    public, headers = ed25519(Ed25519PrivateKey.generate())
    assert verify([SECRET, public], headers, BODY, now=NOW)
    with pytest.raises(VerificationError):
        verify(public, headers, BODY + b" ", now=NOW)
    another, _ = ed25519(Ed25519PrivateKey.generate())
    with pytest.raises(VerificationError):
        verify(another, headers, BODY, now=NOW)


def test_without_cryptography_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **named)

    public, headers = ed25519(Ed25519PrivateKey.generate())
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"linger\[ed25519\]"):
        verify(public, headers, BODY, now=NOW)
    assert verify(SECRET, signed(SECRET), BODY, now=NOW)


def test_frameworks_are_imported_only_when_they_are_used() -> None:
    from harness import Program

    code, output = Program(
        "-c",
        "import sys, linger, linger.aio; print([m for m in sys.modules if 'flask' in m "
        "or 'starlette' in m or 'cryptography' in m])",
    ).end()
    assert (code, output.strip()) == (0, "[]")
    assert "flask" in sys.modules


NO_SECRETS = {
    "": "empty",
    "whsec_": "empty",
    "whsec_!": "not base64",
    "whsec_ö": "not base64",
    SECRET + "\n": "not base64",
    SECRET + "==": "not base64",
    "whpk_": "empty",
    "whpk_AAAA": "has 3 bytes",
}


@pytest.mark.parametrize("secret", NO_SECRETS)
def test_what_is_no_secret_is_told_when_it_is_given(secret: str) -> None:
    for given in (
        lambda: Receiver([SECRET, secret]),
        lambda: linger.Service("app", "http://localhost/", secrets=secret),
        lambda: verify([SECRET, secret], signed(SECRET), BODY, now=NOW),
    ):
        with pytest.raises(ValueError, match=NO_SECRETS[secret]) as raised:
            given()
        assert len(secret) < 8 or secret.strip("=\n") not in str(raised.value)


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/cloudevents+json; charset=utf-8", b"[1]", [1]),
        ("text/plain; charset=utf-8", "世".encode(), "世"),
        ("application/octet-stream", b"\x00\xff", b"\x00\xff"),
        ("application/json", b"not json", b"not json"),
        ("", b"", ""),
    ],
)
def test_a_body_is_read_by_its_type(content_type: str, body: bytes, expected: object) -> None:
    seen: list[Delivery] = []
    receiver = Receiver(None)
    receiver.handler("t")(seen.append)
    headers = {"linger-topic": "t", "content-type": content_type}
    assert receiver.answer(headers, body).status == 204
    assert (seen[0].body, seen[0].raw) == (expected, body)


def plain_receiver(secrets: Optional[str] = None) -> tuple[Receiver, list[Delivery]]:
    """One with a handler for each thing that can be said."""
    receiver, seen = Receiver(secrets), []

    @receiver.handler("good")
    def good(job: Delivery) -> None:
        seen.append(job)

    @receiver.handler("again")
    def again(job: Delivery) -> None:
        raise linger.Again("30s")

    @receiver.handler("again.by.ladder")
    def by_ladder(job: Delivery) -> None:
        raise linger.Again

    @receiver.handler("later")
    def later(job: Delivery) -> None:
        raise linger.RetryIn("30s", "the bank is closed")

    @receiver.handler("failed")
    def failed(job: Delivery) -> None:
        raise RuntimeError("boom")

    @receiver.handler("async")
    async def awaited(job: Delivery) -> None:
        await asyncio.sleep(0)
        seen.append(job)

    return receiver, seen


ANSWERS: list[tuple[str, int, object]] = [
    ("good", 204, None),
    ("async", 204, None),
    ("again", 200, {"outcome": "again", "retry_in": "30s"}),
    ("again.by.ladder", 200, {"outcome": "again"}),
    ("later", 200, {"outcome": "failed", "error": "the bank is closed", "retry_in": "30s"}),
    ("failed", 200, {"outcome": "failed", "error": "boom"}),
    ("nobody", 404, {"error": "there is no handler for topic `nobody`"}),
]

App = Callable[[str, dict[str, str]], tuple[int, bytes]]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (RuntimeError("\U0001f9a5" * 100_000), "\U0001f9a5" * 4096),
        (RuntimeError("a\ud800b"), "a?b"),
        (linger.RetryIn("1s", "a\ud800b"), "a?b"),
        (Unspeakable(), "Unspeakable"),
    ],
)
def test_any_error_makes_an_answer_that_the_server_understands(
    raised: Exception, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    # What is captured travels between processes, and surrogates cannot.
    caplog.set_level(logging.CRITICAL, "linger")
    receiver = Receiver(None)

    @receiver.handler("t")
    def fail(job: Delivery) -> None:
        raise raised

    reply = receiver.answer({"linger-topic": "t"}, b"")
    assert reply.status == 200
    assert len(reply.body) < 64 << 10
    assert json.loads(reply.body)["error"] == error


def test_what_a_handler_returns_to_be_awaited_is_awaited() -> None:
    receiver = Receiver(None)

    async def fail() -> None:
        raise RuntimeError("boom")

    receiver.handler("t")(lambda _: fail())
    for reply in (
        receiver.answer({"linger-topic": "t"}, b""),
        asyncio.run(receiver.answer_async({"linger-topic": "t"}, b"")),
    ):
        assert json.loads(reply.body) == {"outcome": "failed", "error": "boom"}


def test_a_body_that_was_cut_off_is_refused() -> None:
    receiver, seen = plain_receiver()
    status: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "CONTENT_LENGTH": "9",
        "HTTP_LINGER_TOPIC": "good",
        "wsgi.input": io.BytesIO(b"short"),
    }
    receiver.wsgi(environ, lambda line, _: status.append(line))

    def asgi(*messages: dict[str, Any]) -> None:
        coming = iter(messages)
        headers = [(b"linger-topic", b"good"), (b"content-length", b"9")]
        scope = {"type": "http", "method": "POST", "headers": headers}

        async def receive() -> dict[str, Any]:
            return next(coming)

        async def send(message: dict[str, Any]) -> None:
            status.append(message.get("status"))

        asyncio.run(receiver.asgi(scope, receive, send))

    asgi({"type": "http.request", "body": b"short"})
    asgi({"type": "http.request", "more_body": True}, {"type": "http.disconnect"})
    assert status == ["400 -", 400, None, 400, None]
    assert seen == []


def flask_app(receiver: Receiver) -> App:
    app = flask.Flask("test")
    app.add_url_rule("/", view_func=receiver.flask_view, methods=["POST"])
    client = app.test_client()

    def post(path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        answer = client.post(path, data=BODY, headers=headers)
        return answer.status_code, answer.data

    return post


def wsgi_app(receiver: Receiver) -> App:
    from werkzeug.test import Client

    client = Client(receiver.wsgi)

    def post(path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        answer = client.post(path, data=BODY, headers=headers)
        return answer.status_code, answer.data

    return post


def fastapi_app(receiver: Receiver) -> App:
    app = fastapi.FastAPI()
    app.add_route("/", receiver.asgi, methods=["POST"])
    return asgi_client(app)


def starlette_app(receiver: Receiver) -> App:
    route = starlette.routing.Route("/", receiver.asgi, methods=["POST"])
    return asgi_client(starlette.applications.Starlette(routes=[route]))


def asgi_client(app: Any) -> App:
    import httpx

    async def post_async(path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answer = await client.post(path, content=BODY, headers=headers)
            return answer.status_code, answer.content

    return lambda path, headers: asyncio.run(post_async(path, headers))


@pytest.fixture(params=[flask_app, wsgi_app, fastapi_app, starlette_app])
def mount(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(("topic_name", "status", "body"), ANSWERS)
def test_the_answer_is_what_the_handler_says(
    mount: Callable[[Receiver], App], topic_name: str, status: int, body: object
) -> None:
    receiver, seen = plain_receiver(SECRET)
    headers = signed(SECRET, at=int(time.time()), more={"Linger-Topic": topic_name})
    got, text = mount(receiver)("/", headers)
    assert got == status
    assert (json.loads(text) if text else None) == body
    assert [job.body for job in seen] == ([{"order": 1001}] if status == 204 else [])


def test_a_wrong_signature_is_401_and_comes_to_no_handler(
    mount: Callable[[Receiver], App],
) -> None:
    receiver, seen = plain_receiver(SECRET)
    post = mount(receiver)
    for headers in (
        signed(OTHER, at=int(time.time()), more={"Linger-Topic": "good"}),
        signed(SECRET, at=int(time.time()) - 3600, more={"Linger-Topic": "good"}),
        {"Linger-Topic": "good"},
    ):
        assert post("/", headers)[0] == 401
    assert seen == []


@pytest.fixture
def serve_flask() -> Iterator[Callable[[Receiver], str]]:
    running = []

    def serve(receiver: Receiver) -> str:
        app = flask.Flask("test")
        app.add_url_rule("/hooks", view_func=receiver.flask_view, methods=["POST"])
        server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
        running.append((server, threading.Thread(target=server.serve_forever, args=(0.01,))))
        running[-1][1].start()
        return f"http://127.0.0.1:{server.server_port}/hooks"

    yield serve
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serve_fastapi() -> Iterator[Callable[[Receiver], str]]:
    running = []

    def serve(receiver: Receiver) -> str:
        app = fastapi.FastAPI()
        app.add_route("/hooks", receiver.asgi, methods=["POST"])
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        running.append((server, threading.Thread(target=server.run)))
        running[-1][1].start()
        eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/hooks"

    yield serve
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("framework", ["serve_flask", "serve_fastapi"])
@pytest.mark.parametrize("kind", ["hmac", "ed25519"])
def test_a_real_push_is_verified_and_handled(
    request: pytest.FixtureRequest,
    server: Server,
    client: linger.Client,
    topic: str,
    framework: str,
    kind: str,
) -> None:
    made = server.call("POST", "/v1/secrets", {"topic": topic, "kind": kind})
    receiver = Receiver(made.get("secret") or made["public_key"])
    seen: list[Delivery] = []

    @receiver.handler(topic)
    def work(job: Delivery) -> None:
        seen.append(job)
        if job.attempt == 1:
            raise linger.RetryIn("10ms", "not now")
        if job.attempt == 2:
            raise linger.Again(0.01)

    url = request.getfixturevalue(framework)(receiver)
    client.configure(topic, target=url, retain="1h", retry={"ladder": ["1h", "1h"]})
    client.add(topic, {"order": 1001}, id="订单/1")
    eventually(lambda: client.get(topic, "订单/1").state == "finished")
    assert [job.attempt for job in seen] == [1, 2, 3]
    assert {(job.topic, job.id, job.webhook_id) for job in seen} == {
        (topic, "订单/1", seen[0].webhook_id)
    }
    assert seen[0].body == {"order": 1001}
    assert "not now" in [event.error for event in client.history(topic, "订单/1")]


def test_a_push_that_is_not_signed_is_refused_by_the_receiver(
    server: Server,
    client: linger.Client,
    topic: str,
    serve_flask: Callable[[Receiver], str],
) -> None:
    receiver, seen = plain_receiver(SECRET)
    client.add(topic, id="1", target=serve_flask(receiver), retry={"attempts": 1})
    eventually(lambda: client.get(topic, "1").state == "dead")
    assert "401" in (client.get(topic, "1").last_error or "")
    assert seen == []


def test_a_delivery_can_be_finished_later_with_its_lease(
    server: Server,
    client: linger.Client,
    topic: str,
    serve_flask: Callable[[Receiver], str],
) -> None:
    receiver = Receiver(None)
    seen: list[Delivery] = []
    receiver.handler(topic)(seen.append)
    target = serve_flask(receiver)
    client.add(topic, "text", id="1", target=target, confirm="finish", retain="1h")
    eventually(lambda: seen)
    assert seen[0].body == "text"
    assert client.get(topic, "1").state == "reserved"
    assert client.finish(seen[0]).changed
    assert client.get(topic, "1").state == "finished"


def test_only_post_is_a_delivery() -> None:
    receiver, _ = plain_receiver()
    status = []
    receiver.wsgi({"REQUEST_METHOD": "GET"}, lambda line, _: status.append(line))
    assert status == ["405 -"]
