"""Kills the daemon, a supervisor or a job at random moments while trainings take turns, and looks whether anything is lost.

    python3 tests/leases/kills.py target/release/rota --rounds 100 --seed 1

What must hold: a run begins at the step that was committed last, so no step is lost after its commit and none is credited twice; no
GPU ever has two jobs; every training reaches its last step. Everything is stopped by its process id.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Queue:
    """A daemon on a folder of its own, and what is asked of it."""

    def __init__(self, rota, folder):
        self.rota, self.folder = rota, folder
        self.state = os.path.join(folder, "state")
        self.settings = os.path.join(folder, "rota.toml")
        with open(self.settings, "w") as settings:
            settings.write("policy = 'rr:quantum=0.4'\n[jobs]\nmin_run_seconds = 0.2\nretry_delay_seconds = 0.05\n")
        self.daemon = None
        self.up()

    def up(self):
        """Starts the daemon and waits until it is ready."""
        command = [self.rota, "up", "--foreground", "--state", self.state, "--virtual-gpus", "a100:2", "--config", self.settings]
        log = open(os.path.join(self.folder, "daemon.log"), "a")
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.daemon.stdout.readline()
        if not line.startswith("rota is ready"):
            sys.exit(f"the daemon does not start: {line}")

    def kill(self):
        """Ends the daemon without a word."""
        self.daemon.kill()
        self.daemon.wait()

    def call(self, *arguments):
        """Standard output of a command."""
        return subprocess.run([self.rota, *arguments, "--state", self.state], check=True, capture_output=True, text=True).stdout

    def jobs(self):
        """All jobs."""
        return json.loads(self.call("queue", "--all", "--json"))

    def supervisors(self):
        """The supervisor and the main process of each run under way."""
        found = []
        for job in self.jobs():
            path = os.path.join(self.state, "jobs", str(job["id"]), str(job["attempts"]), "supervisor.json")
            if job["state"] in ("running", "stopping", "starting"):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    with open(path) as text:
                        taken = json.loads(text.readline())
                    found.append((taken["supervisor"]["pid"], taken["process"]["pid"]))
        return found


def strike(queue, dice):
    """Kills something at a random moment; says what."""
    time.sleep(dice.random() * 0.4)
    victim = dice.choice(["daemon", "supervisor", "job"])
    runs = queue.supervisors() if victim != "daemon" else []
    if not runs:
        queue.kill()
        time.sleep(dice.random() * 0.2)
        queue.up()
        return "daemon"
    supervisor, process = dice.choice(runs)
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor if victim == "supervisor" else process, signal.SIGKILL)
    return victim


def check(folder, names, total):
    """What is wrong with the journals of the trainings."""
    wrong = []
    for name in names:
        with open(os.path.join(folder, name)) as journal:
            rows = [line.split() for line in journal]
        committed, step, lease = 0, 0, 0
        for row in rows:
            kind, value, number = row[0], int(row[1]), int(row[2])
            if kind == "begin":
                if value < committed:
                    wrong.append(f"{name}: lease {number} began at step {value}, and {committed} were committed")
                if value > step:
                    wrong.append(f"{name}: lease {number} was credited {value} steps, and {step} were done")
                step, lease = value, number
            elif kind == "step":
                if value != step + 1 or number != lease:
                    wrong.append(f"{name}: step {value} of lease {number} follows step {step} of lease {lease}")
                step = value
            elif kind == "committed":
                committed = max(committed, value)
            elif kind == "clash":
                wrong.append(f"{name}: lease {number} found its GPU taken")
        if step != total:
            wrong.append(f"{name}: it ended at step {step} of {total}")
    return wrong


def main():
    """Runs the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rota")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dice, struck = random.Random(args.seed), {}
    with tempfile.TemporaryDirectory() as folder:
        queue = Queue(os.path.abspath(args.rota), folder)
        names = [f"training-{number}" for number in range(4)]
        total = 30 * args.rounds
        try:
            for name in names:
                command = ["python3", os.path.join(HERE, "training.py"), os.path.join(folder, name), os.path.join(folder, "end")]
                subprocess.run(
                    [queue.rota, "submit", "--state", queue.state, "--preemptible", "--retries", "100000", "--", *command, str(total)],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
            for number in range(args.rounds):
                victim = strike(queue, dice)
                struck[victim] = struck.get(victim, 0) + 1
                print(f"round {number + 1}: {victim}", flush=True)
            # From here on they do their last steps as fast as they can.
            open(os.path.join(folder, "end"), "w").close()
            deadline = time.monotonic() + 120
            while any(job["state"] != "done" for job in queue.jobs()) and time.monotonic() < deadline:
                time.sleep(0.2)
            wrong = [f"job {job['id']} is {job['state']}: {job['reason']}" for job in queue.jobs() if job["state"] != "done"]
            wrong += check(folder, names, total)
        finally:
            for supervisor, _ in queue.supervisors() if queue.daemon.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor, signal.SIGQUIT)
            queue.kill()
    print("\n".join(wrong) or f"{args.rounds} rounds, seed {args.seed}, killed {struck}: nothing lost, nothing done twice")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
