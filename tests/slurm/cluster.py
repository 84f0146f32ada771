"""A Slurm of the tests' own on this machine: munge, one controller, four nodes with three GPU types.

Everything is in one folder, on ports that were free a moment ago. The scheduler's settings are Slurm's defaults. The daemons
run in the foreground, so that each is stopped by its process id. As root the daemons can also be those of a plain user.

    python3 tests/slurm/cluster.py [--plain] [-- COMMAND…]      runs COMMAND (or a shell) with SLURM_CONF set
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Name, GPU type, GPUs.
NODES = [("v1", "v100", 4), ("v2", "v100", 4), ("p1", "p100", 4), ("k1", "k80", 2)]
# Partitions of a node are several: `sinfo -N` lists it once for each.
PARTITIONS = {"main": ("v1,v2,p1,k1", "INFINITE", "YES"), "short": ("v1,k1", "00:30:00", "NO")}
NOBODY = 65534
READY_SECONDS = 60
PACKAGES = ["slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "sinfo", "scontrol"]


class NotReady(Exception):
    """The cluster did not come up in time."""


def missing_programs() -> list[str]:
    """The programs of Slurm and munge that are not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [name for name in PACKAGES if shutil.which(name, path=path) is None]


def reachable(binary: str, folder: Path) -> str:
    """The program where a plain user can start it: the folders above it may be closed to others."""
    path = folder / "rota"
    try:
        os.link(Path(binary).resolve(), path)
    except OSError:
        shutil.copy2(binary, path)
    return str(path)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Cluster:
    """A running Slurm. Leaving the `with` block ends every process of it and removes its folder."""

    def __init__(self, plain: bool = False, extra: str = "") -> None:
        """With `plain`, and as root, the daemons are those of the user nobody. `extra` is more lines of slurm.conf."""
        self.uid = NOBODY if plain and os.geteuid() == 0 else os.geteuid()
        self.extra = extra
        self.folder = Path(tempfile.mkdtemp(prefix="rota-slurm-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = free_ports(1 + len(NODES))
        self.environment = dict(os.environ)
        self.environment["SLURM_CONF"] = str(self.folder / "etc/slurm.conf")
        self.environment["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        for name in [name for name in self.environment if name.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))]:
            if name != "SLURM_CONF":
                del self.environment[name]

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- life

    def start(self) -> None:
        """Writes the configuration, starts everything and waits until all nodes are idle."""
        for name in ["etc", "log", "state", "run", "dev", "munge", "spool"]:
            (self.folder / name).mkdir()
        (self.folder / "munge/key").write_bytes(os.urandom(128))
        (self.folder / "etc/slurm.conf").write_text(self.configuration())
        (self.folder / "etc/gres.conf").write_text(self.devices())
        # Newer versions ask for control groups even where no plugin uses them.
        (self.folder / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n" if self.version() >= (23, 11) else "")
        for node, _, _ in NODES:
            (self.folder / "spool" / node).mkdir()
        self.give_to_user()
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o700)
        (self.folder / "munge/key").chmod(0o600)
        self.start_munge()
        self.start_controller()
        for node, _, _ in NODES:
            self.start_node(node)
        self.wait_until_ready()

    def stop(self) -> None:
        """Ends all jobs and all processes, and removes the folder."""
        if "slurmctld" in self.processes and self.processes["slurmctld"].poll() is None:
            self.call(["scancel", "--quiet", "--user", str(self.uid)], check=False, seconds=10)
            self.wait_for(lambda: not self.squeue("%i"), 10)
        for name in reversed(list(self.processes)):
            self.kill(name, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Ends one of the daemons by its process id."""
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_munge(self) -> None:
        folder = self.folder
        paths = {"key-file": "munge/key", "socket": "run/munge.sock", "pid-file": "run/munged.pid", "seed-file": "munge/seed"}
        options = [f"--{name}={folder / path}" for name, path in paths.items()]
        self.spawn("munged", ["munged", "--foreground", "--force", f"--log-file={folder / 'log/munged.log'}", *options])
        if not self.wait_for(lambda: (folder / "run/munge.sock").exists(), READY_SECONDS):
            raise NotReady(self.log("munged"))

    def start_controller(self, fresh: bool = True) -> None:
        """Starts the controller; a controller that is started again takes up its state."""
        clean = ["-c"] if fresh else []
        self.spawn("slurmctld", ["slurmctld", "-D", *clean, "-f", self.environment["SLURM_CONF"]])

    def start_node(self, node: str) -> None:
        """Starts the daemon of a node."""
        self.spawn(f"slurmd-{node}", ["slurmd", "-D", "-N", node, "-f", self.environment["SLURM_CONF"]])

    def spawn(self, name: str, command: list[str]) -> None:
        with (self.folder / "log" / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                start_new_session=True,
                **self.rights(),
            )

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Waits until every node is idle."""

        def is_ready() -> bool:
            answer = self.call(["sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N"], check=False, seconds=12)
            return len(set(answer.split())) == len(NODES)

        if not self.wait_for(is_ready, seconds):
            nodes = self.call(["sinfo", "-N", "-l"], check=False, seconds=12)
            raise NotReady(
                f"not all nodes are idle after {seconds} s\n{nodes}\n{self.log('slurmctld')}\n{self.log('slurmd-v1')}"
            )

    # -- asking

    def call(self, command: list[str], check: bool = True, seconds: float = 30, uid: int | None = None) -> str:
        """Runs a command of Slurm, as the cluster's own user unless another is named."""
        rights = self.rights() if uid is None else self.rights(uid)
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds, cwd=self.folder, **rights
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def squeue(self, fields: str) -> list[str]:
        """The lines of `squeue` about jobs that wait or run."""
        return self.call(["squeue", "-h", "-a", "-o", fields], check=False, seconds=15).splitlines()

    @staticmethod
    def wait_for(condition, seconds: float, every: float = 0.1) -> bool:
        """Whether a condition came true in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return True
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() > deadline:
                return False
            time.sleep(every)

    def log(self, name: str) -> str:
        """The end of a daemon's output."""
        path = self.folder / "log" / f"{name}.out"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def rights(self, uid: int | None = None) -> dict:
        """What makes a process that of the cluster's user."""
        uid = self.uid if uid is None else uid
        return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}

    def version(self) -> tuple[int, int]:
        """The version of the installed Slurm."""
        # The clients answer only where they find a configuration.
        told = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True, env=self.environment).stdout
        major, minor = told.split()[-1].split(".")[:2]
        return int(major), int(minor)

    # -- files

    def give_to_user(self) -> None:
        if self.uid == os.geteuid():
            return
        for path in [self.folder, *self.folder.rglob("*")]:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def configuration(self) -> str:
        """The text of slurm.conf, with the scheduler's settings left at their defaults."""
        host, folder = socket.gethostname().split(".")[0], self.folder
        lines = [
            "ClusterName=rota",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={self.ports[0]}",
            f"SlurmUser={self.uid}",
            f"SlurmdUser={self.uid}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/run/munge.sock",
            f"SlurmctldPidFile={folder}/run/slurmctld.pid",
            f"SlurmdPidFile={folder}/run/slurmd-%n.pid",
            f"SlurmdSpoolDir={folder}/spool/%n",
            f"StateSaveLocation={folder}/state",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none" if self.version() < (23, 11) else "",
            "MpiDefault=none",
            "ReturnToService=2",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU",
            "GresTypes=gpu",
            "AccountingStorageType=accounting_storage/none" if self.version() < (23, 11) else "",
            "JobAcctGatherType=jobacct_gather/none" if self.version() < (23, 11) else "",
            "KillWait=5",
            "SlurmdTimeout=20",
            "SlurmctldTimeout=20",
            "SlurmdParameters=config_overrides",
            self.extra,
        ]
        for (node, kind, gpus), port in zip(NODES, self.ports[1:], strict=True):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 Boards=1 SocketsPerBoard=1"
                f" CoresPerSocket=16 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:{kind}:{gpus} State=UNKNOWN"
            )
        for name, (nodes, limit, default) in PARTITIONS.items():
            lines.append(f"PartitionName={name} Nodes={nodes} Default={default} MaxTime={limit} State=UP")
        return "\n".join(lines) + "\n"

    def devices(self) -> str:
        """The text of gres.conf. GPU files must be devices; a link to one will do."""
        lines = []
        for node, kind, gpus in NODES:
            for number in range(gpus):
                (self.folder / "dev" / f"{node}-gpu{number}").symlink_to("/dev/null")
            lines.append(f"NodeName={node} AutoDetect=off Name=gpu Type={kind} File={self.folder}/dev/{node}-gpu[0-{gpus - 1}]")
        return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="the daemons are those of the user nobody")
    parser.add_argument("command", nargs="*", default=[os.environ.get("SHELL", "/bin/sh")])
    args = parser.parse_args()
    began = time.monotonic()
    with Cluster(plain=args.plain) as cluster:
        print(f"slurm {'.'.join(map(str, cluster.version()))} is up after {time.monotonic() - began:.1f} s", file=sys.stderr)
        return subprocess.run(args.command, env=cluster.environment, **cluster.rights()).returncode


if __name__ == "__main__":
    sys.exit(main())
