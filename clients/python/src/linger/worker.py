"""The worker for threads."""

from __future__ import annotations

import inspect
import logging
import queue
import socket
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Callable, Optional

from . import _calls, _signals, _times, errors
from ._handlers import Handlers, Outcome, Pauses, outcome
from ._http import HANG_UP_SECONDS, HangUp, HungUp
from ._lease import NEVER, Lease
from ._times import Duration
from .client import Client
from .job import Changed, Job

log = logging.getLogger("linger")

#: How long a pop waits for the first job.
WAIT = "30s"

#: The most jobs that one pop may ask for.
POP_MAX = 1000


@dataclass(frozen=True, eq=False)
class WorkerJob(Job):
    """A job in the hands of a worker."""

    #: Set when its lease was lost: somebody else may have it, and its outcome is not told.
    lost: threading.Event = field(default_factory=threading.Event, repr=False)


Handler = Callable[[WorkerJob], object]


class _Held:
    """A job that was handed out to us."""

    def __init__(self, job: WorkerJob, since: float) -> None:
        self.job = job
        self.lease = Lease(since, job.lease_seconds)


class Worker(Handlers[Handler]):
    """Pops jobs and hands them to handlers, in `concurrency` threads.

    A handler that returns finishes its job; one that raises fails it, by `RetryIn` with a time
    to try again, by `Again` as not yet. A job is touched for as long as its handler works.
    `ttr` is how long a lease lasts, by default the job's own; `grace` is how long `stop` lets
    handlers go on.
    """

    def __init__(
        self,
        client: Optional[Client] = None,
        *,
        concurrency: int = 8,
        ttr: Optional[Duration] = None,
        grace: Duration = 30.0,
    ) -> None:
        super().__init__()
        self._client = client or Client()
        self._own_client = client is None
        self._concurrency = concurrency
        self._ttr = ttr
        self._grace = _times.seconds(grace)
        self._hang_up = HangUp()
        # Guards what follows, and is notified of every change of it.
        self._change = threading.Condition()
        self._free = concurrency
        self._held: set[_Held] = set()
        self._stopping = False
        self._closed = False
        self._todo: queue.SimpleQueue[Optional[_Held]] = queue.SimpleQueue()
        self._end: queue.SimpleQueue[Optional[BaseException]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # For one `stop` at a time: that of `run`, and others.
        self._one_stop = threading.RLock()

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT (from the main thread only), then stops.

        Raises the server's error if it will not have this worker at all: a wrong key, say.
        """
        try:
            # A second signal ends the program as it would without us.
            with _signals.put_into(self._end, signals):
                self.start()
                error = self._end.get()
        finally:
            self.stop()
        if error is not None:
            raise error

    def start(self) -> None:
        """Begins to work, in threads of its own."""
        if self._stopping:
            raise RuntimeError("a worker that was stopped does not start again; make another")
        topics = self._topics()
        self._threads = [
            *(
                threading.Thread(target=self._hand, name=f"linger-hand-{number}", daemon=True)
                for number in range(self._concurrency)
            ),
            threading.Thread(target=self._touch_in_time, name="linger-touch", daemon=True),
            threading.Thread(target=self._ask, args=(topics,), name="linger-ask", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, grace: Optional[Duration] = None) -> None:
        """Asks for no more, lets handlers end for the grace time, releases what is left."""
        with self._one_stop:
            self._stop(self._grace if grace is None else _times.seconds(grace))

    def _stop(self, grace: float) -> None:
        self._end.put(None)
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._hang_up.now()
        if not self._threads:
            return
        asking = self._threads[-1]
        asking.join(HANG_UP_SECONDS)
        self._hang_up.now(socket.SHUT_RDWR)
        asking.join()
        with self._change:
            self._change.wait_for(lambda: self._free == self._concurrency, grace)
            self._closed = True
            self._change.notify_all()
            left, self._held = self._held, set()
        for held in left:
            held.job.lost.set()
            self._release(held.job)
        for _ in range(self._concurrency):
            self._todo.put(None)
        if not left:
            for thread in self._threads:
                thread.join()
        self._threads = []
        if self._own_client:
            self._client.close()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def _ask(self, topics: list[str]) -> None:
        try:
            self._ask_on(topics)
        except BaseException as error:
            log.warning("no more jobs are asked for", exc_info=error)
            self._end.put(error)

    def _ask_on(self, topics: list[str]) -> None:
        pauses = Pauses()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._free > 0 or self._stopping)
                free = self._free
                if self._stopping:
                    return
            try:
                call = _calls.pop(topics, min(free, POP_MAX), WAIT, self._ttr, WorkerJob)
                jobs = self._client._do(call, self._hang_up)
            except HungUp:
                return
            except errors.Error as error:
                if self._stopping:
                    # We have hung up, perhaps in the middle of the request.
                    return
                log.warning("asking for jobs: %s", error)
                if not isinstance(error, errors.PASSING):
                    self._end.put(error)
                    return
                self._pause(pauses.next())
            else:
                pauses.over()
                self._take(jobs)

    def _pause(self, length: float) -> None:
        with self._change:
            self._change.wait_for(lambda: self._stopping, length)

    def _take(self, jobs: list[WorkerJob]) -> None:
        now = time.monotonic()
        with self._change:
            stopping = self._stopping
            if not stopping:
                for job in jobs:
                    held = _Held(job, now)
                    self._held.add(held)
                    self._todo.put(held)
                self._free -= len(jobs)
                self._change.notify_all()
        if stopping:
            for job in jobs:
                self._release(job)

    def _hand(self) -> None:
        while True:
            held = self._todo.get()
            if held is None:
                return
            try:
                self._work(held)
            except BaseException as raised:
                job = held.job
                log.warning("job %s of %s is given up", job.id, job.topic, exc_info=raised)
            finally:
                with self._change:
                    self._held.discard(held)
                    self._free += 1
                    self._change.notify_all()

    def _work(self, held: _Held) -> None:
        job, failed = held.job, None
        try:
            result = self._handlers[job.topic](job)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TypeError(
                    f"the handler of `{job.topic}` is to be awaited: give it to linger.aio.Worker"
                )
        except BaseException as raised:
            failed = outcome(raised)
            if not failed.again:
                log.warning("job %s of %s failed", job.id, job.topic, exc_info=raised)
        with self._change:
            # Who takes it from those held settles it: we, or `stop` when its patience is over.
            ours = held in self._held
            self._held.discard(held)
        if ours and not job.lost.is_set():
            self._settle(held, failed)

    def _settle(self, held: _Held, failed: Optional[Outcome]) -> None:
        call, pauses = settling(held.job, failed), Pauses()
        while True:
            try:
                self._client._do(call)
                return
            except errors.PASSING as error:
                pause = pauses.next()
                if self._closed or time.monotonic() + pause > held.lease.until:
                    log.warning("job %s of %s comes again: %s", held.job.id, held.job.topic, error)
                    return
                time.sleep(pause)
            except errors.Error as error:
                log.warning("telling of job %s of %s: %s", held.job.id, held.job.topic, error)
                return

    def _release(self, job: WorkerJob) -> None:
        try:
            self._client.release(job)
        except errors.Error as error:
            log.warning("releasing job %s of %s: %s", job.id, job.topic, error)

    def _touch_in_time(self) -> None:
        with self._change:
            while not self._closed:
                now = time.monotonic()
                for held in self._held:
                    if held.lease.until <= now:
                        self._lose(held)
                    elif held.lease.touch_at <= now:
                        held.lease.rest()
                        # One each, so that none waits for the slow answer to another.
                        threading.Thread(target=self._touch, args=(held,), daemon=True).start()
                next = min((held.lease.next() for held in self._held), default=NEVER)
                self._change.wait(None if next == NEVER else next - now)

    def _touch(self, held: _Held) -> None:
        asked = time.monotonic()
        try:
            standing = self._client.touch(held.job, ttr=self._ttr).job
        except errors.PASSING as error:
            log.warning("touching job %s of %s: %s", held.job.id, held.job.topic, error)
            with self._change:
                held.lease.not_renewed(time.monotonic())
                self._change.notify_all()
        except errors.Error:
            with self._change:
                self._lose(held)
        else:
            with self._change:
                held.lease.renewed(asked, standing.lease_seconds if standing else None)
                self._change.notify_all()

    def _lose(self, held: _Held) -> None:
        # A job that was settled meanwhile is no loss.
        if held in self._held and not held.job.lost.is_set():
            log.warning("the lease of job %s of %s was lost", held.job.id, held.job.topic)
            held.job.lost.set()
        held.lease.lost()


def settling(job: Job, failed: Optional[Outcome]) -> _calls.Call[Changed]:
    """The call that tells the server what became of a job."""
    if failed is None:
        return _calls.settle("finish", job, {})
    fields = _calls.fail_fields(failed.error, failed.retry_in, failed.again)
    return _calls.settle("fail", job, fields)
