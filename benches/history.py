#!/usr/bin/env python3
"""What learned durations are worth: mean completion time, fairness and CPU time on production logs, against the marks.

usage: benches/history.py path/to/rota

Tables are empty at the start of every run and learn from the run itself. The logs are read from the shared reference data and are not part
of the repository; without them nothing is measured. Arrival times are scaled to the load that a row names.
"""

import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared/data"
PHILLY = DATA / "philly/philly.csv"

# Log, GPUs, load (as it was if None), policy, further flags, largest mean JCT in seconds.
RUNS = (
    ("philly", 400, None, "lag-match", [], None),
    ("philly", 400, None, "lag-history", [], 35_500),
    ("philly", 400, None, "lag-history", ["--restart-cost", "30"], 37_500),
    ("philly", 400, None, "gittins", [], None),
    ("philly", 400, None, "gittins:classes=on", [], 33_500),
    ("philly", 400, None, "sjf:estimates=history", [], 70_000),
    ("philly", 400, None, "las", [], 36_000),
    ("kth-sp2", 100, None, "lag-match", [], None),
    ("kth-sp2", 100, None, "lag-history", [], 11_200),
    ("kth-sp2", 100, None, "lag-srsf", [], None),
    ("kth-sp2", 100, 0.92, "lag-match", [], None),
    ("kth-sp2", 100, 0.92, "lag-history", [], 26_800),
    ("kth-sp2", 100, 0.92, "lag-srsf", [], None),
    ("cea-curie-sample", 5832, 0.92, "lag-match", [], None),
    ("cea-curie-sample", 5832, 0.92, "lag-history", [], 7_580),
    ("cea-curie-sample", 5832, 0.92, "lag-srsf", [], None),
)
CPU_SECONDS_MAX = 60.0


def own_format(log, gpus, load, folder):
    """A log with users in Rota's own table, its arrivals scaled to a load."""
    with gzip.open(DATA / f"history/{log}.csv.gz", "rt") as file:
        jobs = list(csv.DictReader(file))
    span = float(jobs[-1]["submit_s"]) - float(jobs[0]["submit_s"])
    work = sum(float(job["duration_s"]) * int(job["gpus"]) for job in jobs)
    scale = 1.0 if load is None else work / span / gpus / load
    path = pathlib.Path(folder) / f"{log}-{load}.csv"
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "user", "project", "arrival_s", "duration_s", "gpus", "estimate_s"])
        for job in jobs:
            estimate = job["requested_s"] if float(job["requested_s"] or 0) > 0 else ""
            arrival = f"{float(job['submit_s']) * scale:.3f}"
            table.writerow([job["job_id"], job["user"], job["vc"], arrival, job["duration_s"], job["gpus"], estimate])
    return path


def main():
    rota = sys.argv[1]
    if not PHILLY.exists():
        print("skipped: no reference data")
        return
    missed = 0
    print(f"{'log':18} {'load':>5} {'policy':24} {'restart':>7} {'mean JCT s':>11} {'mark':>8} {'worst rho':>9} {'CPU s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for log, gpus, load, policy, flags, mark in RUNS:
            trace = PHILLY if log == "philly" else own_format(log, gpus, load, folder)
            command = [rota, "sim", "--trace", str(trace), "--cluster", f"gpu:{gpus}", "--policy", policy, *flags, "--json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            answer = json.load(process.stdout)
            _, status, usage = os.wait4(process.pid, 0)
            if os.waitstatus_to_exitcode(status) != 0:
                sys.exit(f"failed: {' '.join(command)}")
            cpu_seconds = usage.ru_utime + usage.ru_stime
            holds = (mark is None or answer["jct_mean_s"] <= mark) and cpu_seconds <= CPU_SECONDS_MAX
            missed += not holds
            print(
                f"{log:18} {load or '':>5} {policy:24} {flags[1] if flags else 0:>7} {answer['jct_mean_s']:11,.0f} {mark or '':>8}"
                f" {answer['ftf_worst']:9.2f} {cpu_seconds:6.1f}  {'ok' if holds else 'MISSED'}",
                flush=True,
            )
    if missed:
        sys.exit(f"{missed} marks missed")


if __name__ == "__main__":
    main()
