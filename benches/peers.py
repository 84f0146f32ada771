#!/usr/bin/env python3
"""Rota beside other queues for one machine, measured alike, on the same machine, in the same run.

Usage: peers.py target/release/rota [--jobs 200] [--tools DIR] [--install DIR]. `--install DIR` puts the pinned versions of the peers
into DIR (a Python environment, and pueue built by cargo); without it they are looked for in `--tools DIR` (target/peers) and on PATH.
What cannot be measured is `-`, with its reason below the table.

- submit: the CLI from spawn to exit, the queue's only slot being held by a job; p50 and p99 of `--jobs` submits, in milliseconds.
- gap: then the slot is let go, and each job writes the time and ends; the median from one job's stamp to the next one's.
- jobs/s: no-op jobs on 8 slots, from the first submit until the tool lists the last as finished; submitted one by one, and as one array
  where the tool has such a thing.
- kept: the daemon gets KILL directly after a submit is acknowledged and is started again; how often the job is still listed.

GPU queues get 8 (or 1) GPUs: Rota its virtual ones, others Rota's stand-in for NVIDIA's library (`libnvidia_ml_fake.so`, beside the
binary). Tools without a notion of GPUs get as many slots. Each daemon has a temporary home of its own and ends with the measurement.
"""

import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from timing import ended, last_line, percentile, timed, until

SLOTS = 8
KILLS = 5
# A tool may need this long to finish the jobs it was given; what it managed by then is what is measured.
MEASURE_SECONDS_MAX = 60.0
START_SECONDS_MAX = 20.0

PYTHON_PACKAGES = ["runqd==0.4.18", "gq-local==0.3.0", "nvidia-ml-py==13.615.71"]
PUEUE = "4.0.4"
COLUMNS = ["tool", "version", "submit p50 ms", "p99 ms", "jobs/s", "jobs/s array", "gap ms", "kept"]

STAMP = '#!/bin/bash\necho "$EPOCHREALTIME" >> {folder}/stamps\n'
HOLD = "#!/bin/bash\ntouch {folder}/held\nwhile [ -e {folder}/hold ]; do sleep 0.05; done\n"


class Missing(Exception):
    """A program or library that is not there; says how to get it."""


class Programs:
    """Where the tools' programs are."""

    def __init__(self, rota, tools):
        self.rota = os.path.abspath(rota)
        self.path = os.pathsep.join([os.path.join(tools, "venv/bin"), os.path.join(tools, "bin"), os.environ.get("PATH", os.defpath)])

    def find(self, name, how):
        found = self.rota if name == "rota" else shutil.which(name, path=self.path)
        if found is None:
            raise Missing(f"`{name}` is not installed; {how}")
        return found

    def fake_nvml(self):
        folder = os.path.dirname(self.rota)
        for path in (os.path.join(folder, name, "libnvidia_ml_fake.so") for name in ("", "deps")):
            if os.path.exists(path):
                return path
        raise Missing("needs GPUs and there is no `libnvidia_ml_fake.so` beside rota; `cargo build --release -p rota-fake-nvml`")


