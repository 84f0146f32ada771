"""Accidents to a queue on Slurm: daemon, workers, slurmd and slurmctld are killed, allocations cancelled, nodes drained.

    python3 tests/slurm/accidents.py [--rounds N] [--seed S] [--plain]

In each round jobs are given to the queue and one accident happens. In the end every job is done, none has run twice at once,
the queue has gone on by itself, and no allocation is left in Slurm. A finding prints the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import NODES, Cluster
from daemon import Daemon

# A run takes locks that no other run of its job may have, and tells a shared file of its beginning and its end. A job on
# several nodes has a process on each: those of one attempt are one run.
JOB = """
import fcntl, glob, os, sys, time
folder, job, attempt = sys.argv[1], os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"]
rank = os.environ.get("RANK", "0")
def tell(word):
    with open(folder + "/runs", "a") as runs:
        fcntl.flock(runs, fcntl.LOCK_EX)
        runs.write(f"{word} {job} {attempt} {rank} at {time.time():.2f} on {os.environ['ROTA_GPUS']}\\n")
def is_free(path):
    with open(path, "a") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
with open(f"{folder}/gate-{job}", "a") as gate:
    fcntl.flock(gate, fcntl.LOCK_EX)
    path = f"{folder}/lock-{job}-{attempt}-{rank}"
    others = [other for other in glob.glob(f"{folder}/lock-{job}-*") if not other.startswith(f"{folder}/lock-{job}-{attempt}-")]
    alone = all(is_free(other) for other in [path, *others])
    if alone:
        own = open(path, "a")
        fcntl.flock(own, fcntl.LOCK_EX)
if not alone:
    tell("TWICE")
    sys.exit(9)
