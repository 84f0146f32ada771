"""The adapter in a training loop: it watches time and GPUs, asks what to do, grows or shrinks, and warms up what is new."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from typing import Any, Callable, Optional

import torch

from .._lease.keeper import remark
from . import operations, optimisers
from .clock import Clock, Countdown, check_budget
from .decisions import Action, DecisionMaker, Interleave, Question
from .errors import CannotGrow
from .operations import Growth
from .planning import Plan, plan
from .ranks import Ranks
from .service import JobClock, clock_of_job
from .teacher import Teacher
from .warmup import WarmUp
from .wrappers import unwrapped

PACE_STEPS = 5
"""Steps after which the time of a step is known well enough."""


class Adapter:
    """Grows and shrinks a model in its training loop. Call `step()` after every step of the optimiser."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        budget: Optional[float] = None,
        *,
        clock: Optional[Clock] = None,
        decide: Optional[DecisionMaker] = None,
        example: Any = None,
        warmup_steps: int = 20,
        teach_steps: int = 0,
        epoch_steps: Optional[int] = None,
        on_gpus: Optional[Callable[[int], None]] = None,
        agree_every: int = 10,
    ) -> None:
        """`budget` is in seconds; in a job that was submitted with `--budget` it is known already.

        `decide` chooses the growth (`Interleave` unless said), `example` is a batch for `deepen`, `epoch_steps` the steps of
        an epoch, with which a budget that is too short for one is noticed after five steps. `on_gpus` is called with the number
        of extra GPUs after a growth, and before a shrinking is done. Ranks of a distributed training speak every
        `agree_every` steps. With `teach_steps` the larger network teaches the smaller one for so many steps after a shrinking;
        the loop then gives its loss to `taught`.
        """
        optimisers.check(optimizer, unwrapped(model))
        if min(warmup_steps, teach_steps) < 0 or agree_every < 1 or (epoch_steps is not None and epoch_steps < 1):
            raise CannotGrow("warmup_steps and teach_steps must be at least 0, agree_every and epoch_steps at least 1")
        self.model, self.optimizer = model, optimizer
        self._clock = clock if clock is not None else _clock(budget)
        check_budget(self._clock.time_budget())
        self._decide: DecisionMaker = decide if decide is not None else Interleave()
        self._example, self._warmup_steps, self._epoch_steps, self._on_gpus = example, warmup_steps, epoch_steps, on_gpus
        self._ranks = Ranks(model, agree_every)
        self._warmup: Optional[WarmUp] = None
        self._teach_steps = teach_steps
        self._teacher: Optional[Teacher] = None
        self._growths_by_offer: list[int] = []
        self.steps = 0
        self.history: list[tuple[int, Growth]] = []
        """The growths so far, each with the step after which it happened."""
        self._seconds_left = self._clock.time_left()
        self._pace_began, self._pace_step = time.monotonic(), 0

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up. In a distributed training all ranks hear it at the same step."""
        return self.seconds_left <= 0.0

    @property
    def seconds_left(self) -> float:
        """The seconds of the budget that are left."""
        return self._clock.time_left() if self._ranks.world == 1 else self._seconds_left

    @property
    def gpus(self) -> int:
        """The GPUs that the training may use beyond its own."""
        return self._clock.gpus()

    @property
    def devices(self) -> list[int]:
        """The extra GPUs as PyTorch counts them, in a job that the daemon offers some: `torch.device("cuda", number)`."""
        clock = self._clock
        return clock.devices() if isinstance(clock, JobClock) else []

    def taught(self, loss: torch.Tensor, outputs: Any, inputs: Any) -> torch.Tensor:
        """The loss with the lesson of the larger network in it, for some time after a shrinking; else the loss as it is.

        `outputs` are the model's scores, classes last, and `inputs` the batch that they were computed from.
        """
        return loss if self._teacher is None else self._teacher.loss(loss, outputs, inputs)

    def step(self) -> Optional[Growth]:
        """To be called after every step of the optimiser. Returns what was changed, if something was."""
        self.steps += 1
        if self._warmup is not None:
            self._warm_up()
        if self._teacher is not None:
            self._teacher.step()
            self._teacher = None if self._teacher.is_over else self._teacher
        if self._epoch_steps is not None and self.steps == PACE_STEPS:
            self._check_epoch(self._epoch_steps)
        if not self._ranks.meet_now(self.steps):
            return None
        change = self._clock.allocation() if self._ranks.rank == 0 else "same"
        if self._ranks.world > 1:
            change, self._seconds_left = self._ranks.agree(change, self._clock.time_left())
        if change == "same":
            return None
        return self._up() if change == "up" else self._down()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, beside the states of model and optimiser."""
        names = {id(parameter): name for name, parameter in unwrapped(self.model).named_parameters()}
        warming = self._warmup
        return {
            "steps": self.steps,
            "seconds_used": self._clock.time_budget() - self._clock.time_left(),
            "growths_by_offer": list(self._growths_by_offer),
            "warmup": None
            if warming is None
            else {"names": [names[id(p)] for p in warming.parameters], "steps": warming.steps, "done": warming.done},
            "teacher": None if self._teacher is None else self._teacher.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on as the run that was saved. Load the model with `rota.adapt.load` and the optimiser before."""
        self.steps = int(state["steps"])
        self._growths_by_offer = [int(number) for number in state["growths_by_offer"]]
        if isinstance(self._clock, Countdown):
            self._clock.set_elapsed(float(state["seconds_used"]))
        warming = state["warmup"]
        if warming is not None:
            known = dict(unwrapped(self.model).named_parameters())
            missing = [name for name in warming["names"] if name not in known]
            if missing:
                raise CannotGrow(f"the model has no `{missing[0]}`, which was being warmed up; load it with `rota.adapt.load`")
            self._warmup = WarmUp([known[name] for name in warming["names"]], warming["steps"], warming["done"])
        teaching = state.get("teacher")
        if teaching is not None:
            # The teacher was grown further than the model that it teaches: a copy of the model becomes it by its recipe.
            network = copy.deepcopy(unwrapped(self.model))
            operations.load(network, teaching["network"])
            self._teacher = Teacher(network, teaching["steps"], teaching["done"])
        self._begin_pace()

    def _up(self) -> Optional[Growth]:
        growth = None
        try:
            action = self._agreed_action()
            growth = None if action is None else self._grow(action)
        except CannotGrow as error:
            # A training of hours does not end because it cannot become bigger. Every rank comes to the same error.
            remark(f"the model stays as it is: {error}")
        self._growths_by_offer.append(0 if growth is None else 1)
        if self._on_gpus is not None:
            self._on_gpus(self._clock.gpus())
        return growth

    def _agreed_action(self) -> Optional[Action]:
        """Rank 0 asks the decision maker; all ranks do as it says."""
        text = ""
        if self._ranks.rank == 0:
            try:
                action = self._decide(self._question())
                text = "" if action is None else json.dumps([action.operation, action.where, action.options])
            except CannotGrow as error:
                remark(f"the model stays as it is: {error}")
        text = self._ranks.agree_on_text(text)
        return Action(*json.loads(text)) if text else None

    def _grow(self, action: Action) -> Growth:
        options: dict[str, Any] = {**action.options, "optimizer": self.optimizer}
        if action.operation == "deepen":
            growth = operations.deepen(self.model, action.where, example=self._example, **options)
        elif action.operation == "widen":
            growth = operations.widen(self.model, action.where, example=self._example, **options)
        elif action.operation == "stack":
            growth = operations.stack(self.model, **options)
        else:
            raise CannotGrow(f"the decision maker said `{action.operation}`; known are deepen, widen and stack")
        # A teacher that knows less than the grown network has nothing more to teach.
        self._teacher = None
        if self._warmup_steps > 0 and growth.new_parameters:
            self._warmup = WarmUp(growth.new_parameters, self._warmup_steps)
        self.history.append((self.steps, growth))
        self._begin_pace()
        return growth

    def _down(self) -> Optional[Growth]:
        if self._on_gpus is not None:
            self._on_gpus(self._clock.gpus())
        growth = None
        for _ in range(self._growths_by_offer.pop() if self._growths_by_offer else 0):
            growth = operations.shrink(self.model, optimizer=self.optimizer, teach_steps=self._teach_steps)
            self._teacher = growth.teacher
            self.history.append((self.steps, replace(growth, teacher=None)))
            # Parameters that are gone need no warming up; others that were being warmed up have had most of it.
            self._warmup = None
        self._clock.given_back()
        self._begin_pace()
        return growth

    def _question(self) -> Question:
        def planned(action: Action) -> Plan:
            return plan(
                self.model, action.operation, action.where, optimizer=self.optimizer, example=self._example, **action.options
            )

        left, budget = self._clock.time_left(), self._clock.time_budget()
        return Question(left, budget, self.steps, self._step_seconds(), self._clock.gpus(), planned)

    def _warm_up(self) -> None:
        assert self._warmup is not None  # noqa: S101 - asked by the caller
        self._warmup.step()
        if self._warmup.is_over:
            self._warmup = None

    def _begin_pace(self) -> None:
        self._pace_began, self._pace_step = time.monotonic(), self.steps

    def _step_seconds(self) -> float:
        return (time.monotonic() - self._pace_began) / max(self.steps - self._pace_step, 1)

    def _check_epoch(self, epoch_steps: int) -> None:
        seconds, budget = self._step_seconds() * epoch_steps, self._clock.time_budget()
        if seconds > budget:
            raise CannotGrow(
                f"the budget of {budget:g} s is shorter than one epoch, which takes about {seconds:.3g} s "
                f"({epoch_steps} steps of {self._step_seconds():.3g} s); nothing would be scored"
            )


def _clock(budget: Optional[float]) -> Clock:
    """The daemon's clock in a job with a budget, else a countdown."""
    clock = clock_of_job(budget)
    if clock is not None:
        return clock
    if budget is None:
        raise CannotGrow("budget: give the seconds of the training, or submit the job with `rota submit --budget SECONDS`")
    return Countdown(budget)
