"""Models that are wrapped: DistributedDataParallel is taken off and put on again, what cannot be grown is refused."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from .errors import CannotGrow

DDP_ATTRIBUTES = (
    "device_ids",
    "output_device",
    "dim",
    "broadcast_buffers",
    "process_group",
    "find_unused_parameters",
    "gradient_as_bucket_view",
    "static_graph",
    "mixed_precision",
    "forward_sync_buffers",
    "skip_all_reduce_unused_params",
    "batched_grad_copy",
    "lazy_bucket_allocation",
)
"""Arguments of DistributedDataParallel that it keeps under the same name. Not every version of PyTorch has all of them."""


def is_distributed(model: torch.nn.Module) -> bool:
    """Whether the model is wrapped by DistributedDataParallel."""
    parallel = getattr(torch.nn.parallel, "DistributedDataParallel", None)
    return parallel is not None and isinstance(model, parallel)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The network itself. Raises if it is compiled, sharded or scripted."""
    if not isinstance(model, torch.nn.Module):
        raise CannotGrow(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    for name, module in model.named_modules():
        where = f"`{name}`" if name else "the model"
        kind = type(module).__name__
        if kind == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            raise CannotGrow(f"{where} is compiled by torch.compile; grow the network first and compile it again afterwards")
        if "FullyShardedDataParallel" in kind or kind.startswith("FSDP"):
            raise CannotGrow(f"{where} is sharded by FSDP; its parameters are not whole here, so grow before it is wrapped")
        if isinstance(module, torch.jit.ScriptModule):
            raise CannotGrow(f"{where} is a TorchScript module, whose layers are fixed; grow the network before it is scripted")
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "device_mesh"):
            raise CannotGrow(f"the parameter `{name}` is a DTensor, which is not whole here; grow before it is sharded")
    if is_distributed(model):
        if getattr(model, "_comm_hooks", None):
            raise CannotGrow(
                "the model has a DistributedDataParallel communication hook, which would be lost; register it later"
            )
        return model.module
    return model.module if isinstance(model, torch.nn.DataParallel) else model


def wrap_again(model: torch.nn.Module) -> None:
    """Makes DistributedDataParallel know the new parameters. Every rank must call it; rank 0's values are sent to all."""
    if not is_distributed(model):
        return
    known = inspect.signature(type(model).__init__).parameters
    arguments: dict[str, Any] = {
        name: getattr(model, name) for name in DDP_ATTRIBUTES if name in known and hasattr(model, name)
    }
    if "forward_sync_buffers" in arguments:
        # Its older name, which newer versions warn about.
        arguments.pop("broadcast_buffers", None)
    arguments["bucket_cap_mb"] = model.bucket_bytes_cap / (1024 * 1024)
    if arguments.get("device_ids") is None:
        # Without device ids the output device is worked out anew.
        arguments.pop("output_device", None)
    module, training = model.module, model.training
    hooks = {name: getattr(model, name) for name in ("_forward_hooks", "_forward_pre_hooks")}
    model.__init__(module, **arguments)
    for name, values in hooks.items():
        getattr(model, name).update(values)
    model.train(training)
