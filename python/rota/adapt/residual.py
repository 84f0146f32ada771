"""New residual blocks: a copy with zero output projections passes its input on, and learns from its first step.

Which layers are the output projections is found by running the copy: in every branch, which begins with a normalisation, it is
the last layer that runs. Two checks follow. The copy must pass its input on; a post-norm block does not. And every projection
must get a gradient; if the layer before it was set to zero too, nothing would ever learn.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import nn

from .blocks import Block, is_norm
from .errors import CannotGrow
from .probing import Arguments, captured, first

IDENTITY_ERROR_MAX = 1e-6
"""How much a new block may change its input, relative to the largest value in it."""


@dataclass
class Trace:
    """A block as it ran once."""

    order: list[str]
    """Layers with weights and normalisations, by their names in the block, in the order in which they ran."""
    width: int
    """The width of the residual stream."""


def new_block(network: nn.Module, block: Block, example: Any = None, outputs: Optional[Sequence[str]] = None) -> nn.Module:
    """A copy of a residual block that passes its input on."""
    original = network.get_submodule(block.path)
    refuse_post_norm(block, original)
    new = copied(original)
    arguments = arguments_of_block(network, block, example)
    names = list(outputs) if outputs is not None else output_projections(block, new, arguments)
    _set_to_zero(block, new, names)
    _check_identity(block, new, arguments)
    _check_gradients(block, new, names, arguments)
    return new


def copied(original: nn.Module) -> nn.Module:
    """A copy whose parameters all train."""
    new = copy.deepcopy(original)
    new.requires_grad_(True)
    new.zero_grad(set_to_none=True)
    return new


def refuse_post_norm(block: Block, original: nn.Module) -> None:
    """PyTorch's own layers say it themselves."""
    if getattr(original, "norm_first", True) is False:
        raise CannotGrow(
            f"`{block.path}` is a post-norm block (norm_first=False): it normalises after the sum, so no copy of it can pass "
            "its input on; blocks that normalise first can be grown"
        )


def arguments_of_block(network: nn.Module, block: Block, example: Any) -> Arguments:
    """What the block is called with: as seen on the example, or random values of the right width."""
    original = network.get_submodule(block.path)
    if example is not None:
        (positional, named), _ = captured(network, {block.path: original}, example)[block.path]
        if not positional:
            raise CannotGrow(f"`{block.path}` is called without positional arguments; its input must be the first of them")
        return tuple(_detached(value) for value in positional), {key: _detached(value) for key, value in named.items()}
    norm = next((module for module in original.modules() if is_norm(module) and any(True for _ in module.parameters())), None)
    parameter = next(norm.parameters()) if norm is not None else next(original.parameters())
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, 4, parameter.numel() if norm is not None else parameter.shape[-1], generator=generator)
    return (values.to(parameter.device, parameter.dtype),), {}


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def run(block: Block, module: nn.Module, arguments: Arguments) -> torch.Tensor:
    """The block's output on these arguments."""
    positional, named = arguments
    with torch.random.fork_rng(devices=[positional[0].device.index or 0] if positional[0].is_cuda else []):
        try:
            return first(module(*positional, **named))
        except (TypeError, RuntimeError, ValueError, IndexError) as error:
            raise CannotGrow(
                f"`{block.path}` does not run by itself on random values ({error}); give `example=`, a batch that the model "
                "takes, so that the block is tried on what it is really called with"
            ) from error


