"""What happened, added up: who used how much, which job was where, how busy the GPUs were; and what would have happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Optional

from ._decoding import Record


@dataclass(frozen=True)
class Use(Record):
    """What was used."""

    jobs: int
    gpu_hours: float
    energy_kwh: Optional[float]
    cost_usd: Optional[float]
    """What the same hours would have cost in a cloud."""
    idle_gpu_hours: Optional[float]
    """Given to jobs that did not use them."""


@dataclass(frozen=True)
class NamedUse(Use):
    """What a user or a project used; a project without a name is that of jobs that named none."""

    name: Optional[str]


@dataclass(frozen=True)
class GpuUse(Use):
    """What was used of a GPU."""

    uuid: str
    index: Optional[int]
    type: Optional[str]


@dataclass(frozen=True)
class Waste(Record):
    """A job that had GPUs and left them idle."""

    job: int
    name: Optional[str]
    user: str
    idle_gpu_hours: float


@dataclass(frozen=True)
class Usage(Record):
    """Who used how much in a span of time."""

    since: datetime = field(metadata={"json": "from"})
    until: datetime = field(metadata={"json": "to"})
    total: Use
    users: tuple[NamedUse, ...]
    projects: tuple[NamedUse, ...]
    gpus: tuple[GpuUse, ...]
    waste: tuple[Waste, ...]
    """The jobs that left most idle, worst first."""


@dataclass(frozen=True)
class TimelineGpu(Record):
    """A row of a timeline."""

    uuid: str
    index: Optional[int]
    name: Optional[str]
    type: Optional[str]


@dataclass(frozen=True)
class Bar(Record):
    """One stay of a job on GPUs; `finish` is None while it lasts."""

    job: int
    name: Optional[str]
    user: str
    state: str
    end: Optional[str]
    gpus: tuple[str, ...]
    share_milli: Optional[int]
    """Share of each GPU, in thousandths."""
    start: datetime
    finish: Optional[datetime]


@dataclass(frozen=True)
class Timeline(Record):
    """Which job was on which GPU, and when."""

    since: datetime = field(metadata={"json": "from"})
    until: datetime = field(metadata={"json": "to"})
    gpus: tuple[TimelineGpu, ...]
    bars: tuple[Bar, ...]
    truncated: Optional[bool]
    """Whether there were more: only the latest are here."""


@dataclass(frozen=True)
class HeatRow(Record):
    """How much of a GPU was given out and used in each bucket of time, from 0 to 1; None where nobody looked."""

    uuid: str
    index: Optional[int]
    allocated: tuple[Optional[float], ...]
    used: tuple[Optional[float], ...]
    power_watts: tuple[Optional[float], ...]


@dataclass(frozen=True)
class Heatmap(Record):
    """How busy the GPUs were."""

    since: datetime = field(metadata={"json": "from"})
    until: datetime = field(metadata={"json": "to"})
    bucket_seconds: float
    gpus: tuple[HeatRow, ...]


@dataclass(frozen=True)
class Simulation(Record):
    """A run of the simulator in the daemon; `results` has a summary for each policy, as `rota sim --json` prints it."""

    id: int
    state: Literal["running", "done", "failed", "cancelled"]
    progress: Optional[float]
    policies: tuple[str, ...]
    error: Optional[str]
    results: tuple[Any, ...]

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state != "running"
