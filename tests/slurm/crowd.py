"""Many jobs on a real Slurm beside a stranger who submits at random: right ends, the stranger served, GPUs kept over switches.

python3 tests/slurm/crowd.py [--jobs N] [--policy P …] [--seed S]

Jobs of one shape must first start as the simulator starts them. The stranger may wait for Slurm itself, while allocations of ours have the GPUs, and
behind requests for the same GPUs that came earlier; behind others until Slurm looks for gaps; for nothing else.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import NODES, Cluster
from daemon import Daemon

# Slurm's defaults (slurm.conf): batch jobs are scheduled after up to 3 s (batch_sched_delay), gaps are looked for every 30 s (bf_interval). Its
# controller wakes once a second, and its times are whole seconds.
BATCH_SECONDS = 3.0 + 2.0
GAPS_SECONDS = 30.0 + 2.0


@dataclass
class SlurmJob:
    """A job of Slurm's, by Slurm's clock, in seconds."""

    name: str
    submitted: float
    started: float
    ended: float
    nodes: list[str]
    gpus_a_node: int
    kind: str


def slurm_jobs(cluster: Cluster) -> list[SlurmJob]:
    """All jobs that are over and that Slurm still lists."""
    jobs = []
    for line in cluster.call(["squeue", "-h", "--states=all", "-o", "%j|%V|%S|%e|%N|%b"]).splitlines():
        name, submitted, started, ended, nodes, gres = line.split("|")
        if ended == "N/A":
            continue
        kind, gpus = gres.split("gpu:")[1].split(":")
        # One that was taken back before it had nodes waited until then.
        started = ended if started == "N/A" or not nodes else started
        hosts = cluster.call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []
        times = [time.mktime(time.strptime(moment, "%Y-%m-%dT%H:%M:%S")) for moment in (submitted, started, ended)]
        jobs.append(SlurmJob(name, *times, hosts, int(gpus), kind))
    return jobs


def idle_waits(job: SlurmJob, others: list[SlurmJob]) -> tuple[float, float]:
    """The longest times in which a job waited though a node had the GPUs: without an earlier job that waited, and behind one for other GPUs.

    Slurm starts jobs of a partition in order. Behind one that waits for other GPUs a job waits until the next look for gaps; GPUs that an earlier
    job waits for may be kept for it.
    """
    longest, now = [0.0, 0.0], [0.0, 0.0]
    for second in range(int(job.submitted), int(job.started)):
        ahead = [other for other in others if other.submitted <= job.submitted and other.started > second]
        held = dict.fromkeys([node for node, _, _ in NODES], 0)
        for other in others:
            if other.started <= second <= other.ended:
                for node in other.nodes:
                    held[node] += other.gpus_a_node
        has_room = any(kind == job.kind and gpus - held[node] >= job.gpus_a_node for node, kind, gpus in NODES)
        is_first = not any(other.kind == job.kind for other in ahead)
        for place, is_idle in enumerate([has_room and not ahead, has_room and is_first]):
            now[place] = now[place] + 1.0 if is_idle else 0.0
            longest[place] = max(longest[place], now[place])
    return longest[0], longest[1]


class Stranger(threading.Thread):
    """Another user of the cluster, who knows nothing of Rota."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.draw, self.ids = cluster, random.Random(seed), []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(self.draw.uniform(0.5, 4)):
            kind = self.draw.choice(["v100", "p100", "k80"])
            gpus, seconds = self.draw.choice([1, 1, 2]), self.draw.uniform(0.5, 3)
            words = ["sbatch", "--parsable", "-o", "/dev/null", "-J", "stranger", "--time=5", f"--gres=gpu:{kind}:{gpus}"]
            self.ids.append(self.cluster.call([*words, "--wrap", f"sleep {seconds:.1f}"]).strip())

    def finish(self, seconds: float) -> dict[str, str]:
        """Stops submitting and waits for the last job. Gives what became of each."""
        self.is_over.set()
        self.join()

        def states() -> dict[str, str]:
            lines = self.cluster.call(["squeue", "-h", "--states=all", "--name=stranger", "-o", "%i %T"]).splitlines()
            return dict(line.split() for line in lines)

        Cluster.wait_for(lambda: not set(states().values()) & {"PENDING", "RUNNING", "COMPLETING"}, seconds)
        return states()


def submit_all(daemon: Daemon, jobs: int, seed: int) -> tuple[dict[int, int], dict[int, tuple[int, str]]]:
    """Gives jobs to the queue. Gives the exit code that each must have, and its shape."""
    draw, wanted, shapes = random.Random(seed), {}, {}
    for number in range(jobs):
        gpus = draw.choice([1, 1, 1, 1, 2, 2, 4, 8])
        kind = "v100" if gpus > 2 else draw.choice(["v100", "p100", "k80"])
        code = 3 if number % 10 == 9 else 0
        command = ["sh", "-c", f"sleep {draw.uniform(0.1, 1.0):.2f}; exit {code}"]
        job = daemon.submit("-g", str(gpus), "--gpu-type", kind, "--preemptible", "--", *command)
        wanted[job], shapes[job] = code, (gpus, kind)
    return wanted, shapes


