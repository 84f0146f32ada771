"""A training in small: it appends a line for each step, saves and commits when it is asked to stop, and leaves with exit code 85."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../../../tests/leases"))

from lease import Lease  # noqa: E402


def main():
    """Goes on at the step it stopped at."""
    journal, total, seconds_per_step = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    lease = Lease()
    granted = lease.call("grant", rank=0, world=1)
    steps = granted["steps_done"]
    if steps:
        with open(granted["resume_from"]) as saved:
            assert int(saved.read()) == steps, "the checkpoint is not that of the steps credited"
        assert granted["resume_from"] == os.environ["ROTA_RESUME_FROM"]
    lease.listen()
    began = time.monotonic()
    while steps < total and not lease.stop.is_set():
        time.sleep(seconds_per_step)
        steps += 1
        with open(journal, "a") as lines:
            lines.write(f"{steps} {lease.number}\n")
        lease.call("progress", rank=0, steps=steps, seconds=time.monotonic() - began)
    if steps >= total:
        lease.call("complete", rank=0, steps=steps)
        return 0
    lease.save(steps)
    return 85


sys.exit(main())
