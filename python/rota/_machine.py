"""The machine as the daemon tells of it: GPUs, the daemon itself, those who may speak to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Optional

from ._decoding import Record

GpuState = Literal["free", "shared", "full", "stranger", "drained", "lost"]
"""Whose a GPU is; a stranger's is used by a process that Rota did not start."""

Scope = Literal["worker", "read", "submit", "admin"]
"""What a token allows: to look, to submit and act on one's own jobs, to do everything."""


@dataclass(frozen=True)
class GpuProcess(Record):
    """A process on a GPU; `job` is None for a stranger's."""

    pid: int
    name: Optional[str]
    user: Optional[str]
    memory_mib: Optional[int]
    job: Optional[int]


@dataclass(frozen=True)
class Gpu(Record):
    """A GPU, and who is on it."""

    index: int
    uuid: str
    name: str
    type: str
    node: str
    state: GpuState
    memory_total_mib: int
    memory_used_mib: Optional[int]
    utilisation_percent: Optional[int]
    power_watts: Optional[float]
    temperature_c: Optional[int]
    jobs: tuple[int, ...]
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True)
class Status(Record):
    """The whole state at a glance."""

    version: str
    pid: int
    state_dir: str
    socket: str
    http: Optional[str]
    """Where the API is on the network, if it is."""
    started_at: datetime
    driver: str
    policy: str
    draining: bool
    waiting: int
    held: int
    running: int
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...]
    """What an administrator should look at."""


@dataclass(frozen=True)
class Session(Record):
    """Who asks, and what they may do."""

    user: str
    scope: Scope


@dataclass(frozen=True)
class Token(Record):
    """A token. Its text is known once, when it is made."""

    id: int
    name: str
    scope: Scope
    user: str
    created_at: datetime
    expires_at: Optional[datetime]
    last_used_at: Optional[datetime]
    token: Optional[str]