def crowd(policy: str, jobs: int, seed: int) -> dict[str, float]:
    """Runs jobs under a policy and gives what was counted. Raises where something must hold and does not."""
    with Cluster() as cluster, Daemon(cluster, policy=policy, gpus_max=14, idle=3.0) as daemon:
        stranger = Stranger(cluster, seed)
        stranger.start()
        began = time.monotonic()
        wanted, shapes = submit_all(daemon, jobs, seed)
        over = daemon.wait_over(list(wanted), 120 + 6 * jobs)
        seconds = time.monotonic() - began
        wrong = {
            job: (over[job]["state"], over[job]["exit_code"], over[job]["reason"])
            for job, code in wanted.items()
            if over[job]["exit_code"] != code
        }
        if wrong:
            raise AssertionError(f"{policy}: wrong ends: {wrong}\n{daemon.report()}")
        strangers = stranger.finish(120)
        bad = {job: state for job, state in strangers.items() if state != "COMPLETED"}
        if bad:
            raise AssertionError(f"{policy}: the stranger's jobs: {bad}\n{daemon.report()}")
        delays = check_stranger(cluster)
        in_order = check_order(daemon, policy, shapes)
        if not Cluster.wait_for(lambda: not daemon.allocations(), 60):
            raise AssertionError(f"{policy}: left in Slurm: {daemon.allocations()}")
        runs = sum(over[job]["attempts"] for job in wanted)
        allocations = len(daemon.requests())
        return {
            "jobs": jobs,
            "seconds": seconds,
            "runs": runs,
            "allocations": allocations,
            "switches": runs - allocations,
            "strangers": len(strangers),
            **delays,
            "pairs started as simulated": in_order,
        }


def check_stranger(cluster: Cluster) -> dict[str, float]:
    """Nothing but Slurm itself and allocations of ours has kept the stranger waiting."""
    jobs = slurm_jobs(cluster)
    strangers = [job for job in jobs if job.name == "stranger"]
    waits = [job.started - job.submitted for job in strangers]
    idle = [idle_waits(job, [other for other in jobs if other is not job]) for job in strangers]
    for job, (alone, behind) in zip(strangers, idle, strict=True):
        if alone > BATCH_SECONDS or behind > GAPS_SECONDS:
            raise AssertionError(f"the stranger waited {alone:.0f} s for nothing, {behind:.0f} s behind others: {job}\n{jobs}")
    return {
        "longest wait of the stranger": max(waits),
        "while its GPUs were free": max(alone for alone, _ in idle),
        "behind requests for other GPUs": max(behind for _, behind in idle),
    }


def check_order(daemon: Daemon, policy: str, shapes: dict[int, tuple[int, str]]) -> int:
    """Jobs of one shape first start in the order in which the simulator starts them. Gives the number of pairs that were compared."""
    first = {job: next(event["seq"] for event in daemon.events(job) if event["kind"] == "started") for job in shapes}
    simulated = simulated_starts(daemon, policy)
    pairs = [(one, other) for one, other in itertools.combinations(shapes, 2) if shapes[one] == shapes[other]]
    odd = [(one, other) for one, other in pairs if (first[one] < first[other]) != ((simulated[one], one) < (simulated[other], other))]
    if odd:
        told = {job: [event for event in daemon.events(job) if event["kind"] != "submitted"] for job in odd[0]}
        raise AssertionError(f"{policy}: {len(odd)} of {len(pairs)} pairs not as simulated: {odd[:10]}\n{told}\n{simulated}")
    return len(pairs)


def simulated_starts(daemon: Daemon, policy: str) -> dict[int, float]:
    """When the simulator starts jobs that came as these did, on a cluster that is all theirs."""
    trace, table = daemon.folder / "past.csv", daemon.folder / "simulated.csv"
    daemon.rota("history", "export", "--out", str(trace))
    cluster = ",".join(f"{kind}:{sum(gpus for _, other, gpus in NODES if other == kind)}" for kind in ("v100", "p100", "k80"))
    words = ["sim", "--trace", str(trace), "--cluster", cluster, "--policy", policy, "--gpus-per-node", "4"]
    subprocess.run([daemon.program, *words, "--jobs-csv", str(table)], check=True, capture_output=True)
    with table.open() as lines:
        return {int(line["job_id"]): float(line["start_s"]) for line in csv.DictReader(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for policy in args.policy or ["fcfs", "las", "max-min-perf"]:
        counts = crowd(policy, args.jobs, args.seed)
        print(policy, ", ".join(f"{name} {value:.4g}" for name, value in counts.items()), flush=True)


if __name__ == "__main__":
    main()
