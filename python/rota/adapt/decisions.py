"""Decision makers: what to do with more GPUs for the rest of a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .blocks import Where
from .planning import Plan


@dataclass(frozen=True)
class Action:
    """A growth: `deepen`, `widen` or `stack` with its arguments."""

    operation: str
    where: Where = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a decision maker is told."""

    seconds_left: float
    seconds_budget: float
    steps: int
    step_seconds: float
    """A step as it takes now."""
    gpus: int
    """The GPUs beyond the training's own."""
    plan: Callable[[Action], Plan]
    """What an action would cost."""


DecisionMaker = Callable[[Question], Optional[Action]]


class Nothing:
    """Never grows: the baseline."""

    def __call__(self, question: Question) -> Optional[Action]:
        """Nothing."""
        return None


@dataclass
class Fixed:
    """A set sequence of places, one for each offer; None does nothing. When it is used up, nothing is done."""

    places: Sequence[Where]
    operation: str = "deepen"
    asked: int = 0

    def __call__(self, question: Question) -> Optional[Action]:
        """The next of the sequence."""
        place = self.places[self.asked] if self.asked < len(self.places) else None
        self.asked += 1
        return None if place is None else Action(self.operation, place)


@dataclass
class Interleave:
    """The default: one growth for each offer, a new block behind every block, if enough of the budget is left to train it."""

    least_part: float = 0.2
    """The least part of the budget that must be left."""
    least_steps: int = 50
    """The least number of steps that must be left, at the speed after the growth."""

    def __call__(self, question: Question) -> Optional[Action]:
        """Deepens every block, or does nothing when it is late."""
        action = Action("deepen")
        if question.seconds_left < self.least_part * question.seconds_budget:
            return None
        planned = question.plan(action)
        step_seconds = question.step_seconds * planned.step_factor
        if (question.seconds_left - planned.seconds) < self.least_steps * step_seconds:
            return None
        return action
