"""One process for each GPU of a job: `python -m rota.launch train.py …`.

Every process gets `RANK`, `LOCAL_RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`, as PyTorch's `init_process_group`
reads them. Unlike PyTorch's own launcher it knows exit code 85: where all processes saved and left, so does the launcher, and
the job goes on later.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from types import FrameType
from typing import Optional

from ._lease.iterator import EXIT_CODE

LEAVING_SECONDS_MAX = 30.0
"""How long the others may take to end after one process has failed."""


def main(arguments: Optional[list[str]] = None) -> int:
    """Starts the processes and waits for all of them; returns the exit code of the job."""
    options = _parse(arguments)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(options.processes)}
    line = [sys.executable, options.script, *options.arguments]
    ranks: list[subprocess.Popen[bytes]] = []

    def hand_on(number: int, _: Optional[FrameType]) -> None:
        for process in ranks:
            process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    for rank in range(options.processes):
        environment = {**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(subprocess.Popen(line, env=environment))  # noqa: S603 - the user's own script
    return _wait(ranks)


def _parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rota.launch",
        description="Start a script once for each GPU of the job.",
        epilog="example: rota submit -g 4 --preemptible -- python -m rota.launch train.py --epochs 90",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="processes to start; as many as the job has GPUs if not given"
    )
    parser.add_argument("script", help="the Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    if options.processes is None:
        options.processes = int(os.environ.get("ROTA_GPUS") or 1)
    if options.processes < 1:
        parser.error(f"--processes is {options.processes}; it must be at least 1")
    return options


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Waits for all. After a failure the others are ended, because they would wait for the one that failed."""
    running = list(ranks)
    while running:
        pid, status = os.wait()
        ended = [process for process in running if process.pid == pid]
        for process in ended:
            running.remove(process)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in (0, EXIT_CODE):
                _end(running)
                return process.returncode if process.returncode > 0 else 128 - process.returncode
    codes = {process.returncode for process in ranks}
    # Some have all their work done, others were stopped: it is not all done.
    return max(code for code in codes if code is not None)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(LEAVING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
