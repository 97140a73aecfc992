"""The calls of the API without any input or output: what is sent, and how an answer is read.

Both clients send what is made here, so that they cannot differ in what they ask for.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar, Union
from urllib.parse import quote, urlencode

from . import _times, errors
from ._times import Duration
from .job import Changed, Event, Job, Json, Standing, Topic, read

T = TypeVar("T")
J = TypeVar("J", bound=Job)

#: In place of a body that was not given: None is one, `null`.
NO_BODY = object()

_GONE = frozenset({"not_found"})


class Leased(Protocol):
    """A job that may have a lease: one that was popped, or a webhook."""

    @property
    def topic(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def lease(self) -> Optional[str]: ...


@dataclass(frozen=True)
class Answer:
    """What a server answered; the names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and what is to be known about it to make it safely."""

    method: str
    path: str
    read: Callable[[Any, Answer], T]
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether it is harmless to make it again when its answer was lost.
    repeatable: bool = False
    #: Codes that tell, when it was made again, that the first time has done it.
    done_codes: frozenset[str] = frozenset()
    done: Optional[T] = None
    #: How long the server is asked to wait, in seconds.
    wait: float = 0.0


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list, and where the next begins."""

    items: list[T]
    cursor: Optional[str]


def add(fields: Mapping[str, Any], key: Optional[str]) -> Call[Job]:
    """Adds a job."""
    headers = {}
    if fields.get("id") is None or key is not None:
        headers["idempotency-key"] = key or uuid.uuid4().hex
    return Call(
        "POST",
        "/v1/jobs",
        _one(Job),
        _object(fields),
        headers=headers,
        repeatable=fields.get("id") is None or _same_twice(fields),
    )


def add_many(jobs: Iterable[Mapping[str, Any]]) -> Call[list[Union[Job, errors.Error]]]:
    """Adds many jobs."""
    named = [job if job.get("id") is not None else _named(job) for job in jobs]
    return Call(
        "POST",
        "/v1/jobs",
        _added,
        b"[" + b",".join(map(_object, named)) + b"]",
        repeatable=all(map(_same_twice, named)),
    )


def get(topic: str, id: str) -> Call[Job]:
    """The job, with its body."""
    return Call("GET", _job(topic, id), _one(Job), repeatable=True)


def history(topic: str, id: str) -> Call[list[Event]]:
    """What happened to a job."""
    path = _job(topic, id) + "/history"
    return Call("GET", path, _list("history", Event), repeatable=True)


def update(
    topic: str, id: str, changes: Mapping[str, Any], if_version: Optional[int]
) -> Call[Changed]:
    """Changes a job that waits."""
    body = _object({**changes, **_given(if_version=if_version)})
    return Call("PATCH", _job(topic, id), _changed, body, repeatable=if_version is None)


def delete(topic: str, id: str, if_version: Optional[int]) -> Call[Changed]:
    """Cancels a job."""
    return Call(
        "DELETE",
        _job(topic, id) + _query(if_version=if_version),
        _changed,
        repeatable=if_version is None,
        done_codes=_GONE,
        done=Changed(True),
    )


def by_hand(what: str, topic: str, id: str, if_version: Optional[int]) -> Call[Changed]:
    """Runs a job now, holds it, or lets it go."""
    return Call(
        "POST",
        f"{_job(topic, id)}/{what}",
        _changed,
        _object(_given(if_version=if_version)),
        # A job that has been run, has ended and repeats would be run twice.
        repeatable=what != "run" and if_version is None,
    )


def pop(
    topics: Union[str, Iterable[str]],
    max: Optional[int],
    wait: Optional[Duration],
    ttr: Optional[Duration],
    kind: type[J],
) -> Call[list[J]]:
    """Leases jobs that are due."""
    names = [topics] if isinstance(topics, str) else list(topics)

    def jobs(value: Any, answer: Answer) -> list[J]:
        return [read(kind, raw, lease_seconds=_lease_seconds(raw, answer)) for raw in value["jobs"]]

    return Call(
        "POST",
        "/v1/pop",
        jobs,
        _object({"topics": names, **_given(max=max, wait=wait, ttr=ttr)}),
        repeatable=True,
        wait=_wait_seconds(wait),
    )


