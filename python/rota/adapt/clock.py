"""How much time a training has left, and whether it gained or lost GPUs. Asked at every step, so it must cost little."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from .errors import CannotGrow

Change = Literal["same", "up", "down"]
CHANGES: tuple[Change, ...] = ("same", "up", "down")


class Clock(Protocol):
    """The scheduler as a training sees it."""

    def time_budget(self) -> float:
        """The seconds that the training may take in all."""

    def time_left(self) -> float:
        """The seconds that are left, never below 0."""

    def allocation(self) -> Change:
        """Whether there are more GPUs (`up`), fewer (`down`) or as many as before. A change is told once."""

    def gpus(self) -> int:
        """The GPUs that the training may use beyond its own."""

    def given_back(self) -> None:
        """The training uses the GPUs that it lost no more."""


class Countdown:
    """A budget by the wall clock, with changes at set times, if any: `[(600, "up"), (1800, "down")]`."""

    def __init__(
        self,
        budget: float,
        changes: Sequence[tuple[float, Change]] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        check_budget(budget)
        check_changes(changes)
        self._budget, self._changes, self._now = float(budget), list(changes), now
        self._began, self._told = now(), 0

    def time_budget(self) -> float:
        """The seconds that the training may take in all."""
        return self._budget

    def time_left(self) -> float:
        """The seconds that are left."""
        return max(self._budget - (self._now() - self._began), 0.0)

    def allocation(self) -> Change:
        """The next change whose time has come."""
        if self._told == len(self._changes) or self._now() - self._began < self._changes[self._told][0]:
            return "same"
        self._told += 1
        return self._changes[self._told - 1][1]

    def gpus(self) -> int:
        """One for each `up` that no `down` has followed."""
        told = [change for _, change in self._changes[: self._told]]
        return told.count("up") - told.count("down")

    def given_back(self) -> None:
        """Nobody waits for them."""

    def set_elapsed(self, seconds: float) -> None:
        """Goes on where an earlier run of the training ended."""
        self._began = self._now() - seconds
        self._told = sum(1 for at, _ in self._changes if at <= seconds)


def check_budget(budget: object) -> None:
    """Raises unless a budget is a length of time."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not math.isfinite(budget) or budget <= 0:
        raise CannotGrow(f"budget: {budget!r} is not a number of seconds above 0")


def check_changes(changes: Sequence[tuple[float, Change]]) -> None:
    """Raises unless changes come in order, and nothing is taken that was not given."""
    extra, last = 0, 0.0
    for at, change in changes:
        if change not in ("up", "down") or not at >= last:
            raise CannotGrow(f"changes: ({at!r}, {change!r}) is not a time in order with `up` or `down`")
        extra += 1 if change == "up" else -1
        last = at
        if extra < 0:
            raise CannotGrow(f"changes: `down` at {at:g} s comes before any `up`; only GPUs that were given can be taken")
