#!/usr/bin/env python3
"""The API's speed: a page of a long list for many clients at once, and what hundreds who listen to events cost the queue.

Usage: api.py target/release/rota [--jobs 100000] [--clients 50] [--requests 20] [--streams 500]. Starts a daemon with virtual GPUs in a
temporary folder. Prints a table: figure, measured, target.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import selectors
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from live import Daemon, row
from timing import milliseconds, percentile

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


def ask_often(address, path, headers, requests, start, results):
    """The seconds that each of some requests took on one connection."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start.wait()
    for _ in range(requests):
        since = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        results.append(time.perf_counter() - since)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")


def clients_of_one_process(address, path, headers, clients, requests, start, queue):
    results = []
    arguments = (address, path, headers, requests, start, results)
    threads = [threading.Thread(target=ask_often, args=arguments) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(results)


def lists(daemon, clients, requests):
    """Several processes ask, so that one interpreter is not what is measured."""
    processes = min(5, clients)
    for packing, more in [("", {}), (", packed", {"Accept-Encoding": "gzip"})]:
        for name, path in LISTS:
            start, queue = multiprocessing.Barrier(clients), multiprocessing.Queue()
            each = [clients // processes + (number < clients % processes) for number in range(processes)]
            arguments = (address_of(daemon), path, headers_of(daemon, **more))
            workers = [
                multiprocessing.Process(target=clients_of_one_process, args=(*arguments, count, requests, start, queue)) for count in each
            ]
            since = time.perf_counter()
            for worker in workers:
                worker.start()
            times = sorted(second for _ in workers for second in queue.get())
            for worker in workers:
                worker.join()
            rate = len(times) / (time.perf_counter() - since)
            label = f"list: {name}{packing}, {clients} clients, p50 / p99"
            row(label, f"{milliseconds(percentile(times, 0.5))} / {milliseconds(percentile(times, 0.99))}", f"p99 < 30 ms ({rate:.0f}/s)")


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


def streams(rota, folder, count, jobs):
    daemon = Daemon(rota, "a100:8", "--config", settings(folder))
    jobs_seconds(daemon, jobs)
    alone = min(jobs_seconds(daemon, jobs) for _ in range(3))
    listeners = Listeners(daemon, count)
    watched = min(jobs_seconds(daemon, jobs) for _ in range(3))
    memory = daemon.memory_mb()
    decision = json.loads(daemon.run("status", "--json"))["decision_seconds_max"]
    listeners.close()
    daemon.close()
    row(f"{jobs} jobs, nobody listens / {count} listen", f"{alone:.2f} / {watched:.2f} s", "+10 % at most")
    row(f"longest decision while {count} listen", milliseconds(decision))
    row(f"daemon's memory while {count} listen", f"{memory:.0f} MB")
    row("what the listeners took", f"{listeners.heard / 1e6:.1f} MB")


def settings(folder):
    path = os.path.join(folder, "config.toml")
    with open(path, "w") as file:
        file.write("[http]\nrequests_per_second = 0.0\n")
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
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--events-jobs", type=int, default=200)
    args = parser.parse_args()
    rota = os.path.abspath(args.rota)
    with tempfile.TemporaryDirectory() as folder:
        daemon = queue_of(rota, folder, args.jobs)
        lists(daemon, args.clients, args.requests)
        daemon.close()
        streams(rota, folder, args.streams, args.events_jobs)


if __name__ == "__main__":
    sys.exit(main())
