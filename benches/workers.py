#!/usr/bin/env python3
"""What other machines cost: the gap at a lease switch on a worker, the daemon's work for many workers and runs, and how soon a loss is seen.

Usage: workers.py target/release/rota [--switches 100|0] [--workers 64] [--leases 1000] [--seconds 30]. Starts daemons and workers with virtual GPUs
on loopback, in temporary folders; the leases sleep. Prints a table: figure, measured, target. Everything is stopped by its process id.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from live import row
from timing import milliseconds

TURN = """date +"begins %s.%N" >> "$1"; trap 'date +"leaves %s.%N" >> "$1"; exit 85' USR1; while :; do sleep 0.05; done"""
SWITCH_MORE_SECONDS_MAX = 0.030
CORE_PART_MAX = 0.1
LOST_AFTER_SECONDS = 5.0
SEEN_WITHIN_SECONDS = 2.0


class Cluster:
    """A daemon and workers on loopback."""

    def __init__(self, rota, settings, *options):
        self.rota, self.folder = rota, tempfile.TemporaryDirectory(prefix="rota-workers-")
        self.dir, self.workers = os.path.join(self.folder.name, "state"), {}
        config = os.path.join(self.folder.name, "rota.toml")
        with open(config, "w") as file:
            file.write(settings + f"\n[workers]\nlisten = '127.0.0.1:0'\nlost_after_seconds = {LOST_AFTER_SECONDS}\n")
        command = [rota, "up", "--foreground", "--state", self.dir, "--config", config, *options]
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.daemon.stdout.readline().split("workers on ")[1].split(" ")[0]

    def start_worker(self, name, gpus):
        """Starts a worker."""
        command = [self.rota, "worker", "--join", self.address, "--token-file", os.path.join(self.dir, "worker-token"), "--name", name]
        command += ["--virtual-gpus", gpus, "--state", os.path.join(self.folder.name, "workers")]
        self.workers[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *words):
        """Standard output of a command."""
        return subprocess.run([self.rota, words[0], "--state", self.dir, *words[1:]], check=True, capture_output=True, text=True).stdout

    def gpus(self, states):
        """The number of GPUs in some states."""
        return sum(gpu["state"] in states for gpu in json.loads(self.run("gpus", "--json")))

    def until_gpus(self, count, states, seconds=300.0):
        """Waits until so many GPUs are in some states. Gives back how long it took."""
        began = time.monotonic()
        while self.gpus(states) < count:
            if time.monotonic() - began > seconds:
                sys.exit(f"waited {seconds} s for {count} GPUs to be {states}; {self.gpus(states)} are")
            time.sleep(0.05 if count == 1 else 1.0)
        return time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends everything that was started here."""
        subprocess.run([self.rota, "cancel", "--state", self.dir, "--user", "all", "--yes"], check=False, capture_output=True)
        for process in [*self.workers.values(), self.daemon]:
            process.terminate()
            process.wait()
        self.folder.cleanup()


def switch_gaps(rota, count, is_on_worker):
    """The times from the last line of a job to the first of the next, where two take turns on one GPU."""
    options = ["--policy", "rr:quantum=0.3", "--min-run", "0.2"]
    lines, deadline = [], time.monotonic() + 60 + count
    with Cluster(rota, "", *options, *([] if is_on_worker else ["--virtual-gpus", "a100:1"])) as cluster:
        if is_on_worker:
            cluster.start_worker("one", "a100:1")
        cluster.until_gpus(1, ["free"])
        path = os.path.join(cluster.dir, "turns")
        for _ in range(2):
            cluster.run("submit", "--preempt", "signal=USR1,grace=10", "--", "bash", "-c", TURN, "turn", path)
        while len(lines) < 2 * count and time.monotonic() < deadline:
            time.sleep(1)
            if os.path.exists(path):
                with open(path) as text:
                    lines = sorted((float(at), word) for word, at in re.findall(r"(begins|leaves) ([\d.]+)", text.read()))
        cluster.run("cancel", "1", "2")
        subprocess.run([rota, "wait", "1", "2", "--state", cluster.dir], check=False, stdout=subprocess.DEVNULL)
    return [later[0] - at for (at, word), later in zip(lines, lines[1:]) if (word, later[1]) == ("leaves", "begins")]


def switches(rota, count):
    """Two jobs take turns on one GPU of the daemon's own machine, and on one of a worker."""
    here, there = (statistics.median(switch_gaps(rota, count, is_on_worker)) for is_on_worker in (False, True))
    row(f"lease switch on the daemon's own machine, median of {count}", milliseconds(here), "")
    row(f"lease switch on a worker, median of {count}", milliseconds(there), f"<= {milliseconds(here + SWITCH_MORE_SECONDS_MAX)}")


def processor_seconds(pid):
    """Processor time of a process."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def many(rota, workers, leases, seconds):
    """Many workers with many running leases: what the daemon needs, and how soon the loss of a node is seen."""
    with Cluster(rota, "") as cluster:
        share = -(-leases // workers)
        for number in range(workers):
            cluster.start_worker(f"w{number}", f"a100:{share}")
        cluster.until_gpus(workers * share, ["free"])
        cluster.run("submit", "--array", f"1-{leases}", "--preemptible", "--", "sleep", "100000")
        cluster.until_gpus(leases, ["full"])
        before, began = processor_seconds(cluster.daemon.pid), time.monotonic()
        time.sleep(seconds)
        part = (processor_seconds(cluster.daemon.pid) - before) / (time.monotonic() - began)
        row(f"part of a core for {workers} workers with {leases} running leases", f"{part:.3f}", f"< {CORE_PART_MAX}")
        lost = next(iter(cluster.workers.values()))
        lost.send_signal(signal.SIGSTOP)
        took = cluster.until_gpus(1, ["lost"])
        lost.send_signal(signal.SIGCONT)
        row(f"a node that falls silent is lost, lost_after {LOST_AFTER_SECONDS:g} s", f"{took:.1f} s", f"< {LOST_AFTER_SECONDS + SEEN_WITHIN_SECONDS:g} s")
        cluster.until_gpus(workers * share, ["free", "full"])
        cluster.run("cancel", f"1-{leases}")
        cluster.until_gpus(workers * share, ["free"])


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rota")
    parser.add_argument("--switches", type=int, default=100, help="0 leaves them out")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--leases", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    rota = os.path.abspath(options.rota)
    if options.switches:
        switches(rota, options.switches)
    many(rota, options.workers, options.leases, options.seconds)


main()
