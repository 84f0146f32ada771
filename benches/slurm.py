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
    """From the submission of a job to its first line: Slurm's part is from the call of `sbatch` to the first line of the script."""
    with Cluster() as cluster, Daemon(cluster, idle=1.0) as daemon:
        ours, slurms = [], []
        for number in range(1, STARTS + 1):
            line, taken = daemon.folder / f"line-{number}", daemon.state / f"slurm/a{number}.taken"
            began = time.time()
            daemon.submit("-g", "2", "--gpu-type", "k80", "--", "sh", "-c", f"date +%s.%N > {line}")
            Cluster.wait_for(lambda line=line: line.exists() and line.read_text(), 60, every=0.05)
            asked = [moment for moment, _, arguments in daemon.recorded.calls("sbatch") if arguments != "--version"][-1]
            slurms.append(taken.stat().st_mtime - asked)
            ours.append(float(line.read_text()) - began - slurms[-1])
            Cluster.wait_for(lambda: not cluster.squeue("%i") and not json.loads(daemon.rota("queue", "--json")), 60)
    print(f"first start in a new allocation, {STARTS} times: Slurm itself {min(slurms):.2f} to {max(slurms):.2f} s")
    show(f"what it takes beside that, median; longest {max(ours):.2f} s", median(ours), FIRST_MORE_SECONDS_MAX)


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