class Queue:
    """A queue tool with a daemon in a temporary folder. Subclasses say how theirs is started, given jobs and asked."""

    title = ""
    # The programs used, the one that knows the version first.
    commands = ()
    version_flag = "--version"
    how = "run with `--install DIR`"
    needs_nvml = False

    def __init__(self, programs, slots):
        self.slots = slots
        self.daemon = None
        self.pid = None
        self.program = {name: programs.find(name, self.how) for name in self.commands}
        library = programs.fake_nvml() if self.needs_nvml else None
        self.folder = tempfile.mkdtemp(prefix="peers-")
        self.env = self.environment(programs.path)
        self.write("hold", "")
        self.stamp = self.script("stamp", STAMP)
        self.holder = self.script("holder", HOLD)
        if library:
            self.invent_gpus(library)
        self.prepare()

    def environment(self, path):
        """All that the tool and its jobs see: nothing of the user's own queues."""
        env = {"PATH": path, "HOME": self.folder, "TMPDIR": self.folder, "USER": "bench", "LANG": "C.UTF-8"}
        for name in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
            env[f"XDG_{name}"] = os.path.join(self.folder, name.lower())
            os.mkdir(env[f"XDG_{name}"], 0o700)
        return env

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def script(self, name, text):
        path = self.write(name, text.format(folder=self.folder))
        os.chmod(path, 0o700)
        return path

    def invent_gpus(self, library):
        """Let the tool load Rota's stand-in in place of NVIDIA's library."""
        devices = [{"uuid": f"GPU-{index}", "name": "NVIDIA A100-SXM4-40GB", "memory_total_mib": 40960} for index in range(self.slots)]
        self.env["FAKE_NVML"] = self.write("nvml.json", json.dumps({"driver": "550.54", "cuda": 12040, "devices": devices}))
        self.env["LD_LIBRARY_PATH"] = os.path.join(self.folder, "lib")
        os.mkdir(self.env["LD_LIBRARY_PATH"])
        for name in ("libnvidia-ml.so.1", "libnvidia-ml.so"):
            os.symlink(library, os.path.join(self.folder, "lib", name))

    # What a tool is: to be given by each.

    def prepare(self):
        """Write the settings."""

    def daemon_words(self):
        """The daemon, in the foreground."""

    def address(self):
        """What the daemon listens on: the path of a socket, or a port."""

    def submit_words(self, job):
        """Give one job, whose command is `job`."""

    def array_words(self, jobs):
        """Give many no-op jobs by one command; None where there is none."""

    def list_words(self):
        """List all jobs, also those that are over."""

    def states(self, text):
        """The state of each job in the list: `done`, `failed`, or anything else for one that is not over."""

    # What is done with it.

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        log = os.path.join(self.folder, "daemon.log")
        with open(log, "a") as output:
            self.daemon = subprocess.Popen(
                self.daemon_words(), env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.pid = self.daemon.pid
        until("the daemon listens", lambda: self.listens() or self.died(log), START_SECONDS_MAX)
        self.configure()

    def configure(self):
        """Tell the running daemon what its settings cannot."""

    def died(self, log):
        if self.daemon.poll() is None:
            return False
        raise RuntimeError(f"its daemon ended at once{last_line(log)}")

    def listens(self):
        at = self.address()
        with socket.socket(socket.AF_INET if isinstance(at, int) else socket.AF_UNIX) as client:
            return client.connect_ex(("127.0.0.1", at) if isinstance(at, int) else at) == 0

    def call(self, words):
        """Run the tool's CLI; the seconds it took. Its output is in the file `output`."""
        return timed(words, self.env, os.path.join(self.folder, "output"), os.path.join(self.folder, "errors"))

    def submit(self, job):
        return self.call(self.submit_words(job))

    def listed(self):
        self.call(self.list_words())
        with open(os.path.join(self.folder, "output")) as file:
            return list(self.states(file.read()))

    def hold(self):
        """Give a job that keeps one slot until `release`, and wait until it runs."""
        self.submit(self.holder)
        until("its first job runs", lambda: os.path.exists(os.path.join(self.folder, "held")), START_SECONDS_MAX)

    def release(self):
        os.remove(os.path.join(self.folder, "hold"))

    def stamps(self):
        path = os.path.join(self.folder, "stamps")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return sorted(float(line) for line in file if line.endswith("\n"))

    def stop(self, how):
        """Send the daemon a signal and wait for its end."""
        if self.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, how)
        if not ended(self.pid, 10.0):
            os.kill(self.pid, signal.SIGKILL)
            ended(self.pid, 10.0)
        if self.daemon:
            self.daemon.wait()
        self.pid = None

    def close(self):
        """End the daemon and everything it started: all of it has the temporary folder as its home."""
        self.stop(signal.SIGTERM)
        if os.path.exists(os.path.join(self.folder, "hold")):
            self.release()
        deadline = time.monotonic() + 5.0
        for pid in self.left():
            if not ended(pid, max(0.0, deadline - time.monotonic())):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self):
        """The processes that are still there."""
        mark = f"HOME={self.folder}\0".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read():
                        yield int(name)
            except OSError:
                continue


