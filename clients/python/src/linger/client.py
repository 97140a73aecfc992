"""The client that blocks."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import _calls, _times
from ._calls import NO_BODY, Call, Leased
from ._http import HangUp, Pool
from ._times import Duration, Moment
from ._tries import Servers, tries
from .errors import Error
from .job import Changed, Changes, Event, Filter, Job, JobFields, NewJob, Topic, TopicSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

CONNECT_TIMEOUT = 5.0
TIMEOUT = 10.0


def tls_context(
    servers: Servers, ca: Optional[str], context: Optional[ssl.SSLContext]
) -> Optional[ssl.SSLContext]:
    """Whom to trust: who the system trusts, and whoever the file `ca` names."""
    if context is None and servers.any_tls():
        context = ssl.create_default_context()
        if ca is not None:
            context.load_verify_locations(ca)
    return context


def environment_key(key: Optional[str]) -> Optional[str]:
    """The API key that was given, or that of the environment."""
    key = (os.environ.get("LINGER_KEY") if key is None else key) or ""
    key = key.strip()
    if not key.isprintable() or not key.isascii():
        # Without the key: it is a secret.
        raise ValueError("the API key has other characters than printable ASCII")
    return key or None


class Client:
    """Talks to one server, or to several that share a store. Threads may share it.

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

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are kept; further calls make new ones."""
        self._pool.close()

    def add(
        self,
        topic: str = "default",
        body: object = NO_BODY,
        *,
        idempotency_key: Optional[str] = None,
        **fields: Unpack[JobFields],
    ) -> Job:
        """Adds a job: `client.add("order.close", {"order": 1001}, id="1001", delay="30m")`.

        The body is any value that JSON can hold, `bytes`, or `Json`.
        """
        return self._do(_calls.add(new_job(topic, body, fields), idempotency_key))

    def add_many(self, jobs: Iterable[NewJob]) -> list[Union[Job, Error]]:
        """Adds many jobs in one request; for each, in order, the job or why it was refused."""
        return self._do(_calls.add_many(jobs))

    def get(self, topic: str, id: str) -> Job:
        """The job, with its body."""
        return self._do(_calls.get(topic, id))

    def update(
        self, topic: str, id: str, *, if_version: Optional[int] = None, **changes: Unpack[Changes]
    ) -> Changed:
        """Changes a job: `client.update("order.close", "1001", delay="1h")`."""
        return self._do(_calls.update(topic, id, changes, if_version))

    def delete(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Cancels a job."""
        return self._do(_calls.delete(topic, id, if_version))

    def history(self, topic: str, id: str) -> list[Event]:
        """What happened to a job."""
        return self._do(_calls.history(topic, id))

    def run(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Makes a job ready now."""
        return self._do(_calls.by_hand("run", topic, id, if_version))

    def hold(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Sets a job aside."""
        return self._do(_calls.by_hand("hold", topic, id, if_version))

    def unhold(self, topic: str, id: str, *, if_version: Optional[int] = None) -> Changed:
        """Lets a job go that was set aside."""
        return self._do(_calls.by_hand("unhold", topic, id, if_version))

    def pop(
        self,
        topics: Union[str, Iterable[str]],
        *,
        max: Optional[int] = None,
        wait: Optional[Duration] = None,
        ttr: Optional[Duration] = None,
    ) -> list[Job]:
        """Leases up to `max` due jobs (1 unless given); waits up to `wait` for the first."""
        return self._do(_calls.pop(topics, max, wait, ttr, Job))

    def finish(
        self, job: Union[Leased, str], id: Optional[str] = None, *, lease: Optional[str] = None
    ) -> Changed:
        """The job is done: `finish(job)`, or `finish(topic, id)` whoever has it."""
        return self._do(_calls.settle("finish", _calls.leased(job, id, lease), {}))

    def fail(
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
        return self._do(_calls.settle("fail", _calls.leased(job, id, lease), fields))

    def release(
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
        return self._do(_calls.settle("release", _calls.leased(job, id, lease), fields))

    def touch(
        self,
        job: Union[Leased, str],
        id: Optional[str] = None,
        *,
        lease: Optional[str] = None,
        ttr: Optional[Duration] = None,
    ) -> Changed:
        """Gives the job a full lease again."""
        return self._do(_calls.touch(_calls.leased(job, id, lease), ttr))

    def jobs(
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
    ) -> Iterator[Job]:
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
            page = self._do(_calls.jobs(topic, cursor, **query))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def topics(
        self, *, prefix: Optional[str] = None, limit: Optional[int] = None
    ) -> Iterator[Topic]:
        """All topics, page after page of `limit`."""
        cursor = None
        while True:
            page = self._do(_calls.topics(cursor, prefix=prefix, limit=limit))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def topic(self, topic: str) -> Topic:
        """A topic's counts and settings."""
        return self._do(_calls.topic(topic))

    def configure(self, topic: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Gives a topic these settings in place of all it had."""
        return self._do(_calls.configure(topic, settings))

    def forget(self, topic: str) -> int:
        """Removes a topic's jobs and settings; how many jobs, 0 if the first answer was lost."""
        return self._do(_calls.forget(topic))

    def pause(self, topic: str, for_: Optional[Duration] = None) -> Topic:
        """Hands out none of its jobs, for this time or until it is resumed."""
        return self._do(_calls.pause(topic, for_))

    def resume(self, topic: str) -> Topic:
        """Hands out its jobs again."""
        return self._do(_calls.resume(topic))

    def empty(self, topic: str) -> int:
        """Removes its jobs; how many, 0 if the first answer was lost."""
        return self._do(_calls.empty(topic))

    def redrive(
        self, topic: str, *, where: Optional[Filter] = None, limit: Optional[int] = None
    ) -> int:
        """Gives dead jobs, all of them or those `where`, their attempts again; how many."""
        return self._do(_calls.redrive(topic, where, limit))

    def _do(self, call: Call[T], hang_up: Optional[HangUp] = None) -> T:
        going = tries(call, self._servers)
        server = next(going)
        while True:
            try:
                server = going.send(self._pool.exchange(server, call, hang_up))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


def new_job(topic: str, body: object, fields: Any) -> dict[str, Any]:
    """The fields of a job to be added."""
    named = {"topic": topic, **fields}
    return named if body is NO_BODY else {**named, "body": body}
