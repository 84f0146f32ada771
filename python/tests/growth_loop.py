"""`rota.adapt.Adapter` in a training loop: it grows when GPUs are given, shrinks when they are taken, alike on every rank.

Needs an interpreter with PyTorch, as Debian's: `/usr/bin/python3 -m unittest tests.growth_loop`.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import multiprocessing
import os
import socket
import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional

import torch

from rota import adapt
from rota.adapt.warmup import WarmUp

from .daemon import until
from .growth_models import Text, TinyGpt, loss_of
from .lease_server import LeaseServer

torch.set_num_threads(1)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch", "torch.distributed", "rota.adapt", "tests.growth_loop"])
SECONDS_MAX = 300


class StepClock:
    """Time that goes with the steps of the training: one second each."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def step_of(model: Any, optimiser: Any, text: Text) -> float:
    loss = loss_of(model, text.batch())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def digest_of(model: Any, optimiser: Any) -> str:
    """A hash of all weights, statistics and moments."""
    parts = [value.numpy().tobytes() for value in model.state_dict().values()]
    for state in optimiser.state_dict()["state"].values():
        parts += [value.numpy().tobytes() for value in state.values() if isinstance(value, torch.Tensor)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class Loop(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(3)
        self.model = TinyGpt()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.seconds = StepClock()

    def adapter(self, changes: Any = (), budget: float = 60, **options: Any) -> adapt.Adapter:
        clock = adapt.Countdown(budget, changes, self.seconds)
        return adapt.Adapter(self.model, self.optimiser, clock=clock, **options)

    def run_steps(self, adapter: adapt.Adapter, steps: int = 1_000_000, text: Optional[Text] = None) -> list[float]:
        text = text or Text(1)
        losses: list[float] = []
        while not adapter.is_over and len(losses) < steps:
            losses.append(step_of(self.model, self.optimiser, text))
            self.seconds.seconds += 1
            adapter.step()
        return losses

    def test_it_grows_shrinks_and_ends_with_its_budget(self) -> None:
        depths = []
        decide = adapt.Interleave(least_steps=1)
        adapter = self.adapter([(10, "up"), (30, "down")], 40, decide=decide, on_gpus=lambda gpus: depths.append(gpus))
        losses = self.run_steps(adapter)
        self.assertEqual(len(losses), 40)
        self.assertEqual([(step, growth.operation) for step, growth in adapter.history], [(10, "deepen"), (30, "shrink")])
        self.assertEqual((len(self.model.blocks), depths), (2, [1, 0]))
        self.assertLess(losses[-1], losses[0])

    def test_a_warm_up_is_a_smaller_learning_rate(self) -> None:
        for make in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            with self.subTest(optimiser=make.__name__):
                ends = []
                for arm in ("warm up", "learning rate"):
                    torch.manual_seed(3)
                    # In double precision: Adam's first steps on tiny gradients would enlarge the rounding.
                    model, text = TinyGpt().double(), Text(1)
                    optimiser = make(model.parameters(), lr=3e-3)
                    warming = WarmUp(list(model.parameters()), 3)
                    for step in range(1, 4):
                        optimiser.param_groups[0]["lr"] = 3e-3 * step / 4 if arm == "learning rate" else 3e-3
                        step_of(model, optimiser, text)
                        if arm == "warm up":
                            warming.step()
                    self.assertEqual(warming.is_over, arm == "warm up")
                    ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
                self.assertLess(float((ends[0] - ends[1]).abs().max()), 1e-9)

    def test_decision_makers(self) -> None:
        for decide, blocks in (
            (adapt.Nothing(), 2),
            (adapt.Fixed(["blocks.1", None]), 3),
            (adapt.Interleave(least_part=0.95), 2),
            (adapt.Interleave(least_steps=10**9), 2),
            (lambda question: adapt.Action("stack", None, {"times": 2}), 4),
        ):
            with self.subTest(decide=decide):
                self.setUp()
                adapter = self.adapter([(6, "up"), (9, "up"), (12, "down"), (14, "down")], 60, decide=decide)
                self.run_steps(adapter, 8)
                self.assertEqual(len(self.model.blocks), blocks)
                self.run_steps(adapter, 12)
                self.assertEqual(len(self.model.blocks), 2)

    def test_a_model_that_cannot_be_grown_trains_on_as_it_is(self) -> None:
        self.model = TinyGpt(order="post")
        self.optimiser = torch.optim.Adam(self.model.parameters())
        for decide in (adapt.Interleave(least_steps=1), adapt.Fixed(["blocks.0"]), adapt.Fixed(["nowhere"])):
            self.seconds = StepClock()
            adapter = self.adapter([(2, "up"), (4, "down")], 6, decide=decide)
            remarks = io.StringIO()
            with contextlib.redirect_stderr(remarks):
                self.assertEqual(len(self.run_steps(adapter)), 6)
            self.assertIn("rota: the model stays as it is: ", remarks.getvalue())
            self.assertEqual((adapter.history, len(self.model.blocks)), ([], 2))

    def test_a_resumed_run_goes_on_in_the_middle_of_the_warm_up(self) -> None:
        decide = adapt.Interleave(least_steps=1)
        adapter = self.adapter([(5, "up"), (20, "down")], decide=decide, warmup_steps=6)
        self.run_steps(adapter, 8)
        saved = copy.deepcopy([self.model.state_dict(), self.optimiser.state_dict(), adapter.state_dict()])
        whole = self.run_steps(adapter, 15, Text(9))
        ending = digest_of(self.model, self.optimiser)
        self.setUp()
        adapt.load(self.model, saved[0], optimizer=self.optimiser)
        self.optimiser.load_state_dict(saved[1])
        adapter = self.adapter([(5, "up"), (20, "down")], decide=decide, warmup_steps=6)
        adapter.load_state_dict(saved[2])
        self.assertEqual(adapter.seconds_left, 52.0)
        self.assertEqual(self.run_steps(adapter, 15, Text(9)), whole)
        self.assertEqual(digest_of(self.model, self.optimiser), ending)

    def test_what_is_refused(self) -> None:
        for budget in (0, -1, float("inf"), float("nan"), "60", True):
            with self.assertRaisesRegex(adapt.CannotGrow, "budget: .* is not a number of seconds above 0"):
                adapt.Adapter(self.model, self.optimiser, budget)  # type: ignore[arg-type]
        with self.assertRaisesRegex(adapt.CannotGrow, "give the seconds of the training"):
            adapt.Adapter(self.model, self.optimiser)
        with self.assertRaisesRegex(adapt.CannotGrow, "RMSprop"):
            adapt.Adapter(self.model, torch.optim.RMSprop(self.model.parameters()), 60)
        adapter = adapt.Adapter(self.model, self.optimiser, 0.5, epoch_steps=10**7)
        with self.assertRaisesRegex(adapt.CannotGrow, "shorter than one epoch, .* nothing would be scored"):
            for _ in range(5):
                adapter.step()


class InAJob(unittest.TestCase):
    """With the lease service of the tests in the place of the daemon's."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-growth-")
        self.addCleanup(folder.cleanup)
        self.server = LeaseServer(Path(folder.name))
        self.addCleanup(self.server.down)
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        os.environ.update({**self.server.next_lease(), "ROTA_BUDGET_SECONDS": "3600"})
        torch.manual_seed(3)
        self.model = TinyGpt()
        self.optimiser = torch.optim.Adam(self.model.parameters())

    def test_offers_and_withdrawals_of_the_daemon(self) -> None:
        adapter = adapt.Adapter(self.model, self.optimiser)
        text = Text(1)

        def until_blocks(number: int) -> None:
            def stepped() -> bool:
                step_of(self.model, self.optimiser, text)
                adapter.step()
                return len(self.model.blocks) == number

            until(f"the model has {number} blocks", stepped)

        self.server.set_extras(1, seconds_left=1800.0)
        until_blocks(4)
        self.assertLessEqual(adapter.seconds_left, 1800.0)
        self.assertEqual(adapter.gpus, 1)
        # While the daemon is away nothing changes, and the training goes on.
        self.server.down()
        for _ in range(3):
            step_of(self.model, self.optimiser, text)
            self.assertIsNone(adapter.step())
        self.server.up()
        self.server.set_extras(0, seconds_left=1700.0)
        until_blocks(2)
        self.server.until(lambda: bool(self.server.said("give-back")))
        self.assertEqual(self.server.said("give-back")[0]["kept"], 0)

    def test_a_damaged_environment(self) -> None:
        for value in ("soon", "-3"):
            os.environ["ROTA_BUDGET_SECONDS"] = value
            with self.assertRaisesRegex(adapt.CannotGrow, "ROTA_BUDGET_SECONDS|budget"):
                adapt.Adapter(self.model, self.optimiser)


def rank_main(rank: int, port: int, folder: str) -> None:
    """One rank: it is wrapped, grows by the adapter, widens, shrinks; writes what it came to."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(3 + rank)
    seconds = StepClock()
    model = torch.nn.parallel.DistributedDataParallel(TinyGpt())
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    # The ranks' clocks differ; rank 0's counts.
    changes: Any = [(4.0 + rank * 3, "up"), (14.0, "down")]
    adapter = adapt.Adapter(
        model,
        optimiser,
        clock=adapt.Countdown(24.0 + rank, changes, seconds),
        decide=adapt.Interleave(least_steps=1),
        agree_every=3,
    )
    text, depths, digests = Text(rank), [], []
    while not adapter.is_over:
        step_of(model, optimiser, text)
        seconds.seconds += 1
        adapter.step()
        if adapter.steps == 8:
            adapt.widen(model, "blocks.0", optimizer=optimiser)
            adapt.shrink(model, optimizer=optimiser)
        depths.append(len(model.module.blocks))
        digests.append(digest_of(model.module, optimiser))
    Path(folder, str(rank)).write_text(repr((depths, digests)))


class Ranks(unittest.TestCase):
    def test_two_processes_stay_equal_to_the_bit(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="rota-growth-") as folder:
            processes = [PROCESSES.Process(target=rank_main, args=(rank, port, folder)) for rank in range(2)]
            for process in processes:
                process.start()
                self.addCleanup(process.kill)
            for process in processes:
                process.join(SECONDS_MAX)
            self.assertEqual([process.exitcode for process in processes], [0, 0])
            first, second = (eval(Path(folder, str(rank)).read_text()) for rank in range(2))
        self.assertEqual(first[1], second[1])
        self.assertEqual((first[0], second[0]), ([2] * 5 + [4] * 9 + [2] * 10, first[0]))


if __name__ == "__main__":
    unittest.main()
