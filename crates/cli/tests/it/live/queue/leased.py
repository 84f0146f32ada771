"""A training in small, with the lease service and nothing but the standard library.

It appends a line for each step, saves and commits when it is asked to stop, and leaves with exit code 85.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

ADDRESS = "http://" + os.environ["ROTA_LEASE_ADDR"]
HEADERS = {"Authorization": "Bearer " + os.environ["ROTA_LEASE_TOKEN"], "Content-Type": "application/json"}
LEASE = int(os.environ["ROTA_LEASE"])
FOLDER = os.environ["ROTA_CHECKPOINT_DIR"]
stop = threading.Event()


def call(name, **body):
    """Asks until the daemon answers: it may be away for a while."""
    data = json.dumps({"lease": LEASE, **body}).encode()
    while True:
        try:
            request = urllib.request.Request(f"{ADDRESS}/lease/v1/{name}", data, HEADERS)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"{name}: {error.code} {error.read().decode()}")
        except OSError:
            time.sleep(0.02)


def listen():
    """Waits for the word that it must leave."""
    while not stop.is_set():
        try:
            request = urllib.request.Request(f"{ADDRESS}/lease/v1/notice?lease={LEASE}", headers=HEADERS)
            with urllib.request.urlopen(request, timeout=60) as lines:
                for line in lines:
                    if b'"stop"' in line:
                        stop.set()
                        return
        except OSError:
            time.sleep(0.02)


def main():
    """Goes on at the step it stopped at."""
    journal, total, seconds_per_step = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    granted = call("grant", rank=0, world=1)
    steps = granted["steps_done"]
    if steps:
        with open(granted["resume_from"]) as saved:
            assert int(saved.read()) == steps, "the checkpoint is not that of the steps credited"
        assert granted["resume_from"] == os.environ["ROTA_RESUME_FROM"]
    threading.Thread(target=listen, daemon=True).start()
    began = time.monotonic()
    while steps < total and not stop.is_set():
        time.sleep(seconds_per_step)
        steps += 1
        with open(journal, "a") as lines:
            lines.write(f"{steps} {LEASE}\n")
        call("progress", rank=0, steps=steps, seconds=time.monotonic() - began)
    if steps >= total:
        call("complete", rank=0, steps=steps)
        return 0
    name = f"ckpt-{steps}-{LEASE}"
    with open(os.path.join(FOLDER, name), "w") as saved:
        saved.write(str(steps))
    call("commit", rank=0, step=steps, path=name)
    return 85


sys.exit(main())
