"""Deliveries that Linger pushes: verified, handed to handlers, answered."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable, Optional, Protocol, Union
from urllib.parse import unquote

from . import _times
from ._handlers import Handlers, outcome

log = logging.getLogger("linger")

#: How far a delivery's time may be from ours, in seconds.
TOLERANCE = 300

#: The largest body that is read.
BODY_BYTES_MAX = 64 << 20

Secrets = Union[str, Iterable[str]]


class Headers(Protocol):
    """Headers as frameworks have them: names and values."""

    def items(self) -> Iterable[tuple[str, str]]:
        """All of them."""
        ...


class VerificationError(Exception):
    """A delivery that is not to be believed: not signed by these secrets, or too old."""


@dataclass(frozen=True, eq=False)
class Delivery:
    """A job as it was pushed."""

    topic: str
    id: str
    attempt: int
    #: As it was given with the job: what JSON holds, text or `bytes`.
    body: Any
    #: The body, byte for byte.
    raw: bytes = field(repr=False)
    due: Optional[datetime] = None
    #: For `client.finish(delivery)`, if it is confirmed so.
    lease: Optional[str] = None
    #: The same for every attempt at this occurrence: drop what you know.
    webhook_id: Optional[str] = None


def verify(
    secrets: Secrets,
    headers: Headers,
    body: bytes,
    *,
    tolerance: float = TOLERANCE,
    now: Optional[float] = None,
) -> Delivery:
    """Checks that one of the secrets has signed this, lately; the job that was delivered.

    A secret is `whsec_…` or, for ed25519, the public key `whpk_…`, which needs `linger[ed25519]`.
    Raises `VerificationError`, and `ValueError` for what is no secret.
    """
    keys = [_key(secret) for secret in _listed(secrets)]
    given = _lower(headers)
    try:
        id, sent, signatures = (
            given[f"webhook-{name}"] for name in ("id", "timestamp", "signature")
        )
    except KeyError as missing:
        raise VerificationError(f"header {missing} is missing") from None
    if not re.fullmatch("[0-9]{1,15}", sent):
        raise VerificationError(f"webhook-timestamp is `{sent}`; it is a number of seconds")
    off = abs((time.time() if now is None else now) - int(sent))
    if off > tolerance:
        raise VerificationError(f"it is {off:.0f} s old or early, over the limit of {tolerance} s")
    signed = f"{id}.{sent}.".encode() + body
    parts = [signature.partition(",") for signature in signatures.split(" ")]
    for version, key in keys:
        fits = _ed25519(key, signed) if version == "v1a" else _hmac(key, signed)
        if any(kind == version and fits(_decode(text)) for kind, _, text in parts):
            return _delivery(given, body)
    raise VerificationError("it is signed by none of the secrets")


def _listed(secrets: Secrets) -> list[str]:
    return [secrets] if isinstance(secrets, str) else list(secrets)


def _key(secret: str) -> tuple[str, bytes]:
    """The version of its signatures, and the key."""
    public = secret.startswith("whpk_")
    text = secret[5:] if public else secret[6:] if secret.startswith("whsec_") else secret
    key = _decode(text)
    # Without the text: it is a secret.
    if base64.b64encode(key).decode() != text:
        raise ValueError("a secret is not base64 behind its whsec_ or whpk_")
    if not key:
        raise ValueError("a secret is empty; anybody could sign with it")
    if public and len(key) != 32:
        raise ValueError(f"a whpk_ key has {len(key)} bytes; one of ed25519 has 32")
    return "v1a" if public else "v1", key


def _hmac(key: bytes, signed: bytes) -> Callable[[bytes], bool]:
    right = hmac.new(key, signed, hashlib.sha256).digest()
    return lambda given: hmac.compare_digest(given, right)


def _ed25519(key: bytes, signed: bytes) -> Callable[[bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as cause:
        raise ImportError("a `whpk_` key needs cryptography: install linger[ed25519]") from cause

    def fits(given: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(given, signed)
        except InvalidSignature:
            return False
        return True

    return fits


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _lower(headers: Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _delivery(headers: Mapping[str, str], body: bytes) -> Delivery:
    try:
        attempt = int(headers.get("linger-attempt", "0"))
        due = _times.moment(headers["linger-due"]) if "linger-due" in headers else None
    except ValueError as cause:
        raise VerificationError(f"its headers are not those of Linger: {cause}") from cause
    return Delivery(
        topic=unquote(headers.get("linger-topic", "")),
        id=unquote(headers.get("linger-job", "")),
        attempt=attempt,
        body=_body(headers.get("content-type", ""), body),
        raw=body,
        due=due,
        lease=headers.get("linger-lease"),
        webhook_id=headers.get("webhook-id"),
    )


def _body(content_type: str, body: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return json.loads(body)
        if kind.startswith("text/") or not body:
            return body.decode()
    except ValueError:
        # A job may be given any type along with any bytes.
        pass
    return body


@dataclass(frozen=True)
class Reply:
    """What a delivery is answered."""

    status: int
    body: bytes = b""

    def headers(self) -> list[tuple[str, str]]:
        """Its headers."""
        length = [] if self.status == 204 else [("content-length", str(len(self.body)))]
        return [("content-type", "application/json"), *length] if self.body else length


Handler = Callable[[Delivery], object]


class Receiver(Handlers[Handler]):
    """Takes deliveries, hands them to handlers by topic, and answers what they say.

    `secrets` are those that may have signed them, several while they are rotated; None takes
    deliveries that nobody has signed. Frameworks mount `flask_view`, `asgi` or `wsgi`.
    """

    def __init__(self, secrets: Optional[Secrets]) -> None:
        super().__init__()
        # A list, so that an iterator is not used up by the first delivery.
        self._secrets = None if secrets is None else _listed(secrets)
        for secret in self._secrets or ():
            # One that is no secret is told now, and not by the first delivery.
            version, key = _key(secret)
            if version == "v1a":
                _ed25519(key, b"")
        #: An ASGI endpoint, for `app.add_route(path, receiver.asgi, methods=["POST"])`.
        self.asgi: Any = Asgi(self)

    def answer(self, headers: Headers, body: bytes) -> Reply:
        """Takes one delivery, and answers it when its handler has returned."""
        found = self._find(headers, body)
        if isinstance(found, Reply):
            return found
        handler, delivery = found
        try:
            result = handler(delivery)
            if inspect.isawaitable(result):
                asyncio.run(_awaited(result))
        except Exception as raised:
            return _failed(delivery, raised)
        return Reply(204)

    async def answer_async(self, headers: Headers, body: bytes) -> Reply:
        """Likewise; handlers that are no coroutines run in threads."""
        found = self._find(headers, body)
        if isinstance(found, Reply):
            return found
        handler, delivery = found
        try:
            if inspect.iscoroutinefunction(handler):
                await handler(delivery)
            else:
                result = await asyncio.to_thread(handler, delivery)
                if inspect.isawaitable(result):
                    await result
        except Exception as raised:
            return _failed(delivery, raised)
        return Reply(204)

    def flask_view(self) -> Any:
        """A view function for Flask, of the method POST."""
        from flask import Response, request

        reply = self.answer(request.headers, request.get_data())
        return Response(reply.body, reply.status, reply.headers())

    def wsgi(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """A WSGI application."""
        if environ["REQUEST_METHOD"] != "POST":
            reply = refusal(405, "a delivery is a POST")
        else:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            if length > BODY_BYTES_MAX:
                reply = too_large(length)
            else:
                body = environ["wsgi.input"].read(length)
                whole = len(body) == length
                reply = self.answer(_wsgi_headers(environ), body) if whole else cut_off()
        start_response(f"{reply.status} -", reply.headers())
        return [reply.body]

    def _find(self, headers: Headers, body: bytes) -> Union[Reply, tuple[Handler, Delivery]]:
        try:
            if self._secrets is None:
                delivery = _delivery(_lower(headers), body)
            else:
                delivery = verify(self._secrets, headers, body)
        except VerificationError as error:
            log.warning("a delivery was refused: %s", error)
            return refusal(401, str(error))
        handler = self._handlers.get(delivery.topic)
        if handler is None:
            return refusal(404, f"there is no handler for topic `{delivery.topic}`")
        return handler, delivery


class Asgi:
    """An ASGI application of a receiver."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            # By this a server learns that there is nothing to be started or stopped.
            raise NotImplementedError(f"{scope['type']} is not spoken here")
        reply = await self._answer(scope, receive)
        headers = [(name.encode(), value.encode()) for name, value in reply.headers()]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _answer(
        self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> Reply:
        if scope["method"] != "POST":
            return refusal(405, "a delivery is a POST")
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return cut_off()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > BODY_BYTES_MAX:
                return too_large(len(body))
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if int(headers.get("content-length") or 0) > len(body):
            return cut_off()
        return await self._receiver.answer_async(headers, body)


async def _awaited(result: Any) -> None:
    await result


def _failed(delivery: Delivery, raised: Exception) -> Reply:
    said = outcome(raised)
    if not said.again:
        log.warning("job %s of %s failed", delivery.id, delivery.topic, exc_info=raised)
    fields = {
        "outcome": "again" if said.again else "failed",
        "error": said.error,
        "retry_in": said.retry_in,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return Reply(200, json.dumps(given, default=_times.plain).encode())


def refusal(status: int, why: str) -> Reply:
    """Says why a delivery was not taken."""
    return Reply(status, json.dumps({"error": why}).encode())


def cut_off() -> Reply:
    """Says that a delivery did not come whole."""
    return refusal(400, "the body is shorter than its content-length")


def too_large(length: int) -> Reply:
    """Says that a delivery is larger than what is read."""
    return refusal(413, f"the body is {length} bytes, over the limit of {BODY_BYTES_MAX}")


def _wsgi_headers(environ: Mapping[str, Any]) -> dict[str, str]:
    headers = {
        name[5:].replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return {**headers, "content-type": environ.get("CONTENT_TYPE", "")}
