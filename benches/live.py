#!/usr/bin/env python3
"""The live queue's speed: submits, no-op jobs per second, the gap between two jobs, a queue of 100,000, an idle daemon.

Usage: live.py target/release/rota [--jobs 1000] [--queue 100000]. Starts daemons with virtual GPUs in temporary folders. Prints a table:
figure, measured, target. Other queues are measured beside Rota by peers.py.
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

from timing import milliseconds, percentile, timed

ROWS = []


def row(name, value, target=""):
    ROWS.append((name, value, target))
    print(f"{name:<58} {value:>16}  {target}", flush=True)


class Daemon:
    def __init__(self, rota, gpus, *options):
        self.rota = rota
        self.dir = tempfile.mkdtemp(prefix="rota-bench-")
        self.command = [rota, "up", "--foreground", "--state", self.dir, "--virtual-gpus", gpus, *options]
        self.start()

    def start(self):
        """Starts the daemon; says how long it took until it was ready."""
        before = time.perf_counter()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return time.perf_counter() - before

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        self.process.wait()

    def words(self, verb, *words):
        return [self.rota, verb, "--state", self.dir, *words]

    def run(self, *words):
        """What a command says."""
        return subprocess.run(self.words(*words), check=True, capture_output=True, text=True).stdout

    def seconds(self, *words):
        """How long a command takes."""
        return timed(self.words(*words))

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def close(self):
        self.end()
        shutil.rmtree(self.dir, ignore_errors=True)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def submits(rota):
    daemon = Daemon(rota, "a100:1")
    daemon.run("drain")
    times = [daemon.seconds("submit", "--", "true") for _ in range(200)]
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
    times = [daemon.seconds("submit", "--", "true") for _ in range(50)]
    row(f"submit with {jobs} queued, p50", milliseconds(percentile(times, 0.5)), "< 20 ms")
    times = [daemon.seconds("queue", "--limit", "1000", "--json") for _ in range(5)]
    row(f"list 1,000 of {jobs} queued, p50", milliseconds(percentile(times, 0.5)), "< 200 ms")
    row(f"list all {jobs} queued, once", milliseconds(daemon.seconds("queue", "--json")))
    status = json.loads(daemon.run("status", "--json"))
    row(f"longest decision with {jobs} queued", milliseconds(status["decision_seconds_max"]), "< 100 ms")
    row(f"memory with {jobs} queued", f"{daemon.memory_mb():.0f} MB", "< 500 MB")
    daemon.kill()
    row(f"ready after kill -9 with {jobs} queued", milliseconds(daemon.start()), "< 2000 ms")
    daemon.end()
    row(f"ready after a clean end with {jobs} queued", milliseconds(daemon.start()), "< 2000 ms")
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
    idle(rota)
    long_queue(rota, arguments.queue)
    return 0


if __name__ == "__main__":
    sys.exit(main())
