"""What a growth means for the optimiser: old parameters keep their moments to the bit, new ones start without any.

A new parameter joins the group of the parameter it was made from, so that weight decay, learning rate and every scheduler treat
it alike. No group is added: schedulers count groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Optional

import torch

from .errors import CannotGrow

KNOWN = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)


def check(optimizer: Optional[torch.optim.Optimizer], network: torch.nn.Module) -> None:
    """Raises unless the optimiser is one whose state is understood, and trains this network."""
    if optimizer is None:
        return
    if type(optimizer) not in KNOWN:
        raise CannotGrow(
            f"the optimiser is a {type(optimizer).__module__}.{type(optimizer).__qualname__}, whose state is not understood; "
            "known are torch.optim.Adam, AdamW and SGD"
        )
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not any(id(parameter) in trained for parameter in network.parameters()):
        raise CannotGrow("the optimiser trains no parameter of this model; give the optimiser that was made for it")


def join(optimizer: torch.optim.Optimizer, new: torch.nn.Parameter, source: Optional[torch.nn.Parameter], name: str) -> None:
    """Adds a new parameter to the group of its source; a source that is not trained lends its shape to find a group."""
    group = _group_of(optimizer, source) if source is not None else None
    if group is None:
        alike: Counter[int] = Counter()
        for number, candidate in enumerate(optimizer.param_groups):
            alike[number] = sum(parameter.dim() == new.dim() for parameter in candidate["params"])
        group = optimizer.param_groups[alike.most_common(1)[0][0]]
    group["params"].append(new)
    if group.get("param_names") is not None:
        group["param_names"].append(name)


def swap(
    optimizer: torch.optim.Optimizer, old: torch.nn.Parameter, new: torch.nn.Parameter, dimension: int, index: Any
) -> None:
    """Puts a resized parameter in the place of the old one; its moments are picked as its values were."""
    group = _group_of(optimizer, old)
    if group is None:
        return
    place = next(number for number, parameter in enumerate(group["params"]) if parameter is old)
    group["params"][place] = new
    if old in optimizer.state:
        state = optimizer.state.pop(old)
        optimizer.state[new] = {
            key: value.index_select(dimension, index.to(value.device))
            if isinstance(value, torch.Tensor) and value.shape == old.shape and value.dim() > 0
            else value
            for key, value in state.items()
        }


def drop(optimizer: torch.optim.Optimizer, gone: Iterable[torch.nn.Parameter]) -> None:
    """Forgets parameters that are no longer part of the network."""
    ids = set()
    for parameter in gone:
        ids.add(id(parameter))
        optimizer.state.pop(parameter, None)
    for group in optimizer.param_groups:
        kept = [number for number, parameter in enumerate(group["params"]) if id(parameter) not in ids]
        if len(kept) < len(group["params"]):
            if group.get("param_names") is not None:
                group["param_names"] = [group["param_names"][number] for number in kept]
            group["params"] = [group["params"][number] for number in kept]


def state_bytes(optimizer: Optional[torch.optim.Optimizer], parameters: Iterable[torch.nn.Parameter]) -> int:
    """The memory of the moments that these parameters have, or will have."""
    if optimizer is None:
        return 0
    moments = 2
    if isinstance(optimizer, torch.optim.SGD):
        moments = 1 if any(group.get("momentum") for group in optimizer.param_groups) else 0
    elif any(group.get("amsgrad") for group in optimizer.param_groups):
        moments = 3
    return moments * sum(int(p.numel() * p.element_size()) for p in parameters)


def _group_of(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> Optional[dict[str, Any]]:
    groups: list[dict[str, Any]] = optimizer.param_groups
    return next((group for group in groups if any(candidate is parameter for candidate in group["params"])), None)
