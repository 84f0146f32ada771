#!/usr/bin/env python3
"""Speed and memory of `rota sim` and `rota alloc`, against the targets and against what peers need.

usage: benches/run.py path/to/rota

Every figure is of the real command, one thread, reading its trace from a file: CPU seconds (user + system) and peak
resident memory of the process, from the kernel's own accounting. Peers: the published and measured speeds of ML cluster
simulators lie between 320 and 700 jobs per CPU second (Tiresias simulator, DLAS-GPU and FIFO, 2,000 Philly jobs on 128 GPUs).
Allocations: the seconds of the solve itself as `rota alloc` tells them, jobs drawn and in memory, on one thread, beside Clarabel's
interior-point method on the same jobs.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PHILLY = pathlib.Path(__file__).resolve().parents[2] / "shared/data/philly/philly.csv"
# Speeds of pairs of jobs, which packed allocations need; without it no two jobs share GPUs.
PAIRS = pathlib.Path(__file__).resolve().parents[2] / "shared/data/gavel/simulation_throughputs.json"
PEER_JOBS_PER_CPU_SECOND = (320, 700)


def measure(command):
    """Runs a command and returns its JSON answer, CPU seconds and peak memory in MB."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"failed: {' '.join(map(str, command))}")
        output.seek(0)
        text = output.read()
    return json.loads(text) if text else None, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def simulate(rota, trace, cluster, policy, flags=()):
    """One policy on one trace, on one thread: the better of two runs, because others on the machine can only make it slower."""
    command = [rota, "sim", "--trace", trace, "--cluster", cluster, "--policy", policy, *flags, "--jobs-parallel", "1", "--json"]
    return min((measure(command) for _ in range(2)), key=lambda measured: measured[1])


def show(name, policy, summary, cpu_seconds, megabytes, target_seconds, target_megabytes):
    """Prints a row and says whether the targets hold."""
    holds = cpu_seconds <= target_seconds and megabytes <= target_megabytes
    jobs_per_second = summary["jobs"] / cpu_seconds
    print(
        f"{name:24} {policy:6} {cpu_seconds:8.2f} {target_seconds:8.1f} {megabytes:8.0f} {target_megabytes:8.0f}"
        f" {jobs_per_second:12,.0f} {summary['events'] / cpu_seconds:12,.0f}  {'ok' if holds else 'MISSED'}",
        flush=True,
    )
    return holds, jobs_per_second


# Jobs, cluster, policy, further flags, target in seconds, largest gap, whether Clarabel is run beside it.
ALLOCATIONS = (
    ("16,384 distinct x 3", 16_384, "1000:1600:2300", "max-min-perf", ["--distinct"], 0.020, 1e-6, True),
    # An interior-point method needs hours and tens of gigabytes here.
    ("1,000,000 distinct x 8", 1_000_000, "a:16000,b:26000,c:37000,d:48000,e:58000,f:69000,g:80000,h:66000", "max-min-perf", [], 1.0, 1e-6, False),
    ("1,000,000 of 26 types x 3", 1_000_000, "60000:100000:140000", "max-min-perf", [], 1.0, 1e-6, False),
    ("2,048 distinct x 3", 2_048, "123:205:287", "ftf-perf", ["--distinct"], 0.1, 1e-6, True),
    ("2,048 distinct x 3", 2_048, "123:205:287", "makespan-perf", ["--distinct"], 0.1, 1e-6, True),
    ("2,048 distinct x 3", 2_048, "123:205:287", "water-filling-perf", ["--distinct"], 0.1, 1e-6, True),
    ("2,048 of 26 types, packed", 2_048, "128:128:128", "max-min-packed", ["--throughputs", str(PAIRS)] if PAIRS.exists() else [], 1.0, 1e-4, False),
)


def allocate(rota, jobs, cluster, policy, flags, runs):
    """The quickest of some allocations, because others on the machine can only make it slower."""
    command = [rota, "alloc", "--random", str(jobs), "--cluster", cluster, "--policy", policy, *flags, "--json"]
    return min((measure(command)[0] for _ in range(runs)), key=lambda document: document["solve_cpu_seconds"])