class Rota(Queue):
    title = "rota"
    commands = ("rota",)

    def prepare(self):
        self.env["ROTA_STATE"] = os.path.join(self.folder, "rota")

    def daemon_words(self):
        return [self.program["rota"], "up", "--foreground", "--virtual-gpus", f"a100:{self.slots}"]

    def address(self):
        return os.path.join(self.folder, "rota/rota.sock")

    def submit_words(self, job):
        return [self.program["rota"], "submit", "--", job]

    def array_words(self, jobs):
        return [self.program["rota"], "submit", "--array", f"1-{jobs}", "--", "true"]

    def list_words(self):
        return [self.program["rota"], "queue", "--all", "--json"]

    def states(self, text):
        over = {"done": "done", "failed": "failed", "lost": "failed", "cancelled": "failed"}
        return [over.get(job["state"], "open") for job in json.loads(text)]


class TaskSpooler(Queue):
    """Its server is started by the first call, and each queued job has a client process of its own."""

    title = "task-spooler"
    commands = ("tsp",)
    version_flag = "-V"
    how = "`apt-get install task-spooler`"

    def prepare(self):
        self.env["TS_SOCKET"] = self.address()
        self.env["TS_MAXFINISHED"] = "100000"

    def start(self):
        self.call([self.program["tsp"], "-S", str(self.slots)])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.address())
            self.pid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def address(self):
        return os.path.join(self.folder, "tsp.sock")

    def submit_words(self, job):
        return [self.program["tsp"], "-n", job]

    def list_words(self):
        return [self.program["tsp"], "-l"]

    def states(self, text):
        for fields in (line.split() for line in text.splitlines()[1:]):
            yield "open" if fields[1] != "finished" else "done" if fields[3] == "0" else "failed"


class Pueue(Queue):
    title = "pueue"
    commands = ("pueue", "pueued")

    def prepare(self):
        self.write("config_home/pueue/pueue.yml", f"shared:\n  use_unix_socket: true\n  unix_socket_path: {self.address()}\n")

    def daemon_words(self):
        return [self.program["pueued"]]

    def configure(self):
        self.call([self.program["pueue"], "parallel", str(self.slots)])

    def address(self):
        return os.path.join(self.folder, "pueue.sock")

    def submit_words(self, job):
        return [self.program["pueue"], "add", "--", job]

    def list_words(self):
        return [self.program["pueue"], "status", "--json"]

    def states(self, text):
        for task in json.loads(text)["tasks"].values():
            done = task["status"].get("Done") if isinstance(task["status"], dict) else None
            yield "open" if done is None else "done" if done["result"] == "Success" else "failed"