def settle(what: str, job: Leased, fields: Mapping[str, Any]) -> Call[Changed]:
    """Finishes, fails or releases a job."""
    return Call(
        "POST",
        f"{_job(job.topic, job.id)}/{what}",
        _changed,
        _object(_given(lease=job.lease, **fields)),
        repeatable=job.lease is not None,
        done_codes=_GONE | {"lease_lost"},
        done=Changed(True),
    )


def touch(job: Leased, ttr: Optional[Duration]) -> Call[Changed]:
    """Gives a job a full lease again."""
    body = _object(_given(lease=job.lease, ttr=ttr))
    return Call("POST", f"{_job(job.topic, job.id)}/touch", _changed, body, repeatable=True)


def jobs(topic: str, cursor: Optional[str], **query: object) -> Call[Page[Job]]:
    """A page of a topic's jobs."""
    path = f"{_topic(topic)}/jobs{_query(cursor=cursor, **query)}"
    return Call("GET", path, _page("jobs", Job), repeatable=True)


def topics(cursor: Optional[str], **query: object) -> Call[Page[Topic]]:
    """A page of topics."""
    path = f"/v1/topics{_query(cursor=cursor, **query)}"
    return Call("GET", path, _page("topics", Topic), repeatable=True)


def topic(topic: str) -> Call[Topic]:
    """A topic's counts and settings."""
    return Call("GET", _topic(topic), _one(Topic), repeatable=True)


def configure(topic: str, settings: Mapping[str, Any]) -> Call[Topic]:
    """Gives a topic these settings."""
    return Call("PUT", _topic(topic), _one(Topic), _object(settings), repeatable=True)


def pause(topic: str, length: Optional[Duration]) -> Call[Topic]:
    """Hands nothing out."""
    body = _object(_given(**{"for": length}))
    return Call("POST", _topic(topic) + "/pause", _one(Topic), body, repeatable=True)


def resume(topic: str) -> Call[Topic]:
    """Hands out again."""
    return Call("POST", _topic(topic) + "/resume", _one(Topic), b"{}", repeatable=True)


def empty(topic: str) -> Call[int]:
    """Removes all jobs of a topic."""
    return _removal("POST", _topic(topic) + "/empty", b"{}")


def forget(topic: str) -> Call[int]:
    """Removes a topic's jobs and settings."""
    return _removal("DELETE", _topic(topic), None)


def _removal(method: str, path: str, body: Optional[bytes]) -> Call[int]:
    return Call(
        method,
        path,
        _count,
        body,
        repeatable=True,
        # A topic that the lost call has removed; how many jobs it had was in the lost answer.
        done_codes=_GONE,
        done=0,
    )


def redrive(topic: str, where: Optional[Mapping[str, Any]], limit: Optional[int]) -> Call[int]:
    """Gives dead jobs their attempts again."""
    body = _object(_given(where=where, limit=limit))
    return Call("POST", _topic(topic) + "/redrive", _count, body)


def register(app: str, topics: Iterable[str], url: str, lease: Duration) -> Call[str]:
    """Registers an instance of an application; its id."""
    body = _object({"app": app, "topics": list(topics), "url": url, "lease": lease})
    # The same application at the same address keeps its id.
    return Call("POST", "/v1/workers", lambda value, _: str(value["id"]), body, repeatable=True)


def heartbeat(id: str) -> Call[None]:
    """Says that an instance is alive."""
    return Call("PUT", f"{_worker(id)}/heartbeat", _nothing, b"{}", repeatable=True)


def drain(id: str) -> Call[None]:
    """Asks for no more calls of an instance."""
    return Call("POST", f"{_worker(id)}/drain", _nothing, b"{}", repeatable=True)


def deregister(id: str) -> Call[None]:
    """Forgets an instance."""
    return Call("DELETE", _worker(id), _nothing, repeatable=True, done_codes=_GONE)


def fail_fields(
    error: Optional[str], retry_in: Optional[Duration], again: bool
) -> dict[str, object]:
    """The fields of `fail`."""
    return {"error": error, "retry_in": retry_in, "again": again or None}


@dataclass(frozen=True)
class Named:
    """A job by its names."""

    topic: str
    id: str
    lease: Optional[str]


