"""Service mode: an application that registers itself, and is called for its jobs."""

from __future__ import annotations

import logging
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Callable, Optional

from . import _calls, _signals, _times, errors
from ._handlers import Pauses
from ._times import Duration
from .client import Client
from .webhook import BODY_BYTES_MAX, Receiver, Reply, Secrets, cut_off, refusal, too_large

log = logging.getLogger("linger")


class Service:
    """An instance of the application `app`, called for jobs with the target `worker:APP`.

    With `listen` it has a server of its own; otherwise mount `service.wsgi` or `service.asgi`
    where `url` leads to. `url` is where Linger reaches it, by default the address it listens on.
    `secrets` are those that sign the topics' deliveries; None takes what nobody has signed.
    """

    def __init__(
        self,
        app: str,
        url: Optional[str] = None,
        *,
        client: Optional[Client] = None,
        listen: Optional[tuple[str, int]] = None,
        secrets: Optional[Secrets] = None,
        lease: Duration = 30.0,
        grace: Duration = 30.0,
    ) -> None:
        if url is None and listen is None:
            raise ValueError("a service needs an `url` where it is called, or `listen`")
        self._app = app
        self._url = url
        self._client = client or Client()
        self._own_client = client is None
        self._listen = listen
        self._lease = _times.seconds(lease)
        self._grace = _times.seconds(grace)
        self._receiver = _Counting(secrets)
        self._server: Optional[_Server] = None
        self._thread: Optional[threading.Thread] = None
        self._id: Optional[str] = None
        self._stopping = threading.Event()
        # For one `stop` at a time: that of `run`, and others.
        self._one_stop = threading.RLock()
        self._end: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: A WSGI application, to be mounted at `url`.
        self.wsgi = self._receiver.wsgi
        #: An ASGI application, to be mounted at `url`.
        self.asgi = self._receiver.asgi
        #: Decorates the function that works on the jobs of a topic.
        self.handler = self._receiver.handler

    @property
    def id(self) -> Optional[str]:
        """By which name the server knows this instance; None until it has registered."""
        return self._id

    @property
    def url(self) -> Optional[str]:
        """Where the server calls this instance."""
        return self._url

    def run(self, *, signals: bool = True) -> None:
        """Serves until `stop`, or SIGTERM or SIGINT (from the main thread only), then stops."""
        try:
            # A second signal ends the program as it would without us.
            with _signals.put_into(self._end, signals):
                self.start()
                self._end.get()
        finally:
            self.stop()

    def start(self) -> None:
        """Listens if it is asked to, registers, and keeps the registration alive."""
        if self._stopping.is_set():
            raise RuntimeError("a service that was stopped does not start again; make another")
        topics = self._receiver._topics()
        if self._listen is not None:
            self._server = _Server(self._listen, self._receiver)
            host, port = self._server.server_address[:2]
            self._url = self._url or f"http://{host!s}:{port}/"
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            self._register(topics)
        except errors.PASSING as error:
            log.warning("registering %s: %s", self._app, error)
        except errors.Error:
            self._close()
            raise
        staying = threading.Thread(target=self._stay, args=(topics,), daemon=True)
        staying.start()
        # Not before: whoever stops it meanwhile would wait for one that has not begun.
        self._thread = staying

    def stop(self, grace: Optional[Duration] = None) -> None:
        """Drains, lets calls under way end for the grace time, and deregisters."""
        with self._one_stop:
            self._stopping.set()
            self._end.put(None)
            if self._thread is not None:
                self._thread.join()
            self._tell(_calls.drain)
            self._receiver.wait(self._grace if grace is None else _times.seconds(grace))
            self._tell(_calls.deregister)
            self._id = None
            self._close()

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def _register(self, topics: list[str]) -> None:
        call = _calls.register(self._app, topics, self._url or "", self._lease)
        self._id = self._client._do(call)

    def _stay(self, topics: list[str]) -> None:
        pauses = Pauses()
        pause = self._lease / 3 if self._id else pauses.next()
        while not self._stopping.wait(pause):
            try:
                self._beat(topics)
            except errors.Error as error:
                log.warning("heartbeat of %s: %s", self._app, error)
                pause = min(pauses.next(), self._lease / 3)
            else:
                pauses.over()
                pause = self._lease / 3

    def _beat(self, topics: list[str]) -> None:
        if self._id is not None:
            try:
                self._client._do(_calls.heartbeat(self._id))
                return
            except errors.NotFound:
                log.info("%s was forgotten, and registers again", self._app)
        self._register(topics)

    def _tell(self, what: Callable[[str], _calls.Call[None]]) -> None:
        if self._id is None:
            return
        try:
            self._client._do(what(self._id))
        except errors.NotFound:
            pass
        except errors.Error as error:
            # Its lease ends by itself.
            log.warning("taking leave of the server: %s", error)

    def _close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._own_client:
            self._client.close()


class _Counting(Receiver):
    """A receiver that knows how many calls are under way."""

    def __init__(self, secrets: Optional[Secrets]) -> None:
        super().__init__(secrets)
        self._change = threading.Condition()
        self._under_way = 0

    def answer(self, headers: Any, body: bytes) -> Reply:
        with self:
            return super().answer(headers, body)

    async def answer_async(self, headers: Any, body: bytes) -> Reply:
        with self:
            return await super().answer_async(headers, body)

    def __enter__(self) -> None:
        with self._change:
            self._under_way += 1

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._under_way -= 1
            self._change.notify_all()

    def wait(self, length: float) -> None:
        """Waits until none is under way."""
        with self._change:
            self._change.wait_for(lambda: self._under_way == 0, length)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Linger calls with up to 32 at once, and a refused connection would count against us.
    request_queue_size = 128

    def __init__(self, listen: tuple[str, int], receiver: Receiver) -> None:
        self.receiver = receiver
        super().__init__(listen, _Request)


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # Longer than Linger keeps a connection that it does not use, so that it is not we who close it.
    timeout = 300
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        # Without a body Linger gives no length.
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in self.headers:
            self.close_connection = True
            self._reply(refusal(411, "a body without a length is not read"))
        elif int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            self._reply(too_large(int(length)))
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                self._reply(self.server.receiver.answer(self.headers, body))
            else:
                self.close_connection = True
                self._reply(cut_off())

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
