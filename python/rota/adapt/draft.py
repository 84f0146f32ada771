"""A growth that is worked out and not yet done. Everything that can fail happens while it is made; doing it is dull.

No check is made in `do`: whoever makes a draft has made them all, so that a refusal leaves model and optimiser as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import nn

from . import optimisers, recipe
from .wrappers import wrap_again


@dataclass
class Insertion:
    """A new module in a list."""

    container: str
    after: str
    """The name in the container behind which it stands."""
    module: nn.Module
    sources: dict[str, nn.Parameter] = field(default_factory=dict)
    """The parameters from which those of the new module were made, by their names in it."""


@dataclass
class Resizing:
    """A parameter or buffer of another size."""

    path: str
    name: str
    value: torch.Tensor
    dimension: int
    index: torch.Tensor
    """The old row or column that each of the new ones was made from."""


@dataclass
class Draft:
    """What a growth would do."""

    entry: recipe.Entry
    insertions: list[Insertion] = field(default_factory=list)
    resizings: list[Resizing] = field(default_factory=list)
    attributes: list[tuple[str, str, int]] = field(default_factory=list)
    """Path, name and new value: `in_features`, `out_channels`, …"""

    def new_parameters(self) -> list[nn.Parameter]:
        """The parameters that the growth adds. Resized ones are not among them."""
        return [parameter for insertion in self.insertions for parameter in insertion.module.parameters()]

    def added_elements(self, network: nn.Module) -> int:
        """How many numbers more will be trained."""
        added = sum(int(parameter.numel()) for parameter in self.new_parameters())
        for resizing in self.resizings:
            owner = network.get_submodule(resizing.path)
            if resizing.name in owner._parameters:
                added += int(resizing.value.numel() - getattr(owner, resizing.name).numel())
        return added

    def do(self, model: nn.Module, network: nn.Module, optimizer: Optional[torch.optim.Optimizer]) -> recipe.Entry:
        """Makes the change. Returns the entry of the recipe."""
        places = [(network.get_submodule(insertion.container), insertion) for insertion in self.insertions]
        resize(network, self.resizings, self.attributes, optimizer)
        for container, insertion in reversed(places):
            _insert(container, insertion.after, insertion.module)
        # Numbers of lists are set right at the end, so that the names above hold until then.
        for container, _ in places:
            _renumber(container)
        paths = {id(module): path for path, module in network.named_modules()}
        inserted = [paths[id(insertion.module)] for insertion in self.insertions]
        if optimizer is not None:
            for path, insertion in zip(inserted, self.insertions):
                for name, parameter in insertion.module.named_parameters():
                    optimisers.join(optimizer, parameter, insertion.sources.get(name), f"{path}.{name}")
        entry = {**self.entry, "inserted": inserted}
        recipe.write(network, [*recipe.recipe(network), entry])
        wrap_again(model)
        return entry


def resize(
    network: nn.Module,
    resizings: list[Resizing],
    attributes: list[tuple[str, str, int]],
    optimizer: Optional[torch.optim.Optimizer],
) -> None:
    """Puts parameters and buffers of another size in the place of the old ones."""
    for resizing in resizings:
        owner = network.get_submodule(resizing.path)
        old = getattr(owner, resizing.name)
        if resizing.name not in owner._parameters:
            setattr(owner, resizing.name, resizing.value)
            continue
        new = nn.Parameter(resizing.value, requires_grad=old.requires_grad)
        setattr(owner, resizing.name, new)
        if optimizer is not None:
            optimisers.swap(optimizer, old, new, resizing.dimension, resizing.index)
    for path, name, value in attributes:
        setattr(network.get_submodule(path), name, value)


def remove(network: nn.Module, paths: list[str], optimizer: Optional[torch.optim.Optimizer]) -> None:
    """Takes modules out of their lists."""
    owners = [(network.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths]
    for container, name in owners:
        module = container._modules.pop(name)
        if optimizer is not None and module is not None:
            optimisers.drop(optimizer, module.parameters())
    for container, _ in owners:
        _renumber(container)


def _insert(container: nn.Module, after: str, module: nn.Module) -> None:
    items: list[tuple[str, Any]] = []
    for name, child in container._modules.items():
        items.append((name, child))
        if name == after:
            items.append((_new_name(container, after), module))
    container._modules.clear()
    container._modules.update(items)


def _new_name(container: nn.Module, after: str) -> str:
    number = 1
    while f"{after}_grown{number}" in container._modules:
        number += 1
    return f"{after}_grown{number}"


def _renumber(container: nn.Module) -> None:
    """Numbers the elements of a list again. Elements with names of their own keep them."""
    names = list(container._modules)
    if all(name.partition("_grown")[0].isdigit() for name in names):
        children = list(container._modules.values())
        container._modules.clear()
        container._modules.update((str(number), child) for number, child in enumerate(children))
