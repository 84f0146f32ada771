"""Real jobs on real GPUs as an environment: `gymnasium.make("rota/Live-v0", jobs=[…])`, or `rota.LiveEnv(jobs)`.

The agent sees what the GPUs do and how many jobs are left, and chooses a GPU for the first of them, or waits. A chosen job is
submitted to Rota's daemon for that GPU alone. The reward is the negative of the joules that all GPUs drew since the last step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ._client import Client
from ._errors import Problem
from ._jobs import Job
from ._machine import Gpu

try:
    import numpy
    from gymnasium import spaces
    from gymnasium.core import Env
except ImportError as error:
    raise ImportError("the live environment needs NumPy and Gymnasium: pip install numpy gymnasium") from error

Work = Union[str, Sequence[str], Mapping[str, Any]]
"""A command, or a mapping with `command` and options of `Client.submit` (`memory`, `share`, `name`, …)."""

OVER = ("done", "failed", "cancelled", "lost")
POWER_KW_MAX = 5.0


class EnergyMeter:
    """The joules that GPUs drew, from readings of their power: between two readings the mean of both."""

    def __init__(self) -> None:
        self.joules = 0.0
        self._last: Optional[tuple[float, float]] = None

    def note(self, gpus: Sequence[Gpu], now: float) -> None:
        watts = sum(gpu.power_watts or 0.0 for gpu in gpus)
        if self._last is not None:
            before, watts_before = self._last
            self.joules += (now - before) * (watts + watts_before) / 2
        self._last = (now, watts)


class LiveEnv(Env[Any, Any]):
    """Jobs on the GPUs of a daemon, each on the GPU that the agent chose.

    The observation has, for all GPUs, their utilisation (0 to 1), the part of their memory in use, their power in kW and
    whether jobs are on them; then the part of the jobs that are left, and the part that runs. Action `i` is the `i`-th GPU of
    `gpus`; the last action waits, until a job ends or `step_seconds` have passed. `action_masks()` says which are legal: a GPU
    is, while it is free and a job is left. Every `reset` begins with all jobs anew, and cancels what it had started before.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium's own name and type

    def __init__(
        self,
        jobs: Sequence[Work],
        *,
        client: Optional[Client] = None,
        state: Optional[str] = None,
        step_seconds: float = 5.0,
        sample_seconds: float = 0.1,
        max_steps: int = 1000,
        render_mode: Optional[str] = None,
    ) -> None:
        if not jobs:
            raise ValueError("jobs: name at least one command")
        self.render_mode = render_mode
        self.client = client if client is not None else Client(state)
        self.gpus = [gpu.index for gpu in self.client.gpus()]
        if not self.gpus:
            raise ValueError("the daemon has no GPU")
        self._jobs = [_options(work) for work in jobs]
        self._step_seconds, self._sample_seconds, self._max_steps = step_seconds, sample_seconds, max_steps
        self._running: dict[int, int] = {}
        self._begin()
        high = [1.0] * 2 * len(self.gpus) + [POWER_KW_MAX] * len(self.gpus) + [1.0] * (len(self.gpus) + 2)
        self.observation_space = spaces.Box(numpy.zeros(len(high), numpy.float32), numpy.array(high, numpy.float32))
        self.action_space = spaces.Discrete(len(self.gpus) + 1)

    def _begin(self) -> None:
        self._next = 0
        self._steps = 0
        self._running = {}
        self.meter = EnergyMeter()
        self.ended: list[Job] = []
        self.placed: dict[int, int] = {}
        """The GPU that was chosen for each job, by the job's number in the queue."""

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.close()
        self._begin()
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        choice = int(action)
        if not 0 <= choice <= len(self.gpus):
            raise ValueError(f"action {choice}: the GPUs are 0 to {len(self.gpus) - 1}, and {len(self.gpus)} waits")
        before = self.meter.joules
        self._steps += 1
        # An illegal choice is taken as waiting, for agents that know no masks.
        if choice < len(self.gpus) and self.action_masks()[choice]:
            self._submit(self.gpus[choice])
        else:
            self._wait()
        observation = self._look()
        terminated = self._next == len(self._jobs) and not self._running
        truncated = not terminated and self._steps >= self._max_steps
        info = {"joules": self.meter.joules, "jobs": self.ended} if terminated or truncated else {}
        return observation, before - self.meter.joules, terminated, truncated, info

    def action_masks(self) -> Any:
        """The actions that are legal now."""
        is_left = self._next < len(self._jobs)
        taken = set(self._running.values())
        free = [is_left and gpu.index not in taken and gpu.state == "free" for gpu in self._gpus]
        return numpy.array([*free, True])

    def render(self) -> str:
        lines = [f"{len(self._jobs) - self._next} jobs left, {len(self._running)} run, {self.meter.joules:.0f} J"]
        for gpu in self._gpus:
            lines.append(f"GPU {gpu.index}: {gpu.utilisation_percent} % busy, {gpu.power_watts} W, jobs {list(gpu.jobs)}")
        return "\n".join(lines)

    def close(self) -> None:
        """Cancels the jobs of this episode that still run, and waits until they have ended and left their GPUs."""
        for job in self._running:
            # It may have ended by itself.
            with contextlib.suppress(Problem):
                self.client.cancel(job)
        if self._running:
            self.client.wait(list(self._running))
            # The list of GPUs is a moment behind the list of jobs.
            while any(job in self._running for gpu in self.client.gpus() for job in gpu.jobs):
                time.sleep(self._sample_seconds)
        self._running = {}

    def _submit(self, gpu: int) -> None:
        job = self.client.submit(**self._jobs[self._next], gpus=1, gpu_ids=[gpu])
        self._next += 1
        self._running[job.id] = gpu
        self.placed[job.id] = gpu

    def _wait(self) -> None:
        """Until a job ends, or the time of a step has passed."""
        until = time.monotonic() + self._step_seconds
        running = len(self._running)
        while time.monotonic() < until and len(self._running) == running:
            time.sleep(min(self._sample_seconds, max(0.0, until - time.monotonic())))
            self._read()

    def _read(self) -> None:
        self._gpus = [gpu for gpu in self.client.gpus() if gpu.index in self.gpus]
        self.meter.note(self._gpus, time.monotonic())
        for number in list(self._running):
            job = self.client.job(number)
            if job.state in OVER:
                del self._running[number]
                self.ended.append(job)

    def _look(self) -> Any:
        self._read()
        part = len(self._jobs)
        seen = [
            *((gpu.utilisation_percent or 0) / 100 for gpu in self._gpus),
            *((gpu.memory_used_mib or 0) / max(gpu.memory_total_mib, 1) for gpu in self._gpus),
            *((gpu.power_watts or 0.0) / 1000 for gpu in self._gpus),
            *(float(gpu.index in self._running.values() or bool(gpu.jobs)) for gpu in self._gpus),
            (part - self._next) / part,
            len(self._running) / part,
        ]
        return numpy.clip(numpy.array(seen, numpy.float32), 0.0, POWER_KW_MAX)


def _options(work: Work) -> dict[str, Any]:
    if isinstance(work, Mapping):
        for name in ("gpus", "gpu_ids"):
            if name in work:
                raise ValueError(f"jobs: `{name}` is what the agent chooses")
        if "command" not in work:
            raise ValueError("jobs: a job given as a mapping needs `command`")
        return dict(work)
    return {"command": work}
