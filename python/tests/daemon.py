"""A daemon of the test's own, in a folder of its own, taken away with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Callable, Optional

import rota

ROOT = Path(__file__).resolve().parents[2]

# Nothing that is waited for here takes this long, even on a machine that does much else.
PATIENCE_SECONDS = 60.0


def program() -> Path:
    """The program under test: `ROTA_BINARY`, or what was built last in this repository."""
    named = os.environ.get("ROTA_BINARY")
    if named:
        return Path(named).resolve()
    built = [path for kind in ("debug", "release") if (path := ROOT / "target" / kind / "rota").exists()]
    if not built:
        raise FileNotFoundError("there is no `rota` to test: build it with `cargo build`, or name it with ROTA_BINARY")
    return max(built, key=lambda path: path.stat().st_mtime)


def until(what: str, holds: Callable[[], bool]) -> None:
    since = time.monotonic()
    while not holds():
        if time.monotonic() - since > PATIENCE_SECONDS:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.005)


def until_file(path: Path) -> str:
    """A line for the shell that goes on until a file is there."""
    return f"while [ ! -e '{path}' ]; do sleep 0.02; done"


class Daemon:
    def __init__(self, folder: Path, gpus: str, *arguments: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        self._arguments = ["--virtual-gpus", gpus, *arguments]
        self._process: Optional[subprocess.Popen[str]] = None
        self.up()

    def up(self) -> None:
        """Starts it, and waits until it is ready."""
        with (self.folder / "daemon.log").open("a") as log:
            self._process = subprocess.Popen(
                [program(), "up", "--foreground", "--state", self.state, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=without_rota(),
            )
        assert self._process.stdout is not None
        greeting = self._process.stdout.readline()
        if not greeting.startswith("rota is ready"):
            raise AssertionError(f"it said: {greeting}{(self.folder / 'daemon.log').read_text()}")

    def add(self, *arguments: str) -> None:
        """What it is to be started with from now on, too."""
        self._arguments.extend(arguments)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.up()

    def away(self) -> None:
        """Ends it, and all jobs with it."""
        if self._process is None:
            self.up()
        client = rota.Client(self.state)
        client.drain()

        def running() -> list[rota.Job]:
            return [job for job in client.jobs() if job.state not in ("waiting", "held")]

        for job in running():
            # It may have ended by itself.
            with contextlib.suppress(rota.Problem):
                client.cancel(job)
        until("nothing runs any more", lambda: not running())
        self.kill(signal.SIGTERM)


def without_rota() -> dict[str, str]:
    """The environment of this process, but for what a queue that it runs in has put there."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ROTA_", "CUDA_"))}


class DaemonTest(unittest.TestCase):
    """A test with a daemon, a client of it, and a folder for files."""

    gpus = "a100:2"
    arguments: tuple[str, ...] = ()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-python-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemon = Daemon(self.folder, self.gpus, *self.arguments)
        self.addCleanup(self.daemon.away)
        self.client = rota.Client(self.daemon.state)

    def blocked(self, gpus: int = 1, client: Optional[rota.Client] = None) -> tuple[rota.Job, Path]:
        """A job that runs until a file is there."""
        go = self.folder / f"go-{time.monotonic_ns()}"
        job = (client or self.client).submit(until_file(go), gpus=gpus)
        self.until_state(job, "running")
        return job, go

    def until_state(self, job: rota.Job, state: str) -> None:
        until(f"job {job.id} is {state}", lambda: self.client.job(job).state == state)
