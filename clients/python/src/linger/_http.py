"""HTTP for the client that blocks: kept connections, shared by threads."""

from __future__ import annotations

import contextlib
import http.client
import os
import selectors
import socket
import ssl
import threading
from collections import defaultdict
from typing import Any, Optional, Union

from ._calls import Answer, Call
from ._tries import Failure, Server, request_headers

#: Connections to one server that are kept while nobody uses them.
IDLE_MAX = 16


#: How long a server may take to hang up in turn.
HANG_UP_SECONDS = 1.0


class HungUp(Exception):
    """The call was ended by `HangUp.now`."""


class HangUp:
    """Ends a call that waits, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Any = None
        self._now = False

    def hold(self, socket: Any) -> None:
        """Names the connection of the call that begins; `HungUp` if it shall not begin."""
        with self._lock:
            if self._now:
                raise HungUp
            self._socket = socket

    def let_go(self) -> None:
        """The call is over."""
        with self._lock:
            self._socket = None

    def now(self, how: int = socket.SHUT_WR) -> None:
        """Hangs up, and keeps further calls from beginning.

        Only our own direction at first: an answer that is on its way already can still be read,
        and the jobs in it given back. `SHUT_RDWR` is for who does not hang up in turn.
        """
        with self._lock:
            self._now = True
            if self._socket is not None:
                _shut(self._socket, how)


def _shut(sock: Any, how: int) -> None:
    # Past TLS, whose own shutdown would disturb who reads.
    shutdown = socket.socket.shutdown if isinstance(sock, socket.socket) else type(sock).shutdown
    # One that is closed already, or of uvloop under TLS, which `SHUT_RDWR` ends a moment later.
    with contextlib.suppress(OSError, RuntimeError, TypeError):
        shutdown(sock, how)


class Pool:
    """Exchanges requests for answers."""

    def __init__(
        self,
        key: Optional[str],
        connect_timeout: float,
        timeout: float,
        context: Optional[ssl.SSLContext],
    ) -> None:
        self._key = key
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._context = context
        self._lock = threading.Lock()
        self._idle: dict[Server, list[http.client.HTTPConnection]] = defaultdict(list)
        self._process = os.getpid()

    def exchange(
        self, server: Server, call: Call[Any], hang_up: Optional[HangUp]
    ) -> Union[Answer, Failure]:
        """Sends the call and waits for its answer."""
        headers = request_headers(call, server, self._key)
        try:
            connection = self._take(server) or self._connect(server)
        except OSError as cause:
            return Failure(f"cannot be reached: {cause}", False, cause)
        reusable = False
        try:
            if hang_up:
                hang_up.hold(connection.sock)
            connection.sock.settimeout(self._timeout + call.wait)
            answer, reusable = _exchange(connection, server.prefix + call.path, call, headers)
            return answer
        except socket.timeout as cause:
            return Failure("did not answer in time", True, cause)
        except (OSError, http.client.HTTPException) as cause:
            return Failure(f"gave no whole answer: {cause}", True, cause)
        finally:
            if hang_up:
                hang_up.let_go()
            self._give_back(server, connection, reusable)

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        with self._lock:
            kept = [connection for each in self._idle.values() for connection in each]
            self._idle.clear()
        for connection in kept:
            connection.close()

    def _connect(self, server: Server) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if server.tls:
            connection = http.client.HTTPSConnection(
                server.host, server.port, timeout=self._connect_timeout, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(
                server.host, server.port, timeout=self._connect_timeout
            )
        connection.connect()
        return connection

    def _take(self, server: Server) -> Optional[http.client.HTTPConnection]:
        while True:
            with self._lock:
                if self._process != os.getpid():
                    # A fork shares its parent's connections, and both would read from them.
                    self._idle.clear()
                    self._process = os.getpid()
                if not self._idle[server]:
                    return None
                connection = self._idle[server].pop()
            if not _readable(connection.sock):
                return connection
            # The server has closed it: a request would be lost, and not known whether.
            connection.close()

    def _give_back(
        self, server: Server, connection: http.client.HTTPConnection, reusable: bool
    ) -> None:
        with self._lock:
            if reusable and len(self._idle[server]) < IDLE_MAX:
                self._idle[server].append(connection)
                return
        connection.close()


def _exchange(
    connection: http.client.HTTPConnection, path: str, call: Call[Any], headers: dict[str, str]
) -> tuple[Answer, bool]:
    # A request that is too large is answered, and hung up on, before it is all there.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request(call.method, path, call.body, headers)
    response = connection.getresponse()
    body = response.read()
    names = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, names, body), not response.will_close


def _readable(sock: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
