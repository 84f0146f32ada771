"""`rota.Iterator`: a training loop that can be stopped at any step and goes on with the very next batch.

A step costs a counter and a flag. Everything else happens between two steps, and only when the keeper of the lease has raised
the flag.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from collections.abc import Iterator as PlainIterator
from pathlib import Path
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from .._errors import Problem, RotaError, Unreachable
from .gang import Gang
from .keeper import ABSENT, REFUSALS, Ending, Keeper, remark
from .randomness import Streams
from .service import Service
from .vault import Checkpoint, Place, Vault

T = TypeVar("T")

EXIT_CODE = 85
"""The exit code of a job that saved its work and left, to go on later."""

COMMIT_SECONDS_MAX = 10.0
"""How long a commit is tried while the daemon is away: a restart takes a second or two."""


class Iterator(Generic[T]):
    """The batches of a training, for a job that may be stopped and go on later.

        def save(path):
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, path)

        def load(path):
            state = torch.load(path)
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])

        batches = rota.Iterator(loader, save=save, load=load)
        for epoch in range(batches.epoch, 90):
            for batch in batches:
                train(batch)
        batches.complete()

    In a job of the queue (`rota submit --preemptible -- python train.py`) the loop runs under a lease. When the job is to
    give its GPUs on, the step in hand is finished, `save` writes a checkpoint, the daemon is told of it, and the script ends
    with exit code 85. The job starts again later, `load` reads the checkpoint, and the loop goes on with the next batch: it
    comes to the same result as if it had never been stopped, provided that `save` keeps everything the training changes. The
    random numbers of Python, NumPy and PyTorch are kept by the iterator.

    Outside the queue it is a plain loop over the loader.

    loader            any iterable that can be gone through several times: a list, PyTorch's `DataLoader`, …
    save, load        write and read everything the training changes, at the path they are called with (a file or a folder)
    rest              `rest(n)` gives the batches of a pass without the first n; without it these are read and dropped
    save_every        also save and commit after so many steps, so that a crash loses no more than those
    exit_when_stopped False: a stop ends the loop, not the script, which sees that `done` is True and ends with exit code 85
    rank, world       of a gang: which of how many processes this is; from the variables RANK and WORLD_SIZE if not given
    """

    EXIT_CODE = EXIT_CODE

    def __init__(
        self,
        loader: Iterable[T],
        *,
        save: Callable[[str], object],
        load: Callable[[str], object],
        rest: Optional[Callable[[int], Iterable[T]]] = None,
        save_every: Optional[int] = None,
        exit_when_stopped: bool = True,
        rank: Optional[int] = None,
        world: Optional[int] = None,
    ) -> None:
        if save_every is not None and save_every < 1:
            raise ValueError(f"save_every is {save_every}; it must be at least 1")
        self._rank = _count("RANK", 0) if rank is None else rank
        self._world = _count("WORLD_SIZE", 1) if world is None else world
        if not 0 <= self._rank < self._world:
            raise ValueError(f"rank {self._rank} is not one of {self._world} ranks, which are counted from 0")
        self._loader, self._save, self._load, self._rest = loader, save, load, rest
        self._save_every, self._exits = save_every, exit_when_stopped
        self._streams = Streams(loader)
        self._steps = 0
        self._epoch = 0
        # The pass under way: batches handed out, and the random numbers as they were when it began.
        self._index = 0
        self._is_in_pass = False
        self._pass_streams: Optional[dict[str, Any]] = None
        # Of a run that goes on, until its first step: where it was stopped.
        self._resumed: Optional[Place] = None
        # The step that the newest checkpoint is of.
        self._saved_step = 0
        self._current: Optional[PlainIterator[T]] = None
        self._is_done = False
        # Looked at before every step. Raised from the start, so that the end of the first step is noticed.
        self._look_up = True
        self._keeper: Optional[Keeper] = None
        address = os.environ.get("ROTA_LEASE_ADDR")
        if address:
            self._begin(address)
        # The step this run began after, until its own first step is done.
        self._begun_at: Optional[int] = self._steps
        self._save_at: Optional[int] = None if save_every is None else (self._steps // save_every + 1) * save_every

    @property
    def steps(self) -> int:
        """Batches handed out since the job's first start."""
        return self._steps

    @property
    def epoch(self) -> int:
        """Whole passes over the loader since the job's first start."""
        return self._epoch

    @property
    def done(self) -> bool:
        """Whether no more batches come: the job was stopped (its work is saved), or `complete` was called."""
        return self._is_done

    def __len__(self) -> int:
        """Batches of a pass, if the loader knows."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> PlainIterator[T]:
        if self._is_done:
            return
        following = self._pass()
        save_at = self._save_at
        while True:
            if self._look_up or self._steps == save_at:
                self._between_steps()
                save_at = self._save_at
                if self.done:
                    return
            try:
                batch = next(following)
            except StopIteration:
                break
            self._index += 1
            self._steps += 1
            yield batch
        self._epoch += 1
        self._index = 0
        self._is_in_pass = False

    def __next__(self) -> T:
        """The next batch; `for` is faster."""
        if self._current is None:
            self._current = iter(self)
        try:
            return next(self._current)
        except StopIteration:
            self._current = None
            raise

    def complete(self) -> None:
        """Tells the daemon that all work is done. The script should end soon, with exit code 0."""
        if self._is_done:
            return
        self._is_done = True
        if self._keeper is not None:
            self._keeper.finish()
            if self._world > 1:
                self._gang.need_not_be_told()
            try:
                self._patiently(lambda keeper: keeper.service.complete(self._steps))
            except RotaError as error:
                # The exit code says the same.
                remark(f"the daemon could not be told that the job is complete: {error}")

    def checkpoint(self) -> None:
        """Saves and commits now, between two steps. In a gang, every rank calls this after the same step."""
        if self._keeper is not None and not self._is_done:
            self._save_and_commit(self._keeper)

    # How it begins.

    def _begin(self, address: str) -> None:
        lease, folder = int(_variable("ROTA_LEASE")), Path(_variable("ROTA_CHECKPOINT_DIR"))
        self._vault = Vault(folder, self._rank, self._world)
        self._vault.prepare()
        self._gang = Gang(folder, lease, self._rank, self._world)
        service = Service(address, _variable("ROTA_LEASE_TOKEN"), lease, self._rank, self._world)
        self._keeper = keeper = Keeper(service, self._gang, lambda: self._steps, self._raise_flag)
        grant = keeper.begin()
        if self._rank == 0:
            self._gang.clear()
        newest = self._vault.newest(grant.resume_from, lease)
        if newest is not None:
            self._resume(self._vault.path(newest), self._vault.place(newest.name), newest.step)
        elif grant.resume_from is not None:
            self._resume(Path(grant.resume_from), None, grant.steps_done)
        keeper.start()
        if newest is not None and self._rank == 0 and (grant.resume_from is None or newest.step > grant.steps_done):
            remark(f"step {newest.step} was saved while the daemon was away; committed now")
            self._commit(keeper, newest)

    def _resume(self, path: Path, place: Optional[Place], steps: int) -> None:
        self._load(str(path))
        self._steps = self._saved_step = steps
        if place is None:
            # A checkpoint of the script's own making: the place in the data follows from the number of steps, if passes have
            # a length.
            try:
                epoch, index = divmod(steps, len(self))
            except (TypeError, ZeroDivisionError):
                epoch, index = 0, steps
            place = Place(epoch, index, index > 0, None, None)
        self._epoch, self._index, self._is_in_pass = place.epoch, place.index, place.is_in_pass
        self._resumed = place

    def _pass(self) -> PlainIterator[T]:
        """The batches of the next pass, or the rest of one that was interrupted."""
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            if self._is_in_pass:
                # The script left a pass before its end: that counts as one.
                self._epoch += 1
            self._index = 0
            return self._fresh_pass(self._loader)
        if not resumed.is_in_pass:
            self._streams.restore(resumed.streams)
            return self._fresh_pass(self._loader)
        self._streams.restore(resumed.pass_streams)
        following = self._fresh_pass(self._loader if self._rest is None else self._rest(self._index))
        if self._rest is None:
            self._drop(following, self._index)
        self._streams.restore(resumed.streams)
        return following

    def _fresh_pass(self, batches: Iterable[T]) -> PlainIterator[T]:
        self._is_in_pass = True
        if self._keeper is not None:
            self._pass_streams = self._streams.state()
        return iter(batches)

    @staticmethod
    def _drop(batches: PlainIterator[T], count: int) -> None:
        for dropped in range(count):
            try:
                next(batches)
            except StopIteration:
                raise RotaError(
                    f"the loader ends after {dropped} batches, but the job was stopped after {count} of this pass; "
                    "is it the same data as before?"
                ) from None

    # Between two steps.

    def _raise_flag(self) -> None:
        self._look_up = True

    def _between_steps(self) -> None:
        # The keeper may raise the flag at any moment: it is lowered before the keeper is looked at.
        self._look_up = False
        keeper = self._keeper
        if keeper is None:
            return
        if self._steps == self._begun_at:
            self._look_up = True
        elif self._begun_at is not None:
            self._begun_at = None
            keeper.first_step_is_done()
        if self._steps == self._save_at and self._save_every is not None:
            # Also when the run is about to stop: the other ranks save after this step, too, and do not know of it yet.
            self._save_at += self._save_every
            self._save_and_commit(keeper)
        if keeper.ending is not None:
            self._look_up = True
            last_step = keeper.hold()
            if last_step is None or self._steps >= last_step:
                self._stop(keeper)

    def _stop(self, keeper: Keeper) -> None:
        """Saves, commits and leaves."""
        if keeper.ending is not Ending.REFUSED:
            self._save_and_commit(keeper)
        keeper.finish()
        self._is_done = True
        why = keeper.ending.value if keeper.ending is not None else ""
        remark(f"stopped after step {self._steps}: {why}")
        if self._exits:
            raise SystemExit(EXIT_CODE)

    def _save_and_commit(self, keeper: Keeper) -> None:
        if self._steps == self._saved_step:
            return
        checkpoint = Checkpoint(self._steps, keeper.service.lease)
        place = Place(self._epoch, self._index, self._is_in_pass, self._pass_streams, self._streams.state())
        try:
            if self._vault.write(checkpoint, place, self._save, keeper.seconds_left):
                self._commit(keeper, checkpoint)
        finally:
            # The other ranks do not wait for a save that has failed.
            if self._rank == 0 and self._world > 1:
                self._gang.tell_saved(checkpoint)
        if self._rank > 0:
            self._gang.await_saved(checkpoint, keeper.is_hopeless)
        self._saved_step = checkpoint.step

    def _commit(self, keeper: Keeper, checkpoint: Checkpoint) -> None:
        """Tells the daemon of a checkpoint. One that it could not be told of is committed by the next lease."""
        try:
            self._patiently(lambda keeper: keeper.service.commit(checkpoint.step, checkpoint.name))
        except REFUSALS as error:
            remark(f"the checkpoint of step {checkpoint.step} is refused: {error}")
        except (Unreachable, Problem) as error:
            remark(f"the checkpoint of step {checkpoint.step} is saved, but not committed: {error}")
        else:
            self._vault.keep_only(checkpoint)

    def _patiently(self, tell: Callable[[Keeper], None]) -> None:
        """Tells the daemon something, again and again while it is being restarted."""
        keeper = self._keeper
        assert keeper is not None  # noqa: S101 - only called with a lease
        # A run that goes on saves again later.
        is_urgent = keeper.ending is not None and not keeper.is_away
        until = time.monotonic() + (min(COMMIT_SECONDS_MAX, keeper.seconds_left) if is_urgent else 0.0)
        while True:
            try:
                return tell(keeper)
            except ABSENT:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise RotaError(f"ROTA_LEASE_ADDR is set, but {name} is not: both are set by the daemon when it starts a job")
    return value


def _count(name: str, default: int) -> int:
    """A number from the environment, as PyTorch's own launcher sets it."""
    text: Union[str, None] = os.environ.get(name)
    try:
        return default if not text else int(text)
    except ValueError:
        raise ValueError(f"{name} is `{text}`, which is no whole number") from None
