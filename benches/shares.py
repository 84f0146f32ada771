#!/usr/bin/env python3
"""Shares and speeds live: `max-min-perf` on v100:2,p100:2,k80:2, twelve jobs whose speed depends on the GPU type, rounds of 2 s, nothing known.

Usage: shares.py path/to/rota [--rounds 50] [--round 2] [--seconds 130] [--seed 1]. Trainings of three types pace themselves by their GPU and tell
their steps through their leases. The seed says in which order they come. Prints how far the speeds that the daemon measured are from the truth, how far
the shares of time are from the allocation for the true speeds (`rota alloc`), and how far the completion times are from `rota sim` on the exported
history, which knows the speeds; beside it, from `rota sim --learn-speeds`, which does not. The exit code is 1 if a target is missed.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

PACED = pathlib.Path(__file__).resolve().parents[1] / "tests/leases/paced.py"
CLUSTER = "v100:2,p100:2,k80:2"
GPU_TYPES = ["v100", "p100", "k80"]
# Steps a second; three kinds of jobs that gain very differently by better GPUs. No two gain the same by a v100 over a p100: two that do could change
# places, and the best allocation would not be the only one.
SPEEDS = {"steep": [80.0, 40.0, 10.0], "middle": [60.0, 50.0, 15.0], "flat": [30.0, 27.0, 20.0]}
JOBS_PER_TYPE = 4
# Rounds that are left out of the shares: the speeds are found out in them.
LEARNING_ROUNDS = 10
TARGETS = {"speeds": 0.05, "shares": 0.05, "completion": 0.10}


class Queue:
    """A daemon with virtual GPUs in a temporary folder."""

    def __init__(self, rota, folder, *options):
        self.rota, self.state = rota, os.path.join(folder, "state")
        up = [rota, "up", "--foreground", "--state", self.state, "--virtual-gpus", CLUSTER, "--port", "0", *options]
        self.daemon = subprocess.Popen(up, stdout=subprocess.PIPE, text=True)
        self.daemon.stdout.readline()

    def call(self, *words):
        """Standard output of a command."""
        env = {**os.environ, "ROTA_STATE": self.state}
        return subprocess.run([self.rota, *words], check=True, capture_output=True, text=True, env=env).stdout

    def events(self):
        """Everything that happened to jobs: moment, job, kind, detail."""
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/rota.db?mode=ro", uri=True)) as store:
            rows = store.execute("SELECT wall_ns / 1e9, job, kind, detail FROM events WHERE job IS NOT NULL ORDER BY seq")
            return [(at, job, kind, json.loads(detail)) for at, job, kind, detail in rows]

    def end(self):
        """Ends the daemon and what it runs."""
        for job in json.loads(self.call("queue", "--json")):
            with contextlib.suppress(subprocess.CalledProcessError):
                self.call("cancel", str(job["id"]))
        self.daemon.terminate()
        self.daemon.wait()


def write_table(path):
    """The true speeds, as a table of throughputs."""
    with open(path, "w") as table:
        table.write("job_type,gpus," + ",".join(GPU_TYPES) + "\n")
        for job_type, speeds in SPEEDS.items():
            table.write(f"{job_type},1," + ",".join(str(speed) for speed in speeds) + "\n")


def write_trace(path):
    """The jobs, for the allocation."""
    with open(path, "w") as trace:
        trace.write("id,job_type,arrival_s,gpus,steps\n")
        for number in range(JOBS_PER_TYPE * len(SPEEDS)):
            trace.write(f"{number},{list(SPEEDS)[number // JOBS_PER_TYPE]},0,1,100000\n")


def allocation(rota, folder):
    """The mean shares of each job type on each GPU type, for the true speeds."""
    trace, table = os.path.join(folder, "jobs.csv"), os.path.join(folder, "truth.csv")
    write_trace(trace)
    write_table(table)
    command = [rota, "alloc", "--jobs", trace, "--cluster", CLUSTER, "--policy", "max-min-perf", "--throughputs", table]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        numbers = re.findall(r"\d+\.\d{4}", line)
        for job_type in SPEEDS:
            if line.startswith(job_type) and len(numbers) == len(GPU_TYPES):
                found[job_type] = [float(number) for number in numbers]
    return found


def received(events, types_of_jobs, gpu_types, begin, end):
    """The mean part of the time in which jobs of each type had a GPU of each type."""
    held, since = collections.defaultdict(float), {}
    for at, job, kind, detail in events:
        if kind == "started":
            since[job] = (at, gpu_types[detail["gpus"][0]])
        elif kind in ("preempted", "evicted", "finished", "failed", "lost") and job in since:
            start, gpu_type = since.pop(job)
            held[types_of_jobs[job], gpu_type] += max(min(at, end) - max(start, begin), 0.0)
    for job, (start, gpu_type) in since.items():
        held[types_of_jobs[job], gpu_type] += max(end - max(start, begin), 0.0)
    whole = (end - begin) * JOBS_PER_TYPE
    return {job_type: [held[job_type, gpu_type] / whole for gpu_type in GPU_TYPES] for job_type in SPEEDS}


def restarts(queue, events):
    """Mean seconds from notice to gone, and from a start to its first step."""
    stops, starts, asked, begun = [], [], {}, collections.defaultdict(list)
    for at, job, kind, _ in events:
        if kind == "stopping":
            asked[job] = at
        elif kind == "preempted" and job in asked:
            stops.append(at - asked.pop(job))
        elif kind == "started":
            begun[job].append(at)
    for job, moments in begun.items():
        first = [float(moment) for moment in re.findall(r"first step ([\d.]+)", queue.call("logs", str(job)))]
        # The log is that of the last run.
        starts += [step - moments[-1] for step in first[-1:]]
    return statistics.fmean(stops or [0.0]), statistics.fmean(starts or [0.0])


def simulated(rota, queue, folder, options, stop_seconds, start_seconds, more=()):
    """Completion times by job, from the simulator on the exported history."""
    history, table, jobs = (os.path.join(folder, name) for name in ("history.csv", "measured.json", "jobs-out.csv"))
    queue.call("history", "export", "-o", history, "--throughputs", table)
    command = [rota, "sim", "--trace", history, "--cluster", CLUSTER, "--gpus-per-node", "6", "--throughputs", table]
    command += ["--policy", "max-min-perf", "--mechanism", "rounds", "--round", str(options.round), "--jobs-csv", jobs]
    command += ["--restart-cost", f"{start_seconds:.3f}", "--stop-seconds", f"{stop_seconds:.3f}", *more]
    subprocess.run(command, check=True, capture_output=True, text=True)
    with open(jobs) as rows:
        names = rows.readline().strip().split(",")
        rows = [dict(zip(names, line.strip().split(","))) for line in rows]
    return {int(row["job_id"]): float(row["jct_s"]) for row in rows}


def report(name, value, target):
    """Prints a figure with its target; says whether it is missed."""
    is_missed = value > target
    print(f"{name:<66} {value:7.1%}  < {target:.0%}  {'MISSED' if is_missed else 'ok'}", flush=True)
    return is_missed


def main():
    """Runs the jobs and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rota", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--round", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=130.0, help="how long the jobs take by the allocation [130]")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which the jobs come [1]")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rota-shares-")
    wanted = allocation(options.rota, folder)
    print("allocation", {job_type: dict(zip(GPU_TYPES, shares)) for job_type, shares in wanted.items()})
    rounds = ["--mechanism", "rounds", "--round", str(options.round), "--min-run", "0"]
    queue = Queue(options.rota, folder, "--policy", "max-min-perf", *rounds)
    missed = []
    try:
        gpu_types = {gpu["uuid"]: gpu["type"] for gpu in json.loads(queue.call("gpus", "--json"))}
        types_of_jobs, asks = {}, []
        for job_type, speeds in SPEEDS.items():
            path = os.path.join(folder, f"{job_type}.json")
            with open(path, "w") as text:
                json.dump({uuid: speeds[GPU_TYPES.index(kind)] for uuid, kind in gpu_types.items()}, text)
            rate = sum(share * speed for share, speed in zip(wanted[job_type], speeds))
            asks += [(job_type, path, int(rate * options.seconds * (1 + 0.05 * number))) for number in range(JOBS_PER_TYPE)]
        random.Random(options.seed).shuffle(asks)
        began = time.time()
        for job_type, path, total in asks:
            command = ["--preemptible", "--job-type", job_type, "--json", "--", "python3", str(PACED), path, str(total)]
            types_of_jobs[json.loads(queue.call("submit", *command))["id"]] = job_type
        begin = began + LEARNING_ROUNDS * options.round
        end = begin + options.rounds * options.round
        time.sleep(max(end - time.time(), 0.0))
        measured = json.loads(queue.call("throughputs", "live", "--json"))
        shares = received(queue.events(), types_of_jobs, gpu_types, begin, end)
        worst_speed = 0.0
        for speed in measured:
            truth = SPEEDS[speed["job_type"]][GPU_TYPES.index(speed["gpu_type"])]
            error = abs(speed["steps_per_second"] / truth - 1)
            print(f"  {speed['job_type']:<8} {speed['gpu_type']:<5} {speed['steps_per_second']:8.2f} truth {truth:6.1f}  {speed['measurements']} times")
            worst_speed = max(worst_speed, error if speed["measurements"] else 0.0)
        unmeasured = sum(speed["measurements"] == 0 for speed in measured)
        missed.append(report(f"worst measured speed against the truth ({unmeasured} of {len(measured)} never measured)", worst_speed, TARGETS["speeds"]))
        for job_type, parts in shares.items():
            print(f"  {job_type:<8} received {[round(part, 3) for part in parts]} allocated {wanted[job_type]}")
        worst = max(abs(got - due) for job_type in SPEEDS for got, due in zip(shares[job_type], wanted[job_type]))
        missed.append(report(f"worst share of time against the allocation, {options.rounds} rounds", worst, TARGETS["shares"]))
        subprocess.run([options.rota, "wait", "--state", queue.state, *(str(job) for job in types_of_jobs)], check=False, stdout=subprocess.DEVNULL)
        events = queue.events()
        stop_seconds, start_seconds = restarts(queue, events)
        print(f"  a stop took {stop_seconds:.3f} s, a start {start_seconds:.3f} s in the mean; {sum(kind == 'preempted' for _, _, kind, _ in events)} stops")
        arrived = {job: at for at, job, kind, _ in events if kind == "submitted"}
        ended = {job: at - arrived[job] for at, job, kind, _ in events if kind == "finished"}
        expected = simulated(options.rota, queue, folder, options, stop_seconds, start_seconds)
        errors = [abs(ended[job] / expected[job] - 1) for job in types_of_jobs]
        print("  completion", {job: (round(ended[job], 1), round(expected[job], 1)) for job in types_of_jobs})
        means = statistics.fmean(ended.values()), statistics.fmean(expected.values())
        missed.append(report(f"mean completion time against the simulator ({means[0]:.1f} and {means[1]:.1f} s)", abs(means[0] / means[1] - 1), TARGETS["completion"]))
        missed.append(report("worst completion time against the simulator", max(errors), TARGETS["completion"]))
        learned = simulated(options.rota, queue, folder, options, stop_seconds, start_seconds, ["--learn-speeds"])
        worst = max(abs(ended[job] / learned[job] - 1) for job in types_of_jobs)
        print(f"  a simulator that learns the speeds, too: mean {statistics.fmean(learned.values()):.1f} s, worst error {worst:.1%}")
    finally:
        queue.end()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