tell("began")
time.sleep(float(sys.argv[2]))
tell("ended")
"""


class Finding(AssertionError):
    """Something that must hold did not."""


class Campaign:
    """Rounds of accidents, drawn from a seed."""

    def __init__(self, cluster: Cluster, daemon: Daemon, seed: int) -> None:
        self.cluster, self.daemon, self.draw = cluster, daemon, random.Random(seed)
        self.ids: list[int] = []
        (daemon.folder / "job.py").write_text(JOB)
        self.accidents = {
            "daemon killed": self.kill_daemon,
            "worker killed": self.kill_worker,
            "slurmd killed": self.kill_node,
            "slurmctld killed": self.kill_controller,
            "slurmctld killed after a submit": self.kill_controller_after_submit,
            "allocation cancelled": self.cancel_allocation,
            "node drained": self.drain_node,
        }

    def submit(self, count: int) -> None:
        """Gives jobs of one or two GPUs to the queue."""
        for _ in range(count):
            kind = self.draw.choice(["v100", "p100", "k80", None])
            gpus = self.draw.choice([1, 1, 1, 2])
            words = ["-g", str(gpus), *(["--gpu-type", kind] if kind else [])]
            seconds = f"{self.draw.uniform(0.2, 8):.2f}"
            command = ["/usr/bin/python3", str(self.daemon.folder / "job.py"), str(self.daemon.folder), seconds]
            self.ids.append(self.daemon.submit(*words, "--retries", "20", "--", *command))

    def round(self, number: int) -> None:
        self.submit(self.draw.randint(1, 4))
        time.sleep(self.draw.uniform(0, 5))
        name = self.draw.choice(list(self.accidents))
        print(f"round {number}: {name}", file=sys.stderr, flush=True)
        self.accidents[name]()

    def finish(self, seconds: float) -> None:
        """What must hold when everything has come to rest."""
        jobs = self.daemon.wait_over(self.ids, seconds)
        wrong = {
            number: (jobs[number]["state"], jobs[number]["reason"]) for number in self.ids if jobs[number]["state"] != "done"
        }
        runs = (self.daemon.folder / "runs").read_text().splitlines()
        if wrong:
            raise Finding(f"not done: {wrong}")
        if any(line.startswith("TWICE") for line in runs):
            twice = {line.split()[1] for line in runs if line.startswith("TWICE")}
            told = "\n".join(self.daemon.rota("show", job, check=False) for job in sorted(twice))
            raise Finding(f"ran twice at once: {[line for line in runs if line.split()[1] in twice]}\n{told}")
        ended = {int(line.split()[1]) for line in runs if line.startswith("ended")}
        if ended != set(self.ids):
            raise Finding(f"done, but never ended: {set(self.ids) - ended}")
        if not Cluster.wait_for(lambda: not self.daemon.allocations(), 120):
            raise Finding(f"left in Slurm: {self.daemon.allocations()}")

    # -- accidents

    def kill_daemon(self) -> None:
        self.daemon.kill()
        time.sleep(self.draw.uniform(0, 2))
        self.daemon.start()

    def kill_worker(self) -> None:
        mark = f"{self.daemon.state}/slurm/".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"worker" and any(word.startswith(mark) for word in words):
                found.append(int(folder.name))
        if found:
            os.kill(self.draw.choice(sorted(found)), signal.SIGKILL)

    def kill_node(self) -> None:
        node = self.draw.choice(NODES)[0]
        self.cluster.kill(f"slurmd-{node}")
        time.sleep(self.draw.uniform(0, 3))
        self.cluster.start_node(node)

    def kill_controller(self) -> None:
        self.cluster.kill("slurmctld")
        time.sleep(self.draw.uniform(0, 3))
        self.cluster.start_controller(fresh=False)

    def kill_controller_after_submit(self) -> None:
        before = len(self.daemon.requests())
        self.submit(2)
        Cluster.wait_for(lambda: len(self.daemon.requests()) > before, 5)
        time.sleep(1.5)
        self.kill_controller()

    def cancel_allocation(self) -> None:
        if allocations := self.daemon.allocations():
            self.cluster.call(["scancel", self.draw.choice(allocations).split()[0]], check=False)

    def drain_node(self) -> None:
        node = self.draw.choice(NODES)[0]
        self.cluster.call(["scontrol", "update", f"nodename={node}", "state=drain", "reason=test"], check=False)
        time.sleep(self.draw.uniform(0, 3))
        self.cluster.call(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)


def resume_nodes(cluster: Cluster) -> None:
    """A controller that lost its memory drains nodes with jobs that it does not know. An administrator resumes them."""
    for line in cluster.call(["sinfo", "-h", "-N", "-o", "%N %T"], check=False).splitlines():
        node, state = line.split()
        if state.startswith(("drain", "down")):
            cluster.call(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)


def campaign(rounds: int, seed: int, plain: bool = False) -> None:
    with Cluster(plain=plain) as cluster, Daemon(cluster, gpus_max=8, idle=2.0) as daemon:
        running = Campaign(cluster, daemon, seed)
        try:
            for number in range(1, rounds + 1):
                running.round(number)
                resume_nodes(cluster)
            deadline = time.monotonic() + 300 + 20 * rounds
            while True:
                try:
                    running.finish(20)
                    break
                except AssertionError as error:
                    resume_nodes(cluster)
                    if isinstance(error, Finding) or time.monotonic() > deadline:
                        raise
        except Exception:
            print(f"seed {seed}, {rounds} rounds\n{daemon.report()}", file=sys.stderr)
            raise
        runs = [line.split() for line in (daemon.folder / "runs").read_text().splitlines()]
        began = sum(word == "began" and rank == "0" for word, _, _, rank, *_ in runs)
        gangs = sum(word == "began" and rank == "1" for word, _, _, rank, *_ in runs)
        told = f"{began} runs, {gangs} of them on several nodes: all done, none twice, nothing left"
        print(f"{rounds} rounds, {len(running.ids)} jobs, {told}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    campaign(args.rounds, args.seed, args.plain)


if __name__ == "__main__":
    main()
