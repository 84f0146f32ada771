"""New blocks for chains of convolutions and linear layers: Net2Net's identity, with a BatchNorm that changes nothing.

A new BatchNorm divides by the spread of its input. With the scale set to that spread and the shift to the mean, as measured on
one batch, the block passes its input on in evaluation mode, and in training mode on that batch too.
"""

from __future__ import annotations

import copy
from typing import Any, Optional

import torch
from torch import nn

from .blocks import BATCH_NORMS, Block
from .probing import captured, first


def identity_block(network: nn.Module, block: Block, example: Any = None) -> nn.Sequential:
    """A block that passes its input on, to stand behind the given one."""
    container = network.get_submodule(block.container)
    modules = [container._modules[name] for name in block.names]
    layer, activation = modules[0], modules[-1]
    norm = next((module for module in modules if isinstance(module, BATCH_NORMS)), None)
    parts: list[nn.Module] = [_identity_linear(layer) if block.kind == "linear" else _identity_convolution(layer)]
    if norm is not None:
        parts.append(_neutral_norm(norm, _input_of(network, block, example)))
    parts.append(copy.deepcopy(activation))
    new = nn.Sequential(*parts)
    new.train(layer.training)
    return new


def _identity_linear(layer: nn.Linear) -> nn.Linear:
    size = layer.out_features
    # Without the usual random start: the training draws what it would have drawn.
    kind = {"device": layer.weight.device, "dtype": layer.weight.dtype}
    new = nn.utils.skip_init(nn.Linear, size, size, bias=layer.bias is not None, **kind)
    with torch.no_grad():
        new.weight.copy_(torch.eye(size))
        if new.bias is not None:
            new.bias.zero_()
    return new


def _identity_convolution(layer: Any) -> nn.Module:
    channels, groups = layer.out_channels, layer.groups
    padding = tuple(size // 2 for size in layer.kernel_size)
    new = nn.utils.skip_init(
        type(layer),
        channels,
        channels,
        layer.kernel_size,
        padding=padding,
        groups=groups,
        bias=layer.bias is not None,
        device=layer.weight.device,
        dtype=layer.weight.dtype,
    )
    centre = tuple(size // 2 for size in layer.kernel_size)
    with torch.no_grad():
        new.weight.zero_()
        for channel in range(channels):
            new.weight[(channel, channel % (channels // groups), *centre)] = 1.0
        if new.bias is not None:
            new.bias.zero_()
    return new


def _neutral_norm(norm: Any, values: Optional[torch.Tensor]) -> nn.Module:
    new = copy.deepcopy(norm)
    new.requires_grad_(True)
    if values is None:
        mean = torch.zeros(norm.num_features, device=_device(norm))
        variance = torch.ones(norm.num_features, device=_device(norm))
    else:
        dimensions = [number for number in range(values.dim()) if number != 1]
        mean = values.float().mean(dimensions)
        variance = values.float().var(dimensions, unbiased=False)
    with torch.no_grad():
        if new.affine:
            new.weight.copy_(torch.sqrt(variance + norm.eps))
            new.bias.copy_(mean)
        if new.track_running_stats:
            new.running_mean.copy_(mean if new.affine else torch.zeros_like(mean))
            new.running_var.copy_(variance if new.affine else torch.ones_like(variance) - norm.eps)
            new.num_batches_tracked.zero_()
    return new


def _device(norm: Any) -> torch.device:
    tensors = [tensor for tensor in (norm.weight, norm.running_mean) if tensor is not None]
    return tensors[0].device if tensors else torch.device("cpu")


def _input_of(network: nn.Module, block: Block, example: Any) -> Optional[torch.Tensor]:
    """What the new block will be given: the output of the old one on the example, in the mode the model is in."""
    if example is None:
        return None
    container = network.get_submodule(block.container)
    # The activation may be one object that is used several times; the module before it has weights and stands in one place.
    before, activation = container._modules[block.names[-2]], container._modules[block.names[-1]]
    path = f"{block.container}.{block.names[-2]}" if block.container else block.names[-2]
    _, output = captured(network, {path: before}, example)[path]
    with torch.no_grad():
        return copy.deepcopy(activation)(first(output).clone())