class Gflow(Queue):
    """With the executor that starts processes: the one on tmux, its default, loses jobs."""

    title = "gflow (runqd)"
    commands = ("gflowd", "gbatch", "gqueue")
    needs_nvml = True

    def prepare(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # It looks for free GPUs every 10 s if not told otherwise; 1 s is the least it takes.
        daemon = f'[daemon]\nhost = "localhost"\nport = {self.port}\ngpu_poll_interval_secs = 1\n'
        self.write("config_home/gflow/gflow.toml", f'{daemon}[executor]\ntype = "process"\n')

    def daemon_words(self):
        return [self.program["gflowd"]]

    def address(self):
        return self.port

    def submit_words(self, job):
        return [self.program["gbatch"], "--gpus", "1", job]

    def array_words(self, jobs):
        return [self.program["gbatch"], "--gpus", "1", "--array", f"1-{jobs}", "true"]

    def list_words(self):
        return [self.program["gqueue"], "--all", "--user", "all", "--output", "json"]

    def states(self, text):
        over = {"Finished": "done", "Failed": "failed", "Cancelled": "failed", "Timeout": "failed"}
        return [over.get(job["state"], "open") for job in json.loads(text)["jobs"]]


class Gq(Queue):
    title = "gq-local"
    commands = ("gq",)
    needs_nvml = True

    def prepare(self):
        self.env["GQ_ALLOW_ROOT"] = "1"

    def daemon_words(self):
        return [os.path.join(os.path.dirname(self.program["gq"]), "python"), "-m", "gq.daemon"]

    def address(self):
        return os.path.join(self.folder, "runtime_dir/gq/gq.sock")

    def submit_words(self, job):
        return [self.program["gq"], "run", "--gpus", "1", "--", job]

    def list_words(self):
        return [self.program["gq"], "ps", "--json", "--limit", "100000"]

    def states(self, text):
        over = {"DONE": "done", "FAILED": "failed", "CANCELLED": "failed", "ORPHANED": "failed"}
        return [over.get(job["state"], "open") for job in json.loads(text)]


def submits_and_gap(tool, programs, jobs, note):
    """Jobs behind one that holds the only slot, then one after the other."""
    with tool(programs, 1) as queue:
        queue.hold()
        times = [queue.submit(queue.stamp) for _ in range(jobs)]
        queue.release()
        try:
            until("all jobs ran", lambda: len(queue.stamps()) >= jobs, MEASURE_SECONDS_MAX)
        except TimeoutError:
            note(f"gap: from the {len(queue.stamps())} of {jobs} jobs that ran within {MEASURE_SECONDS_MAX:.0f} s")
        stamps = queue.stamps()
    gaps = [later - earlier for earlier, later in zip(stamps, stamps[1:])]
    return {
        "submit p50 ms": f"{percentile(times, 0.5) * 1000:.1f}",
        "p99 ms": f"{percentile(times, 0.99) * 1000:.1f}",
        "gap ms": f"{statistics.median(gaps) * 1000:.1f}" if gaps else "-",
    }


def rate(tool, programs, jobs, note, column):
    """No-op jobs finished per second, on all slots."""
    with tool(programs, SLOTS) as queue:
        words = [queue.submit_words("true")] * jobs if column == "jobs/s" else [queue.array_words(jobs)]
        if words == [None]:
            return {column: "-"}
        before = time.perf_counter()
        for command in words:
            queue.call(command)
        done, failed, seconds = finished(queue, jobs, before)
    if failed:
        note(f"{column}: {failed} of {jobs} no-op jobs are listed as failed")
    if done + failed < jobs:
        note(f"{column}: from the {done} of {jobs} jobs that were done {MEASURE_SECONDS_MAX:.0f} s after the last submit")
    return {column: f"{done / seconds:.{0 if done > 10 * seconds else 1}f}"}


def finished(queue, jobs, before):
    """How many jobs the tool lists as done and as failed when all are over or time is, and the seconds since `before`."""
    deadline = time.monotonic() + MEASURE_SECONDS_MAX
    while True:
        asked = time.perf_counter()
        states = queue.listed()
        now = time.perf_counter()
        done, failed = states.count("done"), states.count("failed")
        if done + failed >= jobs or time.monotonic() > deadline:
            return done, failed, now - before
        # Asking costs the tool time: at most half of it goes there.
        time.sleep(max(now - asked, 0.01))


def kept(tool, programs, _jobs, _note):
    """Whether a job is still listed after a KILL of the daemon directly after the acknowledgement of the job."""
    count = 0
    for _ in range(KILLS):
        with tool(programs, 1) as queue:
            queue.hold()
            queue.submit("true")
            queue.stop(signal.SIGKILL)
            queue.start()
            count += len(queue.listed()) >= 2
    return {"kept": f"{count} of {KILLS}"}


FIGURES = {
    "submit and gap": submits_and_gap,
    "jobs/s": functools.partial(rate, column="jobs/s"),
    "jobs/s array": functools.partial(rate, column="jobs/s array"),
    "kept": kept,
}


def measure(tool, programs, jobs):
    """One row of the table and the remarks on it. A figure that cannot be had is a dash with a remark."""
    row, notes = {"tool": tool.title}, []
    note = lambda text: notes.append(f"{tool.title}: {text}")
    try:
        found = [programs.find(name, tool.how) for name in tool.commands]
        if tool.needs_nvml:
            programs.fake_nvml()
    except Missing as reason:
        note(f"not measured: {reason}")
        return row, notes
    row["version"] = version(found[0], tool.version_flag)
    for name, figure in FIGURES.items():
        print(f"measuring {tool.title}: {name}", file=sys.stderr, flush=True)
        try:
            row |= figure(tool, programs, jobs, note)
        except (OSError, RuntimeError, ValueError, KeyError, IndexError) as reason:
            note(f"{name}: not measured: {reason}")
    return row, notes


def bare(jobs):
    """What the measuring itself costs: the same jobs spawned one by one, without any queue."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        stamp = os.path.join(folder, "stamp")
        with open(stamp, "w") as file:
            file.write(STAMP.format(folder=folder))
        os.chmod(stamp, 0o700)
        times = [timed([shutil.which("true")]) for _ in range(jobs)]
        for _ in range(jobs):
            timed([stamp])
        with open(os.path.join(folder, "stamps")) as file:
            stamps = [float(line) for line in file]
    gaps = [later - earlier for earlier, later in zip(stamps, stamps[1:])]
    return {
        "tool": "(no queue)",
        "submit p50 ms": f"{percentile(times, 0.5) * 1000:.1f}",
        "p99 ms": f"{percentile(times, 0.99) * 1000:.1f}",
        "jobs/s": f"{jobs / sum(times):.0f}",
        "gap ms": f"{statistics.median(gaps) * 1000:.1f}",
    }


def version(program, flag):
    said = subprocess.run([program, flag], capture_output=True, text=True, timeout=20).stdout
    found = re.search(r"\d+\.\d+(\.\d+)?", said)
    return found.group() if found else "?"


def install(folder):
    """The pinned peers; task-spooler is left to the system's packages."""
    environment = os.path.join(folder, "venv")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([os.path.join(environment, "bin/pip"), "install", "--quiet", *PYTHON_PACKAGES], check=True)
    subprocess.run(["cargo", "install", "pueue", "--version", PUEUE, "--locked", "--root", folder], check=True)


def show(rows):
    table = [COLUMNS] + [[row.get(column, "-") for column in COLUMNS] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    for line in table:
        words = [word.ljust(width) if place < 2 else word.rjust(width) for place, (word, width) in enumerate(zip(line, widths))]
        print("  ".join(words).rstrip())


def load():
    return " ".join(f"{part:.1f}" for part in os.getloadavg())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rota")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--tools", metavar="DIR", default="target/peers", help="where `--install` put the peers")
    parser.add_argument("--install", metavar="DIR", help="install the pinned peers into DIR first, and use them")
    parser.add_argument("--only", metavar="TOOL,…", help="measure these alone, by the first word of their names")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.install:
        install(arguments.install)
    programs = Programs(arguments.rota, os.path.abspath(arguments.install or arguments.tools))
    tools = [Rota, TaskSpooler, Pueue, Gflow, Gq]
    if arguments.only:
        wanted = set(arguments.only.split(","))
        if unknown := wanted - {tool.title.split()[0] for tool in tools}:
            parser.error(f"unknown: {', '.join(sorted(unknown))}")
        tools = [tool for tool in tools if tool.title.split()[0] in wanted]
    print(f"{arguments.jobs} jobs, {SLOTS} slots; {os.cpu_count()} processors, load {load()} before", flush=True)
    rows, notes = [bare(arguments.jobs)], []
    for tool in tools:
        row, remarks = measure(tool, programs, arguments.jobs)
        rows.append(row)
        notes += remarks
    show(rows)
    print(*notes, f"load {load()} after", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
