"""The client and the worker for asyncio: the same calls, awaited."""

from .client import Client
from .worker import Worker

__all__ = ["Client", "Worker"]
