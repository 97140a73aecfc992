"""Being told to stop."""

from __future__ import annotations

import queue
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def put_into(end: queue.SimpleQueue[Any], wanted: bool) -> Iterator[None]:
    """SIGTERM and SIGINT put None into `end`, if wanted; then they do what they did before.

    A `SimpleQueue` since signals may come at any point, even while it is read.
    """
    numbers = NUMBERS if wanted else ()
    before = {number: signal.signal(number, lambda *_: end.put(None)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
