"""More units in a layer: each new one repeats an old one, and the layer that reads them divides what it read between them.

The parts may be unequal, as long as they add up: `noise` draws them apart, because units that are equal in all respects would
stay equal for ever. Unit `k` repeats unit `k modulo the old width`, so that the recipe needs only the widths.
An Adam state has one step count for a whole parameter, so the moments of a new unit are those of the unit it repeats; empty
ones would make its first steps several times too large.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import nn

from .blocks import BATCH_NORMS, CONVOLUTIONS, Block, is_activation
from .draft import Resizing, resize
from .errors import CannotGrow
from .residual import arguments_of_block, branches, run, traced

PASSING = (nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
WIDENED_ERROR_MAX = 1e-5


@dataclass(frozen=True)
class Units:
    """The units of a hidden layer: who makes them, what lies between, and who reads them. All are paths in the network."""

    makers: tuple[str, ...]
    """Layers that make the units; two for a gated layer."""
    norms: tuple[str, ...]
    reader: str
    width: int
    parts: int = 1
    """How many values a maker makes for each unit: two where gate and value come from one layer."""

    def entry(self) -> dict[str, Any]:
        """For the recipe."""
        parts = {"makers": list(self.makers), "norms": list(self.norms), "reader": self.reader, "parts": self.parts}
        return {**parts, "width": self.width}

    @classmethod
    def of_entry(cls, entry: dict[str, Any]) -> Units:
        """From the recipe."""
        names = tuple(entry["makers"]), tuple(entry["norms"])
        return cls(*names, reader=entry["reader"], width=entry["width"], parts=entry["parts"])


def units_of(network: nn.Module, block: Block, example: Any) -> Units:
    """The units of a block that can become more."""
    return _units_of_residual(network, block, example) if block.kind == "residual" else _units_of_chain(network, block)


def _units_of_chain(network: nn.Module, block: Block) -> Units:
    maker = network.get_submodule(block.path)
    width = maker.out_features if block.kind == "linear" else maker.out_channels
    if getattr(maker, "groups", 1) != 1:
        raise CannotGrow(f"`{block.path}` is a convolution in {maker.groups} groups; only one of a single group can be widened")
    norms = []
    for path, module in _behind(network, block):
        if isinstance(module, BATCH_NORMS):
            norms.append(path)
        elif isinstance(module, (nn.Linear, *CONVOLUTIONS)):
            read = module.in_features if isinstance(module, nn.Linear) else module.in_channels
            if getattr(module, "groups", 1) != 1 or read % width != 0:
                raise CannotGrow(f"`{path}` reads {read} values in groups and not the {width} of `{block.path}`")
            return Units((block.path,), tuple(norms), path, width)
        elif not (is_activation(module) or isinstance(module, PASSING) or "pooling" in type(module).__module__):
            raise CannotGrow(f"between `{block.path}` and the layer that reads it stands `{path}`, a {type(module).__name__}")
    raise CannotGrow(
        f"no layer reads `{block.path}` in the same nn.Sequential; the width of the last layer is the model's output"
    )


def _behind(network: nn.Module, block: Block) -> list[tuple[str, nn.Module]]:
    """The modules that follow in the chain, through nested `nn.Sequential`s."""
    chain = block.container
    while chain and isinstance(network.get_submodule(chain.rpartition(".")[0]), nn.Sequential):
        chain = chain.rpartition(".")[0]
    leaves: list[tuple[str, nn.Module]] = []

    def walk(path: str, module: nn.Module) -> None:
        if not isinstance(module, nn.Sequential):
            leaves.append((path, module))
            return
        for name, child in module._modules.items():
            if child is not None:
                walk(f"{path}.{name}" if path else name, child)

    walk(chain, network.get_submodule(chain))
    place = [path for path, _ in leaves].index(block.path)
    return leaves[place + 1 :]


def _units_of_residual(network: nn.Module, block: Block, example: Any) -> Units:
    original = network.get_submodule(block.path)
    trace = traced(block, original, arguments_of_block(network, block, example))
    for branch in reversed(branches(original, trace)):
        layers = [original.get_submodule(name) for name in branch]
        if len(branch) < 2 or not all(isinstance(layer, nn.Linear) for layer in layers):
            continue
        reader, makers = layers[-1], layers[:-1]
        width = reader.in_features
        parts = makers[0].out_features // width
        fits = all(m.in_features == trace.width and m.out_features == parts * width for m in makers)
        if fits and reader.out_features == trace.width and parts * len(makers) in (1, 2):
            paths = tuple(f"{block.path}.{name}" for name in branch[:-1])
            return Units(paths, (), f"{block.path}.{branch[-1]}", width, parts)
    raise CannotGrow(
        f"`{block.path}` has no hidden layer that is known: one or two layers (gated) that make units, and one that reads them"
    )


def resizings(network: nn.Module, units: Units, width: int, noise: float) -> tuple[list[Resizing], list[tuple[str, str, int]]]:
    """The parameters and buffers of a network with more units, or with fewer."""
    index = torch.arange(width) % units.width
    found: list[Resizing] = []
    attributes: list[tuple[str, str, int]] = []
    rows = torch.cat([index + part * units.width for part in range(units.parts)])
    for path in units.makers:
        maker = network.get_submodule(path)
        found += _picked(path, maker, ("weight", "bias"), rows)
        attributes.append((path, "out_features" if isinstance(maker, nn.Linear) else "out_channels", len(rows)))
    for path in units.norms:
        names = ("weight", "bias", "running_mean", "running_var")
        found += _picked(path, network.get_submodule(path), names, index)
        attributes.append((path, "num_features", width))
    reader = network.get_submodule(units.reader)
    read = reader.weight.shape[1]
    # Behind a flattening, every channel is read in several places.
    places = read // units.width
    columns = (index[:, None] * places + torch.arange(places)[None, :]).reshape(-1)
    value = _divided(reader.weight.detach(), units.width, width, places, noise)
    found.append(Resizing(units.reader, "weight", value, 1, columns))
    attributes.append((units.reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", len(columns)))
    return found, attributes


def _picked(path: str, module: nn.Module, names: Sequence[str], index: torch.Tensor) -> list[Resizing]:
    found = []
    for name in names:
        tensor = getattr(module, name, None)
        if tensor is not None:
            value = tensor.detach().index_select(0, index.to(tensor.device))
            found.append(Resizing(path, name, value, 0, index))
    return found


def _divided(weight: torch.Tensor, before: int, after: int, places: int, noise: float) -> torch.Tensor:
    """The reader's weights: the units that repeat one unit get parts that add up to what was read of it."""
    index = (torch.arange(after) % before).to(weight.device)
    by_unit = weight.reshape(weight.shape[0], before, places, *weight.shape[2:])
    if after < before:
        kept = by_unit[:, :after].clone()
        # What the units that go had added is read from the units they repeated.
        kept.index_add_(1, (torch.arange(after, before) % after).to(weight.device), by_unit[:, after:])
        return kept.reshape(weight.shape[0], after * places, *weight.shape[2:])
    wide = by_unit.index_select(1, index)
    parts = torch.ones_like(wide)
    if noise > 0.0:
        # A stream of its own: the training draws what it would have drawn, and every rank draws the same.
        random = torch.rand(wide.shape, generator=torch.Generator().manual_seed(after))
        parts += noise * (2.0 * random.to(wide.device, wide.dtype) - 1.0)
    sums = torch.zeros_like(by_unit).index_add_(1, index, parts)
    parts /= sums.index_select(1, index)
    return (wide * parts).reshape(weight.shape[0], after * places, *weight.shape[2:])


