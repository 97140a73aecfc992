"""The worker for asyncio."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable
from types import TracebackType
from typing import Callable, Optional

from .. import _calls, _signals, _times, errors
from .._handlers import Handlers, Outcome, Pauses, outcome
from .._http import HANG_UP_SECONDS, HangUp, HungUp
from .._lease import Lease
from .._times import Duration
from ..job import Job
from ..worker import POP_MAX, WAIT, log, settling
from .client import Client

Handler = Callable[[Job], Awaitable[object]]

#: How long a handler that is cancelled has to end before its job is released.
CANCEL_SECONDS = 1.0


class _Held:
    """A job that was handed out to us, and its handler at work."""

    def __init__(self, job: Job, handler: Handler) -> None:
        self.job = job
        self.lease = Lease(time.monotonic(), job.lease_seconds)
        self.lost = False
        self.work = asyncio.ensure_future(self._call(handler))

    async def _call(self, handler: Handler) -> None:
        await handler(self.job)

    def lose(self) -> None:
        """Its outcome is not told."""
        self.lost = True
        self.work.cancel()


class Worker(Handlers[Handler]):
    """Pops jobs and hands them to handlers, `concurrency` at a time.

    A handler that returns finishes its job; one that raises fails it, by `RetryIn` with a time
    to try again, by `Again` as not yet. A job is touched for as long as its handler works, and
    its handler is cancelled if the lease is lost. `ttr` is how long a lease lasts, by default the
    job's own; `grace` is how long `stop` lets handlers go on.
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
        self._asking: Optional[asyncio.Task[None]] = None
        self._working: set[asyncio.Task[None]] = set()
        self._held: set[_Held] = set()
        self._closed = False

    async def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, SIGTERM or SIGINT, or it is cancelled, then stops.

        Raises the server's error if it will not have this worker at all: a wrong key, say.
        """
        asking = self.start()
        loop = asyncio.get_running_loop()
        numbers = _signals.NUMBERS if signals else ()
        for number in numbers:
            loop.add_signal_handler(number, self._tell)
        try:
            await asyncio.wait({self._told, asking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # A second signal ends the program as it would without us.
            for number in numbers:
                loop.remove_signal_handler(number)
            await self.stop()
        # To us, too, if it was told to another who has stopped it.
        asking.result()

    def start(self) -> asyncio.Task[None]:
        """Begins to work, in tasks of its own; the one that ends when it asks for no more."""
        if self._closed:
            raise RuntimeError("a worker that was stopped does not start again; make another")
        topics = self._topics()
        self._told = asyncio.get_running_loop().create_future()
        # For one `stop` at a time: that of `run`, and others.
        self._one_stop = asyncio.Lock()
        self._asking = asyncio.ensure_future(self._ask(topics))
        return self._asking

    async def stop(self, grace: Optional[Duration] = None) -> None:
        """Asks for no more, lets handlers end for the grace time, releases what is left.

        Raises the server's error if it would not have this worker at all.
        """
        if self._asking is None:
            return
        async with self._one_stop:
            await self._stop(self._grace if grace is None else _times.seconds(grace))

    async def _stop(self, grace: float) -> None:
        if self._asking is None:
            return
        self._tell()
        self._hang_up.now()
        await asyncio.wait({self._asking}, timeout=HANG_UP_SECONDS)
        self._hang_up.now(socket.SHUT_RDWR)
        await asyncio.wait({self._asking})
        await self._wait(grace)
        self._closed = True
        left, self._held = self._held, set()
        for held in left:
            held.lose()
        await self._wait(CANCEL_SECONDS)
        await asyncio.gather(*(self._release(held.job) for held in left))
        for task in self._working:
            task.cancel()
        if self._own_client:
            await self._client.close()
        asking, self._asking = self._asking, None
        asking.result()

    async def __aenter__(self) -> Worker:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.stop()

    def _tell(self) -> None:
        if not self._told.done():
            self._told.set_result(None)

    async def _wait(self, length: float) -> None:
        if self._working:
            await asyncio.wait(self._working, timeout=length)

    async def _ask(self, topics: list[str]) -> None:
        pauses = Pauses()
        while not self._told.done():
            free = self._concurrency - len(self._working)
            if free == 0:
                anyone = {self._told, *self._working}
                await asyncio.wait(anyone, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                call = _calls.pop(topics, min(free, POP_MAX), WAIT, self._ttr, Job)
                jobs = await self._client._do(call, self._hang_up)
            except HungUp:
                return
            except errors.Error as error:
                if self._told.done():
                    # We have hung up, perhaps in the middle of the request.
                    return
                log.warning("asking for jobs: %s", error)
                if not isinstance(error, errors.PASSING):
                    raise
                await asyncio.wait({self._told}, timeout=pauses.next())
            else:
                pauses.over()
                await self._take(jobs)

    async def _take(self, jobs: list[Job]) -> None:
        if self._told.done():
            await asyncio.gather(*map(self._release, jobs))
            return
        for job in jobs:
            held = _Held(job, self._handlers[job.topic])
            self._held.add(held)
            task = asyncio.ensure_future(self._see_to(held))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _see_to(self, held: _Held) -> None:
        keeping = asyncio.ensure_future(self._keep(held))
        try:
            await asyncio.wait({held.work})
        finally:
            keeping.cancel()
        failed = _failed(held)
        # Who takes it from those held settles it: we, or `stop` when its patience is over.
        ours = held in self._held
        self._held.discard(held)
        if ours and not held.lost:
            try:
                await self._settle(held, failed)
            except Exception as raised:
                job = held.job
                log.warning("job %s of %s is given up", job.id, job.topic, exc_info=raised)

    async def _keep(self, held: _Held) -> None:
        lease, job = held.lease, held.job
        while True:
            await asyncio.sleep(max(lease.next() - time.monotonic(), 0))
            asked = time.monotonic()
            try:
                touch = self._client.touch(job, ttr=self._ttr)
                standing = (await asyncio.wait_for(touch, lease.until - asked)).job
            except errors.PASSING as error:
                log.warning("touching job %s of %s: %s", job.id, job.topic, error)
                lease.not_renewed(time.monotonic())
            except (errors.Error, asyncio.TimeoutError):
                log.warning("the lease of job %s of %s was lost", job.id, job.topic)
                held.lose()
                return
            else:
                lease.renewed(asked, standing.lease_seconds if standing else None)

    async def _settle(self, held: _Held, failed: Optional[Outcome]) -> None:
        job, call, pauses = held.job, settling(held.job, failed), Pauses()
        while True:
            try:
                await self._client._do(call)
                return
            except errors.PASSING as error:
                pause = pauses.next()
                if self._closed or time.monotonic() + pause > held.lease.until:
                    log.warning("job %s of %s comes again: %s", job.id, job.topic, error)
                    return
                await asyncio.sleep(pause)
            except errors.Error as error:
                log.warning("telling of job %s of %s: %s", job.id, job.topic, error)
                return

    async def _release(self, job: Job) -> None:
        try:
            await self._client.release(job)
        except errors.Error as error:
            log.warning("releasing job %s of %s: %s", job.id, job.topic, error)


def _failed(held: _Held) -> Optional[Outcome]:
    if held.work.cancelled():
        return Outcome(False, "cancelled", None)
    raised = held.work.exception()
    if raised is None:
        return None
    said = outcome(raised)
    if not said.again and not held.lost:
        log.warning("job %s of %s failed", held.job.id, held.job.topic, exc_info=raised)
    return said
