#!/usr/bin/env python3
"""What NVIDIA's own Python bindings, gpustat and nvitop say about the GPUs, as one JSON document on one line.

They load `libnvidia-ml.so.1` by its name, so a folder in LD_LIBRARY_PATH with a link of that name to the fake library is
what makes them see the GPUs of FAKE_NVML. With `--watch`, a further document is printed for every line read from standard
input, by the same running clients: so that a test can change the file in between.

The packages and their exact versions are in requirements.txt.
"""

import json
import sys

import gpustat
import nvitop
import pynvml

MIB = 1024 * 1024


def known(function, *arguments):
    """The value, or None where the device has none. A lost device is an error like any other."""
    try:
        return function(*arguments)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None


def mib(count):
    return None if count is None else count // MIB


def by_pid(processes):
    """One entry a process: one that computes and draws is listed twice by NVML, with the same memory."""
    merged = {}
    for pid, memory in processes:
        merged[pid] = memory if merged.get(pid) is None else max(merged[pid], memory or 0)
    return [{"pid": pid, "memory_mib": merged[pid]} for pid in sorted(merged)]


def of_pynvml(handle, index):
    memory = known(pynvml.nvmlDeviceGetMemoryInfo, handle)
    utilisation = known(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power = known(pynvml.nvmlDeviceGetPowerUsage, handle)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    processes += pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
    return {
        "index": index,
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "name": pynvml.nvmlDeviceGetName(handle),
        "memory_total_mib": memory and mib(memory.total),
        "memory_used_mib": memory and mib(memory.used),
        "utilisation_percent": utilisation and utilisation.gpu,
        "power_watts": None if power is None else power / 1000,
        "temperature_c": known(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "processes": by_pid((process.pid, mib(process.usedGpuMemory)) for process in processes),
    }


def parts(handle):
    """The handles of the MIG devices of a GPU."""
    mode = known(pynvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    found = []
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place))
        except pynvml.NVMLError_NotFound:
            continue
    return found


def ask_pynvml():
    pynvml.nvmlInit()
    try:
        devices = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                device = of_pynvml(handle, index)
                device["mig"] = [of_pynvml(part, place) for place, part in enumerate(parts(handle))]
            except pynvml.NVMLError as error:
                device = {"index": index, "error": str(error)}
            devices.append(device)
        return devices
    finally:
        pynvml.nvmlShutdown()


def of_gpustat(device):
    entry = device.entry
    # gpustat has an entry for a lost device too, with an error in place of a name.
    if entry["uuid"] is None or not entry["uuid"].startswith("GPU-"):
        return {"index": entry["index"], "error": entry["name"]}
    return {
        "index": entry["index"],
        "uuid": entry["uuid"],
        "name": entry["name"],
        "memory_total_mib": entry["memory.total"],
        "memory_used_mib": entry["memory.used"],
        "utilisation_percent": entry["utilization.gpu"],
        "power_watts": entry["power.draw"],
        "temperature_c": entry["temperature.gpu"],
        "processes": by_pid((process["pid"], process["gpu_memory_usage"]) for process in entry["processes"] or []),
    }


def ask_gpustat():
    return [of_gpustat(device) for device in gpustat.GPUStatCollection.new_query()]


def value(answer):
    """nvitop has a marker of its own for what a device does not tell."""
    return None if answer is nvitop.NA or str(answer) == "N/A" else answer


def of_nvitop(device, index):
    power = value(device.power_usage())
    processes = device.processes().values()
    return {
        "index": index,
        "uuid": value(device.uuid()),
        "name": value(device.name()),
        "memory_total_mib": mib(value(device.memory_total())),
        "memory_used_mib": mib(value(device.memory_used())),
        "utilisation_percent": value(device.gpu_utilization()),
        "power_watts": None if power is None else power / 1000,
        "temperature_c": value(device.temperature()),
        "processes": by_pid((process.pid, mib(value(process.gpu_memory()))) for process in processes),
    }


def ask_nvitop():
    devices = []
    for index, device in enumerate(nvitop.Device.all()):
        # nvitop makes a device of a lost one, all of whose figures are unknown.
        if value(device.uuid()) is None:
            devices.append({"index": index, "error": str(device.name())})
            continue
        told = of_nvitop(device, index)
        told["mig"] = [of_nvitop(part, place) for place, part in enumerate(device.mig_devices())]
        devices.append(told)
    return devices


def main():
    watch = sys.argv[1:] == ["--watch"]
    if sys.argv[1:] and not watch:
        sys.exit("usage: nvml_clients.py [--watch]")
    while True:
        document = {"pynvml": ask_pynvml(), "gpustat": ask_gpustat(), "nvitop": ask_nvitop()}
        print(json.dumps(document), flush=True)
        if not watch or not sys.stdin.readline():
            return


if __name__ == "__main__":
    main()
