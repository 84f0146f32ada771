"""The ranks of a job agree on the step after which all of them stop.

A rank that stopped earlier than another would leave it waiting in a collective operation for ever. Three rules prevent that:

1. The first rank that asks fixes the last step: one more than the batches it has been given. The daemon answers every rank
   with that step. It is also written to a file that all ranks read: so they agree while the daemon is away, and if a rank got
   further than it had told.
2. A rank that has heard of the stop begins no further step until every rank knows the last step. No other rank can get more
   than one step ahead of it.
3. Rank 0 commits the checkpoint. The other ranks leave only then, because some launchers end all ranks when one has left.

The files are in the checkpoint folder, named by the lease, so that nothing of an earlier lease is taken for this one's.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Callable, Optional

from .vault import Checkpoint

POLL_SECONDS = 0.005


class Gang:
    """The ranks of a job under one lease, as one of them sees them."""

    def __init__(self, folder: Path, lease: int, rank: int, world: int) -> None:
        self._folder, self._lease, self._rank, self.world = folder, lease, rank, world

    def clear(self) -> None:
        """Removes what earlier leases left behind."""
        for path in self._folder.glob(".lease-*"):
            number = path.name.split(".")[1].partition("-")[2]
            if number.isdigit() and int(number) < self._lease:
                path.unlink(missing_ok=True)

    def agreed(self) -> Optional[int]:
        """The last step, if it is fixed."""
        with contextlib.suppress(FileNotFoundError):
            return int(self._path("last-step").read_text())
        return None

    def agree(self, last_step: int) -> int:
        """Proposes a last step. Returns the one that holds, which may be another rank's, and tells that this rank knows it."""
        proposal = self._path(f"last-step-of-{self._rank}")
        proposal.write_text(str(last_step))
        with contextlib.suppress(FileExistsError):
            os.link(proposal, self._path("last-step"))
        agreed = self.agreed()
        self.need_not_be_told()
        return last_step if agreed is None else agreed

    def need_not_be_told(self) -> None:
        """This rank knows the last step, or has none left to do."""
        self._path(f"knows-{self._rank}").touch()

    def await_all(self, is_hopeless: Callable[[], bool]) -> None:
        """Waits until every rank knows the last step."""
        while not all(self._path(f"knows-{rank}").exists() for rank in range(self.world)) and not is_hopeless():
            time.sleep(POLL_SECONDS)

    def tell_saved(self, checkpoint: Checkpoint) -> None:
        """Rank 0 is done with a checkpoint, committed or not."""
        self._path(f"saved-{checkpoint.step}").touch()

    def await_saved(self, checkpoint: Checkpoint, is_hopeless: Callable[[], bool]) -> None:
        """Waits until rank 0 is done with a checkpoint."""
        while not self._path(f"saved-{checkpoint.step}").exists() and not is_hopeless():
            time.sleep(POLL_SECONDS)

    def _path(self, what: str) -> Path:
        return self._folder / f".lease-{self._lease}.{what}"