def allocations(rota):
    """Prints the solve times of allocations and says which targets hold."""
    held = []
    print(f"{'allocation':26} {'policy':18} {'rows':>9} {'CPU ms':>9} {'target':>7} {'gap':>8} {'Clarabel ms':>12} {'times':>6}")
    for name, jobs, cluster, policy, flags, target, gap, beside in ALLOCATIONS:
        found = allocate(rota, jobs, cluster, policy, flags, 5)
        seconds = found["solve_cpu_seconds"]
        holds = seconds <= target and found["gap"] <= gap
        other = f"{'':>12} {'':>6}"
        if beside:
            interior = allocate(rota, jobs, cluster, policy, [*flags, "--solver", "interior"], 1)
            same = abs(interior["objective"] - found["objective"]) <= 2e-6 * abs(found["objective"])
            holds = holds and same
            other = f"{interior['solve_cpu_seconds'] * 1e3:12,.1f} {interior['solve_cpu_seconds'] / seconds:6.0f}"
        print(
            f"{name:26} {policy:18} {found['rows']:9,} {seconds * 1e3:9,.1f} {target * 1e3:7,.0f} {found['gap']:8.0e} {other}"
            f"  {'ok' if holds else 'MISSED'}",
            flush=True,
        )
        held.append(holds)
    return held


def main():
    rota = sys.argv[1]
    held = allocations(rota)
    print(f"{'workload':24} {'policy':6} {'CPU s':>8} {'target':>8} {'MB':>8} {'target':>8} {'jobs/CPU s':>12} {'events/CPU s':>12}")
    if PHILLY.exists():
        slowest = None
        for policy, target in (("fcfs", 1), ("sjf", 1), ("srtf", 2), ("las", 2)):
            summary, cpu_seconds, megabytes = simulate(rota, PHILLY, "gpu:400", policy)
            ok, speed = show("Philly on 400 GPUs", policy, summary, cpu_seconds, megabytes, target, 300)
            held.append(ok)
            slowest = min(slowest or speed, speed)
        low, high = PEER_JOBS_PER_CPU_SECOND
        print(f"  the slowest of these is {slowest / high:,.0f} to {slowest / low:,.0f} times as fast as its peers")
    else:
        print("  the Philly trace is not beside this repository: skipped")
    with tempfile.TemporaryDirectory() as folder:
        # Gavel needs 27 CPU seconds for the first 500 of these jobs.
        trace = pathlib.Path(folder) / "gavel.csv"
        model = ["--model", "gavel-continuous", "--jobs", "5000", "--rate", "5.6", "--seed", "0"]
        subprocess.run([rota, "trace", "gen", *model, "-o", trace], check=True, stderr=subprocess.DEVNULL)
        window = ["--mechanism", "rounds", "--window", "4000:4999"]
        summary, cpu_seconds, megabytes = simulate(rota, trace, "36:36:36", "max-min-perf", window)
        held.append(show("Gavel 5.6 jobs/h, shares", "max-min", summary, cpu_seconds, megabytes, 1, 300)[0])
        times = {}
        # The same load on the same GPUs, half as long and in full.
        for jobs in (500_000, 1_000_000):
            trace = pathlib.Path(folder) / f"{jobs}.csv"
            subprocess.run(
                [rota, "trace", "gen", "--model", "poisson", "--jobs", str(jobs), "--rate", "30000", "--multi-gpu", "--seed", "1", "-o", trace],
                check=True,
                stderr=subprocess.DEVNULL,
            )
            for policy in ("fcfs", "las"):
                summary, cpu_seconds, megabytes = simulate(rota, trace, "gpu:100000", policy)
                times[jobs, policy] = cpu_seconds
                ok, _ = show(f"{jobs:,} on 100,000", policy, summary, cpu_seconds, megabytes, 30, 2000)
                held.append(ok)
    for policy in ("fcfs", "las"):
        growth = times[1_000_000, policy] / times[500_000, policy]
        print(f"  {policy}: twice the jobs take {growth:.2f} times as long (target: at most 2.3)")
        held.append(growth <= 2.3)
    print(f"{sum(held)} of {len(held)} targets hold")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
