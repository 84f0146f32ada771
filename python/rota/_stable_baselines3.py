"""`rota.VecEnv` as stable-baselines3 wants it. Without masks an illegal row is replaced by the first legal one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv as StableBase

from ._environments import VecEnv
from ._gymnasium import FEATURE_MAX


class StableVecEnv(StableBase):
    def __init__(self, env: str, num_envs: int, seed: int, settings: dict[str, Any]) -> None:
        self.many = VecEnv(env, num_envs, seed, illegal="replace", **settings)
        self.features, self.has_wait, self.rota_name = self.many.features, self.many.has_wait, env
        self.rota_vector = self.many.rota_vector
        self._seed = seed
        shape = (self.many.rows, len(self.features))
        self.render_mode = None
        super().__init__(num_envs, spaces.Box(-FEATURE_MAX, FEATURE_MAX, shape, numpy.float32), spaces.Discrete(self.many.rows))

    def reset(self) -> Any:
        return self.many.reset(self._seed).copy()

    def seed(self, seed: Optional[int] = None) -> list[Optional[int]]:
        self._seed = 0 if seed is None else seed
        return [self._seed + place for place in range(self.num_envs)]

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        observations, rewards, ended = self.many.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in numpy.flatnonzero(ended):
            infos[place] = {"terminal_observation": self.many.last_observations[place].copy(), **self.many.outcome(int(place))}
        return observations.copy(), rewards.copy(), ended.copy(), infos

    def action_masks(self) -> Any:
        return self.many.action_masks

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        # `action_masks` is asked of each environment; any other attribute is one for all.
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        if method_name == "action_masks":
            return [self.many.action_masks[place].copy() for place in self._get_indices(indices)]
        raise AttributeError(f"Rota's environments have no method {method_name}")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs
