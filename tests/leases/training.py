"""A training for `kills.py`: it writes down each step and each commit, and holds a lock on its GPU while it runs."""

import fcntl
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
                if any(b'"stop"' in line for line in lines):
                    stop.set()
        except OSError:
            time.sleep(0.02)


def main():
    """Goes on at the step that was committed last."""
    journal, end, total = open(sys.argv[1], "a", buffering=1), sys.argv[2], int(sys.argv[3])
    folder = os.environ["ROTA_CHECKPOINT_DIR"]
    gpu = open(os.path.join(os.path.dirname(sys.argv[1]), "gpu-" + os.environ["CUDA_VISIBLE_DEVICES"]), "w")
    try:
        fcntl.flock(gpu, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        journal.write(f"clash 0 {LEASE}\n")
    steps = call("grant")["steps_done"]
    journal.write(f"begin {steps} {LEASE}\n")
    threading.Thread(target=listen, daemon=True).start()
    began = time.monotonic()

    def commit():
        name = f"ckpt-{steps}-{LEASE}"
        with open(os.path.join(folder, name), "w") as saved:
            saved.write(str(steps))
        call("commit", step=steps, path=name)
        journal.write(f"committed {steps} {LEASE}\n")

    while steps < total and not stop.is_set():
        if not os.path.exists(end):
            time.sleep(0.02)
        steps += 1
        journal.write(f"step {steps} {LEASE}\n")
        if steps % 10 == 0:
            commit()
    call("progress", steps=steps, seconds=time.monotonic() - began)
    if steps >= total:
        return 0
    commit()
    return 85


sys.exit(main())
