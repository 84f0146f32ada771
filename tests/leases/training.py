"""A training for `kills.py`: it writes down each step and each commit, and holds a lock on its GPU while it runs."""

import fcntl
import os
import sys
import time

from lease import Lease


def main():
    """Goes on at the step that was committed last."""
    journal, end, total = open(sys.argv[1], "a", buffering=1), sys.argv[2], int(sys.argv[3])
    lease = Lease()
    gpu = open(os.path.join(os.path.dirname(sys.argv[1]), "gpu-" + os.environ["CUDA_VISIBLE_DEVICES"]), "w")
    try:
        fcntl.flock(gpu, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        journal.write(f"clash 0 {lease.number}\n")
    steps = lease.call("grant")["steps_done"]
    journal.write(f"begin {steps} {lease.number}\n")
    lease.listen()
    began = time.monotonic()

    def commit():
        lease.save(steps)
        journal.write(f"committed {steps} {lease.number}\n")

    while steps < total and not lease.stop.is_set():
        if not os.path.exists(end):
            time.sleep(0.02)
        steps += 1
        journal.write(f"step {steps} {lease.number}\n")
        if steps % 10 == 0:
            commit()
    lease.call("progress", steps=steps, seconds=time.monotonic() - began)
    if steps >= total:
        return 0
    commit()
    return 85


sys.exit(main())