def traced(block: Block, module: nn.Module, arguments: Arguments) -> Trace:
    """Runs a copy of the block once and takes down the order of its layers."""
    order: list[str] = []
    width = int(arguments[0][0].shape[-1])
    handles = []

    def listener(name: str, is_norm_layer: bool) -> Any:
        def hear(_: nn.Module, inputs: Any, __: Any) -> None:
            values = inputs[0] if inputs else None
            if not is_norm_layer or (isinstance(values, torch.Tensor) and values.shape[-1] == width):
                order.append(name)

        return hear

    # In training mode: in evaluation PyTorch's own layers run as one fused operation, whose parts cannot be heard.
    probe = copy.deepcopy(module).train()
    attention = [name for name, part in probe.named_modules() if isinstance(part, nn.MultiheadAttention)]
    for name, part in probe.named_modules():
        if any(name.startswith(f"{owner}.") for owner in attention):
            continue
        if isinstance(part, (nn.Linear, nn.MultiheadAttention)) or is_norm(part):
            handles.append(part.register_forward_hook(listener(name, is_norm(part))))
    with torch.no_grad():
        run(block, probe, arguments)
    return Trace(order, width)


def branches(module: nn.Module, trace: Trace) -> list[list[str]]:
    """The layers with weights of each branch. A branch begins with a normalisation."""
    found: list[list[str]] = [[]]
    for name in trace.order:
        if is_norm(module.get_submodule(name)):
            found.append([])
        else:
            found[-1].append(name)
    return [branch for branch in found if branch]


def output_projections(block: Block, module: nn.Module, arguments: Arguments) -> list[str]:
    """The last layer of each branch."""
    names = []
    for branch in branches(module, traced(block, module, arguments)):
        last = branch[-1]
        is_attention = isinstance(module.get_submodule(last), nn.MultiheadAttention)
        names.append(f"{last}.out_proj" if is_attention else last)
    if not names:
        raise CannotGrow(f"`{block.path}` ran no linear layer, so it has no output projection; name them with `outputs=`")
    return names


def _set_to_zero(block: Block, new: nn.Module, names: Sequence[str]) -> None:
    known = dict(new.named_modules())
    with torch.no_grad():
        for name in names:
            if name not in known or not any(True for _ in known[name].parameters(recurse=False)):
                raise CannotGrow(f"outputs: `{block.path}` has no layer `{name}` with weights of its own")
            for parameter in known[name].parameters(recurse=False):
                parameter.zero_()


def _check_identity(block: Block, new: nn.Module, arguments: Arguments) -> None:
    values = arguments[0][0]
    for training in (True, False):
        probe = copy.deepcopy(new).train(training)
        with torch.no_grad():
            output = run(block, probe, arguments)
        if output.shape != values.shape:
            shape, other = tuple(values.shape), tuple(output.shape)
            raise CannotGrow(f"`{block.path}` turns {shape} into {other}; only a block that keeps the shape can stand twice")
        moved = float((output - values).abs().max()) / max(float(values.abs().max()), 1e-12)
        if not moved <= IDENTITY_ERROR_MAX:
            raise CannotGrow(
                f"a copy of `{block.path}` with zero output projections still changes its input by {moved:.2g} of its size: it "
                "is a post-norm block (it normalises after the sum), or has other outputs; blocks of the form "
                "x + f(norm(x)) can be grown, and `outputs=` names the last layer of each f"
            )


def _check_gradients(block: Block, new: nn.Module, names: Sequence[str], arguments: Arguments) -> None:
    probe = copy.deepcopy(new).train(False)
    values = arguments[0][0]
    with torch.enable_grad():
        output = run(block, probe, ((values.detach().clone().requires_grad_(True), *arguments[0][1:]), arguments[1]))
        weights = {name: probe.get_submodule(name).weight for name in names}
        generator = torch.Generator().manual_seed(1)
        direction = torch.randn(output.shape, generator=generator).to(output.device, output.dtype)
        gradients = torch.autograd.grad((output * direction).sum(), list(weights.values()), allow_unused=True)
    for name, gradient in zip(weights, gradients):
        if gradient is None or not bool(gradient.abs().max() > 0):
            raise CannotGrow(
                f"the layer `{name}` of a copy of `{block.path}` would never learn: all its gradients are zero; name the last "
                "layer of each branch with `outputs=`"
            )
