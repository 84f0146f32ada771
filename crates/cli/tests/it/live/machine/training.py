"""A training that a stand-in GPU can see: it takes memory step by step, as trainings do, in the file that the stand-in tells.

Called as `training.py --epochs=E --id=K` with, in the environment: FAKE_NVML (the machine), PEAK_MIB (what it really needs; a number, or
`name:number,…` by the file's own name), EPOCH_SECONDS. A GPU that is full ends it as PyTorch would. What it did is appended to DONE.
"""

import fcntl
import json
import os
import sys
import time

MACHINE = os.environ["FAKE_NVML"]
NAME = os.path.basename(sys.argv[0])


def peak():
    text = os.environ["PEAK_MIB"]
    return int(dict(part.split(":") for part in text.split(","))[NAME] if ":" in text else text)


def take(memory):
    """Has so much of the GPU from now on; 0 leaves it."""
    uuid = os.environ["CUDA_VISIBLE_DEVICES"]
    with open(MACHINE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(MACHINE) as file:
            machine = json.load(file)
        device = next(device for device in machine["devices"] if device["uuid"] == uuid)
        others = [process for process in device["processes"] if process["pid"] != os.getpid()]
        used = sum(process["memory_mib"] for process in others) + memory
        if used > device["memory_total_mib"]:
            memory, used = 0, used - memory
            device["overflows"] = device.get("overflows", 0) + 1
        device["processes"] = others + ([{"pid": os.getpid(), "memory_mib": memory, "utilisation": 20}] if memory else [])
        device["memory_used_mib"] = used
        device["highest_mib"] = max(device.get("highest_mib", 0), used)
        with open(MACHINE + ".next", "w") as file:
            json.dump(machine, file)
        os.rename(MACHINE + ".next", MACHINE)
    return memory


def main():
    options = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
    epochs, number = int(options["epochs"]), options["id"]
    for epoch in range(epochs):
        wanted = peak() * min(epoch + 1, 2) // 2
        if take(wanted) < wanted:
            print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than there is.", flush=True)
            sys.exit(1)
        time.sleep(float(os.environ["EPOCH_SECONDS"]))
    take(0)
    with open(os.environ["DONE"], "a") as file:
        file.write(f"{NAME} {epochs} {number}\n")


main()
