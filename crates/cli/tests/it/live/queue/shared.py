"""A training that loses a quarter of its speed while another one has the same GPU: `shared.py FOLDER STEPS_PER_SECOND`.

Trainings put a file each into the folder while they run. It tells its steps often, saves when it is asked to stop, and leaves with exit code 85.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../../../tests/leases"))

from lease import Lease  # noqa: E402

TELL_SECONDS = 0.1


def main():
    """Goes on at the step that was committed last."""
    folder, steps_per_second = sys.argv[1], float(sys.argv[2])
    lease = Lease()
    steps = lease.call("grant")["steps_done"]
    lease.listen()
    own = os.path.join(folder, os.environ["ROTA_JOB_ID"])
    open(own, "w").close()
    began = now = time.monotonic()
    done = 0.0
    while not lease.stop.is_set():
        time.sleep(TELL_SECONDS)
        before, now = now, time.monotonic()
        done += (now - before) * steps_per_second * (1.0 if len(os.listdir(folder)) == 1 else 0.75)
        lease.call("progress", steps=steps + int(done), seconds=now - began)
    os.unlink(own)
    lease.save(steps + int(done))
    return 85


sys.exit(main())
