"""The clock of a job that was submitted with `rota submit --budget SECONDS --extra-gpus N`.

One thread speaks to the daemon's lease service. A step of the training compares two numbers. While the daemon is away the time
is counted on, and nothing changes: GPUs that were offered stay, because only the daemon can ask for them back.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Optional

from .._errors import Conflict, NotFound, RotaError, Unauthorized
from .._lease.service import Service
from .clock import Change, Clock, check_budget
from .errors import CannotGrow

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 2.0


def clock_of_job(budget: Optional[float]) -> Optional[Clock]:
    """The daemon's clock, in a job that has a budget. A budget given in the script may be shorter than the job's."""
    told = os.environ.get("ROTA_BUDGET_SECONDS")
    address, token = os.environ.get("ROTA_LEASE_ADDR"), os.environ.get("ROTA_LEASE_TOKEN")
    if told is None or address is None or token is None:
        return None
    try:
        seconds = float(told)
        check_budget(seconds)
        lease, rank = int(os.environ["ROTA_LEASE"]), int(os.environ.get("RANK", "0"))
    except (KeyError, ValueError) as error:
        raise CannotGrow(f"the environment of the job is damaged: ROTA_BUDGET_SECONDS={told!r}: {error}") from error
    if budget is not None:
        check_budget(budget)
        seconds = min(seconds, float(budget))
    clock = JobClock(seconds, Service(address, token, lease, rank, 1))
    if rank == 0:
        clock.start()
    return clock


class JobClock:
    """Time and GPUs as the daemon tells them."""

    def __init__(self, budget: float, service: Service) -> None:
        self._budget, self._service = budget, service
        self._end_at = time.monotonic() + budget
        self._uuids: tuple[str, ...] = ()
        self._heard = 0
        self._given_back = threading.Event()
        self._wake = threading.Event()

    def start(self) -> None:
        """Starts to listen."""
        for work, name in ((self._speak, "rota-extras"), (self._listen, "rota-offers")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def time_budget(self) -> float:
        """The seconds of the job, or of the script if it asked for less."""
        return self._budget

    def time_left(self) -> float:
        """The seconds that are left."""
        return max(self._end_at - time.monotonic(), 0.0)

    def allocation(self) -> Change:
        """Whether the usable GPUs have changed since the last question."""
        usable = len(self._uuids)
        if usable == self._heard:
            return "same"
        change: Change = "up" if usable > self._heard else "down"
        self._heard = usable
        return change

    def gpus(self) -> int:
        """The extra GPUs that the last change left."""
        return self._heard

    def devices(self) -> list[int]:
        """The extra GPUs as PyTorch counts them: their places in `CUDA_VISIBLE_DEVICES`."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        return [visible.index(uuid) for uuid in self._uuids if uuid in visible]

    def given_back(self) -> None:
        """Tells the daemon that the GPUs it asked for are free."""
        self._given_back.set()
        self._wake.set()

    def _speak(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                if self._given_back.is_set():
                    self._service.give_back(self._heard)
                    self._given_back.clear()
                extras = self._service.extras()
                self._end_at = min(self._end_at, time.monotonic() + extras.seconds_left)
                self._uuids = extras.uuids
                pause = RETRY_SECONDS_MIN
                self._wake.wait()
                self._wake.clear()
            except (Conflict, NotFound, Unauthorized):
                # The run is over for the daemon; its stop is told elsewhere.
                return
            except RotaError:
                time.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _listen(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                # An offer between the last answer and the beginning of the stream is asked for.
                for notice in self._service.notices(on_open=self._wake.set):
                    pause = RETRY_SECONDS_MIN
                    if notice.get("notice") == "extras":
                        self._wake.set()
            except (Conflict, NotFound, Unauthorized):
                return
            except RotaError:
                pass
            time.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
