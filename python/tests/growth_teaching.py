"""`rota.adapt`: after a shrinking the larger network teaches the smaller one for a while.

Needs an interpreter with PyTorch, as Debian's: `/usr/bin/python3 -m unittest tests.growth_teaching`.
"""

from __future__ import annotations

import copy
import io
import unittest
from typing import Any

import torch
from torch.nn import functional

from rota import adapt

from .growth_models import Text, TinyGpt, loss_of, train

torch.set_num_threads(1)


def probabilities_apart(model: Any, teacher: Any, inputs: Any) -> float:
    """How far the model's probabilities are from the teacher's."""
    with torch.no_grad():
        own, wanted = (functional.log_softmax(network(inputs), -1).flatten(0, 1) for network in (model, teacher))
    return float(functional.kl_div(own, wanted, reduction="batchmean", log_target=True))


def taught_steps(model: Any, optimiser: Any, text: Text, steps: int, adapter: Any) -> list[float]:
    """The usual loop with a teacher in its loss."""
    losses = []
    for _ in range(steps):
        inputs, targets = text.batch()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        loss = adapter.taught(loss, outputs, inputs)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        adapter.step()
        losses.append(float(loss.detach()))
    return losses


class Teaching(unittest.TestCase):
    trained: tuple[Any, Any]

    @classmethod
    def setUpClass(cls) -> None:
        torch.manual_seed(3)
        model = TinyGpt()
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        train(model, optimiser, Text(1), 20)
        adapt.deepen(model, optimizer=optimiser)
        train(model, optimiser, Text(2), 60)
        cls.trained = (model, optimiser)

    def setUp(self) -> None:
        self.model, self.optimiser = copy.deepcopy(self.trained)

    def test_the_loss_is_the_mixture_that_is_promised(self) -> None:
        large = copy.deepcopy(self.model)
        teacher = adapt.shrink(self.model, optimizer=self.optimiser, teach_steps=4).teacher
        assert teacher is not None
        for weight in (0.75, 0.5625, 0.375, 0.1875):
            inputs, targets = Text(3).batch()
            outputs = self.model(inputs)
            plain = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
            with torch.no_grad():
                wanted = (large(inputs) / 2).softmax(-1)
            found = (outputs / 2).softmax(-1)
            lesson = (wanted * (wanted.log() - found.log())).sum(-1).mean()
            mixed = weight * 4 * lesson + (1 - weight) * plain
            self.assertAlmostEqual(float(teacher.loss(plain, outputs, inputs).detach()), float(mixed.detach()), places=4)
            gradients = [
                torch.autograd.grad(loss, self.model.blocks[0].feed.up.weight, retain_graph=True)[0]
                for loss in (teacher.loss(plain, outputs, inputs), mixed)
            ]
            self.assertLess(float((gradients[0] - gradients[1]).abs().max()), 1e-6)
            teacher.step()
        self.assertTrue(teacher.is_over)
        self.assertIs(teacher.loss(plain, outputs, inputs), plain)

    def test_the_small_network_comes_nearer_to_the_large_one_than_without_it(self) -> None:
        large = copy.deepcopy(self.model)
        held_back, _ = Text(77, 64).batch()
        apart = {}
        for steps in (0, 60):
            network, optimiser = copy.deepcopy((self.model, self.optimiser))
            clock = adapt.Countdown(1000)
            adapter = adapt.Adapter(network, optimiser, clock=clock, teach_steps=steps)
            # As if the growth had been made by this adapter, and its GPUs were taken away now.
            adapter._growths_by_offer.append(1)
            adapter._down()
            self.assertEqual(len(network.blocks), 2)
            taught_steps(network, optimiser, Text(5), 60, adapter)
            apart[steps] = probabilities_apart(network, large, held_back)
        self.assertLess(apart[60], 0.8 * apart[0], apart)

    def test_the_teacher_never_changes_and_everything_else_trains(self) -> None:
        adapter = adapt.Adapter(self.model, self.optimiser, clock=adapt.Countdown(1000), teach_steps=10)
        adapter._growths_by_offer.append(1)
        adapter._down()
        teacher = adapter._teacher
        assert teacher is not None
        before = copy.deepcopy(teacher.state_dict()["network"])
        start = [parameter.detach().clone() for parameter in self.model.parameters()]
        taught_steps(self.model, self.optimiser, Text(5), 9, adapter)
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in teacher.state_dict()["network"].items()))
        self.assertTrue(all(not torch.equal(a, b) for a, b in zip(start, self.model.parameters())))
        taught_steps(self.model, self.optimiser, Text(5), 1, adapter)
        self.assertIsNone(adapter._teacher)
        self.assertIsNone(teacher.state_dict()["network"], "the memory of the teacher is kept")

    def test_a_run_that_is_resumed_in_the_middle_of_the_lesson_gives_the_same_losses(self) -> None:
        def adapter_of(model: Any, optimiser: Any) -> adapt.Adapter:
            return adapt.Adapter(model, optimiser, clock=adapt.Countdown(1000), teach_steps=12)

        adapter = adapter_of(self.model, self.optimiser)
        adapter._growths_by_offer.append(1)
        adapter._down()
        taught_steps(self.model, self.optimiser, Text(5), 5, adapter)
        file = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimiser.state_dict(), adapter.state_dict()], file)
        file.seek(0)
        saved = torch.load(file)
        whole = taught_steps(self.model, self.optimiser, Text(6), 10, adapter)
        model = TinyGpt()
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        adapt.load(model, saved[0], optimizer=optimiser)
        optimiser.load_state_dict(saved[1])
        resumed = adapter_of(model, optimiser)
        resumed.load_state_dict(saved[2])
        self.assertEqual(taught_steps(model, optimiser, Text(6), 10, resumed), whole)

    def test_a_new_growth_ends_the_lesson(self) -> None:
        seconds = [0.0]
        changes: Any = [(1, "up"), (2, "down"), (3, "up")]
        clock = adapt.Countdown(1000, changes, lambda: seconds[0])
        decide = adapt.Interleave(least_part=0.0, least_steps=1)
        adapter = adapt.Adapter(self.model, self.optimiser, clock=clock, decide=decide, teach_steps=50)
        teaches = []
        for _ in range(4):
            seconds[0] += 1
            adapter.step()
            teaches.append(adapter._teacher is not None)
        self.assertEqual((teaches, len(self.model.blocks)), ([False, True, False, False], 8))

    def test_what_is_refused(self) -> None:
        before = copy.deepcopy(self.model.state_dict())
        for steps in (-1, 1.5, True):
            with self.assertRaisesRegex(adapt.CannotGrow, "is not a whole number of at least 1"):
                adapt.shrink(self.model, optimizer=self.optimiser, teach_steps=steps)  # type: ignore[arg-type]
        self.assertEqual(len(self.model.blocks), 4)
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in self.model.state_dict().items()))
        with self.assertRaisesRegex(adapt.CannotGrow, "teach_steps must be at least 0"):
            adapt.Adapter(self.model, self.optimiser, 60, teach_steps=-1)
        teacher = adapt.shrink(self.model, optimizer=self.optimiser, teach_steps=4).teacher
        assert teacher is not None
        batch = Text(3).batch()
        with self.assertRaisesRegex(adapt.CannotGrow, "give the batch that these outputs were computed from"):
            teacher.loss(loss_of(self.model, batch), self.model(batch[0]), batch[0][:3])


if __name__ == "__main__":
    unittest.main()
