"""Real trainings with PyTorch that are stopped and go on: they come to the same bits as if they had never been stopped.

Needs an interpreter with PyTorch, as Debian's: `/usr/bin/python3 -m unittest tests.training`. Every run is a process of its
own, forked from one that has PyTorch already.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional

import rota
from rota._lease.keeper import Keeper

from .daemon import ROOT, until, without_rota
from .lease_server import LeaseServer

os.environ["OMP_NUM_THREADS"] = "1"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch", "torch.distributed", "rota", "tests.training"])

# A run that hangs must not hang the tests.
SECONDS_MAX = 300

WORKLOADS = {
    "image_classification/cifar10/main.py": ["--batch_size", "16", "--num_steps"],
    "image_classification/imagenet/main.py": ["-j", "8", "-a", "resnet50", "-b", "2", "--num_minibatches"],
    "translation/train.py": ["-batch_size", "4", "-proj_share_weight", "-step"],
    "language_modeling/main.py": ["--cuda", "--batch_size", "2", "--steps"],
    "recommendation/train.py": ["--batch_size", "16", "-n"],
    "rl/main.py": ["--env", "PongDeterministic-v4", "--workers", "4", "--amsgrad", "True", "--max-steps"],
    "cyclegan/cyclegan.py": ["--decay_epoch", "0", "--n_steps"],
}


class StoppingIterator(rota.Iterator[Any]):
    """Has the job stopped after a certain step, and waits until the run has heard of it."""

    stop_at: Optional[int] = None

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield batch
            if self.steps == self.stop_at and self._keeper is not None:
                self._keeper.service._post("stop")
                if self._world == 1:
                    self.until_ending(self._keeper)

    @staticmethod
    def until_ending(keeper: Keeper) -> None:
        until("the run is to stop", lambda: keeper.ending is not None)


def train(options: dict[str, Any]) -> None:
    """A small network with dropout and shuffled data; in a gang, with gradients averaged by gloo."""
    torch: Any = importlib.import_module("torch")
    distributed: Any = importlib.import_module("torch.distributed")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        distributed.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(3 + rank)
    data = torch.utils.data.TensorDataset(torch.randn(48, 5), torch.randn(48, 1))
    loader = torch.utils.data.DataLoader(data, 4, shuffle=True)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimiser = torch.optim.Adam(model.parameters())

    def save(path: str) -> None:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, path)
        if options.get("kill"):
            os.truncate(path, Path(path).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def load(path: str) -> None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])

    StoppingIterator.stop_at = options.get("stop_at")
    batches = StoppingIterator(loader, save=save, load=load)
    try:
        while batches.steps < options["steps"]:
            for inputs, outputs in batches:
                loss = torch.nn.functional.mse_loss(model(inputs), outputs)
                optimiser.zero_grad()
                loss.backward()
                if world > 1:
                    for parameter in model.parameters():
                        distributed.all_reduce(parameter.grad)
                        parameter.grad /= world
                optimiser.step()
                if batches.steps == options["steps"]:
                    break
        batches.complete()
    finally:
        digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()
        Path(options["report"]).write_text(json.dumps({"steps": batches.steps, "weights": digest}))


def work(options: dict[str, Any]) -> None:
    """One of the example workloads, as its command runs it."""
    path = Path(options["script"])
    sys.path.insert(0, str(path.parent))
    specification = importlib.util.spec_from_file_location("workload", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    # What a workload draws once its memory is full is drawn within the few steps of a test.
    vars(module)["REMEMBERED"] = 1
    StoppingIterator.stop_at = options.get("stop_at")
    rota.Iterator = StoppingIterator  # type: ignore[misc]
    with Path(options["report"]).open("w") as report, contextlib.redirect_stdout(report):
        module.main(options["arguments"])


def run(target: str, environment: dict[str, str], options: dict[str, Any]) -> None:
    """What a forked process does."""
    os.environ.clear()
    os.environ.update(environment)
    {"train": train, "work": work}[target](options)


class TrainingTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-training-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.server = LeaseServer(self.folder / "checkpoints")
        self.addCleanup(self.server.down)

    def start(self, target: str, environment: dict[str, str], **options: Any) -> Any:
        process = PROCESSES.Process(target=run, args=(target, {**without_rota(), **environment}, options))
        process.start()
        self.addCleanup(process.kill)
        return process

    def code(self, process: Any) -> int:
        process.join(SECONDS_MAX)
        self.assertIsNotNone(process.exitcode, "a run hangs")
        return int(process.exitcode)

    def report(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())


class OneProcess(TrainingTest):
    def test_ten_stops_one_of_them_in_the_middle_of_a_save(self) -> None:
        steps = 60
        whole = self.start("train", {}, steps=steps, report=str(self.folder / "whole"))
        self.assertEqual(self.code(whole), 0)
        seed = random.randrange(1_000_000)
        dice = random.Random(seed)
        stops = sorted(dice.sample(range(1, steps), 10))
        killed = dice.randrange(10)
        for number, stop_at in enumerate(stops):
            options = {"steps": steps, "stop_at": stop_at, "report": str(self.folder / "part")}
            with self.subTest(seed=seed, stop_at=stop_at):
                if number == killed:
                    process = self.start("train", self.server.next_lease(), kill=True, **options)
                    self.assertEqual(self.code(process), -signal.SIGKILL)
                    self.assertLess(self.server.step, stop_at)
                process = self.start("train", self.server.next_lease(), **options)
                self.assertEqual((self.code(process), self.server.step), (85, stop_at))
        process = self.start("train", self.server.next_lease(), steps=steps, report=str(self.folder / "part"))
        self.assertEqual(self.code(process), 0)
        self.assertEqual(self.report("part"), self.report("whole"), f"seed {seed}")
        self.assertEqual(self.server.completed, steps)


class Gangs(TrainingTest):
    def gang(self, name: str, leases: dict[str, str], **options: Any) -> list[int]:
        """Runs two ranks; returns their exit codes."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = str(listener.getsockname()[1])
        ranks = []
        for rank in range(2):
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            mine = {key: value for key, value in options.items() if key != "stop_at" or rank == options["asker"]}
            ranks.append(self.start("train", {**leases, **place}, report=str(self.folder / f"{name}-{rank}"), **mine))
        return [self.code(process) for process in ranks]

    def test_all_ranks_stop_after_the_same_step_each_time(self) -> None:
        steps = 400
        self.assertEqual(self.gang("whole", {}, steps=steps), [0, 0])
        done = 0
        # Either rank is the one after whose step the notice comes; both go on at full speed until they hear of it.
        for asker, stop_at in ((0, 7), (1, 100), (0, 200)):
            codes = self.gang("part", self.server.next_lease(), steps=steps, asker=asker, stop_at=max(stop_at, done + 1))
            self.assertEqual(codes, [85, 85])
            ends = [self.report(f"part-{rank}") for rank in range(2)]
            self.assertEqual(ends[0], ends[1])
            self.assertEqual(ends[0]["steps"], self.server.step)
            self.assertGreater(self.server.step, done)
            done = self.server.step
        self.assertEqual(self.gang("part", self.server.next_lease(), steps=steps), [0, 0])
        self.assertEqual(
            [self.report(f"part-{rank}") for rank in range(2)], [self.report(f"whole-{rank}") for rank in range(2)]
        )


class Workloads(TrainingTest):
    def test_every_workload_reaches_the_loss_of_an_uninterrupted_run(self) -> None:
        for script, arguments in WORKLOADS.items():
            with self.subTest(script=script):
                self.server.down()
                self.server = LeaseServer(self.folder / script.replace("/", "-"))
                self.addCleanup(self.server.down)
                options = {"script": str(ROOT / "examples/workloads/gavel" / script), "arguments": [*arguments, "4"]}
                self.assertEqual(self.code(self.start("work", {}, report=str(self.folder / "whole"), **options)), 0)
                for stop_at, code in ((1, 85), (3, 85), (None, 0)):
                    mine = {**options, "stop_at": stop_at, "report": str(self.folder / "part")}
                    self.assertEqual(self.code(self.start("work", self.server.next_lease(), **mine)), code)
                whole, part = ((self.folder / name).read_text().splitlines() for name in ("whole", "part"))
                self.assertEqual((part[0], part[-1]), ("resumed after step 3", whole[-1]))
                self.assertRegex(whole[-1], r"^done after step 4  loss -?\d+\.\d+  weights [0-9a-f]{16}$")


if __name__ == "__main__":
    unittest.main()
