"""The ranks of a distributed training do the same at the same step: what rank 0 finds is sent to all, every few steps."""

from __future__ import annotations

import torch

from .clock import CHANGES, Change
from .wrappers import is_distributed


class Ranks:
    """The ranks that train one model."""

    def __init__(self, model: torch.nn.Module, every: int) -> None:
        self.world, self.rank, self._group = 1, 0, None
        self._every = every
        if is_distributed(model):
            self._group = model.process_group
            self.world = torch.distributed.get_world_size(self._group)
            self.rank = torch.distributed.get_rank(self._group)
        parameter = next(model.parameters(), None)
        self._device = parameter.device if parameter is not None else torch.device("cpu")

    def meet_now(self, step: int) -> bool:
        """Whether all ranks speak after this step. One process alone may decide after every step."""
        return self.world == 1 or step % self._every == 0

    def agree(self, change: Change, seconds_left: float) -> tuple[Change, float]:
        """Rank 0's change and time, at every rank."""
        if self.world == 1:
            return change, seconds_left
        told = torch.tensor([float(CHANGES.index(change)), seconds_left], dtype=torch.float64, device=self._device)
        torch.distributed.broadcast(told, self._source(), group=self._group)
        return CHANGES[int(told[0].item())], float(told[1].item())

    def agree_on_text(self, text: str) -> str:
        """Rank 0's text, at every rank."""
        if self.world == 1:
            return text
        told = [text]
        torch.distributed.broadcast_object_list(told, self._source(), group=self._group)
        return told[0]

    def _source(self) -> int:
        if self._group is None or self._group is torch.distributed.group.WORLD:
            return 0
        return int(torch.distributed.get_global_rank(self._group, 0))
