"""Handlers by topic, and what becomes of a job by what they raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Generic, Optional, TypeVar

from ._times import Duration

H = TypeVar("H")

#: Pauses between two questions to a server that is away, in seconds.
PAUSE_MIN, PAUSE_MAX = 0.1, 5.0

#: The most characters of an error that are told: the server reads 64 KiB of a push's answer.
ERROR_CHARS_MAX = 4096


class Again(Exception):
    """Raised by a handler: not yet. Told apart from failures; the next step of the ladder."""

    def __init__(self, retry_in: Optional[Duration] = None) -> None:
        super().__init__("again")
        #: When to try again, in place of the ladder's step.
        self.retry_in = retry_in


class RetryIn(Exception):
    """Raised by a handler: it has failed, and shall be tried again after this time."""

    def __init__(self, retry_in: Duration, error: str = "") -> None:
        super().__init__(error)
        #: When to try again, in place of the ladder's step.
        self.retry_in = retry_in


@dataclass(frozen=True)
class Outcome:
    """What to tell the server of a job that was not done."""

    again: bool
    error: Optional[str]
    retry_in: Optional[Duration]


def outcome(raised: BaseException) -> Outcome:
    """What a handler says by what it raises."""
    if isinstance(raised, Again):
        return Outcome(True, None, raised.retry_in)
    if isinstance(raised, RetryIn):
        return Outcome(False, _text(raised) or None, raised.retry_in)
    return Outcome(False, _text(raised) or type(raised).__name__, None)


def _text(raised: BaseException) -> str:
    try:
        text = str(raised)
    except Exception:
        return ""
    # A surrogate alone is no text to the server.
    return text[:ERROR_CHARS_MAX].encode(errors="replace").decode()


class Handlers(Generic[H]):
    """Who works on the jobs of which topic."""

    def __init__(self) -> None:
        self._handlers: dict[str, H] = {}

    def handler(self, topic: str) -> Callable[[H], H]:
        """Decorates the function that works on the jobs of this topic."""

        def decorate(handler: H) -> H:
            if topic in self._handlers:
                raise ValueError(f"topic `{topic}` has a handler already; give it one")
            self._handlers[topic] = handler
            return handler

        return decorate

    def _topics(self) -> list[str]:
        if not self._handlers:
            raise ValueError("there are no handlers; decorate one with `handler(topic)` first")
        return list(self._handlers)


class Pauses:
    """Growing pauses, until something succeeds."""

    def __init__(self) -> None:
        self._next = PAUSE_MIN

    def next(self) -> float:
        """How long to wait now, in seconds."""
        pause, self._next = self._next, min(2 * self._next, PAUSE_MAX)
        return pause

    def over(self) -> None:
        """It has succeeded."""
        self._next = PAUSE_MIN
