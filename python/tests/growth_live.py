"""A training under a real daemon that is offered GPUs and asked for them: it grows, shrinks, and ends inside its budget.

Needs an interpreter with PyTorch, as Debian's, and the program: `ROTA_BINARY=… /usr/bin/python3 -m unittest tests.growth_live`.
"""

from __future__ import annotations

import sys
import time
import unittest
from pathlib import Path

import rota

from .daemon import ROOT, DaemonTest, until, until_file

TRAINING = """
import os, sys, time
import torch
from rota import adapt

torch.set_num_threads(1)
torch.manual_seed(0)
end, log = sys.argv[1], sys.argv[2]
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimiser = torch.optim.Adam(model.parameters())
adapter = adapt.Adapter(model, optimiser, decide=adapt.Interleave(least_part=0.0, least_steps=1))

def tell(text):
    with open(log, "a") as file:
        print(text, file=file, flush=True)

tell(f"visible {len(os.environ['CUDA_VISIBLE_DEVICES'].split(','))} attempt {os.environ['ROTA_ATTEMPT']}")
while not adapter.is_over and not os.path.exists(end):
    loss = model(torch.randn(4, 8)).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    growth = adapter.step()
    if growth is not None:
        tell(f"{growth.operation} {growth.parameters_after} devices {adapter.devices}")
    if adapter.steps % 20 == 0:
        tell(f"step {adapter.steps}")
    time.sleep(0.005)
tell(f"left {adapter.seconds_left:.3f}")
"""

STUBBORN = """
import os, sys, time
from rota._lease.service import Service

service = Service(os.environ["ROTA_LEASE_ADDR"], os.environ["ROTA_LEASE_TOKEN"], int(os.environ["ROTA_LEASE"]), 0, 1)
with open(sys.argv[1], "a") as file:
    print("attempt", os.environ["ROTA_ATTEMPT"], file=file, flush=True)
while not os.path.exists(sys.argv[2]):
    service.extras()
    time.sleep(0.05)
"""


class Offers(DaemonTest):
    gpus = "a100:3"

    def training(self, script: str, name: str, *arguments: str, **options: object) -> tuple[rota.Job, Path]:
        path, log = self.folder / f"{name}.py", self.folder / f"{name}.log"
        path.write_text(script)
        command = (
            [sys.executable, str(path), *arguments, str(log)] if script is TRAINING else [sys.executable, str(path), str(log)]
        )
        command += [] if script is TRAINING else list(arguments)
        environment = {"PYTHONPATH": str(ROOT / "python")}
        job = self.client.submit(command, gpus=1, env=environment, **options)  # type: ignore[arg-type]
        return job, log

    def until_told(self, log: Path, text: str) -> None:
        until(f"{log.name} tells `{text}`", lambda: log.exists() and text in log.read_text())

    def steps(self, log: Path) -> int:
        return sum(line.startswith("step") for line in log.read_text().splitlines())

    def kinds(self, job: rota.Job) -> list[str]:
        return [event.kind for event in self.client.job_events(job) if event.kind in ("offered", "withdrawn", "returned")]

    def test_a_training_grows_shrinks_and_ends_by_itself_while_others_get_their_gpus(self) -> None:
        end = self.folder / "end"
        job, log = self.training(TRAINING, "first", str(end), budget=600, extra_gpus=1, grace=30)
        self.until_told(log, "deepen")
        self.assertIn("visible 3 attempt 1", log.read_text())
        self.assertEqual(self.kinds(job), ["offered"])
        self.assertRegex(self.client.explain(job).reason, "it has GPU [12] beyond those it asked for")
        lent = [gpu.index for gpu in self.client.gpus() if job.id in gpu.jobs]
        self.assertEqual(len(lent), 2)
        # One GPU is idle and one is lent. A job that needs two gets the lent one as soon as the training has shrunk.
        began = time.monotonic()
        go = self.folder / "go"
        wide = self.client.submit(until_file(go), gpus=2)
        self.until_state(wide, "running")
        self.assertLess(time.monotonic() - began, 30.0, "the waiting job had to wait longer than the grace time")
        self.until_told(log, "shrink")
        self.assertEqual(self.kinds(job), ["offered", "withdrawn", "returned"])
        # The GPU is offered again when the other job has ended. The training goes on while the daemon is away, and is found.
        go.touch()
        until("it is offered a GPU again", lambda: log.read_text().count("deepen") == 2)
        self.daemon.kill()
        steps = self.steps(log)
        until("it trains on", lambda: self.steps(log) > steps + 2)
        self.daemon.up()
        wide = self.client.submit("true", gpus=2)
        self.assertEqual(self.client.wait(wide).state, "done")
        self.assertEqual(self.kinds(job)[:6], ["offered", "withdrawn", "returned"] * 2)
        end.touch()
        self.assertEqual(self.client.wait(job).state, "done")
        self.assertRegex(log.read_text(), "left [1-9]")

    def test_it_ends_with_its_budget(self) -> None:
        job, log = self.training(TRAINING, "short", str(self.folder / "never"), budget=8, extra_gpus=2)
        ended = self.client.wait(job)
        self.assertEqual(ended.state, "done")
        self.assertRegex(log.read_text(), "left 0.000")
        assert ended.finished_at is not None and ended.started_at is not None
        self.assertGreater((ended.finished_at - ended.started_at).total_seconds(), 7.0)

    def test_a_job_that_keeps_its_extra_gpu_is_ended_and_starts_again(self) -> None:
        end = self.folder / "end"
        job, log = self.training(STUBBORN, "stubborn", str(end), budget=600, extra_gpus=2, grace=0.5)
        until("it has both GPUs", lambda: self.kinds(job) == ["offered"] * 2)
        wide = self.client.submit("true", gpus=2)
        self.assertEqual(self.client.wait(wide).state, "done")
        self.until_told(log, "attempt 2")
        end.touch()
        self.assertEqual(self.client.wait(job).state, "done")

    def test_what_is_refused(self) -> None:
        for options, message in (
            ({"extra_gpus": 1}, "--extra-gpus: say with --budget"),
            ({"budget": -1}, "budget"),
            ({"budget": 0}, "--budget: 0 is not a length of time"),
            ({"budget": 60, "extra_gpus": 1, "memory": 1000}, "only a job with whole GPUs"),
        ):
            with self.assertRaisesRegex((rota.BadInput, ValueError), message):
                self.client.submit(["true"], **options)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
