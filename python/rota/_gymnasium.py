"""Rota's environments for Gymnasium: `gymnasium.make("rota/Scheduling-v0", env="classroom")`."""

from __future__ import annotations

from typing import Any, Optional

import numpy
from gymnasium import spaces
from gymnasium.core import Env

from ._environments import OneEpisode

SEEDS = 1 << 62
# Features are logarithms and parts of a whole; the priority is the widest, at most 20.
FEATURE_MAX = 32.0


class SchedulingEnv(Env[Any, Any]):
    """One of Rota's environments (see `rota.VecEnv` for `env` and the settings).

    The observation has a row of features for each thing that can be chosen; the action is the row. `action_masks()` says which
    are legal, as sb3-contrib wants it. Algorithms without masks choose illegal rows too: the first legal one is taken instead,
    unless `illegal="error"`. `reset(options={"episode": N})` plays the episode of seed N, the same as `rota learn` plays.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own name and type

    def __init__(
        self, env: str = "classroom", *, illegal: str = "replace", render_mode: Optional[str] = None, **settings: Any
    ) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r}: this environment draws nothing")
        self.render_mode = None
        self._one = OneEpisode(env, illegal=illegal, **settings)
        shape = (self._one.rows, len(self._one.features))
        self.features, self.has_wait, self.rota_name = self._one.features, self._one.has_wait, env
        self.rota_vector = self._one.rota_vector
        self.observation_space = spaces.Box(-FEATURE_MAX, FEATURE_MAX, shape, numpy.float32)
        self.action_space = spaces.Discrete(self._one.rows)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        episode = (options or {}).get("episode")
        self._one.reset(int(self.np_random.integers(SEEDS)) if episode is None else int(episode))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._one.step(numpy.reshape(action, 1))
        ended = bool(self._one.terminated[0])
        return self._observation(), float(self._one.rewards[0]), ended, False, self._one.outcome() if ended else {}

    def action_masks(self) -> Any:
        """The rows that may be chosen now."""
        return self._one.action_masks[0].copy()

    def _observation(self) -> Any:
        return self._one.observations[0].copy()
