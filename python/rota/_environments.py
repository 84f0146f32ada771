"""Rota's learning environments, many at a time: the arrays are the library's own memory."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from ._native import Vector

try:
    import numpy
except ImportError as error:
    raise ImportError("Rota's environments need NumPy: pip install numpy") from error

ILLEGAL = ("error", "replace")


class VecEnv:
    """Environments side by side, stepped together, each beginning its next episode by itself.

    `env` is one of `classroom`, `classroom-compat`, `swf-compat:FILE` and `trace:FILE`, with settings: `cluster="a100:8"`,
    `objective="jct"`, `jobs_seen=64`, `stretch=256` (jobs in an episode on a trace), `estimates=False`, `place="best-fit"`,
    `backfill=True` or `resort=True` (`swf-compat`), `judging=True` (the episodes that models are judged by). Episodes have the
    seeds `seed`, `seed + 1` and so on.

    `observations` (environments, rows, features), `action_masks` (environments, rows), `rewards` and `terminated` are arrays
    over the library's memory: nothing is copied, and the next `step` or `reset` writes over them. Where an episode has ended,
    `observations` shows the next one, `last_observations` what the old one ended with, and `outcome(i)` what it came to.

    An action is a row; the mask says which are legal. `illegal="error"` refuses another action; `illegal="replace"` takes the
    first legal row instead (in the simulator's queue that is to wait, wherever one may wait).
    """

    def __init__(self, env: str, num_envs: int = 1, seed: int = 0, *, illegal: str = "error", **settings: Any) -> None:
        self._begin(env, num_envs, seed, illegal, True, settings)

    def _begin(self, env: str, num_envs: int, seed: int, illegal: str, auto_reset: bool, settings: dict[str, Any]) -> None:
        if illegal not in ILLEGAL:
            raise ValueError(f"illegal={illegal!r} is not one of {', '.join(ILLEGAL)}")
        given = {name: value for name, value in settings.items() if value is not None}
        self._vector = Vector({"env": env, "num_envs": num_envs, "seed": seed, "auto_reset": auto_reset, **given})
        self.rota_name, self.rota_vector = env, self._vector
        self.has_wait = env.startswith(("classroom", "trace:")) and env != "classroom-compat"
        self._replaces = illegal == "replace"
        arrays = self._vector.arrays
        self.num_envs, self.rows = int(arrays.environments), int(arrays.rows)
        self.features: tuple[str, ...] = self._vector.features
        seen = (self.num_envs, self.rows, len(self.features))
        self.observations = self._array("observations", ctypes.c_float, numpy.float32, seen)
        self.last_observations = self._array("last_observations", ctypes.c_float, numpy.float32, seen)
        self.action_masks = self._array("legal", ctypes.c_uint8, numpy.bool_, (self.num_envs, self.rows))
        self.rewards = self._array("rewards", ctypes.c_float, numpy.float32, (self.num_envs,))
        self.terminated = self._array("terminated", ctypes.c_uint8, numpy.bool_, (self.num_envs,))
        self._outcomes = self._array("outcomes", ctypes.c_double, numpy.float64, (self.num_envs, len(self._vector.figures)))
        self._indices = numpy.arange(self.num_envs)

    def _array(self, name: str, kind: Any, as_type: Any, shape: tuple[int, ...]) -> Any:
        buffer = self._vector.memory(name, kind, int(numpy.prod(shape)))
        return numpy.frombuffer(buffer, dtype=as_type).reshape(shape)

    def reset(self, seed: Optional[int] = None) -> Any:
        """Begins all episodes anew and gives the observations."""
        self._vector.reset(0 if seed is None else seed)
        return self.observations

    def step(self, actions: Any) -> tuple[Any, Any, Any]:
        """Takes one action in each environment: the observations, the rewards, and which episodes ended."""
        chosen = numpy.ascontiguousarray(actions, dtype=numpy.int64)
        if chosen.shape != (self.num_envs,):
            raise ValueError(f"actions have shape {chosen.shape}; there are {self.num_envs} environments")
        if self._replaces:
            inside = (chosen >= 0) & (chosen < self.rows)
            is_legal = inside & self.action_masks[self._indices, numpy.where(inside, chosen, 0)]
            chosen = numpy.where(is_legal, chosen, self.action_masks.argmax(axis=1))
        self._vector.step(chosen.ctypes.data, self.num_envs)
        return self.observations, self.rewards, self.terminated

    def outcome(self, index: int = 0) -> dict[str, float]:
        """What the episode came to that ended last in an environment."""
        return dict(zip(self._vector.figures, self._outcomes[index].tolist()))


class OneEpisode(VecEnv):
    """One environment, which stands at the end of its episode until it is reset."""

    def __init__(self, env: str, *, illegal: str, **settings: Any) -> None:
        self._begin(env, 1, 0, illegal, False, settings)
