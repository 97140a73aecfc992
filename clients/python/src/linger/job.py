"""Jobs and topics: what is given to the server, and what it answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Optional, TypedDict, TypeVar, Union

from . import _times
from ._times import Duration, Moment

T = TypeVar("T")


class Json:
    """A body that is JSON already: it is sent as it is, never written anew."""

    def __init__(self, text: Union[str, bytes]) -> None:
        self.text = text if isinstance(text, str) else text.decode()
        # What is not one whole value could bring fields, or jobs, of its own into the request.
        json.loads(self.text)


class JobFields(TypedDict, total=False):
    """The fields of a new job besides its topic and its body."""

    id: Optional[str]
    delay: Optional[Duration]
    at: Optional[Moment]
    ttr: Optional[Duration]
    priority: Optional[int]
    retry: Optional[Mapping[str, object]]
    repeat: Optional[Mapping[str, object]]
    target: Optional[str]
    confirm: Optional[str]
    envelope: Optional[str]
    retain: Optional[Duration]
    held: Optional[bool]
    on_conflict: Optional[str]
    content_type: Optional[str]
    traceparent: Optional[str]


class NewJob(JobFields, total=False):
    """A new job as `add_many` takes it."""

    topic: str
    #: Any value that JSON can hold, `bytes`, or `Json`.
    body: object


class Changes(TypedDict, total=False):
    """What `update` changes; None takes the job's own value away."""

    delay: Optional[Duration]
    at: Optional[Moment]
    body: object
    priority: Optional[int]
    ttr: Optional[Duration]
    retry: Optional[Mapping[str, object]]
    target: Optional[str]


class Filter(TypedDict, total=False):
    """Which jobs of a topic are meant."""

    state: Optional[str]
    due_before: Optional[Moment]
    due_after: Optional[Moment]
    id_prefix: Optional[str]
    error: Optional[str]


class TopicSettings(TypedDict, total=False):
    """The settings of a topic, for `configure`."""

    ttr: Optional[Duration]
    retry: Optional[Mapping[str, object]]
    target: Optional[str]
    confirm: Optional[str]
    envelope: Optional[str]
    timeout: Optional[Duration]
    headers: Optional[Mapping[str, str]]
    archive: Optional[str]
    retain: Optional[Duration]
    retain_dead: Optional[Duration]
    rate: Union[int, str, None]
    concurrency: Optional[int]
    jobs_max: Optional[int]
    bytes_max: Union[int, str, None]
    partitions: Optional[int]


@dataclass(frozen=True, eq=False)
class Job:
    """A job as the server tells of it."""

    topic: str
    id: str
    #: Its number in the store, never given twice.
    number: int
    #: `delayed`, `ready`, `reserved`, `retry`, `held`, `dead` or `finished`.
    state: str
    due: datetime
    #: How often it was handed out.
    attempt: int
    #: Counts its changes; for `if_version`.
    version: int
    priority: int
    created: datetime
    #: As it was given: what JSON holds, or `bytes`. Lists have it only if they are asked to.
    body: Any = None
    #: Of a job that was popped: by it whoever popped it is known.
    lease: Optional[str] = None
    reserved_until: Optional[datetime] = None
    #: About how long the lease lasts from the answer on, by the server's clock.
    lease_seconds: Optional[float] = None
    ttr: Optional[timedelta] = None
    retry: Optional[dict[str, Any]] = None
    repeat: Optional[dict[str, Any]] = None
    #: Of a repeating job: which one this is, from 0.
    occurrence: Optional[int] = None
    target: Optional[str] = None
    confirm: Optional[str] = None
    envelope: Optional[str] = None
    retain: Optional[timedelta] = None
    last_error: Optional[str] = None
    content_type: Optional[str] = None
    traceparent: Optional[str] = None
    #: All that was answered, as the API has it.
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a job stands after a change."""

    number: int
    state: str
    due: datetime
    attempt: int
    version: int
    priority: int
    occurrence: Optional[int] = None
    reserved_until: Optional[datetime] = None
    #: About how long the lease lasts from the answer on, by the server's clock.
    lease_seconds: Optional[float] = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Changed:
    """What came of a change."""

    #: Whether anything is different now.
    changed: bool
    #: Where the job stands; None if it is gone.
    job: Optional[Standing] = None


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happened to a job."""

    at: datetime
    what: str
    attempt: int
    by: Optional[str] = None
    error: Optional[str] = None
    took: Optional[timedelta] = None
    #: What a push was answered: `status` and `excerpt`.
    answer: Optional[dict[str, Any]] = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Topic:
    """A topic: how many jobs it has, and its settings."""

    topic: str
    paused: bool = False
    #: How much longer, if not until it is resumed.
    paused_for: Optional[timedelta] = None
    #: Jobs by state.
    counts: dict[str, int] = field(default_factory=dict)
    #: Calls that wait for its jobs.
    waiting: int = 0
    #: Jobs added since it came to be.
    added: int = 0
    #: What its bodies have together, if it has a `bytes_max`.
    bytes: Optional[int] = None
    settings: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


def _length(text: str) -> timedelta:
    return timedelta(seconds=_times.seconds(text))


_READ = {
    "at": _times.moment,
    "created": _times.moment,
    "due": _times.moment,
    "reserved_until": _times.moment,
    "paused_for": _length,
    "retain": _length,
    "took": _length,
    "ttr": _length,
}


def read(kind: type[T], raw: Mapping[str, Any], **more: object) -> T:
    """Makes one of the classes above of what was answered."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    values = {
        name: _READ[name](value) if name in _READ else value
        for name, value in raw.items()
        if name in known
    }
    if "body_base64" in raw:
        values["body"] = base64.b64decode(raw["body_base64"])
    return kind(**{**values, "raw": raw, **more})
