"""What can go wrong: the daemon is not there, it refuses, or the time is up.

A refusal of the daemon is a `Problem`, and one of its subclasses where the daemon's word for it is known, so that a program
can tell them apart; its text is the daemon's own title, which says what is wrong and what to do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._exchange import Response
    from ._jobs import Job


class RotaError(Exception):
    """Everything this package raises of its own."""


class Unreachable(RotaError, ConnectionError):
    """There is no daemon, or it went away before it had answered."""


class Unintelligible(RotaError):
    """The answer is not what this package knows: package and daemon may be of different versions."""


class Problem(RotaError):
    """The daemon refused."""

    def __init__(self, kind: str, status: int, title: str) -> None:
        super().__init__(title)
        self.type = kind
        """The daemon's word for it, as `not-found`."""
        self.status = status
        """The HTTP status."""
        self.title = title
        """For people: what is wrong and what to do."""

    def __reduce__(self) -> tuple[type[Problem], tuple[str, int, str]]:
        return type(self), (self.type, self.status, self.title)


class BadInput(Problem, ValueError):
    """What was asked cannot be meant."""


class Unauthorized(Problem, PermissionError):
    """No token, or one that is not known (any more)."""


class Forbidden(Problem, PermissionError):
    """Known, but not allowed: another user's job, or a token of too small a scope."""


class NotFound(Problem, LookupError):
    """There is no such job, or no such thing."""


class Conflict(Problem):
    """Not in this state: a job that is over cannot be held."""


class TooMany(Problem):
    """A limit is reached: of jobs, or of requests."""


class Unavailable(Problem):
    """The daemon cannot write: its disk is full, or worse."""


class Stopping(Problem):
    """The daemon is about to end, or has no room for more callers; try again soon."""


class TimedOut(RotaError, TimeoutError):
    """What was waited for did not happen in time."""

    def __init__(self, message: str, jobs: Sequence[Job] = ()) -> None:
        super().__init__(message)
        self.jobs = tuple(jobs)
        """The jobs that were waited for, as they were last seen."""


class ClaimEnded(RotaError):
    """A claim was ended before it was granted: cancelled by somebody."""


class JobFailed(RotaError):
    """A job did not end with exit code 0; raised by `Job.check`."""

    def __init__(self, job: Job) -> None:
        why = f": {job.reason}" if job.reason else ""
        super().__init__(f"job {job.id} is {job.state}{why}")
        self.job = job
        """The job."""

    def __reduce__(self) -> tuple[type[JobFailed], tuple[Job]]:
        return type(self), (self.job,)


ABSENT = (Unreachable, Stopping)
"""The daemon is being restarted, perhaps."""

_BY_TYPE: dict[str, type[Problem]] = {
    "bad-input": BadInput,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not-found": NotFound,
    "conflict": Conflict,
    "too-many": TooMany,
    "unavailable": Unavailable,
    "stopping": Stopping,
}

# What comes from a layer below the API, or from a proxy, has a status only.
_BY_STATUS: dict[int, type[Problem]] = {
    400: BadInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: BadInput,
    415: BadInput,
    422: BadInput,
    429: TooMany,
    502: Stopping,
    503: Stopping,
    507: Unavailable,
}


def problem_of(response: Response) -> Problem:
    """The refusal that an answer is."""
    text = response.body.decode(errors="replace").strip()
    kind, title = "", text or f"the daemon answered with status {response.status}"
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if isinstance(told, dict):
        kind, title = str(told.get("type", "")), str(told.get("title", title))
    known = _BY_TYPE.get(kind) or _BY_STATUS.get(response.status, Problem)
    return known(kind, response.status, title)
