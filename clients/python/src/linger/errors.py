"""What can go wrong, told apart by the server's stable codes."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A call that failed. Match on its class or its `code`, never on its text."""

    #: The server's stable code.
    code = "unknown"

    def __init__(
        self,
        message: str,
        *,
        field: Optional[str] = None,
        status: Optional[int] = None,
        code: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        #: The sentence for people.
        self.message = message
        #: The field of the request that is at fault, if there is one.
        self.field = field
        #: The HTTP status; None if no server has answered.
        self.status = status
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Invalid(Error):
    """The request itself is wrong, and sending it again will not help."""

    code = "invalid"


class NotFound(Error):
    """There is no such job, topic or path."""

    code = "not_found"


class AlreadyExists(Error):
    """The topic has a job of this id, and `on_conflict` does not say what to do then."""

    code = "already_exists"


class LeaseLost(Error):
    """The lease ran out, or was never yours: somebody else may have the job by now."""

    code = "lease_lost"


class WrongState(Error):
    """The job is in a state that does not allow this."""

    code = "wrong_state"


class VersionMismatch(Error):
    """The job has changed since the version that `if_version` names."""

    code = "version_mismatch"


class TooLarge(Error):
    """Something is over its size limit, which the message names."""

    code = "too_large"


class Unauthorized(Error):
    """The server asks for an API key, and none was given, or not a right one."""

    code = "unauthorized"


class Forbidden(Error):
    """This caller may not do this."""

    code = "forbidden"


class RateLimited(Error):
    """Too many requests by one API key; nothing was done."""

    code = "rate_limited"


class Overloaded(Error):
    """More is in work than may be, or a topic is full; nothing was done."""

    code = "overloaded"


class Unavailable(Error):
    """The server cannot be reached, does not answer in time, or is starting or stopping."""

    code = "unavailable"


class StorageFull(Error):
    """There is no space left on the server's disk for new jobs."""

    code = "storage_full"


class StorageFailed(Error):
    """The server could not write; whether it was done is unknown."""

    code = "storage_failed"


_BY_CODE = {kind.code: kind for kind in Error.__subclasses__()}

#: What may be over by itself after a while.
PASSING = (Unavailable, Overloaded, RateLimited, StorageFull, StorageFailed)


def of(code: str, message: str, field: Optional[str], status: int) -> Error:
    """The error of this code; a code that is new to this client is an `Error` that has it."""
    return _BY_CODE.get(code, Error)(message, field=field, status=status, code=code)
