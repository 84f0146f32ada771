"""Random numbers of a training: the streams of Python, NumPy, PyTorch and of the loader itself, kept with a checkpoint.

Only libraries that the script has imported itself are looked at. States are kept as JSON, which runs no code when it is read.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Optional


class Streams:
    """The random streams that a training with this loader may draw from."""

    def __init__(self, loader: object) -> None:
        self._loader = loader

    def state(self) -> dict[str, Any]:
        """Where all streams are."""
        version, numbers, gauss = random.getstate()
        state: dict[str, Any] = {"python": [version, list(numbers), gauss]}
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None:
            name, keys, position, has_gauss, cached = numpy.random.get_state()
            state["numpy"] = [name, [int(key) for key in keys], int(position), int(has_gauss), float(cached)]
        if torch is not None:
            state["torch"] = torch.get_rng_state().tolist()
            if torch.cuda.is_initialized():
                state["cuda"] = [one.tolist() for one in torch.cuda.get_rng_state_all()]
            state["loader"] = [generator.get_state().tolist() for generator in self._generators()]
        return state

    def restore(self, state: Optional[dict[str, Any]]) -> None:
        """Puts all streams back to where they were, if that is known."""
        if state is None:
            return
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers), gauss))
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and "numpy" in state:
            name, keys, position, has_gauss, cached = state["numpy"]
            numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
        if torch is not None and "torch" in state:
            torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
            # On fewer GPUs than before, the streams of those that are left.
            for device, one in enumerate(state.get("cuda", [])[: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(torch.tensor(one, dtype=torch.uint8), device)
            for generator, one in zip(self._generators(), state["loader"]):
                generator.set_state(torch.tensor(one, dtype=torch.uint8))

    def _generators(self) -> list[Any]:
        """The loader's own streams, as PyTorch's `DataLoader` may have."""
        found: list[Any] = []
        for owner in (self._loader, getattr(self._loader, "sampler", None)):
            generator = getattr(owner, "generator", None)
            if hasattr(generator, "set_state") and all(generator is not other for other in found):
                found.append(generator)
        return found
