"""The lease of a run: asked for once, renewed after three quarters of it, and ended by a notice, by its time, or by the
daemon's word.

Two threads do the talking, so that a step of the training costs a counter and a flag: one renews and tells progress, one
hears notices. While the daemon is away the lease goes on to its end. A lease that is refused (a newer one exists, or the job
is gone) ends at once.
"""

from __future__ import annotations

import sys
import threading
import time
from enum import Enum
from typing import Callable, Optional

from .._errors import Conflict, NotFound, Problem, RotaError, Stopping, Unauthorized, Unavailable, Unreachable
from .gang import Gang
from .service import Grant, Service

RENEW_AT = 0.75
"""The part of a lease after which it is renewed."""

PROGRESS_SECONDS_MIN, PROGRESS_SECONDS_MAX = 1.0, 15.0
"""Progress is told soon after the start, then more and more seldom."""

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 2.0

GANG_POLL_SECONDS = 0.2
"""How often a rank looks whether another rank has begun to stop, while the daemon does not answer."""

GRACE_SECONDS = 60.0
"""How long a job may take to leave, as long as the daemon has said nothing else."""

ABSENT = (Unreachable, Stopping, Unavailable)
"""The daemon is being restarted, or cannot write at present."""

REFUSALS = (Conflict, NotFound, Unauthorized)
"""The lease is over: a newer one exists, the job is gone, or the token is not known any more."""


class Ending(Enum):
    """Why a run stops."""

    NOTICE = "the daemon asked the job to stop"
    LEASE_OVER = "the lease ran out"
    REFUSED = "the daemon refused the lease"


