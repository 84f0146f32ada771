"""What can be grown: a convolution or a linear layer with its activation in an `nn.Sequential`, and residual blocks in a list.

A *chain block* is a layer with weights, an optional BatchNorm and an activation, one after the other in an `nn.Sequential`.
A *residual block* is an element of an `nn.ModuleList` or `nn.Sequential` with a normalisation and layers with weights inside,
as the blocks of a transformer are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Union

import torch
from torch import nn

from .errors import CannotGrow
from .wrappers import unwrapped

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
LISTS = (nn.Sequential, nn.ModuleList)

Where = Union[None, int, str, Sequence[Union[int, str]]]
"""Blocks by path (`"blocks.1"`), by their place in `blocks(model)`, several of them, or None for all."""


@dataclass(frozen=True)
class Block:
    """A place of the network that can be grown."""

    path: str
    """The path of the layer with weights, or of the residual block."""
    kind: str
    """`convolution`, `linear` or `residual`."""
    container: str
    """The path of the `nn.Sequential` or `nn.ModuleList` it stands in."""
    names: tuple[str, ...]
    """The names of its modules in there: layer, BatchNorm if there is one, activation."""


def blocks(model: nn.Module) -> list[Block]:
    """The places of a network that can be grown, in the order in which they are defined."""
    network = unwrapped(model)
    residual = [block for path, module in _lists(network) for block in _residual_blocks(path, module)]
    inside = tuple(f"{block.path}." for block in residual)
    chains = [
        block
        for path, module in _lists(network)
        if isinstance(module, nn.Sequential)
        for name in module._modules
        if (block := _chain_block(path, module, name)) is not None
        and not block.path.startswith(inside or ("\0",))
        and refusal_of(network, block) is None
    ]
    order = {path: number for number, (path, _) in enumerate(network.named_modules(remove_duplicate=False))}
    return sorted(residual + chains, key=lambda block: order[block.path])


def resolve(network: nn.Module, where: Where) -> list[Block]:
    """The blocks that a caller names. Raises if there is no such block."""
    known = blocks(network)
    if where is None:
        chosen = [block for block in known if block.kind == "residual"] or known
        if not chosen:
            raise CannotGrow("the model has no block that can be grown; `rota.adapt.blocks(model)` lists what is known")
        return chosen
    wanted = [where] if isinstance(where, (int, str)) else list(where)
    if not wanted:
        raise CannotGrow("where: the list is empty; name a block, or give None for all")
    chosen = [_one(network, known, item) for item in wanted]
    twice = [block.path for number, block in enumerate(chosen) if block in chosen[:number]]
    if twice:
        raise CannotGrow(f"where: `{twice[0]}` is named twice")
    return chosen


def _one(network: nn.Module, known: list[Block], item: Union[int, str]) -> Block:
    if isinstance(item, bool) or not isinstance(item, (int, str)):
        raise CannotGrow(f"where: {item!r} is neither a path nor the number of a block")
    if isinstance(item, int):
        if not 0 <= item < len(known):
            raise CannotGrow(f"where: there is no block {item}; the model has {len(known)}, counted from 0")
        return known[item]
    for block in known:
        if block.path == item:
            return block
    modules = dict(network.named_modules(remove_duplicate=False))
    if item not in modules:
        raise CannotGrow(f"where: the model has no `{item}`; its blocks are {_listed(known)}")
    container, _, name = item.rpartition(".")
    parent = modules[container]
    found = _chain_block(container, parent, name) if isinstance(parent, nn.Sequential) else None
    if found is None:
        raise CannotGrow(
            f"where: `{item}` is a {type(modules[item]).__name__}, which is not known as a block; known are convolutions and "
            f"linear layers in an nn.Sequential and residual blocks in a list, here {_listed(known)}"
        )
    return found


def _listed(known: list[Block]) -> str:
    return ", ".join(f"`{block.path}`" for block in known[:8]) + (" …" if len(known) > 8 else "") if known else "none"


def refusal_of(network: nn.Module, block: Block) -> Optional[str]:
    """Why a chain block cannot be deepened, if it cannot."""
    if block.kind == "residual":
        return None
    container = network.get_submodule(block.container)
    layer = container._modules[block.names[0]]
    if block.kind == "convolution" and any(size % 2 == 0 for size in layer.kernel_size):
        size = " by ".join(str(part) for part in layer.kernel_size)
        return f"`{block.path}` has an even kernel ({size}), which has no centre; an identity needs an odd one"
    activation = container._modules[block.names[-1]]
    if len(block.names) == 1 or isinstance(activation, BATCH_NORMS):
        return f"`{block.path}` has no activation behind it in its nn.Sequential; two layers without one between are one"
    if not is_idempotent(activation):
        return (
            f"the activation of `{block.path}`, {type(activation).__name__}, changes values again when it is applied twice; "
            "an identity needs one that does not, as ReLU"
        )
    return None


def is_idempotent(activation: nn.Module) -> bool:
    """Whether applying it twice is applying it once."""
    values = torch.linspace(-8.0, 8.0, 129)
    once = copy.deepcopy(activation).cpu().float().eval()
    with torch.no_grad():
        return bool(torch.equal(once(once(values.clone())), once(values.clone())))


def is_activation(module: Optional[nn.Module]) -> bool:
    """Whether a module works on every value alone."""
    known = type(module).__module__ == "torch.nn.modules.activation"
    others = (nn.MultiheadAttention, nn.Softmax, nn.LogSoftmax, nn.Softmax2d, nn.Softmin, nn.GLU)
    is_per_channel = isinstance(module, nn.PReLU) and module.num_parameters != 1
    return known and not isinstance(module, others) and not is_per_channel


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalises the residual stream: LayerNorm, RMSNorm and those named like them."""
    return type(module).__name__.lower().endswith("norm")


def _lists(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, module in network.named_modules():
        if isinstance(module, LISTS):
            yield path, module


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _residual_blocks(path: str, container: nn.Module) -> Iterator[Block]:
    for name, child in container._modules.items():
        if child is None or isinstance(child, (*LISTS, *CONVOLUTIONS, nn.Linear)):
            continue
        inside = list(child.modules())
        if any(is_norm(part) for part in inside) and any(isinstance(part, (nn.Linear, *CONVOLUTIONS)) for part in inside):
            yield Block(_joined(path, name), "residual", path, (name,))


def _chain_block(path: str, container: nn.Module, name: str) -> Optional[Block]:
    """The chain block that begins with this module, if it is one."""
    layer = container._modules[name]
    if isinstance(layer, CONVOLUTIONS):
        kind = "convolution"
    elif type(layer) is nn.Linear:
        kind = "linear"
    else:
        return None
    keys = list(container._modules)
    names, behind = [name], keys[keys.index(name) + 1 :]
    if behind and isinstance(container._modules[behind[0]], BATCH_NORMS):
        names.append(behind.pop(0))
    if behind and is_activation(container._modules[behind[0]]):
        names.append(behind.pop(0))
    return Block(_joined(path, name), kind, path, tuple(names))
