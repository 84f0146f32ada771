#!/usr/bin/env python3
"""What time slicing costs: the gap at a switch, GPU time in jobs that save and start slowly, renewals beside submits.

Usage: leases.py target/release/rota [--switches 100] [--seconds 110] [--scale 10] [--renewals 2000]. Starts daemons with virtual GPUs in temporary folders. Prints
a table: figure, measured, target. A step of `rota.Iterator` is measured by iterator.py, shares and speeds by shares.py.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from live import Daemon, row
from timing import milliseconds, percentile

PACED = pathlib.Path(__file__).resolve().parents[1] / "tests/leases/paced.py"
# A job that says when it begins, and when it leaves.
TURN = """date +"begins %s.%N" >> "$1"; trap 'date +"leaves %s.%N" >> "$1"; exit 85' USR1; while :; do sleep 0.05; done"""
# Rounds, saves and starts of the figure.
ROUND_SECONDS, STOP_SECONDS, START_SECONDS = 360.0, 1.0, 2.0


def switches(rota, count):
    """Two jobs take turns on one GPU."""
    daemon = Daemon(rota, "a100:1", "--policy", "rr:quantum=0.3", "--min-run", "0.2")
    path = os.path.join(daemon.dir, "turns")
    for _ in range(2):
        daemon.run("submit", "--preempt", "signal=USR1,grace=10", "--", "bash", "-c", TURN, "turn", path)
    lines = []
    deadline = time.monotonic() + 60 + count
    while len(lines) < 2 * count and time.monotonic() < deadline:
        time.sleep(1)
        with open(path) as text:
            lines = sorted((float(at), word) for word, at in re.findall(r"(begins|leaves) ([\d.]+)", text.read()))
    daemon.run("cancel", "1", "2")
    daemon.close()
    gaps = [later[0] - at for (at, word), later in zip(lines, lines[1:]) if (word, later[1]) == ("leaves", "begins")]
    row(f"old job's last line to the next job's first, median of {len(gaps)}", milliseconds(statistics.median(gaps)), "< 50 ms")
    row("old job's last line to the next job's first, p95", milliseconds(percentile(gaps, 0.95)), "< 150 ms")


def part_simulated(rota):
    """Two jobs that always want the GPU, in rounds: the part of its time in which they work."""
    with tempfile.TemporaryDirectory() as folder:
        trace, out = os.path.join(folder, "trace.csv"), os.path.join(folder, "jobs.csv")
        with open(trace, "w") as jobs:
            jobs.write("id,arrival_s,gpus,duration_s\n0,0,1,36000\n1,0,1,36000\n")
        for policy in ("max-min-perf", f"rr:quantum={ROUND_SECONDS:g}"):
            command = [rota, "sim", "--trace", trace, "--cluster", "a100:1", "--policy", policy, "--mechanism", "rounds", "--jobs-csv", out]
            command += ["--round", str(ROUND_SECONDS), "--restart-cost", str(START_SECONDS), "--stop-seconds", str(STOP_SECONDS), "--json"]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found = found[0] if isinstance(found, list) else found
            row(f"GPU time in jobs, rounds of 360 s, simulated, {policy}", f"{72000 / found['makespan_s']:.2%}", ">= 98 %")


def part_live(rota, seconds, scale):
    """The same live, with rounds, saves and starts so many times shorter; what starting a process takes stays."""
    options = ["--mechanism", "rounds", "--round", str(ROUND_SECONDS / scale), "--min-run", "0"]
    daemon = Daemon(rota, "a100:1", "--policy", "max-min-perf:stay=0", *options)
    uuid = json.loads(daemon.run("gpus", "--json"))[0]["uuid"]
    speeds = os.path.join(daemon.dir, "speeds.json")
    with open(speeds, "w") as text:
        json.dump({uuid: 100.0}, text)
    slow = [str(STOP_SECONDS / scale), str(START_SECONDS / scale)]
    began = time.time()
    for _ in range(2):
        daemon.run("submit", "--preemptible", "--job-type", "paced", "--", "python3", str(PACED), speeds, "100000000", *slow)
    time.sleep(seconds)
    daemon.run("cancel", "1", "2")
    subprocess.run(daemon.words("wait", "1", "2"), check=False, stdout=subprocess.DEVNULL)
    with contextlib.closing(sqlite3.connect(f"file:{daemon.dir}/rota.db?mode=ro", uri=True)) as store:
        told = [json.loads(detail) for (detail,) in store.execute("SELECT detail FROM events WHERE kind = 'progress'")]
        stops = store.execute("SELECT count(*) FROM events WHERE kind = 'preempted'").fetchone()[0]
        ended = store.execute("SELECT max(wall_ns) / 1e9 FROM events WHERE kind = 'cancelled'").fetchone()[0]
    daemon.close()
    steps = sum(run["run_steps"] for run in told)
    row(f"GPU time in jobs, rounds of {ROUND_SECONDS / scale:g} s, live, {stops} switches", f"{steps / 100.0 / (ended - began):.2%}", ">= 98 %")


class Renewer(threading.Thread):
    """One connection on which a job renews its lease, at a steady pace."""

    def __init__(self, address, token, pace, until):
        super().__init__(daemon=True)
        host, port = address.split(":")
        self.link = socket.create_connection((host, int(port)))
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = json.dumps({"lease": 1, "steps": 1, "seconds": 1.0})
        head = f"POST /lease/v1/renew HTTP/1.1\r\nhost: rota\r\nauthorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.request, self.pace, self.until, self.times = (head + body).encode(), pace, until, []

    def run(self):
        due = time.perf_counter()
        while due < self.until:
            time.sleep(max(due - time.perf_counter(), 0.0))
            before = time.perf_counter()
            self.link.sendall(self.request)
            if not self.link.recv(4096).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a renewal was refused")
            self.times.append(time.perf_counter() - before)
            due = max(due + self.pace, before)


class Submits:
    """Submits one after the other: how long each took, and what they cost the queue's thread, however busy the machine is."""

    COUNT = 100

    def __init__(self, daemon):
        before = self.counters(daemon)
        self.times = [daemon.seconds("submit", "--hold", "--", "true") for _ in range(self.COUNT)]
        after = self.counters(daemon)
        self.cpu_seconds, self.waits = ((later - earlier) / self.COUNT for earlier, later in zip(before, after))

    @staticmethod
    def counters(daemon):
        """Seconds on a processor, and how often the thread waited for something else: a lock, the disk, a message."""
        task = f"/proc/{daemon.process.pid}/task/{daemon.process.pid}"
        with open(f"{task}/schedstat") as text:
            cpu_seconds = int(text.read().split()[0]) / 1e9
        with open(f"{task}/status") as text:
            return cpu_seconds, int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text.read(), re.MULTILINE)[1])


