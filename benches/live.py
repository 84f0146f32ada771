#!/usr/bin/env python3
"""The live queue's speed: submits, no-op jobs per second, the gap between two jobs, a queue of 100,000, an idle daemon.

Usage: live.py target/release/rota [--jobs 1000] [--queue 100000]. Starts daemons with virtual GPUs in temporary folders, and a peer
(task-spooler, command `tsp`) in the same run where it is installed. Prints a table: figure, measured, target.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime

ROWS = []


def row(name, value, target=""):
    ROWS.append((name, value, target))
    print(f"{name:<58} {value:>16}  {target}", flush=True)


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms"


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class Daemon:
    def __init__(self, rota, gpus, *options):
        self.rota = rota
        self.dir = tempfile.mkdtemp(prefix="rota-bench-")
        command = [rota, "up", "--foreground", "--state", self.dir, "--virtual-gpus", gpus, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def run(self, *words, **options):
        return subprocess.run([self.rota, words[0], "--state", self.dir, *words[1:]], check=True, capture_output=True, text=True, **options).stdout

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def submits(rota):
    daemon = Daemon(rota, "a100:1")
    daemon.run("drain")
    times = []
    for _ in range(200):
        before = time.perf_counter()
        daemon.run("submit", "--", "true")
        times.append(time.perf_counter() - before)
    daemon.close()
    row("submit through the CLI, p50 (synced)", milliseconds(percentile(times, 0.5)), "< 5 ms")
    row("submit through the CLI, p99", milliseconds(percentile(times, 0.99)))


def throughput(rota, jobs):
    daemon = Daemon(rota, "a100:8")
    before = time.perf_counter()
    ids = json.loads(daemon.run("submit", "--json", "--array", f"1-{jobs}", "--", "true"))["ids"]
    daemon.run("wait", *map(str, ids))
    seconds = time.perf_counter() - before
    done = [job for job in json.loads(daemon.run("queue", "--all", "--json")) if job["state"] == "done"]
    daemon.close()
    assert len(done) == jobs, f"{len(done)} of {jobs} done"
    row(f"no-op jobs per second, submit to end ({jobs} on 8 GPUs)", f"{jobs / seconds:.0f}", ">= 200")


def gaps(rota):
    daemon = Daemon(rota, "a100:1")
    ids = json.loads(daemon.run("submit", "--json", "--array", "1-100", "--", "true"))["ids"]
    daemon.run("wait", *map(str, ids))
    jobs = sorted(json.loads(daemon.run("queue", "--all", "--json")), key=lambda job: job["started_at"])
    daemon.close()
    between = [moment(b["started_at"]) - moment(a["finished_at"]) for a, b in zip(jobs, jobs[1:])]
    row("exit of one job to start of the next, median", milliseconds(statistics.median(between)), "< 50 ms")
    row("exit of one job to start of the next, p99", milliseconds(percentile(between, 0.99)))


def long_queue(rota, jobs):
    daemon = Daemon(rota, "a100:8")
    daemon.run("submit", "-g", "8", "--", "sleep", "600")
    for _ in range(jobs // 10_000):
        daemon.run("submit", "--array", "1-10000", "--estimate", "60", "--", "true")
    times = []
    for _ in range(50):
        before = time.perf_counter()
        daemon.run("submit", "--", "true")
        times.append(time.perf_counter() - before)
    row(f"submit with {jobs} queued, p50", milliseconds(percentile(times, 0.5)), "< 20 ms")
    times = []
    for _ in range(5):
        before = time.perf_counter()
        daemon.run("queue", "--limit", "1000", "--json")
        times.append(time.perf_counter() - before)
    row(f"list 1,000 of {jobs} queued, p50", milliseconds(percentile(times, 0.5)), "< 200 ms")
    before = time.perf_counter()
    daemon.run("queue", "--json")
    row(f"list all {jobs} queued, once", milliseconds(time.perf_counter() - before))
    status = json.loads(daemon.run("status", "--json"))
    row(f"longest decision with {jobs} queued", milliseconds(status["decision_seconds_max"]), "< 100 ms")
    row(f"memory with {jobs} queued", f"{daemon.memory_mb():.0f} MB", "< 500 MB")
    daemon.run("cancel", "1")
    daemon.close()


def idle(rota):
    daemon = Daemon(rota, "a100:8")
    daemon.run("status")
    before, began = daemon.cpu_seconds(), time.perf_counter()
    time.sleep(20)
    share = (daemon.cpu_seconds() - before) / (time.perf_counter() - began)
    daemon.close()
    row("idle daemon, share of one core", f"{share * 100:.2f} %", "< 0.5 %")


def peer(jobs):
    if shutil.which("tsp") is None:
        print("task-spooler (tsp) is not installed: no peer in this run", flush=True)
        return
    env = {**os.environ, "TS_SOCKET": tempfile.mktemp(prefix="tsp-")}
    run = lambda *words: subprocess.run(["tsp", *words], check=True, capture_output=True, env=env)
    run("-S", "8")
    before = time.perf_counter()
    times = []
    for _ in range(jobs):
        start = time.perf_counter()
        run("-n", "true")
        times.append(time.perf_counter() - start)
    while b"running" in run("-l").stdout or b"queued" in run("-l").stdout:
        pass
    row(f"task-spooler: no-op jobs per second ({jobs}, 8 slots)", f"{jobs / (time.perf_counter() - before):.0f}")
    row("task-spooler: submit, p50 (not durable)", milliseconds(percentile(times, 0.5)))
    run("-K")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rota")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--queue", type=int, default=100_000)
    arguments = parser.parse_args()
    rota = os.path.abspath(arguments.rota)
    submits(rota)
    throughput(rota, arguments.jobs)
    gaps(rota)
    peer(min(arguments.jobs, 300))
    idle(rota)
    long_queue(rota, arguments.queue)
    return 0


if __name__ == "__main__":
    sys.exit(main())
