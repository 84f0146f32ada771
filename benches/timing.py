"""Timing shared by the benches: one way to run a program and time it, one way to sum times up, one way to wait."""

import os
import select
import signal
import time


def timed(words, env=None, stdout=os.devnull, stderr=None, seconds_max=60.0):
    """Run a program to its end; the seconds from its spawn to its reaping.

    Its output goes to files: a pipe that this process reads, and a fork of this process, would be part of the time.
    """
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, stdout, writing, 0o600)]
    if stderr:
        files.append((os.POSIX_SPAWN_OPEN, 2, stderr, writing, 0o600))
    before = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ if env is None else env, file_actions=files)
    in_time = ended(pid, seconds_max)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seconds = time.perf_counter() - before
    if not in_time:
        raise TimeoutError(f"`{' '.join(words)}` took more than {seconds_max:.0f} s")
    if status != 0:
        raise RuntimeError(f"`{' '.join(words)}` ended with {status}{last_line(stderr)}")
    return seconds


def ended(pid, seconds_max):
    """Wait for the end of a process, a child or not, and leave its status to whoever reaps it; whether it came in time."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], seconds_max)[0])
    finally:
        os.close(watch)


def last_line(path):
    """`: ` and the last line of a file with something in it; nothing if there is none."""
    if path is None or not os.path.exists(path):
        return ""
    with open(path, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return f": {lines[-1]}" if lines else ""


def until(what, condition, seconds_max):
    """Ask every 20 ms until the condition holds."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds_max:.0f} s")
        time.sleep(0.02)


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms"


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