def check_residual(
    network: nn.Module,
    block: Block,
    changes: tuple[list[Resizing], list[tuple[str, str, int]]],
    example: Any,
) -> None:
    """Tries the widened block beside the old one. Gates that come in pairs of rows, for example, would show here."""
    original = network.get_submodule(block.path)
    arguments = arguments_of_block(network, block, example)
    wide = copy.deepcopy(original).eval()
    inside = len(block.path) + 1
    local = [Resizing(r.path[inside:], r.name, r.value, r.dimension, r.index) for r in changes[0]]
    resize(wide, local, [(path[inside:], name, value) for path, name, value in changes[1]], None)
    with torch.no_grad():
        before = run(block, copy.deepcopy(original).eval(), arguments)
        after = run(block, wide, arguments)
    moved = float((after - before).abs().max()) / max(float(before.abs().max()), 1e-12)
    if not moved <= WIDENED_ERROR_MAX:
        raise CannotGrow(
            f"`{block.path}` with more units changes its output by {moved:.2g} of its size; its layout is not known"
        )


def new_width(units: Units, factor: Optional[float], to: Optional[int]) -> int:
    """The width that a caller asks for."""
    if (factor is None) == (to is None):
        raise CannotGrow("give either `factor`, how many times as many units, or `to`, how many units")
    width = to if to is not None else round(units.width * (factor or 0.0))
    if isinstance(width, bool) or not isinstance(width, int) or width <= units.width:
        raise CannotGrow(f"the width {width} is not above {units.width}, which `{units.makers[0]}` has now")
    return width
