"""What Slurm costs: `rota import sacct` of a made-up year of 100,000 jobs, its replay included; looks at a queue with 1,000 jobs of
others; the first start in a new allocation.

python3 benches/slurm.py target/release/rota [--no-cluster]

The last two start a Slurm of the tests' own. What Slurm's programs need is not counted as ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROTA = str(Path(sys.argv[1]).resolve())
os.environ["ROTA_BINARY"] = ROTA
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/slurm"))
from cluster import Cluster
from commands import Recorded
from daemon import Daemon
from test_reading import made_up_year

JOBS = 100_000
SECONDS_MAX = 5.0
FOREIGN = 1000
CYCLE_SECONDS_MAX = 0.060
FIRST_MORE_SECONDS_MAX = 0.5
WATCH_SECONDS = 30.0
STARTS = 5
# Slurm looks at its queue at most once in two seconds: after this long it has nothing left to do.
SLURM_REST_SECONDS = 3.0


def show(what: str, seconds: float, seconds_max: float) -> None:
    """A line with a figure and its target."""
    verdict = "holds" if seconds <= seconds_max else "MISSED"
    print(f"{what}: {seconds:.3f} s (target {seconds_max:.3g} s: {verdict})", flush=True)


def import_year() -> None:
    """The accounts of a year."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "sacct.txt"
        log.write_text(made_up_year(JOBS))
        began = time.monotonic()
        done = subprocess.run(
            [ROTA, "import", "sacct", str(log), "-o", str(Path(name) / "year.csv")], check=True, capture_output=True, text=True
        )
        seconds = time.monotonic() - began
    print(done.stderr.splitlines()[0])
    show(f"import of {JOBS} jobs", seconds, SECONDS_MAX)


def processor_seconds(pid: int) -> float:
    """Processor time of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cycle(what: str, pid: int, recorded: Recorded) -> None:
    """The processor time of a process for each look at Slurm's queue."""
    before, looks = processor_seconds(pid), len(recorded.calls("squeue"))
    time.sleep(WATCH_SECONDS)
    looks = len(recorded.calls("squeue")) - looks
    show(f"{what}, {looks} looks at {FOREIGN} jobs of others, each", (processor_seconds(pid) - before) / looks, CYCLE_SECONDS_MAX)


def cycles() -> None:
    """The shadow, which reads every job, and the engine, which reads its own."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as name:
        wrap = ["-o", "/dev/null", "--gres=gpu:v100:4", "--time=60", "--wrap", "sleep 3600"]
        cluster.call(["sbatch", "--parsable", f"--array=1-{FOREIGN}", *wrap])
        recorded = Recorded(Path(name))
        command = [ROTA, "up", "--engine", "slurm", "--shadow", "--policy", "sjf", "--state", f"{name}/state"]
        environment = recorded.environment(cluster.environment)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as shadow:
            shadow.stdout.readline()
            # What it prints must not fill the pipe.
            drain = subprocess.Popen(["cat"], stdin=shadow.stdout, stdout=subprocess.DEVNULL)
            cycle("shadow", shadow.pid, recorded)
            shadow.terminate()
            shadow.wait()
            drain.wait()
        with Daemon(cluster) as daemon:
            cycle("engine", daemon.process.pid, daemon.recorded)


def first_starts() -> None:
    """From the submission of a job to its first line, beside that of a job given to Slurm itself."""
    with Cluster() as cluster, Daemon(cluster, idle=1.0) as daemon:
        ours, slurms = [], []
        for number in range(STARTS):
            own, mark = daemon.folder / f"own-{number}", daemon.folder / f"slurm-{number}"
            time.sleep(SLURM_REST_SECONDS)
            began = time.time()
            cluster.call(["sbatch", "-o", "/dev/null", "--gres=gpu:k80:2", "--wrap", f"date +%s.%N > {mark}"])
            Cluster.wait_for(lambda mark=mark: mark.exists() and mark.read_text(), 60, every=0.05)
            slurms.append(float(mark.read_text()) - began)
            Cluster.wait_for(lambda: not cluster.squeue("%i"), 60)
            time.sleep(SLURM_REST_SECONDS)
            began = time.time()
            daemon.submit("-g", "2", "--gpu-type", "k80", "--", "sh", "-c", f"date +%s.%N > {own}")
            Cluster.wait_for(lambda own=own: own.exists() and own.read_text(), 60, every=0.05)
            ours.append(float(own.read_text()) - began)
            Cluster.wait_for(lambda: not cluster.squeue("%i") and not json.loads(daemon.rota("queue", "--json")), 60)
    print(f"submit to first line, {STARTS} times: Slurm itself {min(slurms):.2f} to {max(slurms):.2f} s, ours {min(ours):.2f} to {max(ours):.2f} s")
    show("the first start in a new allocation takes longer than Slurm itself by, medians", median(ours) - median(slurms), FIRST_MORE_SECONDS_MAX)


def median(values: list[float]) -> float:
    """The middle of an odd number of values."""
    return sorted(values)[len(values) // 2]


def main() -> None:
    import_year()
    if "--no-cluster" not in sys.argv:
        cycles()
        first_starts()


if __name__ == "__main__":
    main()
