"""The teaching environment as Gymnasium has environments: five values from `step`, spaces, seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy
from gymnasium import spaces
from gymnasium.core import Env

if TYPE_CHECKING:
    from ._classroom import MLWorkloadSchedulingEnv

SEEDS = 1 << 62


class ClassroomForGymnasium(Env[Any, Any]):
    """A model that was trained here is judged by `rota.evaluate_model` and by the teaching project's own script."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own name and type

    def __init__(self, inner: MLWorkloadSchedulingEnv) -> None:
        self.inner = inner
        self.render_mode = None
        self.observation_space = spaces.Box(0.0, 100.0, (2 * inner.num_gpus,), numpy.float32)
        self.action_space = spaces.Discrete(inner.num_gpus)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.inner._random.seed(int(self.np_random.integers(SEEDS)))
        return self._array(self.inner.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, done, info = self.inner.step(action)
        return self._array(observation), reward, done, False, info

    @staticmethod
    def _array(observation: list[float]) -> Any:
        return numpy.array(observation, dtype=numpy.float32)
