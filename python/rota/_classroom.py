"""The teaching project's environment for Python: tasks of three types, one after the other, each to a GPU of one's choice.

It needs nothing but Python. `rota learn` has the same environment, faster, as `classroom-compat`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol

CAPACITY = 100
GANTT_WIDTH_MAX = 100
TASKS_MIN, TASKS_MAX = 40, 50
TASK_TYPES = {
    "image_classification": {"gpu_demand": (20, 40), "memory_demand": (10, 30), "duration": (5, 10), "priority": (1, 3)},
    "lstm_training": {"gpu_demand": (30, 50), "memory_demand": (40, 60), "duration": (7, 15), "priority": (2, 4)},
    "cnn_training": {"gpu_demand": (50, 80), "memory_demand": (30, 50), "duration": (10, 20), "priority": (3, 5)},
}

Task = dict[str, Any]


def generate_task(task_id: int, source: Optional[random.Random] = None) -> Task:
    """A task of a random type, every range with both its ends."""
    draw = source or random
    kind = draw.choice(list(TASK_TYPES))
    drawn = {name: draw.randint(*ends) for name, ends in TASK_TYPES[kind].items()}
    return {"id": task_id, "type": kind, **drawn, "remaining_duration": drawn["duration"], "start_time": None}


class Chooser(Protocol):
    """Whatever chooses a GPU from an observation: a model of stable-baselines3, say."""

    def predict(self, observation: Any, deterministic: bool = ...) -> tuple[Any, Any]: ...


@dataclass
class _Run:
    task: Task
    gpu: int
    end: Optional[int] = None


class MLWorkloadSchedulingEnv:
    """Tasks wait in order of priority; an action is the GPU for the first of them.

    `reset()` gives the observation: the GPU usage of every GPU, then the memory usage, in per cent. `step(gpu)` gives the
    observation, the reward, whether all is done, and a dict. A task that does not fit on the GPU costs 2 points and stays
    first; with `compat=True` it is lost for ever, as in the project that this comes from. Tasks that are assigned to `tasks`
    are those of the next episode; otherwise 40 to 50 are drawn.
    """

    def __init__(self, num_gpus: int = 4, *, seed: Optional[int] = None, compat: bool = False) -> None:
        if num_gpus < 1:
            raise ValueError(f"num_gpus: {num_gpus} is less than 1")
        self.num_gpus = num_gpus
        self.compat = compat
        self._random = random.Random(seed)  # noqa: S311 - a simulation
        self._given: Optional[list[Task]] = None
        self.reset()

    @property
    def tasks(self) -> list[Task]:
        """The tasks that wait, the first one first. Assign a list to play it after the next reset."""
        return self._waiting

    @tasks.setter
    def tasks(self, tasks: Sequence[Task]) -> None:
        self._given = [dict(task) for task in tasks]

    @property
    def task_waiting_times(self) -> list[int]:
        """The steps that each waiting task has waited."""
        return [self.total_time] * len(self._waiting)

    @property
    def waiting_times(self) -> list[int]:
        """The steps that each task waited that was started."""
        return [run.task["start_time"] for run in self._runs]

    def reset(self) -> list[float]:
        """Begins an episode."""
        count = self._random.randint(TASKS_MIN, TASKS_MAX)
        drawn = [generate_task(number, self._random) for number in range(count)] if self._given is None else self._given
        self._given = None
        self._waiting = sorted(drawn, key=lambda task: -int(task["priority"]))
        self._runs: list[_Run] = []
        self._popped = 0
        self.lost: list[Task] = []
        self.total_time = 0
        self.gpu_usage = [0] * self.num_gpus
        self.memory_usage = [0] * self.num_gpus
        return self._observation()

    def step(self, action: Any) -> tuple[list[float], float, bool, dict[str, Any]]:
        """Lets running tasks go on for one step, then tries to place the first waiting task on a GPU."""
        gpu = int(action)
        if not 0 <= gpu < self.num_gpus:
            raise ValueError(f"action {gpu}: the GPUs are 0 to {self.num_gpus - 1}")
        reward = self._end_tasks()
        if self._waiting:
            reward += self._place(gpu)
        self.total_time += 1
        done = not self._waiting and all(run.end is not None for run in self._runs)
        if done:
            reward -= 0.1 * self.total_time
        return self._observation(), reward, done, {"lost": len(self.lost)}

    def as_gymnasium(self) -> Any:
        """This environment as Gymnasium has them, to train in: `PPO("MlpPolicy", env.as_gymnasium())`."""
        from ._classroom_gymnasium import ClassroomForGymnasium

        return ClassroomForGymnasium(self)

    def render(self) -> None:
        """Prints a Gantt chart: one line a task, by GPU."""
        print(self.gantt())

    def gantt(self) -> str:
        """The schedule so far as text."""
        scale = max(1, -(-self.total_time // GANTT_WIDTH_MAX))
        lines = [f"step {self.total_time}, {len(self._waiting)} tasks wait"]
        for gpu in range(self.num_gpus):
            lines.append(f"GPU {gpu}: {self.gpu_usage[gpu]} % busy, {self.memory_usage[gpu]} % of memory")
            for run in (run for run in self._runs if run.gpu == gpu):
                end = self.total_time if run.end is None else run.end
                bar = " " * (run.task["start_time"] // scale) + "#" * max(1, (end - run.task["start_time"]) // scale)
                lines.append(f"  task {run.task['id']:>4} |{bar}")
        return "\n".join(lines)

    def _end_tasks(self) -> float:
        reward = 0.0
        for run in (run for run in self._runs if run.end is None):
            run.task["remaining_duration"] -= 1
            if run.task["remaining_duration"] <= 0:
                run.end = self.total_time
                self.gpu_usage[run.gpu] -= run.task["gpu_demand"]
                self.memory_usage[run.gpu] -= run.task["memory_demand"]
                reward += 10 + 2 * run.task["priority"]
        return reward

    def _place(self, gpu: int) -> float:
        task = self._waiting[0]
        gpu_after = self.gpu_usage[gpu] + task["gpu_demand"]
        memory_after = self.memory_usage[gpu] + task["memory_demand"]
        fits = gpu_after <= CAPACITY and memory_after <= CAPACITY
        self._popped += 1
        if not fits:
            if self.compat:
                self.lost.append(self._waiting.pop(0))
            return -2.0
        del self._waiting[0]
        self.gpu_usage[gpu], self.memory_usage[gpu] = gpu_after, memory_after
        task["start_time"] = self.total_time
        self._runs.append(_Run(task, gpu))
        return 0.1 * (20 - self._popped)

    def _observation(self) -> list[float]:
        return [float(value) for value in (*self.gpu_usage, *self.memory_usage)]


def evaluate_model(model: Chooser, env: MLWorkloadSchedulingEnv, num_tasks: int = 50) -> tuple[int, float]:
    """Plays one episode of `num_tasks` tasks; prints the makespan, the mean steps that a task waited, and the reward.

    Gives the makespan and the mean waiting time. Lost tasks (`compat=True`) never started and do not count as waiting.
    """
    env.tasks = [generate_task(number, env._random) for number in range(num_tasks)]
    observation = env.reset()
    total, done = 0.0, False
    while not done:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, done, _ = env.step(action)
        total += reward
    waited = env.waiting_times
    mean = sum(waited) / len(waited) if waited else 0.0
    print(f"Final Makespan (Total Time): {env.total_time}")
    print(f"Average Waiting Time: {mean:.2f}")
    print(f"Total Reward: {total}")
    return env.total_time, mean
