"""Jobs as the daemon tells of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Optional, Union

from ._decoding import Record
from ._errors import JobFailed

State = Literal["waiting", "held", "starting", "running", "stopping", "done", "failed", "cancelled", "lost"]
"""Where a job is in its life; the last four are ends, and `done` means exit code 0."""

OVER = frozenset({"done", "failed", "cancelled", "lost"})


@dataclass(frozen=True)
class After(Record):
    """A job that must end first: well (`ok`), or at all (`any`)."""

    id: int
    condition: Literal["ok", "any"]


@dataclass(frozen=True)
class Job(Record):
    """A job as it was when the daemon was asked. What is not known is None, never 0."""

    id: int
    name: Optional[str]
    """Its name; in an array or a sweep with its index or its parameters, as `bert[lr=0.1,seed=2]`."""
    group: Optional[int]
    """The group it belongs to: an array, a sweep or a batch."""
    array_index: Optional[int]
    user: str
    project: Optional[str]
    state: State
    exit_code: Optional[int]
    signal: Optional[int]
    reason: Optional[str]
    """Why it waits, or why it ended as it did."""
    command: tuple[str, ...]
    cwd: str
    gpus_requested: int
    gpu_types: tuple[str, ...]
    gpu_indices: Optional[tuple[int, ...]]
    gpu_uuids: Optional[tuple[str, ...]]
    memory_mib: Optional[int]
    """Memory it was counted with, on each GPU."""
    peak_memory_mib: Optional[int]
    share: Optional[float]
    priority: int
    position: Optional[int]
    """Where it stands among the waiting, from 1, in order of arrival."""
    start_p10: Optional[datetime]
    """A waiting job starts before this moment with a chance of one in ten."""
    start_p50: Optional[datetime]
    """A waiting job starts before this moment as likely as not."""
    start_p90: Optional[datetime]
    """A waiting job starts before this moment with a chance of nine in ten."""
    submitted_at: datetime
    started_at: Optional[datetime]
    finished_at: Optional[datetime]
    attempts: int
    retries: int
    estimate_seconds: Optional[float]
    time_limit_seconds: Optional[float]
    after: tuple[After, ...]
    preemptible: bool
    energy_wh: Optional[float]
    log_path: Optional[str]
    claim: bool
    """Not a job but a claim on GPUs by a process of its own."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in OVER

    @property
    def is_done(self) -> bool:
        """Whether it has ended with exit code 0."""
        return self.state == "done"

    def check(self) -> Job:
        """The job itself if it is not over or ended well; otherwise `JobFailed` is raised."""
        if self.is_over and not self.is_done:
            raise JobFailed(self)
        return self


JobRef = Union[int, Job]
"""A job, or its number."""

JobRefs = Iterable[JobRef]


def number(job: JobRef) -> int:
    return job.id if isinstance(job, Job) else job


@dataclass(frozen=True)
class Blocker(Record):
    """One thing that stands in a job's way."""

    kind: str
    """`gpu`, `dependency`, `hold`, `quota`, `drain`, `retry`, `order` or `disk`."""
    text: str
    """In words, with numbers."""
    gpu: Optional[int]
    job: Optional[int]
    pid: Optional[int]


@dataclass(frozen=True)
class Delay(Record):
    """A job that would start later because of another."""

    id: int
    seconds: float


@dataclass(frozen=True)
class Counterfactual(Record):
    """A change that would start a job now or sooner."""

    change: str
    """The options of `rota submit` to give instead, such as `--gpus 2`."""
    start: datetime
    is_now: bool
    delays: tuple[Delay, ...]


@dataclass(frozen=True)
class Explanation(Record):
    """Why a job waits."""

    id: int
    state: State
    reason: str
    """In one sentence with numbers."""
    blockers: tuple[Blocker, ...]
    earliest_start: Optional[datetime]
    """The job starts before this moment with a chance of one in ten."""
    start_p50: Optional[datetime]
    """The job starts before this moment as likely as not."""
    start_p90: Optional[datetime]
    """The job starts before this moment with a chance of nine in ten."""
    cause: Optional[str]
    """What keeps it waiting most, in words."""
    counterfactuals: tuple[Counterfactual, ...]
    """The smallest changes that would start it now or sooner."""


@dataclass(frozen=True)
class Prediction(Record):
    """When a waiting job is expected to start and to end. Times that depend on jobs of unknown length are None."""

    id: int
    position: int
    """Its place among the waiting jobs, from 1, by when they are expected to start."""
    start_p10: Optional[datetime]
    """The job starts before this moment with a chance of one in ten."""
    start_p50: Optional[datetime]
    """The job starts before this moment as likely as not."""
    start_p90: Optional[datetime]
    """The job starts before this moment with a chance of nine in ten."""
    end_p10: Optional[datetime]
    end_p50: Optional[datetime]
    end_p90: Optional[datetime]
    depends_on: tuple[int, ...]
    """The jobs whose ends it waits for most often; where its start is not known, the jobs of unknown length."""
    note: Optional[str]
    """Why its start is not known, in words."""


@dataclass(frozen=True)
class EarlierPredictions(Record):
    """How the starts that were predicted of the latest jobs turned out."""

    jobs: int
    coverage_p10_p90: float
    """The part of them that started between `start_p10` and `start_p90`; 0.8 would be right."""
    error_median_s: float
    """The median of the seconds between `start_p50` and the start."""


@dataclass(frozen=True)
class Predictions(Record):
    """What is expected of the whole queue."""

    made_at: Optional[datetime]
    """None before the first time."""
    learned_from: int
    """Ended jobs that the lengths were learned from."""
    earlier: Optional[EarlierPredictions]
    """None until twenty jobs have started of which a start was predicted."""
    note: Optional[str]
    """Why nothing is expected, where that is so."""
    jobs: tuple[Prediction, ...]
    """The waiting jobs, in the order in which they are expected to start."""


@dataclass(frozen=True)
class Event(Record):
    """Something that happened. `seq` grows; it is what `Client.events` goes on after."""

    seq: int
    at: datetime
    kind: str
    """`submitted`, `started`, `finished`, …"""
    job: Optional[int]
    detail: Any


@dataclass(frozen=True)
class Point(Record):
    """What a job took of its GPUs at one moment."""

    at: datetime
    memory_mib: Optional[float]
    utilisation_percent: Optional[float]
    power_watts: Optional[float]


@dataclass(frozen=True)
class Samples(Record):
    """What a job took of its GPUs over time."""

    job: int
    points: tuple[Point, ...]
