"""Lengths of time and moments, as Python has them and as the server takes them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Union

#: A length of time: a `timedelta`, a number of seconds, or text such as `"2h30m"`.
Duration = Union[timedelta, float, str]

#: A moment: a `datetime` (one without a zone is local time), Unix time, or text as RFC 3339 has it.
Moment = Union[datetime, int, str]

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms]|$)")


def seconds(length: Duration) -> float:
    """How many seconds it is; `ValueError` if it is no length of time."""
    if isinstance(length, timedelta):
        return length.total_seconds()
    if not isinstance(length, str):
        return float(length)
    parts = _PART.findall(length)
    if not parts or "".join(number + unit for number, unit in parts) != length:
        raise ValueError(f'`{length}` is no length of time; give text such as "2h30m" or seconds')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def moment(text: str) -> datetime:
    """The moment that an answer of the server tells."""
    # Before 3.11 `fromisoformat` does not know the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def plain(value: object) -> object:
    """What JSON holds in place of `value`; for `json.dumps(default=…)`."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    raise TypeError(f"a {type(value).__name__} is nothing that JSON can hold")
