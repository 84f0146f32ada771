"""How long a daemon that was there may be away: an upgrade takes seconds, and nobody who waits should notice."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Optional, TypeVar, Union

from ._errors import RotaError
from ._exchange import Pause, Request, Response

T = TypeVar("T")

Steps = Generator[Union[Request, Pause], Response, T]
"""What is to be asked, one request after the other, and what it comes to. The clients carry the steps out, each in its way."""

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0


class Patience:
    """Counts the time that the daemon is away without a break."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest_seconds = longest_seconds
        self._since: Optional[float] = None
        self._pause = PAUSE_SECONDS_MIN

    def met(self) -> None:
        """It answered."""
        self._since = None
        self._pause = PAUSE_SECONDS_MIN

    def missed(self, error: RotaError) -> Steps[None]:
        """It did not: a pause, or the error if it is away for too long."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._longest_seconds:
            raise error
        yield Pause(self._pause)
        self._pause = min(self._pause * 1.5, PAUSE_SECONDS_MAX)


class Deadline:
    """A moment until which something must have happened, or none."""

    def __init__(self, timeout_seconds: Optional[float]) -> None:
        self._at = None if timeout_seconds is None else time.monotonic() + timeout_seconds

    def left(self, at_most: float) -> float:
        """Seconds until then, or so many."""
        return at_most if self._at is None else min(max(self._at - time.monotonic(), 0.0), at_most)

    @property
    def is_past(self) -> bool:
        return self._at is not None and self._at <= time.monotonic()
