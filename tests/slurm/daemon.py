"""A daemon of Rota beside a Slurm of the tests' own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from cluster import Cluster, reachable
from commands import Recorded

ROTA = str(Path(os.environ.get("ROTA_BINARY", str(Path(__file__).parents[2] / "target/debug/rota"))).resolve())

SETTINGS = """
[workers]
listen = "127.0.0.1:0"
lost_after_seconds = {lost_after}

[jobs]
grace_seconds = 2.0
restart_seconds = 0.1

[engine]
kind = "slurm"

[engine.slurm]
address = "127.0.0.1"
virtual_gpus = true
gpus_max = {gpus_max}
idle_seconds = {idle}
time_limit_seconds = 1800.0
{more}
"""


class SocketConnection(http.client.HTTPConnection):
    """Speaks with the daemon over its socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Daemon:
    """`rota up --engine slurm` with virtual GPUs on the nodes. Leaving the `with` block ends it and all that it has started."""

    def __init__(self, cluster: Cluster, policy: str = "fcfs", gpus_max: int = 14, idle: float = 2.0, more: str = "") -> None:
        self.cluster = cluster
        self.policy = policy
        self.made = tempfile.TemporaryDirectory(prefix="rota-engine-")
        self.folder = Path(self.made.name)
        self.folder.chmod(0o777)
        self.state = self.folder / "state"
        self.program = reachable(ROTA, self.folder)
        self.recorded = Recorded(self.folder)
        self.environment = self.recorded.environment(cluster.environment)
        (self.folder / "rota.toml").write_text(SETTINGS.format(gpus_max=gpus_max, idle=idle, more=more, lost_after=5.0))
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGTERM)
        self.cluster.call(["scancel", "--quiet", "--user", str(self.cluster.uid)], check=False)
        Cluster.wait_for(lambda: not self.cluster.squeue("%i"), 30)
        self.made.cleanup()

    def start(self) -> None:
        """Starts it and waits until it can be spoken to."""
        if self.process is not None:
            self.kill()
        log = (self.folder / "daemon.log").open("a")
        self.process = subprocess.Popen(
            [
                self.program,
                "up",
                "--config",
                str(self.folder / "rota.toml"),
                "--policy",
                self.policy,
                "--state",
                str(self.state),
            ],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            **self.cluster.rights(),
        )
        log.close()
        line = self.process.stdout.readline()
        if "rota is ready" not in line:
            raise RuntimeError((self.folder / "daemon.log").read_text())

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Ends the daemon; jobs run on."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(60)
        self.process.stdout.close()
        self.process = None

    def rota(self, *arguments: str, check: bool = True) -> str:
        """A command of Rota's."""
        done = subprocess.run(
            [self.program, *arguments, "--state", str(self.state)] if "--" not in arguments else self.before_dashes(arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            **self.cluster.rights(),
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"rota {' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def before_dashes(self, arguments: tuple[str, ...]) -> list[str]:
        at = arguments.index("--")
        return [self.program, *arguments[:at], "--state", str(self.state), *arguments[at:]]

    def submit(self, *arguments: str) -> int:
        """Gives a job to the queue."""
        return int(self.rota("submit", *arguments).split()[-1])

    def jobs(self) -> dict[int, dict]:
        """All jobs by their numbers."""
        return {job["id"]: job for job in json.loads(self.rota("queue", "--all", "--json"))}

    def wait_over(self, ids: list[int], seconds: float) -> dict[int, dict]:
        """Waits until jobs are over, and gives them."""

        def are_over() -> bool:
            states = {job["id"]: job["state"] for job in self.jobs().values()}
            return all(states[number] in ("done", "failed", "cancelled", "lost") for number in ids)

        if not Cluster.wait_for(are_over, seconds, every=0.5):
            told = {number: (job["state"], job["reason"]) for number, job in self.jobs().items()}
            raise AssertionError(f"not over after {seconds} s: {told}\n{self.report()}")
        return self.jobs()

    def events(self, job: int) -> list[dict]:
        """What happened to a job, in order."""
        with contextlib.closing(SocketConnection(str(self.state / "rota.sock"))) as connection:
            connection.request("GET", f"/api/v1/jobs/{job}/events")
            return json.loads(connection.getresponse().read())

    def requests(self) -> list[str]:
        """The arguments of each `sbatch` that asked for an allocation."""
        return [arguments for _, _, arguments in self.recorded.calls("sbatch") if arguments != "--version"]

    def allocations(self) -> list[str]:
        """The allocations that Slurm lists as waiting or running."""
        return [line for line in self.cluster.squeue("%i %T %j %N") if " rota-" in line]

    def report(self) -> str:
        """What is known when something went wrong."""
        parts = [(self.folder / "daemon.log").read_text(), "\n".join(self.cluster.squeue("%i %T %j %N %r"))]
        parts += [f"{path.name}: {path.read_text(errors='replace')}" for path in sorted(self.state.glob("slurm/*.log"))[-3:]]
        parts.append(self.rota("status", check=False))
        return "\n".join(parts)
