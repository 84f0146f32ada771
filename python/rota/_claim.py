"""GPUs for this process itself, as long as it lives: the cooperative way, for scripts that are started by hand."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Optional, Union

from ._decoding import Duration
from ._errors import RotaError
from ._jobs import Job

if TYPE_CHECKING:
    from ._client import Client

_INHERITED = "ROTA_CLAIM"
"""Tells children which claim they live under, so that a worker that imports its parent's script does not claim again."""


class Grant:
    """GPUs that were granted."""

    def __init__(self, job: Optional[int], indices: Iterable[int], uuids: Iterable[str]) -> None:
        self.job = job
        """The number under which the queue shows it."""
        self.indices = tuple(indices)
        """The GPUs by the machine's own numbers, as `rota gpus` shows them."""
        self.uuids = tuple(uuids)
        """The same by UUID."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a child process, so that it sees these GPUs and no others."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(self._visible())}

    def _visible(self) -> list[str]:
        if len(self.indices) != len(self.uuids):
            return list(self.uuids)
        # A GPU that has no UUID of its own is known to CUDA by its number only.
        return [str(index) if uuid.startswith("PCI-") else uuid for index, uuid in zip(self.indices, self.uuids)]

    @property
    def devices(self) -> tuple[str, ...]:
        """As PyTorch names them where only they are visible: `cuda:0` and so on."""
        return tuple(f"cuda:{place}" for place in range(len(self.uuids)))

    @property
    def device(self) -> str:
        """The first of `devices`; `cpu` if there is none."""
        return self.devices[0] if self.uuids else "cpu"

    def __len__(self) -> int:
        return len(self.uuids)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lstrip('_')} {self.job}: GPU {', '.join(map(str, self.indices or self.uuids)) or '-'}>"


class Claim(Grant):
    """GPUs that this process has until `release`, the end of the `with` block, or its own end, whichever comes first."""

    def __init__(self, job: Optional[int], indices: Iterable[int], uuids: Iterable[str], give_back: Callable[[], None]) -> None:
        super().__init__(job, indices, uuids)
        self._give_back = give_back
        self._owner = os.getpid()
        self._is_held = True

    def release(self) -> None:
        """Gives the GPUs back. Doing so again, or in a child of the process that claimed them, does nothing."""
        if self._is_held and os.getpid() == self._owner:
            self._is_held = False
            self._give_back()

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_lock = threading.Lock()
_held: Optional[Claim] = None


def claim(
    gpus: int = 1,
    *,
    gpu_ids: Iterable[int] = (),
    timeout: Optional[Duration] = None,
    name: Optional[str] = None,
    state: Union[str, os.PathLike[str], None] = None,
) -> Claim:
    """GPUs for this script: waits for its turn, and lets it see those GPUs only.

        import rota
        claim = rota.claim(gpus=1)          # before CUDA is used for the first time

        import torch
        model = Model().to(claim.device)    # "cuda:0": the GPU that was granted is the only one there is

    `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` are set in this process, and inherited by its children. The GPUs are given
    back when the script ends, however it ends, or earlier with `release` or at the end of a `with` block, which also puts
    the variables back.

    A script that runs as a job of Rota has its GPUs already: there this waits for nothing, and returns the GPUs of the job.
    So the same script can be started by hand and by `rota submit`. A process whose parent has claimed GPUs in this way uses
    its parent's, and a second call returns the claim of the first.

    Parameters
    ----------
    gpus
        how many
    gpu_ids
        only of these, by the numbers that `rota gpus` shows; all if empty
    timeout
        seconds (or `timedelta`) to wait at most; then `TimedOut` is raised
    name
        what the queue shows; the script's name if not given
    state
        the daemon's state directory, as for `Client`

    Raises `Unreachable` if there is no daemon, and `RuntimeError` if CUDA was in use before, as it would not notice.
    """
    global _held
    with _lock:
        if _held is not None and _held._is_held and _held._owner == os.getpid():
            return _enough(_held, gpus)
        _held = _claim(gpus, gpu_ids, timeout, name, state)
        return _held


def _claim(
    gpus: int,
    gpu_ids: Iterable[int],
    timeout: Optional[Duration],
    name: Optional[str],
    state: Union[str, os.PathLike[str], None],
) -> Claim:
    from ._client import Client

    running = os.environ.get("ROTA_JOB_ID", "")
    if running.isdigit():
        return _enough(_of_job(int(running), Client()), gpus)
    client = Client(state)
    inherited = _of_parent(client)
    if inherited is not None:
        return _enough(inherited, gpus)
    _refuse_if_cuda_is_in_use()
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else None
    granted = client._claim(gpus, gpu_ids, timeout=timeout, name=name or script, waits=_say_that_it_waits)
    variables = {**granted.environment, _INHERITED: _mark(granted.job, client)}
    before = {variable: os.environ.get(variable) for variable in variables}
    os.environ.update(variables)

    def give_back() -> None:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        granted.release()

    # At the end of the process nothing is to be done: the daemon sees it, however it comes.
    return Claim(granted.job, granted.indices, granted.uuids, give_back)


def _nothing() -> None:
    """What is not this process's own is not its to give back."""


def _told() -> list[str]:
    """The GPUs of a job, in the words that its supervisor had for them."""
    return [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]


class _OfJob(Claim):
    def _visible(self) -> list[str]:
        return _told()


def _of_job(job: int, client: Client) -> Claim:
    try:
        seen = client.job(job)
    except RotaError:
        # A job outlives its daemon, and knows its GPUs without it.
        return _OfJob(job, (), _told(), _nothing)
    return _OfJob(job, seen.gpu_indices or (), seen.gpu_uuids or (), _nothing)


def _mark(job: Optional[int], client: Client) -> str:
    return f"{job}@{client.endpoint.socket}"


def _of_parent(client: Client) -> Optional[Claim]:
    inherited = os.environ.get(_INHERITED, "")
    job, _, _ = inherited.partition("@")
    if not job.isdigit() or inherited != _mark(int(job), client):
        return None
    try:
        seen = client.job(int(job))
    except RotaError:
        return None
    if seen.state != "running" or not seen.claim:
        return None
    return Claim(seen.id, seen.gpu_indices or (), seen.gpu_uuids or (), _nothing)


def _enough(claim: Claim, gpus: int) -> Claim:
    if len(claim) < gpus:
        message = f"{gpus} GPUs are claimed where {len(claim)} were given already: {claim!r}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    return claim


def _refuse_if_cuda_is_in_use() -> None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    if is_initialized is not None and is_initialized():
        raise RuntimeError("PyTorch uses CUDA already and would not notice which GPUs are granted: claim them earlier")


def _say_that_it_waits(job: Job) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        why = f": {job.reason}" if job.reason else ""
        print(f"rota: claim {job.id} waits{why}", file=sys.stderr)
