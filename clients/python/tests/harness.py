"""Real servers, and what stands between them and a client in tests."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, ClassVar, Optional, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

#: Status and body, or None to hang up.
Reply = Optional[tuple[int, bytes]]

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
SCENARIOS = HERE.parent.parent / "scenarios"

#: How long anything in a test may take. Only a test that fails waits for so long.
DEADLINE = 30.0


def eventually(what: Callable[[], T], deadline: float = DEADLINE) -> T:
    """Asks until the answer is true."""
    end = time.monotonic() + deadline
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"still {answer!r} after {deadline} s"
        time.sleep(0.01)


async def soon(what: Callable[[], T], deadline: float = DEADLINE) -> T:
    """Asks until the answer is true, on an event loop."""
    end = time.monotonic() + deadline
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"still {answer!r} after {deadline} s"
        await asyncio.sleep(0.01)


def free_port() -> int:
    """A port that is free, and stays so: not one of those that connections are given."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


class Server:
    """`linger serve`."""

    def __init__(
        self, store: object, *more: str, port: int = 0, env: Optional[dict[str, str]] = None
    ) -> None:
        binary = os.environ["LINGER"]
        command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--store", str(store), *more]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A server takes what begins with LINGER_ for its settings.
            env={**_without("LINGER_"), **(env or {})},
            text=True,
        )
        self._lines: list[str] = []
        self._ready = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        eventually(lambda: self._ready.is_set() or self.process.poll() is not None)
        assert self._ready.is_set(), "".join(self._lines)
        found = re.search(r"listens on (https?://[0-9.:]+)", "".join(self._lines))
        assert found, self._lines
        self.url = found[1]

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self._lines.append(line)
                if line.rstrip().endswith(" ready"):
                    self._ready.set()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(DEADLINE)
        finally:
            self.process.kill()
        self._reading.join()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A call of the API that the client has not."""
        status, answer = call(self.url + path, method, json.dumps(body) if body else None)
        assert status < 300, answer
        return json.loads(answer) if answer else None


def _without(prefix: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}


def call(
    url: str, method: str = "GET", body: Any = None, headers: Optional[dict[str, str]] = None
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=DEADLINE)
    try:
        connection.request(method, parts.path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class _Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have hung up are what some tests are about."""


class Stub:
    """An HTTP server whose answers the test decides; it counts requests and connections."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                stub.connections += 1
                super().setup()

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                stub.requests.append((self.command, self.path))
                stub.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = stub.answer(self.command, self.path, dict(self.headers.items()), body)
                if answer is None:
                    self.close_connection = True
                    return
                status, sent = answer
                self.send_response(status)
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        """What a request is answered."""
        raise NotImplementedError

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Scripted(Stub):
    """Answers what it is told to, one after the other; then the last for ever."""

    def __init__(self, *answers: Reply) -> None:
        self._answers = list(answers)
        super().__init__()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Proxy(Stub):
    """Passes requests on to a real server, and loses as many answers as it is told to."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.lose = 0
        self.lost: Counter[str] = Counter()
        super().__init__()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        answer = call(self.to + path, method, body or None, {**headers, "Host": "127.0.0.1"})
        if self.lose > 0:
            self.lose -= 1
            self.lost[method] += 1
            return None
        return answer


def refusal(status: int, code: str) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"code": code, "message": "told so by a test"}}).encode()


class Blocking:
    """The client for asyncio, called from a test that blocks."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def made() -> Any:
            return make()

        self._client = self._wait(made())

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            result = getattr(self._client, name)(*args, **named)
            if hasattr(result, "__aiter__"):
                return iter(self._wait(_all(result)))
            return self._wait(result)

        return called

    def close(self) -> None:
        self._wait(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]


class Program:
    """A Python program that is running; it does not outlive its test."""

    started: ClassVar[list[Program]] = []

    def __init__(self, *command: object, env: Optional[dict[str, str]] = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            text=True,
        )
        self.started.append(self)

    def end(self, number: Optional[signal.Signals] = None) -> tuple[int, str]:
        """Exit code and output, after a signal if one is to be sent."""
        if number is not None:
            self.process.send_signal(number)
        try:
            output, _ = self.process.communicate(timeout=DEADLINE)
        finally:
            self.process.kill()
        return self.process.returncode, output

    @classmethod
    def kill_all(cls) -> None:
        """Ends those that a test which failed has left behind."""
        while cls.started:
            process = cls.started.pop().process
            process.kill()
            process.communicate()


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def numbers(count: int) -> Iterator[str]:
    return (str(number) for number in range(count))
