"""Runs a model or a block to learn something about it, and leaves no trace in statistics or random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .errors import CannotGrow

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def arguments_of(example: Any) -> Arguments:
    """The arguments that a batch stands for: a tensor, a tuple of arguments, or a dictionary of named ones."""
    if isinstance(example, dict):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, (tuple, list)) else ((example,), {})


def first(output: Any) -> torch.Tensor:
    """The output itself; some blocks return it with other things behind it."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, torch.Tensor):
        raise CannotGrow(
            f"a block returned a {type(output).__name__}; a tensor, or a tuple that begins with one, is understood"
        )
    return output


@contextlib.contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Puts back the buffers of the module and all random streams."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    devices = sorted({p.device.index or 0 for p in module.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)


def captured(root: torch.nn.Module, targets: dict[str, torch.nn.Module], example: Any) -> dict[str, tuple[Arguments, Any]]:
    """The arguments and the output of each target while the model runs on the example."""
    seen: dict[str, tuple[Arguments, Any]] = {}

    def recorder(path: str, module: torch.nn.Module) -> Any:
        def forward(*arguments: Any, **named: Any) -> Any:
            output = type(module).forward(module, *arguments, **named)
            seen.setdefault(path, ((arguments, named), output))
            return output

        return forward

    positional, named = arguments_of(example)
    for path, module in targets.items():
        if "forward" in module.__dict__:
            raise CannotGrow(f"`{path}` has a `forward` of its own that was put there later; it cannot be looked into")
        module.forward = recorder(path, module)
    try:
        with unchanged(root), torch.no_grad():
            root(*positional, **named)
    except (TypeError, RuntimeError, ValueError, IndexError) as error:
        raise CannotGrow(f"the model does not run on the example: {error}") from error
    finally:
        for module in targets.values():
            module.__dict__.pop("forward", None)
    missing = sorted(set(targets) - set(seen))
    if missing:
        raise CannotGrow(f"the model does not use `{missing[0]}` on the example")
    return seen
