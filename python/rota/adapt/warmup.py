"""New parameters begin with small steps.

The optimiser's step on them is taken back in part: with the factor f, a parameter moves from p to p + f·(step). For Adam, AdamW
and SGD that is exactly a learning rate of f times the group's, without another group, which a scheduler would not know of.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class WarmUp:
    """The first steps of some parameters."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], steps: int, done: int = 0) -> None:
        self.parameters = list(parameters)
        self.steps, self.done = steps, done
        self._before = [parameter.detach().clone() for parameter in self.parameters]

    @property
    def is_over(self) -> bool:
        """Whether the parameters now learn at full speed."""
        return self.done >= self.steps or not self.parameters

    def step(self) -> None:
        """Called after the optimiser's step."""
        self.done += 1
        factor = self.done / (self.steps + 1)
        with torch.no_grad():
            for parameter, before in zip(self.parameters, self._before):
                parameter.sub_(before).mul_(factor).add_(before)
                before.copy_(parameter)
