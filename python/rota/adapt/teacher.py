"""A teacher: the larger network from before a shrinking, from which the smaller one learns for a while (distillation).

The loss becomes w·T²·KL(teacher, model) + (1 - w)·loss, where KL compares the probabilities of the outputs at a temperature T.
The weight w begins at 0.75 and falls to 0 over the given number of steps. The teacher is a copy: it never changes, and it runs
in evaluation mode.
"""

from __future__ import annotations

import copy
from typing import Any, Optional

import torch
from torch import nn
from torch.nn import functional

from .errors import CannotGrow
from .probing import arguments_of, first

WEIGHT = 0.75
"""The teacher's part of the loss in the first step."""
TEMPERATURE = 2.0
"""The temperature of the probabilities that are compared."""


class Teacher:
    """A network that a smaller one learns from. It costs the memory of its weights, and one forward pass a step."""

    def __init__(self, network: nn.Module, steps: int, done: int = 0) -> None:
        """Copies the network. `steps` is how long it teaches; `done` says how many of these steps are over."""
        check_steps(steps)
        try:
            self._network: Optional[nn.Module] = copy.deepcopy(network)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise CannotGrow(f"the model cannot be copied, so it cannot teach: {error}") from error
        self._network.requires_grad_(False).eval()
        for parameter in self._network.parameters():
            parameter.grad = None
        self.steps, self.done = steps, done

    @property
    def weight(self) -> float:
        """The teacher's part of the loss."""
        return WEIGHT * max(1.0 - self.done / self.steps, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether it has taught all its steps. Its memory is free again then."""
        return self.done >= self.steps

    def loss(self, loss: torch.Tensor, outputs: Any, inputs: Any) -> torch.Tensor:
        """The loss with the teacher's part in it, for one step.

        `outputs` are the model's scores (before any softmax), classes last. `inputs` is the batch as the model takes it: a
        tensor, a tuple of arguments or a dictionary.
        """
        if self._network is None or self.is_over:
            return loss
        positional, named = arguments_of(inputs)
        with torch.no_grad():
            wanted = first(self._network(*positional, **named))
        own = first(outputs)
        if own.shape != wanted.shape:
            raise CannotGrow(
                f"the teacher's outputs have the shape {tuple(wanted.shape)} and the model's {tuple(own.shape)}; "
                "give the batch that these outputs were computed from"
            )
        classes = own.shape[-1]
        lesson = functional.kl_div(
            functional.log_softmax(own.reshape(-1, classes) / TEMPERATURE, -1),
            functional.log_softmax(wanted.reshape(-1, classes) / TEMPERATURE, -1),
            reduction="batchmean",
            log_target=True,
        )
        return self.weight * TEMPERATURE**2 * lesson + (1.0 - self.weight) * loss

    def step(self) -> None:
        """Called after the optimiser's step: the teacher counts a little less from now on."""
        self.done += 1
        if self.is_over:
            self._network = None

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        network = None if self._network is None else self._network.state_dict()
        return {"network": network, "steps": self.steps, "done": self.done}


def check_steps(steps: int) -> None:
    """Raises unless it is a number of steps that a teacher can teach."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise CannotGrow(f"the teacher's steps: {steps!r} is not a whole number of at least 1")