def renewals(rota, wanted):
    """Renewals at a pace from another process each, and submits beside them."""
    daemon = Daemon(rota, "a100:1")
    daemon.run("submit", "--preemptible", "--", "sh", "-c", "echo $ROTA_LEASE_TOKEN; exec sleep 600")
    daemon.run("submit", "--hold", "--", "true")
    token = ""
    while not token:
        token = daemon.run("logs", "1").strip()
    with open(os.path.join(daemon.dir, "lease")) as text:
        address = text.read().strip()
    alone = Submits(daemon)
    workers, seconds = 4, 8.0
    command = [sys.executable, __file__, rota, "--renew", address, token, str(wanted / workers), str(seconds)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    time.sleep(2)
    beside = Submits(daemon)
    times = [float(moment) for process in processes for moment in process.communicate()[0].split()]
    daemon.run("cancel", "1")
    daemon.close()
    row("renewals a second", f"{len(times) / seconds:.0f}", f">= {wanted:.0f} (asked for)")
    row("renewal, p99", milliseconds(percentile(times, 0.99)), "< 10 ms")
    row("submit alone, p50", milliseconds(percentile(alone.times, 0.5)))
    row("submit beside renewals, p50", milliseconds(percentile(beside.times, 0.5)), "no slower")
    row("submit, time of the queue's thread, alone and beside", f"{milliseconds(alone.cpu_seconds)}, {milliseconds(beside.cpu_seconds)}", "no more")
    row("submit, waits of the queue's thread, alone and beside", f"{alone.waits:.2f}, {beside.waits:.2f}", "no more")


def renew(address, token, pace, seconds):
    """A process that renews at a pace, on eight connections."""
    until = time.perf_counter() + seconds
    threads = [Renewer(address, token, 8 / pace, until) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(" ".join(f"{moment:.6f}" for thread in threads for moment in thread.times))


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rota", type=os.path.abspath)
    parser.add_argument("--switches", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=110.0, help="how long the live jobs take turns [110]")
    parser.add_argument("--scale", type=float, default=10.0, help="how many times shorter their rounds, saves and starts are [10]")
    parser.add_argument("--renewals", type=float, default=2000.0, help="renewals a second that are asked for [2000]")
    parser.add_argument("--renew", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.renew:
        address, token, pace, seconds = options.renew
        return renew(address, token, float(pace), float(seconds))
    switches(options.rota, options.switches)
    part_simulated(options.rota)
    part_live(options.rota, options.seconds, options.scale)
    renewals(options.rota, options.renewals)
    return None


if __name__ == "__main__":
    main()
