"""The world of one campaign: a daemon on a state directory of its own, the users, and what can be seen of their processes."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import agent

HERE = Path(__file__).parent
GPUS_ALL = "a100:3,t4:2"
GPUS_FEWER = "a100:3,t4:1"
UIDS = (20001, 20002, 20003)
READY_SECONDS = 60
# A round is long enough for jobs to have turns, and short enough for several of them in a campaign.
ROUND_SECONDS = "0.5"

# The Python that users can run; jobs with leases need it.
USERS_PYTHON = Path("/usr/bin/python3")

# Each job takes a lock for each of its GPUs: a GPU that is given to two jobs is noticed by the jobs themselves.
SCRIPT = """
# A job that is told by this signal leaves at its next word, and goes on later.
trap 'exit 85' USR1
number=3
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
  eval "exec $number<\\"$2/$gpu\\""
  flock -n $number || echo "double $ROTA_JOB_ID $gpu" >> "$1"
  number=$((number + 1))
done
echo "begin $ROTA_JOB_ID $ROTA_ATTEMPT" >> "$1"
sleep "$3"
echo "end $ROTA_JOB_ID $ROTA_ATTEMPT" >> "$1"
exit "$4"
"""


class Finding(Exception):
    """Something that must not be."""


class User:
    """A user and the process that acts for it."""

    def __init__(self, world, uid):
        self.uid = uid
        self.world = world
        self.marks = world.folder / f"marks-{uid}"
        self.marks.touch()
        if world.is_root:
            os.chown(self.marks, uid, uid)
        self.pid, self.orders, self.answers = agent.start(uid)

    def order(self, **order):
        self.orders.write(json.dumps({"socket": str(self.world.state / "rota.sock"), **order}) + "\n")
        self.orders.flush()
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"the agent of user {self.uid} has ended")
        return json.loads(line)

    def ask(self, method, target, body=None):
        """The status and the parsed answer; status 0 if the daemon gave none."""
        answer = self.order(do="ask", method=method, target=target, body=body)
        try:
            return answer["status"], json.loads(answer["text"])
        except json.JSONDecodeError:
            return answer["status"], answer["text"]

    def begun(self):
        """The marks that the jobs of this user made: (word, job, attempt or GPU)."""
        return [tuple(line.split()) for line in self.marks.read_text().splitlines()]

    def close(self):
        self.orders.close()
        os.waitpid(self.pid, 0)
        self.answers.close()


class World:
    """A daemon, its state directory and its users."""

    def __init__(self, binary, policy, mechanism, clock):
        self.is_root = os.geteuid() == 0
        self.folder = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
        self.folder.chmod(0o755)
        self.binary = self.folder / "rota"
        shutil.copy(binary, self.binary)
        self.binary.chmod(0o755)
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o755)
        self.clock = clock
        self.has_disk = self._mount()
        self.locks = self.folder / "gpus"
        self.locks.mkdir(mode=0o755)
        self.policy = policy
        self.mechanism = mechanism
        self.leased = self.folder / "leased.py"
        shutil.copy(HERE / "leased.py", self.leased)
        self.leased.chmod(0o644)
        self.gpus = GPUS_ALL
        self.clock_seconds = 0
        self.daemon = None
        self.lives = 0
        self.users = []
        self.log = open(self.folder / "daemon.log", "ab")  # noqa: SIM115 -- open for as long as the world is

    def begin(self):
        """The daemon and the users."""
        self.start()
        for gpu in self.rota_json("gpus"):
            (self.locks / gpu["uuid"]).touch()
        self.users = [User(self, uid) for uid in (UIDS if self.is_root else (os.geteuid(),))]

    def _mount(self):
        """A small disk for the state directory, where that is permitted."""
        if not self.is_root:
            return False
        command = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", str(self.state)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def environment(self):
        environment = {**os.environ, "ROTA_STATE": str(self.state)}
        if self.clock is not None and self.clock_seconds:
            environment["LD_PRELOAD"] = str(self.clock)
            environment["ROTA_CHAOS_CLOCK_SECONDS"] = str(self.clock_seconds)
        return environment

    def command(self):
        arguments = ["up", "--foreground", "--state", str(self.state), "--virtual-gpus", self.gpus, "--port", "0"]
        if self.mechanism == "rounds":
            arguments += ["--mechanism", "rounds", "--round", ROUND_SECONDS]
        # The first start chooses the policy; later ones find it in the database.
        return [str(self.binary), *arguments, *(["--policy", self.policy] if self.lives == 0 else [])]

    def start(self):
        self.daemon = subprocess.Popen(
            self.command(), stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, env=self.environment(), text=True
        )
        self.lives += 1
        line = self.daemon.stdout.readline()
        if not line.startswith("rota is ready"):
            code = self.daemon.wait(timeout=READY_SECONDS)
            raise Finding(f"the daemon did not start (exit code {code}): {line}{self.said()}")

    def said(self):
        return (self.folder / "daemon.log").read_text(errors="replace")[-2000:]

    def kill(self):
        self.daemon.kill()
        if self.daemon.wait(timeout=READY_SECONDS) != -signal.SIGKILL:
            raise Finding(f"the daemon had ended by itself: {self.said()}")
        self.daemon.stdout.close()

    def stop(self):
        self.daemon.send_signal(signal.SIGTERM)
        code = self.daemon.wait(timeout=READY_SECONDS)
        self.daemon.stdout.close()
        if code != 0:
            raise Finding(f"a clean end has exit code {code}: {self.said()}")

    def rota(self, *arguments):
        return subprocess.run(
            [str(self.binary), *arguments], capture_output=True, text=True, env=self.environment(), timeout=120, check=False
        )

    def rota_json(self, *arguments):
        done = self.rota(*arguments, "--json")
        if done.returncode != 0:
            raise Finding(f"rota {' '.join(arguments)}: exit code {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def database(self):
        """The database, of a daemon that is down."""
        return sqlite3.connect(self.state / "rota.db")

    def processes(self):
        """The processes of jobs: process id and job."""
        mark = f"ROTA_STATE={self.state}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            jobs = [value[12:] for value in variables if value.startswith(b"ROTA_JOB_ID=")]
            if mark in variables and jobs and jobs[0].isdigit():
                found.append((int(entry), int(jobs[0])))
        return found

    def footprint(self):
        """The daemon's open files, and its memory in MiB."""
        files = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        status = Path(f"/proc/{self.daemon.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return files, int(resident.split()[1]) // 1024

    def supervisor(self, job, attempt):
        """The process id of a supervisor, or None."""
        try:
            text = (self.state / "jobs" / str(job) / str(attempt) / "supervisor.json").read_text()
            return json.loads(text.splitlines()[0])["supervisor"]["pid"]
        except (OSError, ValueError, KeyError, IndexError):
            return None

    def close(self):
        """Takes away everything: first the daemon, which would start more, then what it started."""
        for user in self.users:
            user.close()
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        if self.daemon is not None and not self.daemon.stdout.closed:
            self.daemon.stdout.close()
        for job in (self.state / "jobs").glob("[0-9]*/[0-9]*"):
            pid = self.supervisor(job.parent.name, job.name)
            if pid is not None and is_supervisor(pid):
                os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.log.close()
        if self.has_disk:
            subprocess.run(["umount", "--lazy", str(self.state)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def is_supervisor(pid):
    try:
        return b"__supervise" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
