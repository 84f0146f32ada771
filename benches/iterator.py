#!/usr/bin/env python3
"""What a step of a training costs under `rota.Iterator`, beside a bare loop over the same batches. Target: less than 5 µs.

Usage: iterator.py [--steps 1000000]. The lease service of the Python tests stands for the daemon, so that the threads of the iterator are at work.
Best of five runs of each, because others on the machine can only make it slower.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"
sys.path.insert(0, str(PYTHON))

import rota  # noqa: E402
from tests.lease_server import LeaseServer  # noqa: E402

TARGET_MICROSECONDS = 5.0


def seconds(batches):
    """How long a loop takes that does nothing with its batches."""
    began = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, metavar="N", help="steps of each loop [1000000]")
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        servers = [LeaseServer(pathlib.Path(folder) / name) for name in ("leased", "saving")]
        os.environ.update(servers[0].next_lease())
        leased = rota.Iterator(range(steps), save=print, load=print)
        os.environ.update(servers[1].next_lease())
        saving = rota.Iterator(range(steps), save=print, load=print, save_every=10**12)
        bare = min(seconds(range(steps)) for _ in range(5))
        figures = [("a step of a bare loop", bare / steps, None)]
        for name, batches in (("a step under a lease, beyond that", leased), ("with `save_every`, beyond that", saving)):
            figures.append((name, (min(seconds(batches) for _ in range(5)) - bare) / steps, TARGET_MICROSECONDS))
        for server in servers:
            server.down()
    is_missed = False
    for name, cost, target in figures:
        verdict = "" if target is None else f"< {target:g} µs  {'ok' if cost * 1e6 < target else 'MISSED'}"
        is_missed = is_missed or "MISSED" in verdict
        print(f"{name:<40} {cost * 1e6:8.3f} µs  {verdict}")
    sys.exit(1 if is_missed else 0)


if __name__ == "__main__":
    main()
