"""A training whose speed depends on its GPU: `paced.py SPEEDS.json TOTAL [STOP_SECONDS START_SECONDS]`.

The file says how many steps a second it makes on which GPU. It tells its steps twice a second, saves when it is asked to stop, and leaves with exit
code 85. It takes so many seconds to save, and so many to start.
"""

import json
import os
import sys
import time

from lease import Lease

TELL_SECONDS = 0.5


def main():
    """Goes on at the step that was committed last."""
    with open(sys.argv[1]) as text:
        steps_per_second = json.load(text)[os.environ["CUDA_VISIBLE_DEVICES"]]
    total = int(sys.argv[2])
    stop_seconds, start_seconds = (float(word) for word in (sys.argv[3:5] or ("0", "0")))
    lease = Lease()
    steps = before = lease.call("grant")["steps_done"]
    lease.listen()
    began = time.monotonic()
    time.sleep(start_seconds)
    time.sleep(1 / steps_per_second)
    first = time.monotonic()
    told = 0.0
    while steps < total and not lease.stop.is_set():
        # A step that comes late is made up for, but for the first: the speed is that of the GPU, whatever else the machine does.
        time.sleep(max(first + (steps - before) / steps_per_second - time.monotonic(), 0.0))
        steps += 1
        now = time.monotonic()
        if steps == before + 1:
            print(f"first step {time.time():.3f}", flush=True)
        if now - told > TELL_SECONDS:
            lease.call("progress", steps=steps, seconds=now - began)
            told = now
    lease.call("progress", steps=steps, seconds=time.monotonic() - began)
    if steps >= total:
        lease.call("complete", steps=steps)
        return 0
    time.sleep(stop_seconds)
    lease.save(steps)
    return 85


sys.exit(main())
