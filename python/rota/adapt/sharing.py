"""Weights that are used in more than one place. A block that shares its weights cannot be grown: a copy would part them."""

from __future__ import annotations

from collections import defaultdict

import torch

from .errors import CannotGrow


def refuse_shared(root: torch.nn.Module, path: str, block: torch.nn.Module) -> None:
    """Raises if a parameter of the block is also used outside of it, or the block stands in two places."""
    places: dict[int, list[str]] = defaultdict(list)
    for name, module in root.named_modules(remove_duplicate=False):
        for key, parameter in module._parameters.items():
            if parameter is not None:
                places[id(parameter)].append(f"{name}.{key}" if name else key)
    inside = f"{path}."
    for name, parameter in block.named_parameters():
        others = [place for place in places[id(parameter)] if path and not place.startswith(inside)]
        if others:
            raise CannotGrow(
                f"`{path}` shares its weight `{name}` with `{others[0]}`; a block can be grown only if its weights are its own"
            )
