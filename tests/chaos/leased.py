"""A job with a lease: it says what it has done, saves when it is told to leave, and goes on from there.

    leased.py MARKS LOCKS SECONDS CODE

It makes the same marks as the other jobs of the suite. The daemon may be away or end in the middle of an answer, and the disk may be full:
the job asks again, and writes again.
"""

import fcntl
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

ADDRESS = "http://" + os.environ["ROTA_LEASE_ADDR"]
HEADERS = {"Authorization": "Bearer " + os.environ["ROTA_LEASE_TOKEN"], "Content-Type": "application/json"}
LEASE = int(os.environ["ROTA_LEASE"])
SAVED_AND_LEFT = 85
STEPS = 10


def call(name, **body):
    """Asks until the daemon answers. A refusal that is about this lease ends the job: another run has its place."""
    data = json.dumps({"lease": LEASE, "rank": 0, **body}).encode()
    while True:
        try:
            request = urllib.request.Request(f"{ADDRESS}/lease/v1/{name}", data, HEADERS)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                print(f"{name}: {error.code} {error.read().decode()}", file=sys.stderr)
                sys.exit(SAVED_AND_LEFT)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            pass
        time.sleep(0.05)


def save(name, step):
    """Writes the checkpoint, however long the disk is full. A job that cannot save in its grace time is killed, and its work is lost."""
    path = os.path.join(os.environ["ROTA_CHECKPOINT_DIR"], name)
    while True:
        try:
            with open(path, "w", encoding="utf-8") as saved:
                saved.write(str(step))
            return
        except OSError:
            time.sleep(0.05)


def mark(path, word, more):
    with open(path, "a", encoding="utf-8") as marks:
        marks.write(f"{word} {os.environ['ROTA_JOB_ID']} {more}\n")


def main():
    marks, locks, seconds, code = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    held = []
    for gpu in filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")):
        held.append(open(os.path.join(locks, gpu), encoding="utf-8"))  # noqa: SIM115 -- held until the job ends
        try:
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            mark(marks, "double", gpu)
    mark(marks, "begin", os.environ["ROTA_ATTEMPT"])
    step = call("grant", world=1)["steps_done"]
    while step < STEPS:
        time.sleep(seconds / STEPS)
        step += 1
        if call("renew", steps=step, seconds=seconds)["state"] == "stop":
            name = f"saved-{LEASE}"
            save(name, step)
            call("commit", step=step, path=name)
            return SAVED_AND_LEFT
    call("complete", steps=step)
    mark(marks, "end", os.environ["ROTA_ATTEMPT"])
    return code


if __name__ == "__main__":
    sys.exit(main())
