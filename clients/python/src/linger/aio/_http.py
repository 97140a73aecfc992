"""HTTP/1.1 on asyncio's streams: as much of it as the API needs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._calls import Answer, Call
from .._http import IDLE_MAX, HangUp
from .._tries import Failure, Server, request_headers

#: The most that the head of an answer, or a line of a chunked one, may have.
HEAD_BYTES_MAX = 64 << 10


@dataclass(eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def is_open(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing())

    def close(self) -> None:
        # At once, so that a server that waits for us knows.
        self.writer.transport.abort()

    def shutdown(self, how: int) -> None:
        """Hangs up, for `HangUp`; by the transport where it can, as uvloop lends no socket."""
        if how == socket.SHUT_RDWR:
            self.writer.transport.abort()
        elif self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            # Past TLS, whose own shutdown would disturb who reads.
            self.writer.get_extra_info("socket").shutdown(how)


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
        self._idle: dict[Server, list[_Connection]] = defaultdict(list)
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    async def exchange(
        self, server: Server, call: Call[Any], hang_up: Optional[HangUp]
    ) -> Union[Answer, Failure]:
        """Sends the call and waits for its answer; hangs up when it is cancelled."""
        headers = request_headers(call, server, self._key)
        try:
            connection = self._take(server) or await self._connect(server)
        except asyncio.TimeoutError as cause:
            return Failure("cannot be reached in time", False, cause)
        except OSError as cause:
            return Failure(f"cannot be reached: {cause}", False, cause)
        reusable = False
        try:
            if hang_up:
                hang_up.hold(connection)
            answer, reusable = await asyncio.wait_for(
                _exchange(connection, server.prefix + call.path, call, headers),
                self._timeout + call.wait,
            )
            return answer
        except asyncio.TimeoutError as cause:
            return Failure("did not answer in time", True, cause)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as cause:
            return Failure(f"gave no whole answer: {cause}", True, cause)
        finally:
            if hang_up:
                hang_up.let_go()
            if reusable and len(self._idle[server]) < IDLE_MAX:
                self._idle[server].append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        for kept in self._idle.values():
            for connection in kept:
                connection.close()
        self._idle.clear()

    async def _connect(self, server: Server) -> _Connection:
        opening = asyncio.open_connection(
            server.host,
            server.port,
            ssl=self._context if server.tls else None,
            limit=HEAD_BYTES_MAX,
        )
        return _Connection(*await asyncio.wait_for(opening, self._connect_timeout))

    def _take(self, server: Server) -> Optional[_Connection]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections end with the loop that has made them.
            self._idle.clear()
            self._loop = loop
        while self._idle[server]:
            connection = self._idle[server].pop()
            if connection.is_open():
                return connection
            connection.close()
        return None


async def _exchange(
    connection: _Connection, path: str, call: Call[Any], headers: dict[str, str]
) -> tuple[Answer, bool]:
    body = call.body or b""
    lines = [f"{call.method} {path} HTTP/1.1", f"content-length: {len(body)}"]
    lines += (f"{name}: {value}" for name, value in headers.items())
    connection.writer.write("\r\n".join([*lines, "\r\n"]).encode() + body)
    # A request that is too large is answered, and hung up on, before it is all there.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await connection.writer.drain()
    return await _answer(connection.reader)


async def _answer(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    status = 100
    while status < 200:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        status = int(first.split(" ")[1])
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    reusable = first.startswith("HTTP/1.1") and headers.get("connection", "").lower() != "close"
    if status == 204:
        return Answer(status, headers, b""), reusable
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Answer(status, headers, await _chunks(reader)), reusable
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
        return Answer(status, headers, body), reusable
    return Answer(status, headers, await reader.read()), False


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    chunks = []
    while True:
        length = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        if length == 0:
            break
        chunks.append(await reader.readexactly(length))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(chunks)
