"""Checkpoints in files. A checkpoint is whole or not there at all, and no run writes over another run's.

A checkpoint is named by its step and the lease that wrote it: `step-140.lease-3`, a file or a folder of the script's own
making. Beside it stands one small file a rank, `step-140.lease-3.rank-0`, with the loop's place in the data and the state of
the random numbers. The script's part gets its name last, after everything has reached the disk: where that name is, the
checkpoint is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from .._errors import RotaError

NAME = re.compile(r"step-(\d+)\.lease-(\d+)")
UNFINISHED = ".unfinished"


class SaveFailed(RotaError, OSError):
    """A checkpoint could not be written. What was committed before is untouched."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint by its name."""

    step: int
    lease: int

    @property
    def name(self) -> str:
        return f"step-{self.step}.lease-{self.lease}"

    @classmethod
    def of(cls, name: str) -> Optional[Checkpoint]:
        """The checkpoint with this name, if it is one."""
        found = NAME.fullmatch(name)
        return cls(int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Place:
    """Where a rank's loop was."""

    epoch: int
    """Whole passes."""
    index: int
    """Batches of the pass under way."""
    is_in_pass: bool
    pass_streams: Optional[dict[str, Any]]
    """The random numbers when the pass began, from which the loader's order follows."""
    streams: Optional[dict[str, Any]]
    """The random numbers after the last step."""


class Vault:
    """The checkpoint folder of a job, as one rank uses it."""

    def __init__(self, folder: Path, rank: int, world: int) -> None:
        self.folder, self._rank, self._world = folder, rank, world

    def prepare(self) -> None:
        """Finds out early whether anything can be written here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise SaveFailed(f"checkpoints cannot be written to {self.folder}: {error.strerror or error}") from error

    def newest(self, committed: Optional[str], lease: int) -> Optional[Checkpoint]:
        """The checkpoint for this lease to go on from: what was committed, or one saved later while the daemon was away."""
        known = Checkpoint.of(Path(committed).name) if committed else None
        if committed and known is None:
            return None
        with contextlib.suppress(FileNotFoundError):
            found = [checkpoint for path in self.folder.iterdir() if (checkpoint := Checkpoint.of(path.name))]
            found = [one for one in found if one.lease < lease]
            later = [one for one in found if known is None or (one.step > known.step and one.lease >= known.lease)]
            return max(later, key=lambda one: (one.lease, one.step), default=known)
        return known

    def path(self, checkpoint: Checkpoint) -> Path:
        """The script's part of a checkpoint."""
        return self.folder / checkpoint.name

    def place(self, name: str) -> Optional[Place]:
        """Where this rank's loop was, if the checkpoint tells."""
        for rank in (self._rank, 0):
            with contextlib.suppress(FileNotFoundError):
                return Place(**json.loads((self.folder / f"{name}.rank-{rank}").read_text()))
        return None

    def write(self, checkpoint: Checkpoint, place: Place, save: Callable[[str], object], patience_seconds: float) -> bool:
        """Writes this rank's part; rank 0 writes the script's part, too. Says whether it is whole (for rank 0)."""
        try:
            self._write_place(checkpoint, place)
            if self._rank != 0:
                return False
            unfinished = self.folder / f"{checkpoint.name}{UNFINISHED}"
            _remove(unfinished)
            save(str(unfinished))
            if not unfinished.exists():
                raise SaveFailed(f"`save` was to write {unfinished}, but there is no such file")
            _sync_all(unfinished)
            self._await_places(checkpoint, patience_seconds)
            unfinished.rename(self.path(checkpoint))
            _sync(self.folder)
            return True
        except SaveFailed:
            raise
        except OSError as error:
            _remove(self.folder / f"{checkpoint.name}{UNFINISHED}")
            reason = error.strerror or error
            raise SaveFailed(
                f"the checkpoint of step {checkpoint.step} cannot be written to {self.folder}: {reason}"
            ) from error

    def _write_place(self, checkpoint: Checkpoint, place: Place) -> None:
        path = self._place_path(checkpoint, self._rank)
        unfinished = path.with_name(path.name + UNFINISHED)
        with unfinished.open("w") as file:
            json.dump(asdict(place), file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)

    def _await_places(self, checkpoint: Checkpoint, patience_seconds: float) -> None:
        """Waits for the other ranks' parts: a checkpoint without them would not be whole."""
        until = time.monotonic() + patience_seconds
        missing = set(range(1, self._world))
        while missing := {rank for rank in missing if not self._place_path(checkpoint, rank).exists()}:
            if time.monotonic() > until:
                raise SaveFailed(f"ranks {sorted(missing)} have not saved step {checkpoint.step} within {patience_seconds:g} s")
            time.sleep(0.005)

    def _place_path(self, checkpoint: Checkpoint, rank: int) -> Path:
        return self.folder / f"{checkpoint.name}.rank-{rank}"

    def keep_only(self, checkpoint: Checkpoint) -> None:
        """Removes what was saved before a checkpoint that is committed, and what runs before this one left unfinished."""
        for path in list(self.folder.iterdir()):
            found = NAME.match(path.name)
            if found and not path.name.startswith(f"{checkpoint.name}.") and path.name != checkpoint.name:
                step, lease = int(found[1]), int(found[2])
                # A later lease's files are none of this run's business.
                if lease < checkpoint.lease or (lease == checkpoint.lease and step < checkpoint.step):
                    _remove(path)


def _sync_all(path: Path) -> None:
    """Brings a file, or a folder with all that is in it, to the disk."""
    if path.is_dir():
        for entry in path.iterdir():
            _sync_all(entry)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
