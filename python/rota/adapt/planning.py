"""What a growth would cost: parameters, memory and seconds, before anything is changed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import nn

from . import optimisers
from .blocks import CONVOLUTIONS, Where
from .draft import Draft
from .errors import CannotGrow
from .operations import Optimiser, draft_of_deepen, draft_of_stack, draft_of_widen
from .probing import arguments_of, unchanged
from .wrappers import unwrapped


@dataclass(frozen=True)
class Plan:
    """What a growth would cost."""

    operation: str
    parameters_before: int
    parameters_after: int
    memory_bytes: int
    """Memory beyond the present: weights, gradients and the optimiser's moments. Activations are not counted."""
    seconds: float
    """How long the growth itself takes, as measured by making it beside the model."""
    step_factor: float
    """The multiplications of a step after the growth, over those of a step now."""
    step_seconds: Optional[float]
    """A step after the growth, if the time of a step now was given and time goes with multiplications."""
    basis: str
    """What `step_factor` was counted on: `example` (a batch) or `parameters` (each weight used equally often)."""

    def __str__(self) -> str:
        step = "" if self.step_seconds is None else f" ({self.step_seconds:.3g} s)"
        return (
            f"{self.operation}: {self.parameters_before:,} → {self.parameters_after:,} parameters, "
            f"{self.memory_bytes / 2**20:.1f} MiB more, {self.seconds:.2g} s to grow, "
            f"a step takes {self.step_factor:.2f} times as long{step}, counted on {self.basis}"
        )


def plan(
    model: nn.Module,
    operation: str = "deepen",
    where: Where = None,
    *,
    optimizer: Optimiser = None,
    example: Any = None,
    step_seconds: Optional[float] = None,
    **options: Any,
) -> Plan:
    """Works out a growth and throws it away. `options` are those of the operation, as `factor` of `widen`."""
    network = unwrapped(model)
    began = time.perf_counter()
    draft = draft_of(network, operation, where, optimizer, example, options)
    seconds = time.perf_counter() - began
    before = sum(parameter.numel() for parameter in network.parameters())
    added = draft.added_elements(network)
    uses = _uses(network, example)
    now = sum(uses[id(parameter)] * parameter.numel() for parameter in network.parameters() if id(parameter) in uses)
    factor = 1.0 + _added_work(network, draft, uses) / max(now, 1)
    parameters = list(network.parameters())
    size = next((parameter.element_size() for parameter in parameters), 4)
    moments = optimisers.state_bytes(optimizer, parameters) / max(sum(p.numel() * p.element_size() for p in parameters), 1)
    return Plan(
        operation,
        before,
        before + added,
        int(added * size * (2 + moments)),
        seconds,
        factor,
        None if step_seconds is None else step_seconds * factor,
        "parameters" if example is None else "example",
    )


def draft_of(
    network: nn.Module, operation: str, where: Where, optimizer: Optimiser, example: Any, options: dict[str, Any]
) -> Draft:
    """The draft of a growth by its name."""
    if operation == "deepen":
        return draft_of_deepen(network, where, optimizer, example, options.get("outputs"))
    if operation == "widen":
        factor, to = options.get("factor"), options.get("to")
        factor = 2.0 if factor is None and to is None else factor
        return draft_of_widen(network, where, optimizer, factor, to, options.get("noise", 0.1), example)
    if operation == "stack":
        return draft_of_stack(network, optimizer, options.get("times", 2))
    raise CannotGrow(f"there is no operation `{operation}`; known are deepen, widen and stack")


def _uses(network: nn.Module, example: Any) -> dict[int, float]:
    """How often each weight is multiplied in a step, by the id of its parameter."""
    counted: dict[int, float] = {}
    known = (nn.Linear, *CONVOLUTIONS, nn.MultiheadAttention)
    layers = [module for module in network.modules() if isinstance(module, known)]
    if example is None:
        return {id(p): 1.0 for layer in layers for p in layer.parameters() if p.dim() > 1}

    def hear(module: Any, inputs: Any, output: Any) -> None:
        if isinstance(module, nn.MultiheadAttention):
            places = output[0].numel() / output[0].shape[-1]
        else:
            places = output.numel() / module.weight.shape[0]
        for parameter in module.parameters():
            if parameter.dim() > 1:
                counted[id(parameter)] = counted.get(id(parameter), 0.0) + places

    handles = [layer.register_forward_hook(hear) for layer in layers]
    positional, named = arguments_of(example)
    was_training = network.training
    try:
        with unchanged(network), torch.no_grad():
            network.train()(*positional, **named)
    finally:
        network.train(was_training)
        for handle in handles:
            handle.remove()
    return counted


def _added_work(network: nn.Module, draft: Draft, uses: dict[int, float]) -> float:
    work = 0.0
    for insertion in draft.insertions:
        for name, parameter in insertion.module.named_parameters():
            source = insertion.sources.get(name)
            if source is not None and id(source) in uses:
                work += uses[id(source)] * parameter.numel()
    for resizing in draft.resizings:
        old = getattr(network.get_submodule(resizing.path), resizing.name)
        if id(old) in uses:
            work += uses[id(old)] * (resizing.value.numel() - old.numel())
    return work
