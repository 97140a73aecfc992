"""Client of Linger, a delay queue.

`Client` calls a server; `Worker` works on jobs; `Service` is called for them; `webhook` verifies
and answers deliveries. `linger.aio` has the client and the worker for asyncio.
"""

from . import errors, webhook
from ._handlers import Again, RetryIn
from ._times import Duration, Moment
from .client import Client
from .errors import (
    AlreadyExists,
    Error,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    Overloaded,
    RateLimited,
    StorageFailed,
    StorageFull,
    TooLarge,
    Unauthorized,
    Unavailable,
    VersionMismatch,
    WrongState,
)
from .job import (
    Changed,
    Changes,
    Event,
    Filter,
    Job,
    JobFields,
    Json,
    NewJob,
    Standing,
    Topic,
    TopicSettings,
)
from .service import Service
from .worker import Worker, WorkerJob

__version__ = "0.1.0"

__all__ = [
    "Again",
    "AlreadyExists",
    "Changed",
    "Changes",
    "Client",
    "Duration",
    "Error",
    "Event",
    "Filter",
    "Forbidden",
    "Invalid",
    "Job",
    "JobFields",
    "Json",
    "LeaseLost",
    "Moment",
    "NewJob",
    "NotFound",
    "Overloaded",
    "RateLimited",
    "RetryIn",
    "Service",
    "Standing",
    "StorageFailed",
    "StorageFull",
    "TooLarge",
    "Topic",
    "TopicSettings",
    "Unauthorized",
    "Unavailable",
    "VersionMismatch",
    "Worker",
    "WorkerJob",
    "WrongState",
    "errors",
    "webhook",
]