class Keeper:
    """Keeps the lease. `steps` tells how many batches were handed out; `alert` is called when the loop has to look up."""

    def __init__(self, service: Service, gang: Gang, steps: Callable[[], int], alert: Callable[[], None]) -> None:
        self.service, self._gang, self._steps, self._alert = service, gang, steps, alert
        self.ending: Optional[Ending] = None
        self.last_step: Optional[int] = None
        self.is_away = False
        self._end_by = float("inf")
        self._wake = threading.Event()
        self._decided = threading.Event()
        self._over = threading.Event()
        self._began = 0.0
        self._max_seconds = 0.0
        self._renew_at = 0.0
        self._told_steps = -1

    def begin(self) -> Grant:
        """Asks for the lease, for as long as it takes, and starts the threads."""
        pause, told = RETRY_SECONDS_MIN, False
        while True:
            try:
                grant = self.service.grant()
                break
            except ABSENT as error:
                if not told:
                    remark(f"waiting for the lease: {error}")
                    told = True
                time.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
        self._began = time.monotonic()
        self._max_seconds = grant.max_seconds
        self._renew_at = grant.max_seconds * RENEW_AT
        return grant

    def start(self) -> None:
        """Starts the threads, once the loop knows where it goes on."""
        for work, name in ((self._renew, "rota-lease"), (self._listen, "rota-notices")):
            threading.Thread(target=work, name=name, daemon=True).start()

    @property
    def seconds(self) -> float:
        """How long this lease has run."""
        return time.monotonic() - self._began

    def first_step_is_done(self) -> None:
        """Progress is worth telling now: the daemon learns what a start costs."""
        self._wake.set()

    def hold(self) -> Optional[int]:
        """Called between two steps when the run is to stop. Returns the last step, or None if that is this one."""
        if self.ending is Ending.REFUSED or self._gang.world == 1:
            return None
        while not self._decided.wait(0.1):
            if self.is_hopeless():
                break
        self._gang.await_all(self.is_hopeless)
        return self.last_step

    def is_hopeless(self) -> bool:
        """Whether there is no time left to wait for other ranks."""
        return time.monotonic() > self._end_by

    @property
    def seconds_left(self) -> float:
        """How long the run may still take to leave."""
        return max(self._end_by - time.monotonic(), 0.0) if self._end_by != float("inf") else GRACE_SECONDS

    def finish(self) -> None:
        """Ends the threads."""
        self._over.set()
        self._wake.set()

    # The thread that renews.

    def _renew(self) -> None:
        progress_at, progress_pause, retry = float("inf"), PROGRESS_SECONDS_MIN, RETRY_SECONDS_MIN
        retry_at = 0.0
        while not self._over.is_set() and not self._decided.is_set():
            due = min(self._renew_at, progress_at) if self.ending is None else 0.0
            due = max(due, retry_at)
            # The end of the lease is met at its moment, even if the daemon has been away since.
            due = min(due, self._max_seconds) if self.ending is None else due
            wait = due - self.seconds
            if self._gang.world > 1 and self.is_away:
                wait = min(wait, GANG_POLL_SECONDS)
            woken = self._wake.wait(max(wait, 0.0) if wait < threading.TIMEOUT_MAX else None)
            self._wake.clear()
            if self._over.is_set():
                return
            if self._gang.world > 1 and self.ending is None and self._gang.agreed() is not None:
                self._end(Ending.NOTICE)
            if woken and self.ending is None:
                progress_at = 0.0
            if self.seconds < retry_at and self.seconds < self._max_seconds and self.ending is None:
                continue
            try:
                if self.is_away and self._gang.world > 1:
                    # A daemon that was started again does not know how many ranks there are.
                    self.service.grant()
                if self.ending is not None or self.seconds >= self._renew_at:
                    self._ask()
                if self.ending is None and self.seconds >= progress_at:
                    self._tell_progress()
                    progress_at = self.seconds + progress_pause
                    progress_pause = min(progress_pause * 2, PROGRESS_SECONDS_MAX)
                self.is_away, retry, retry_at = False, RETRY_SECONDS_MIN, 0.0
            except REFUSALS as error:
                remark(f"the lease is refused: {error}")
                self._end(Ending.REFUSED, 0.0)
                self._decided.set()
            except RotaError as error:
                if isinstance(error, Problem) and not self.is_away:
                    remark(f"the lease service: {error}")
                self.is_away = True
                retry_at, retry = self.seconds + retry, min(retry * 2, RETRY_SECONDS_MAX)
                if self.ending is None and self.seconds >= self._max_seconds:
                    self._end(Ending.LEASE_OVER)
                if self.ending is not None:
                    self._decide(None)

    def _ask(self) -> None:
        """One renewal, and what it means."""
        steps, seconds = self._steps(), self.seconds
        renewal = self.service.renew(steps, seconds)
        self._told_steps = steps
        before, self._max_seconds = self._max_seconds, renewal.max_seconds
        if renewal.is_stop:
            self._end(Ending.NOTICE, renewal.grace_seconds)
        elif renewal.max_seconds > before:
            self._renew_at = before + RENEW_AT * (renewal.max_seconds - before)
        elif self.seconds >= self._max_seconds:
            self._end(Ending.LEASE_OVER, renewal.grace_seconds)
        else:
            # It was not extended: asked once more when it ends, because another job may have gone meanwhile.
            self._renew_at = self._max_seconds
        if self.ending is not None:
            self._decide(renewal.last_step)

    def _decide(self, last_step: Optional[int]) -> None:
        """The daemon has answered, or cannot. The flag is up by now, so this rank begins no step beyond the one it proposes."""
        if self._gang.world > 1:
            self.last_step = self._gang.agree(max(self._steps() + 1, last_step or 0))
        self._decided.set()
        self._alert()

    def _tell_progress(self) -> None:
        steps = self._steps()
        if steps != self._told_steps:
            self.service.progress(steps, self.seconds)
            self._told_steps = steps

    def _end(self, ending: Ending, grace_seconds: Optional[float] = None) -> None:
        if self.ending is None:
            self.ending = ending
            self._end_by = time.monotonic() + (GRACE_SECONDS if grace_seconds is None else grace_seconds)
            self._alert()

    # The thread that listens.

    def _listen(self) -> None:
        pause = RETRY_SECONDS_MIN
        while not self._over.is_set() and self.ending is None:
            try:
                for notice in self.service.notices():
                    pause = RETRY_SECONDS_MIN
                    self._heed(notice)
                    if self._over.is_set() or self.ending is not None:
                        return
            except REFUSALS:
                # The renewal is told the same, and acts on it.
                self._renew_at = 0.0
                self._wake.set()
            except RotaError:
                pass
            self._over.wait(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _heed(self, notice: dict[str, object]) -> None:
        grace, extended = notice.get("grace_seconds"), notice.get("max_seconds")
        if notice.get("notice") == "stop":
            self._end(Ending.NOTICE, float(grace) if isinstance(grace, (int, float)) else None)
            self._wake.set()
        elif notice.get("notice") == "extended" and isinstance(extended, (int, float)) and extended > self._max_seconds:
            self._renew_at = self._max_seconds + RENEW_AT * (float(extended) - self._max_seconds)
            self._max_seconds = float(extended)
            self._wake.set()


def remark(text: str) -> None:
    """A line in the job's log."""
    print(f"rota: {text}", file=sys.stderr, flush=True)
