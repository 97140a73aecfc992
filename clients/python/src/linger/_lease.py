"""When a lease is to be touched, and when it is over."""

from __future__ import annotations

from typing import Optional

from ._handlers import PAUSE_MIN, Pauses

NEVER = float("inf")


class Lease:
    """A lease that a worker has; moments are those of `time.monotonic`."""

    def __init__(self, since: float, length: Optional[float]) -> None:
        self._pauses = Pauses()
        self.renewed(since, length)

    def renewed(self, since: float, length: Optional[float]) -> None:
        """It lasts for so many seconds, and is touched when half of them are over."""
        length = length or 0.0
        self._pauses.over()
        self.until = since + length
        self.touch_at = since + max(length / 2, PAUSE_MIN)

    def not_renewed(self, now: float) -> None:
        """The server was away: it is touched again after a pause."""
        self.touch_at = now + self._pauses.next()

    def rest(self) -> None:
        """A touch is under way."""
        self.touch_at = NEVER

    def lost(self) -> None:
        """There is nothing more to be done about it."""
        self.until = self.touch_at = NEVER

    def next(self) -> float:
        """When something is to be done about it."""
        return min(self.touch_at, self.until)
