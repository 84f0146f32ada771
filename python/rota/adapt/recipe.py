"""The growths of a model, in order. They are kept as a buffer of the model, so that a `state_dict` brings them along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from .errors import CannotGrow

BUFFER = "rota_growth"

Entry = dict[str, Any]
"""One growth: `operation`, `where`, and what is needed to do it again or take it back."""


def recipe(model: torch.nn.Module) -> list[Entry]:
    """The growths of a model so far."""
    network = getattr(model, "module", model)
    buffer = network._buffers.get(BUFFER)
    return [] if buffer is None else decoded(buffer)


def decoded(buffer: torch.Tensor) -> list[Entry]:
    """The growths that a buffer tells of."""
    try:
        entries = json.loads(bytes(buffer.cpu().tolist()).decode())
        if not all(isinstance(entry, dict) and isinstance(entry["operation"], str) for entry in entries):
            raise TypeError("an entry has no operation")
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise CannotGrow(f"the recipe in `{BUFFER}` is damaged: {error}") from error
    return list(entries)


def of_state(state: Mapping[str, Any]) -> list[Entry]:
    """The growths that a saved `state_dict` tells of."""
    buffer = state.get(BUFFER)
    return [] if buffer is None else decoded(buffer)


def write(network: torch.nn.Module, entries: list[Entry]) -> None:
    """Replaces the recipe of a model. A model that was never grown, or is small again, has none."""
    if not entries:
        network._buffers.pop(BUFFER, None)
        network._non_persistent_buffers_set.discard(BUFFER)
        return
    parameter = next(network.parameters(), None)
    device = parameter.device if parameter is not None else torch.device("cpu")
    content = torch.tensor(list(json.dumps(entries, sort_keys=True).encode()), dtype=torch.uint8, device=device)
    network.register_buffer(BUFFER, content)
