"""Trainings that take turns on a GPU, under a daemon's own leases."""

from __future__ import annotations

import sys
from pathlib import Path

import rota

from .daemon import ROOT, DaemonTest, until

TRAINING = """
import os, sys, time
import rota

steps, seconds, journal = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
total = 0

def save(path):
    with open(path, "w") as file:
        file.write(str(total))

def load(path):
    global total
    total = int(open(path).read())

def together(step):
    "As ranks do that average their gradients: nobody ends a step that the others have not come to."
    open(f"{journal}.{rank}.{step}", "w").close()
    while not all(os.path.exists(f"{journal}.{other}.{step}") for other in range(world)):
        time.sleep(0.002)

batches = rota.Iterator(range(7), save=save, load=load)
while batches.steps < steps:
    for batch in batches:
        total += (batches.steps + 1) * (batch + 1)
        with open(f"{journal}-{rank}", "a") as file:
            file.write(f"{batches.steps} {batch} {os.environ['ROTA_LEASE']}" + chr(10))
        time.sleep(seconds)
        together(batches.steps)
        if batches.steps == steps:
            break
batches.complete()
# One write: the ranks share one log, and an unbuffered print() writes each of its words by itself.
os.write(1, f"total {total}\\n".encode())
"""


class Turns(DaemonTest):
    gpus = "a100:2"
    arguments = ("--policy", "rr:quantum=0.5", "--min-run", "0.2")

    def training(self, name: str, gpus: int, steps: int, *launcher: str) -> rota.Job:
        script = self.folder / "train.py"
        script.write_text(TRAINING)
        command = [sys.executable, *launcher, str(script), str(steps), "0.03", str(self.folder / name)]
        return self.client.submit(command, gpus=gpus, preemptible=True, env={"PYTHONPATH": str(ROOT / "python")})

    def journal(self, name: str) -> list[tuple[int, int]]:
        path = Path(self.folder / name)
        lines = [line.split() for line in (path.read_text() if path.exists() else "").splitlines()]
        return [(int(step), int(batch)) for step, batch, _ in lines]

    def check(self, job: rota.Job, steps: int, *journals: str) -> None:
        log = "".join(self.client.logs(job))
        done = self.client.job(job)
        self.assertEqual(done.state, "done", log)
        self.assertGreater(done.attempts, 1, f"it was never stopped: {log}")
        for name in journals:
            # Each step once, in order, with the batch that was due.
            self.assertEqual(self.journal(name), [(step, (step - 1) % 7) for step in range(1, steps + 1)], log)
        total = sum((step + 1) * ((step - 1) % 7 + 1) for step in range(1, steps + 1))
        self.assertGreaterEqual(log.count(f"total {total}\n"), len(journals), log)

    def test_a_gang_and_a_training_take_turns_and_no_step_is_done_twice(self) -> None:
        jobs = [self.training("gang", 2, 60, "-m", "rota.launch"), self.training("single", 1, 60)]
        # The daemon goes away in the middle, and comes back.
        until("they have begun", lambda: len(self.journal("gang-0")) > 20 or len(self.journal("single-0")) > 20)
        self.daemon.restart()
        self.client.wait(jobs, timeout=120)
        self.check(jobs[0], 60, "gang-0", "gang-1")
        self.check(jobs[1], 60, "single-0")
