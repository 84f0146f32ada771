#!/usr/bin/env python3
"""The API's speed: a page of a long list for many clients at once, and what hundreds who listen to events cost the queue.

Usage: api.py target/release/rota [--jobs 100000] [--clients 50] [--seconds 6] [--streams 500]. Starts a daemon with virtual GPUs in a
temporary folder; wrk is who asks for lists. Prints a table: figure, measured (lists: p50 / p99), target.
"""

import argparse
import json
import os
import re
import selectors
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from live import Daemon, row

LISTS = [
    ("first 1,000 that wait", "/api/v1/jobs?limit=1000"),
    ("last 1,000 of all", "/api/v1/jobs?all=true&limit=1000"),
    ("last 1,000 that are over", "/api/v1/jobs?state=cancelled&limit=1000"),
]


def address_of(daemon):
    url = open(os.path.join(daemon.dir, "http")).read().strip()
    host, port = url.split("://")[1].rsplit(":", 1)
    return host, int(port)


def headers_of(daemon, **more):
    token = open(os.path.join(daemon.dir, "token")).read().strip()
    return {"Authorization": f"Bearer {token}", **more}


def wrk(daemon, path, headers, clients, seconds):
    """The p50 and p99 of as many clients as these who ask again as soon as they have their answer, and the answers a second."""
    host, port = address_of(daemon)
    lines = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t2", f"-c{clients}", f"-d{seconds}", "--latency", *lines, f"http://{host}:{port}{path}"]
    try:
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        raise SystemExit("the load comes from wrk, which is not here: install Debian's package `wrk`") from None
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(said)
    found = re.search(r"\n\s+50%\s+(\S+).*\n\s+99%\s+(\S+).*Requests/sec:\s+(\S+)", said, re.DOTALL)
    return found.groups()


class Arrivals:
    """Jobs that come while the list is read: each makes it out of date."""

    def __init__(self, daemon, every):
        self.open = True
        self.thread = threading.Thread(target=self.submit, args=(daemon, every))
        self.thread.start()

    def submit(self, daemon, every):
        while self.open:
            daemon.run("submit", "--hold", "--", "true")
            time.sleep(every)

    def close(self):
        self.open = False
        self.thread.join()


def lists(daemon, clients, seconds):
    for circumstance, every, more in [("", None, {}), (", packed", None, {"Accept-Encoding": "gzip"}), (", 5 new jobs a second", 0.2, {})]:
        arrivals = every and Arrivals(daemon, every)
        for name, path in LISTS:
            middle, most, rate = wrk(daemon, path, headers_of(daemon, **more), clients, seconds)
            row(f"list: {name}{circumstance}, {clients} clients", f"{middle} / {most}", f"p99 < 30 ms ({rate}/s)")
        if arrivals:
            arrivals.close()


class Listeners:
    """Many who listen to events, and take everything that comes."""

    def __init__(self, daemon, count):
        self.selector = selectors.DefaultSelector()
        self.heard = 0
        self.open = True
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers_of(daemon).items())
        for _ in range(count):
            stream = socket.create_connection(address_of(daemon))
            stream.sendall(f"GET /events HTTP/1.1\r\nHost: rota\r\n{lines}\r\n".encode())
            self.selector.register(stream, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while self.open:
            for key, _ in self.selector.select(timeout=0.1):
                self.heard += len(key.fileobj.recv(1 << 16))

    def close(self):
        self.open = False
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def jobs_seconds(daemon, count):
    """How long it takes until as many jobs as these were submitted, started and ended."""
    since = time.perf_counter()
    made = json.loads(daemon.run("submit", "--json", "--array", f"1-{count}", "--", "true"))
    daemon.run("wait", *map(str, made["ids"]))
    return time.perf_counter() - since


def decisions(daemon):
    """How many decisions there were, and their seconds."""
    host, port = address_of(daemon)
    text = urllib.request.urlopen(f"http://{host}:{port}/metrics").read().decode()
    value = lambda name: float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])
    return value("rota_decision_seconds_count"), value("rota_decision_seconds_sum")


def cycles(daemon, jobs, rounds=5):
    """The quickest of some rounds of jobs, and the mean of all decisions in them."""
    before = decisions(daemon)
    seconds = min(jobs_seconds(daemon, jobs) for _ in range(rounds))
    count, spent = (now - then for now, then in zip(decisions(daemon), before))
    return seconds, spent / count


def streams(rota, folder, count, jobs):
    daemon = Daemon(rota, "a100:8", "--config", settings(folder))
    jobs_seconds(daemon, jobs)
    alone, decision_alone = cycles(daemon, jobs)
    listeners = Listeners(daemon, count)
    watched, decision_watched = cycles(daemon, jobs)
    memory = daemon.memory_mb()
    listeners.close()
    daemon.close()
    row(f"{jobs} jobs, nobody listens / {count} listen", f"{alone:.2f} / {watched:.2f} s", "+10 % at most")
    row("a decision of the scheduler in them, mean", f"{decision_alone * 1e6:.0f} / {decision_watched * 1e6:.0f} us", "+10 % at most")
    row(f"daemon's memory while {count} listen", f"{memory:.0f} MB")
    row("what the listeners took", f"{listeners.heard / 1e6:.1f} MB")


def settings(folder):
    path = os.path.join(folder, "config.toml")
    with open(path, "w") as file:
        file.write("[http]\nrequests_per_second = 0.0\n[limits]\nconnections_per_user = 4096\nstreams_per_user = 4096\nstreams_max = 4096\n")
    return path


def queue_of(rota, folder, jobs):
    """A daemon with so many jobs, half of which are over."""
    daemon = Daemon(rota, "a100:8", "--config", settings(folder))
    daemon.run("submit", "--hold", "--array", f"1-{jobs}", "--", "python", "train.py", "--fold", "{index}")
    daemon.process.terminate()
    daemon.process.wait()
    with sqlite3.connect(os.path.join(daemon.dir, "rota.db")) as store:
        store.execute("UPDATE jobs SET state = 'cancelled', finished_ns = submitted_ns + 1 WHERE id % 2 = 0")
    store.close()
    again = [rota, "up", "--foreground", "--state", daemon.dir, "--virtual-gpus", "a100:8", "--config", settings(folder)]
    daemon.process = subprocess.Popen(again, stdout=subprocess.PIPE, text=True)
    daemon.process.stdout.readline()
    return daemon


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rota")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--events-jobs", type=int, default=200)
    args = parser.parse_args()
    rota = os.path.abspath(args.rota)
    with tempfile.TemporaryDirectory() as folder:
        daemon = queue_of(rota, folder, args.jobs)
        lists(daemon, args.clients, args.seconds)
        daemon.close()
        streams(rota, folder, args.streams, args.events_jobs)


if __name__ == "__main__":
    sys.exit(main())