def leased(job: Union[Leased, str], id: Optional[str], lease: Optional[str]) -> Leased:
    """The job that a caller names: by itself, or by topic and id."""
    if isinstance(job, str):
        if id is None:
            raise TypeError("a topic was given without an id; give a job, or a topic and an id")
        return Named(job, id, lease)
    if id is not None or lease is not None:
        raise TypeError("a job has an id and a lease of its own; give a job, or a topic and an id")
    return job


def _topic(topic: str) -> str:
    return f"/v1/topics/{quote(topic, safe='')}"


def _job(topic: str, id: str) -> str:
    return f"{_topic(topic)}/jobs/{quote(id, safe='')}"


def _worker(id: str) -> str:
    return f"/v1/workers/{quote(id, safe='')}"


def _query(**values: object) -> str:
    texts = {name: _text(value) for name, value in values.items() if value is not None}
    return "?" + urlencode(texts, quote_via=quote, safe="") if texts else ""


def _text(value: object) -> str:
    if isinstance(value, (datetime, timedelta)):
        value = _times.plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _object(fields: Mapping[str, Any]) -> bytes:
    members = (f"{_dump(name)}:{value}" for name, value in map(_member, fields.items()))
    return ("{" + ",".join(members) + "}").encode()


def _member(item: tuple[str, Any]) -> tuple[str, str]:
    name, value = item
    if name != "body":
        return name, _dump(value, default=_times.plain)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "body_base64", _dump(base64.b64encode(value).decode())
    if isinstance(value, Json):
        return name, value.text
    return name, _dump(value)


def _dump(value: object, default: Optional[Callable[[object], object]] = None) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=default
    )


def _named(job: Mapping[str, Any]) -> dict[str, Any]:
    return {"on_conflict": "keep", **job, "id": str(uuid.uuid4())}


def _same_twice(fields: Mapping[str, Any]) -> bool:
    return fields.get("on_conflict") in ("keep", "replace")


def _wait_seconds(wait: Optional[Duration]) -> float:
    try:
        return 0.0 if wait is None else _times.seconds(wait)
    except ValueError:
        # The server says what is wrong with it, and does not wait.
        return 0.0


def _lease_seconds(raw: Mapping[str, Any], answer: Answer) -> Optional[float]:
    if "reserved_until" not in raw:
        return None
    now = _server_clock(answer.headers.get("date"), datetime.now(timezone.utc))
    return max(0.0, (_times.moment(raw["reserved_until"]) - now).total_seconds())


def _server_clock(date: Optional[str], here: datetime) -> datetime:
    try:
        there = parsedate_to_datetime(date or "")
    except (TypeError, ValueError):
        return here
    # The header has whole seconds. If our own clock agrees with it we know the rest; otherwise it
    # is as late there as it can be, so that no lease is taken to be longer than it is.
    second = timedelta(seconds=1)
    return here if there <= here < there + second else there + second


def _one(kind: type[T]) -> Callable[[Any, Answer], T]:
    return lambda value, _: read(kind, value)


def _list(name: str, kind: type[T]) -> Callable[[Any, Answer], list[T]]:
    return lambda value, _: [read(kind, raw) for raw in value[name]]


def _page(name: str, kind: type[T]) -> Callable[[Any, Answer], Page[T]]:
    items = _list(name, kind)
    return lambda value, answer: Page(items(value, answer), value.get("cursor"))


def _changed(value: Any, answer: Answer) -> Changed:
    raw = value.get("job")
    if raw is None:
        return Changed(value["changed"])
    return Changed(value["changed"], read(Standing, raw, lease_seconds=_lease_seconds(raw, answer)))


def _added(value: Any, answer: Answer) -> list[Union[Job, errors.Error]]:
    return [
        read(Job, one["job"]) if "job" in one else error_of(one["error"], answer.status)
        for one in value
    ]


def error_of(reason: Mapping[str, Any], status: int) -> errors.Error:
    """The error that the server tells."""
    return errors.of(reason["code"], reason["message"], reason.get("field"), status)


def _count(value: Any, _: Answer) -> int:
    return int(value["count"])


def _nothing(_value: Any, _answer: Answer) -> None:
    return None
