"""The client for asyncio."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Optional, TypeVar, Union

from .. import _calls, _times
from .._calls import NO_BODY, Call, Leased
from .._http import HangUp
from .._times import Duration, Moment
from .._tries import Servers, tries
from ..client import CONNECT_TIMEOUT, TIMEOUT, environment_key, new_job, tls_context
from ..errors import Error
from ..job import Changed, Changes, Event, Filter, Job, JobFields, NewJob, Topic, TopicSettings
from ._http import Pool

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Client:
    """Talks to one server, or to several that share a store. A call that is cancelled hangs up.

    `servers` is an address, several with commas between them or in a list; by default
    `LINGER_SERVER` of the environment, then `http://127.0.0.1:7300`. `key` is the API key, by
    default `LINGER_KEY`. `ca` is a file with certificates to trust besides those of the system;
    `ssl_context` is for all else about TLS.
    """

    def __init__(
        self,
        servers: Union[str, Iterable[str], None] = None,
        *,
        key: Optional[str] = None,
        connect_timeout: Duration = CONNECT_TIMEOUT,
        timeout: Duration = TIMEOUT,
        ca: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._servers = Servers(servers)
        self._pool = Pool(
            environment_key(key),
            _times.seconds(connect_timeout),
            _times.seconds(timeout),
            tls_context(self._servers, ca, ssl_context),
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections that are kept; further calls make new ones."""
        self._pool.close()

    async def add(
        self,
        topic: str = "default",
        body: object = NO_BODY,
        *,
        idempotency_key: Optional[str] = None,
        **fields: Unpack[JobFields],
    ) -> Job:
        """Adds a job: `await client.add("order.close", {"order": 1001}, id="1001", delay="30m")`.

        The body is any value that JSON can hold, `bytes`, or `Json`.
        """
        return await self._do(_calls.add(new_job(topic, body, fields), idempotency_key))

    async def add_many(self, jobs: Iterable[NewJob]) -> list[Union[Job, Error]]:
        """Adds many jobs in one request; for each, in order, the job or why it was refused."""
        return await self._do(_calls.add_many(jobs))

    async def get(self, topic: str, id: str) -> Job:
        """The job, with its body."""
        return await self._do(_calls.get(topic, id))

    async def update(
        self, topic: str, id: str, *, if_version: Optional[int] = None, **changes: Unpack[Changes]
    ) -> Changed:
        """Changes a job: `await client.update("order.close", "1001", delay="1h")`."""
        return await self._do(_calls.update(topic, id, changes, if_version))

    async def delete(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Cancels a job."""
        return await self._do(_calls.delete(topic, id, if_version))

    async def history(self, topic: str, id: str) -> list[Event]:
        """What happened to a job."""
        return await self._do(_calls.history(topic, id))

    async def run(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Makes a job ready now."""
        return await self._do(_calls.by_hand("run", topic, id, if_version))

    async def hold(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Sets a job aside."""
        return await self._do(_calls.by_hand("hold", topic, id, if_version))

    async def unhold(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Lets a job go that was set aside."""
        return await self._do(_calls.by_hand("unhold", topic, id, if_version))

    async def pop(
        self,
        topics: Union[str, Iterable[str]],
        *,
        max: Optional[int] = None,
        wait: Optional[Duration] = None,
        ttr: Optional[Duration] = None,
    ) -> list[Job]:
        """Leases up to `max` due jobs (1 unless given); waits up to `wait` for the first."""
        return await self._do(_calls.pop(topics, max, wait, ttr, Job))

    async def finish(
        self, job: Union[Leased, str], id: Optional[str] = None, *, lease: Optional[str] = None
    ) -> Changed:
        """The job is done: `finish(job)`, or `finish(topic, id)` whoever has it."""
        return await self._do(_calls.settle("finish", _calls.leased(job, id, lease), {}))

    async def fail(
        self,
        job: Union[Leased, str],
        id: Optional[str] = None,
        *,
        lease: Optional[str] = None,
        error: Optional[str] = None,
        retry_in: Optional[Duration] = None,
        again: bool = False,
    ) -> Changed:
        """The job has failed, or shall come `again`; `retry_in` is in place of its own step."""
        fields = _calls.fail_fields(error, retry_in, again)
        return await self._do(_calls.settle("fail", _calls.leased(job, id, lease), fields))

    async def release(
        self,
        job: Union[Leased, str],
        id: Optional[str] = None,
        *,
        lease: Optional[str] = None,
        delay: Optional[Duration] = None,
        priority: Optional[int] = None,
    ) -> Changed:
        """Gives the job back as if it had not been handed out."""
        fields = {"delay": delay, "priority": priority}
        return await self._do(_calls.settle("release", _calls.leased(job, id, lease), fields))

    async def touch(
        self,
        job: Union[Leased, str],
        id: Optional[str] = None,
        *,
        lease: Optional[str] = None,
        ttr: Optional[Duration] = None,
    ) -> Changed:
        """Gives the job a full lease again."""
        return await self._do(_calls.touch(_calls.leased(job, id, lease), ttr))

    async def jobs(
        self,
        topic: str,
        *,
        state: Optional[str] = None,
        due_before: Optional[Moment] = None,
        due_after: Optional[Moment] = None,
        id_prefix: Optional[str] = None,
        error: Optional[str] = None,
        body: bool = False,
        limit: Optional[int] = None,
    ) -> AsyncIterator[Job]:
        """The jobs of a topic, page after page of `limit`; with their bodies if asked to."""
        query = {
            "state": state,
            "due_before": due_before,
            "due_after": due_after,
            "id_prefix": id_prefix,
            "error": error,
            "body": body or None,
            "limit": limit,
        }
        cursor = None
        while True:
            page = await self._do(_calls.jobs(topic, cursor, **query))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def topics(
        self, *, prefix: Optional[str] = None, limit: Optional[int] = None
    ) -> AsyncIterator[Topic]:
        """All topics, page after page of `limit`."""
        cursor = None
        while True:
            page = await self._do(_calls.topics(cursor, prefix=prefix, limit=limit))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def topic(self, topic: str) -> Topic:
        """A topic's counts and settings."""
        return await self._do(_calls.topic(topic))

    async def configure(self, topic: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Gives a topic these settings in place of all it had."""
        return await self._do(_calls.configure(topic, settings))

    async def forget(self, topic: str) -> int:
        """Removes a topic's jobs and settings; how many jobs, 0 if the first answer was lost."""
        return await self._do(_calls.forget(topic))

    async def pause(self, topic: str, for_: Optional[Duration] = None) -> Topic:
        """Hands out none of its jobs, for this time or until it is resumed."""
        return await self._do(_calls.pause(topic, for_))

    async def resume(self, topic: str) -> Topic:
        """Hands out its jobs again."""
        return await self._do(_calls.resume(topic))

    async def empty(self, topic: str) -> int:
        """Removes its jobs; how many, 0 if the first answer was lost."""
        return await self._do(_calls.empty(topic))

    async def redrive(
        self, topic: str, *, where: Optional[Filter] = None, limit: Optional[int] = None
    ) -> int:
        """Gives dead jobs, all of them or those `where`, their attempts again; how many."""
        return await self._do(_calls.redrive(topic, where, limit))

    async def _do(self, call: Call[T], hang_up: Optional[HangUp] = None) -> T:
        going = tries(call, self._servers)
        server = next(going)
        while True:
            try:
                server = going.send(await self._pool.exchange(server, call, hang_up))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
