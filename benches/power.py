"""Energy under power caps: python3 benches/power.py target/release/rota [OUT.svg]

Jobs arrive so that GPUs of a type with a measured curve are busy for seven tenths of the time, and are simulated with and without caps. Prints
mean JCT and the energy of busy GPUs under each cap, and whether the cap `best` saves 8 % of the energy at most 10 % longer mean JCT.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

GPUS = 64
LOAD = 0.7
JOBS = 5000
KINDS = ("v100", "p100", "a40", "rtx6000")
POLICIES = ("fcfs:backfill=easy", "sjf", "las", "lag-match")


def trace(binary, folder):
    """A workload of the Poisson model at the load, found by its own total of GPU time."""

    def made(rate, name):
        file = folder / name
        command = ["trace", "gen", "--model", "poisson", "--jobs", str(JOBS), "--rate", f"{rate:.6f}", "--multi-gpu", "--seed", "1", "-o", str(file)]
        subprocess.run([binary, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return file

    def load(file):
        done = subprocess.run([binary, "trace", "info", str(file), "--json"], check=True, stdout=subprocess.PIPE)
        info = json.loads(done.stdout)
        return info["gpu_hours"] * 3600 / GPUS / info["span_s"]

    first = load(made(20.0, "first.csv"))
    file = made(20.0 * LOAD / first, "trace.csv")
    return file, load(file)


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, load = trace(binary, folder)
        print(f"{JOBS} jobs on {GPUS} GPUs at load {load:.2f}")
        for kind in KINDS:
            picture = Path(sys.argv[2]) if len(sys.argv) > 2 and kind == KINDS[0] else folder / "front.svg"
            command = ["sim", "--trace", str(file), "--cluster", f"{kind}:{GPUS}", "--pareto", str(picture), "--json"]
            for policy in POLICIES:
                command += ["--policy", policy]
            points = json.loads(subprocess.run([binary, *command], check=True, stdout=subprocess.PIPE).stdout)
            for point in (point for point in points if point["power_cap"] == "best"):
                holds = point["busy_energy_change"] <= -0.08 and point["jct_change"] <= 0.10
                print(
                    f"  {kind:<8} {point['policy']:<20} best cap: energy of busy GPUs {100 * point['busy_energy_change']:+.1f} %, "
                    f"mean JCT {100 * point['jct_change']:+.1f} %  {'holds' if holds else 'DOES NOT HOLD'}"
                )


if __name__ == "__main__":
    main()
