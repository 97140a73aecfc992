"""Where a call goes, and whether it may be made again: one rule for both clients."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, TypeVar, Union
from urllib.parse import urlsplit

from . import errors
from ._calls import Answer, Call, error_of

T = TypeVar("T")

_LOCAL = "http://127.0.0.1:7300"


@dataclass(frozen=True)
class Server:
    """One address of a server."""

    url: str
    tls: bool
    host: str
    port: int
    #: What stands in the URL before the paths of the API.
    prefix: str
    #: For the header `Host`.
    name: str


@dataclass(frozen=True)
class Failure:
    """An exchange without an answer."""

    why: str
    #: Whether the server may have had the request.
    sent: bool
    cause: Optional[BaseException] = None
    status: Optional[int] = None


class Servers:
    """The servers of a client; one of them is called until it fails."""

    def __init__(self, given: Union[str, Iterable[str], None]) -> None:
        if given is None:
            given = os.environ.get("LINGER_SERVER") or _LOCAL
        urls = given.split(",") if isinstance(given, str) else given
        self._all = [_server(url.strip()) for url in urls if url.strip()]
        if not self._all:
            raise ValueError(f"no address of a server was given; give one such as {_LOCAL}")
        self._current = 0

    def any_tls(self) -> bool:
        """Whether TLS is needed at all: to load whom the system trusts takes a while."""
        return any(server.tls for server in self._all)

    def in_turn(self) -> Iterator[Server]:
        """The one that is called at present, then every other; a lone one twice."""
        first, count = self._current, len(self._all)
        for step in range(max(count, 2)):
            yield self._all[(first + step) % count]

    def leave(self, server: Server) -> None:
        """Goes on to the next, unless somebody has done so already."""
        if self._all[self._current] == server:
            self._current = (self._current + 1) % len(self._all)


def tries(call: Call[T], servers: Servers) -> Generator[Server, Union[Answer, Failure], T]:
    """Yields where the call goes, is sent what came of it, and returns what it answers."""
    lost = doubtful = False
    for server in servers.in_turn():
        outcome = _judge(call, (yield server))
        if isinstance(outcome, Failure):
            servers.leave(server)
            error: errors.Error = errors.Unavailable(
                f"{server.url} {outcome.why}", status=outcome.status
            )
            error.__cause__ = outcome.cause
            if outcome.sent:
                if lost or not call.repeatable:
                    raise error
                lost = doubtful = True
        elif isinstance(outcome, errors.Error):
            error = outcome
            if doubtful and error.code in call.done_codes:
                return call.done  # type: ignore[return-value]
            if not isinstance(error, (errors.Unavailable, errors.Overloaded)):
                raise error
            if isinstance(error, errors.Unavailable):
                servers.leave(server)
                # A server on Redis may not know itself what became of the call.
                if not call.repeatable:
                    raise error
                doubtful = True
        else:
            return outcome
    raise error


def request_headers(call: Call[Any], server: Server, key: Optional[str]) -> dict[str, str]:
    """The headers of a call."""
    headers = {"host": server.name, **call.headers}
    if call.body is not None:
        headers["content-type"] = "application/json"
    if key:
        headers["authorization"] = f"Bearer {key}"
    for name, value in headers.items():
        # A line break would begin a header, or a request, of the value's own.
        if not value.isprintable() or not value.isascii():
            raise ValueError(f"{name} is {value!r}; a header has printable ASCII only")
    return headers


def _judge(call: Call[T], outcome: Union[Answer, Failure]) -> Union[T, errors.Error, Failure]:
    if isinstance(outcome, Failure):
        return outcome
    try:
        value = json.loads(outcome.body)
        if outcome.status < 300:
            return call.read(value, outcome)
        return error_of(value["error"], outcome.status)
    except (ValueError, LookupError, TypeError, AttributeError) as cause:
        # A proxy on the way, say, which does not tell whether the server had it.
        return Failure(
            f"answered {outcome.status}, but not as Linger does", True, cause, outcome.status
        )


def _server(url: str) -> Server:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"server is `{url}`; give an address such as {_LOCAL}")
    tls = parts.scheme == "https"
    return Server(
        url=url,
        tls=tls,
        host=parts.hostname,
        port=parts.port or (443 if tls else 80),
        prefix=parts.path.rstrip("/"),
        name=parts.netloc.rpartition("@")[2],
    )
