"""Many jobs on a real Slurm beside a stranger who submits at random: right ends, the stranger served, GPUs kept over switches.

python3 tests/slurm/crowd.py [--jobs N] [--policy P …] [--seed S]
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster
from daemon import Daemon


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


def crowd(policy: str, jobs: int, seed: int) -> dict[str, float]:
    """Runs jobs under a policy and gives what was counted. Raises where something must hold and does not."""
    draw = random.Random(seed)
    with Cluster() as cluster, Daemon(cluster, policy=policy, gpus_max=14, idle=3.0) as daemon:
        stranger = Stranger(cluster, seed)
        stranger.start()
        wanted, order = {}, []
        began = time.monotonic()
        for number in range(jobs):
            gpus = draw.choice([1, 1, 1, 1, 2, 2, 4, 8])
            kind = "v100" if gpus > 2 else draw.choice(["v100", "p100", "k80"])
            code = 3 if number % 10 == 9 else 0
            command = ["sh", "-c", f"sleep {draw.uniform(0.1, 1.0):.2f}; exit {code}"]
            job = daemon.submit("-g", str(gpus), "--gpu-type", kind, "--preemptible", "--", *command)
            wanted[job] = code
            order.append((job, gpus, kind))
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
        if policy == "fcfs":
            check_order(order, over)
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
        }


def check_order(order: list[tuple[int, int, str]], over: dict[int, dict]) -> None:
    """First come, first served: of two jobs that ask for the same, the earlier starts first."""
    last: dict[tuple[int, str], tuple[str, int]] = {}
    for job, gpus, kind in order:
        started = over[job]["started_at"]
        before, earlier = last.get((gpus, kind), ("", 0))
        if started < before:
            names = ("id", "attempts", "started_at", "reason")
            told = [[over[one][name] for name in names] for one in (earlier, job)]
            raise AssertionError(f"{gpus} {kind}: a job started before an earlier one that asked for the same: {told}")
        last[gpus, kind] = (started, job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for policy in args.policy or ["fcfs", "las", "max-min-perf"]:
        counts = crowd(policy, args.jobs, args.seed)
        print(policy, ", ".join(f"{name} {value:.0f}" for name, value in counts.items()), flush=True)


if __name__ == "__main__":
    main()
