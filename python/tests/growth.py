"""`rota.adapt`: networks that grow while they train, with their optimisers. What is refused changes nothing.

Needs an interpreter with PyTorch, as Debian's: `/usr/bin/python3 -m unittest tests.growth`.
"""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import tempfile
import unittest
from functools import partial
from typing import Any, Callable

import torch
from torch import nn

from rota import adapt

from .daemon import ROOT
from .growth_models import Text, TinyGpt, train

torch.set_num_threads(1)
LAYOUTS = [
    "layer-fused-gelu",
    "layer-separate-swiglu",
    "rms-fused-fusedswiglu",
    "rms-separate-swiglu",
]


def moved(model: nn.Module, inputs: Any, before: Any) -> float:
    with torch.no_grad():
        return float((model(inputs) - before).abs().max())


def state_of(model: nn.Module, optimiser: Any) -> tuple[Any, ...]:
    """Everything that a refused growth must leave as it was, to the bit."""
    order = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [
        [order.get(id(p)) for p in g["params"]] + [repr(v) for k, v in g.items() if k != "params"]
        for g in (optimiser.param_groups if optimiser is not None else [])
    ]
    values = {name: value.clone() for name, value in model.state_dict().items()}
    moments = copy.deepcopy(optimiser.state_dict()["state"]) if optimiser is not None else {}
    identities = [id(p) for p in model.parameters()] + [id(m) for m in model.modules()]
    return str(model), groups, values, moments, identities, model.training, torch.get_rng_state().clone()


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


class GrowthTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(3)

    def trained(self, steps: int = 6, **model: Any) -> tuple[Any, Any]:
        network = TinyGpt(**model)
        optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
        train(network, optimiser, Text(1), steps)
        return network, optimiser


class Exactness(GrowthTest):
    def test_two_layers_become_four_and_the_logits_stay(self) -> None:
        inputs, _ = Text(2).batch()
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                model, optimiser = self.trained(layout=layout)
                before = model(inputs).detach()
                growth = adapt.deepen(model, optimizer=optimiser)
                self.assertEqual((growth.paths, len(model.blocks)), (("blocks.1", "blocks.3"), 4))
                self.assertLessEqual(moved(model, inputs, before), 1e-6)
                # The new blocks learn: after two steps every one of their parameters has moved.
                start = {name: value.clone() for name, value in model.blocks[1].state_dict().items()}
                train(model, optimiser, Text(3), 2)
                self.assertTrue(
                    all(not torch.equal(start[name], value) for name, value in model.blocks[1].state_dict().items())
                )

    def test_twice_the_hidden_units_and_the_logits_stay(self) -> None:
        inputs, _ = Text(2).batch()
        for layout in LAYOUTS:
            for noise in (0.0, 0.5):
                with self.subTest(layout=layout, noise=noise):
                    model, optimiser = self.trained(layout=layout)
                    before, size = model(inputs).detach(), model.blocks[0].feed.down.in_features
                    adapt.widen(model, optimizer=optimiser, factor=1.5, noise=noise)
                    self.assertEqual(model.blocks[1].feed.down.in_features, size * 3 // 2)
                    self.assertLessEqual(moved(model, inputs, before), 1e-5)
                    train(model, optimiser, Text(3), 2)
                    adapt.shrink(model, optimizer=optimiser)
                    self.assertEqual(model.blocks[1].feed.down.in_features, size)
                    train(model, optimiser, Text(3), 1)

    def test_units_that_were_added_and_taken_away_at_once_leave_the_logits(self) -> None:
        model, _ = self.trained()
        inputs, _ = Text(2).batch()
        before = model(inputs).detach()
        adapt.widen(model, to=150)
        adapt.shrink(model)
        self.assertLessEqual(moved(model, inputs, before), 1e-5)

    def test_convolutions_stay_the_same_in_evaluation_and_on_the_batch_in_training(self) -> None:
        images, others = torch.randn(16, 1, 12, 12), torch.randn(16, 1, 12, 12)
        for mode in (False, True):
            with self.subTest(training=mode):
                torch.manual_seed(5)
                model, relu = convolutions(), nn.ReLU()
                model[2], model[6] = relu, relu
                model.train()
                for _ in range(5):
                    model(torch.randn(16, 1, 12, 12) * 2 + 1)
                model.train(mode)
                before = copy.deepcopy(model)(images).detach()
                adapt.deepen(model, example=images)
                self.assertEqual(sum(isinstance(module, nn.Conv2d) for module in model.modules()), 4)
                self.assertLessEqual(moved(copy.deepcopy(model), images, before), 1e-5)
                before = copy.deepcopy(model)(others).detach()
                for path in ("0", "5", "11"):
                    adapt.widen(model, path, factor=2)
                self.assertLessEqual(moved(copy.deepcopy(model), others, before), 1e-5)
                model(others)

    def test_a_perceptron(self) -> None:
        model = nn.Sequential(
            nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 3)
        )
        inputs = torch.randn(32, 6)
        before = model(inputs).detach()
        self.assertEqual([block.path for block in adapt.blocks(model)], ["0", "3"])
        adapt.deepen(model)
        adapt.widen(model, "0", to=11)
        self.assertLessEqual(moved(model, inputs, before), 1e-6)

    def test_pytorchs_own_encoder_layers(self) -> None:
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True, norm_first=True)
        model = nn.TransformerEncoder(layer, 2)
        inputs = torch.randn(3, 5, 16)
        for mode in (True, False):
            model.train(mode)
            adapt.deepen(model, "layers.0")
        model.eval()
        before = model(inputs).detach()
        adapt.deepen(model, ["layers.0", "layers.3"])
        self.assertLessEqual(moved(model, inputs, before), 1e-6)
        self.assertEqual(len(model.layers), 6)

    def test_blocks_that_want_a_mask_are_tried_on_an_example(self) -> None:
        model = TinyGpt(needs_mask=True)
        inputs, _ = Text(2).batch()
        before = model(inputs).detach()
        with self.assertRaisesRegex(adapt.CannotGrow, "give `example=`"):
            adapt.deepen(model)
        adapt.deepen(model, 0, example=inputs)
        self.assertLessEqual(moved(model, inputs, before), 1e-6)

    def test_stacking_repeats_the_blocks_and_changes_the_outputs(self) -> None:
        model, optimiser = self.trained()
        inputs, _ = Text(2).batch()
        before = model(inputs).detach()
        self.assertEqual(adapt.stack(model, optimizer=optimiser).paths, ("blocks.2", "blocks.3"))
        self.assertTrue(is_same(model.blocks[0].state_dict(), model.blocks[2].state_dict()))
        self.assertTrue(is_same(model.blocks[1].state_dict(), model.blocks[3].state_dict()))
        self.assertGreater(moved(model, inputs, before), 1e-3)
        adapt.shrink(model, optimizer=optimiser)
        self.assertEqual(moved(model, inputs, before), 0.0)


def convolutions() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 6, 3, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 10),
        nn.ReLU(),
        nn.Linear(10, 4),
    )


class Optimisers(GrowthTest):
    def test_old_moments_are_equal_to_the_bit_and_new_parameters_have_none(self) -> None:
        makers: list[Callable[[Any], Any]] = [
            lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True),
            lambda p: torch.optim.AdamW(p, lr=1e-3),
            lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
        ]
        for make in makers:
            model = TinyGpt()
            optimiser = make(model.parameters())
            with self.subTest(optimiser=type(optimiser).__name__):
                train(model, optimiser, Text(1), 4)
                old = list(model.parameters())
                before = {id(p): copy.deepcopy(optimiser.state[p]) for p in old}
                growth = adapt.deepen(model, optimizer=optimiser)
                self.assertTrue(all(is_same(before[id(p)], optimiser.state[p]) for p in old))
                self.assertTrue(all(p not in optimiser.state for p in growth.new_parameters))
                trained = [id(p) for group in optimiser.param_groups for p in group["params"]]
                self.assertEqual(sorted(trained), sorted(id(p) for p in model.parameters()))
                train(model, optimiser, Text(1), 2)
                adapt.shrink(model, optimizer=optimiser)
                self.assertEqual([id(p) for group in optimiser.param_groups for p in group["params"]], [id(p) for p in old])
                self.assertEqual({id(p) for p in optimiser.state}, {id(p) for p in old})

    def test_a_widened_layer_keeps_the_moments_of_its_old_units(self) -> None:
        model, optimiser = self.trained()
        up, down = model.blocks[0].feed.up, model.blocks[0].feed.down
        before = [optimiser.state[p]["exp_avg"].clone() for p in (up.weight, down.weight)]
        untouched = {id(p): copy.deepcopy(optimiser.state[p]) for p in model.blocks[1].parameters()}
        adapt.widen(model, "blocks.0", optimizer=optimiser)
        self.assertTrue(torch.equal(optimiser.state[up.weight]["exp_avg"][: len(before[0])], before[0]))
        self.assertTrue(torch.equal(optimiser.state[down.weight]["exp_avg"][:, : before[1].shape[1]], before[1]))
        self.assertTrue(all(is_same(untouched[id(p)], optimiser.state[p]) for p in model.blocks[1].parameters()))

    def test_the_loss_goes_on_as_if_nothing_had_been_grown_and_a_reset_would_show(self) -> None:
        model = TinyGpt(width=64)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        train(model, optimiser, Text(3, 8), 120)
        means = {}
        for arm in ("ungrown", "grown", "reset"):
            network = copy.deepcopy(model)
            mine = torch.optim.Adam(network.parameters(), lr=5e-3)
            mine.load_state_dict(copy.deepcopy(optimiser.state_dict()))
            if arm != "ungrown":
                adapt.deepen(network, optimizer=mine)
            if arm == "reset":
                mine = torch.optim.Adam(network.parameters(), lr=5e-3)
            means[arm] = sum(train(network, mine, Text(99, 8), 20)) / 20
        self.assertLess(abs(means["grown"] - means["ungrown"]), 0.02, means)
        self.assertGreater(means["reset"] - means["ungrown"], 0.02, means)

    def test_new_parameters_join_the_groups_of_their_sources_and_schedulers_go_on(self) -> None:
        model = TinyGpt()
        decayed = [p for p in model.parameters() if p.dim() > 1]
        plain = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0, "lr": 1e-4}]
        optimiser = torch.optim.AdamW(groups, lr=1e-3)
        warm = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5**step)
        train(model, optimiser, Text(1), 1)
        warm.step()
        growth = adapt.deepen(model, "blocks.1", optimizer=optimiser)
        for group, is_wide in zip(optimiser.param_groups, (True, False)):
            self.assertTrue(all((p.dim() > 1) == is_wide for p in group["params"]))
        self.assertEqual(sum(len(g["params"]) for g in optimiser.param_groups), len(list(model.parameters())))
        self.assertGreater(len(growth.new_parameters), 8)
        train(model, optimiser, Text(1), 1)
        warm.step()
        self.assertEqual([group["lr"] for group in optimiser.param_groups], [1e-3 / 4, 1e-4 / 4])

    def test_frozen_layers_stay_frozen_and_the_new_ones_train(self) -> None:
        model = TinyGpt()
        for block in model.blocks:
            block.requires_grad_(False)
        optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        frozen = {name: value.clone() for name, value in model.blocks[1].state_dict().items()}
        growth = adapt.deepen(model, 1, optimizer=optimiser)
        adapt.widen(model, "blocks.0", optimizer=optimiser)
        self.assertFalse(any(p.requires_grad for index in (0, 1) for p in model.blocks[index].parameters()))
        start = [p.detach().clone() for p in growth.new_parameters]
        train(model, optimiser, Text(1), 3)
        self.assertTrue(is_same(frozen, dict(model.blocks[1].state_dict())))
        self.assertTrue(all(not torch.equal(a, b) for a, b in zip(start, growth.new_parameters)))

    def test_save_load_and_resume_give_the_same_losses(self) -> None:
        def made() -> tuple[Any, Any]:
            model = TinyGpt()
            return model, torch.optim.AdamW(model.parameters(), lr=3e-3)

        model, optimiser = made()
        text = Text(7)
        train(model, optimiser, text, 5)
        adapt.deepen(model, optimizer=optimiser)
        train(model, optimiser, text, 3)
        adapt.widen(model, "blocks.2", optimizer=optimiser)
        train(model, optimiser, text, 3)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file)
        fresh, other = made()
        with self.assertRaisesRegex(RuntimeError, "Unexpected key"):
            fresh.load_state_dict(saved["model"])
        adapt.load(fresh, saved["model"], optimizer=other)
        other.load_state_dict(saved["optimiser"])
        self.assertEqual(adapt.recipe(fresh), adapt.recipe(model))
        whole, resumed = train(model, optimiser, Text(8), 6), train(fresh, other, Text(8), 6)
        self.assertEqual(whole, resumed)
        for network, its in ((model, optimiser), (fresh, other)):
            adapt.shrink(network, optimizer=its)
            adapt.shrink(network, optimizer=its)
        self.assertEqual(train(model, optimiser, Text(8), 3), train(fresh, other, Text(8), 3))


class Plans(GrowthTest):
    def test_a_plan_says_what_the_growth_then_costs_and_changes_nothing(self) -> None:
        model, optimiser = self.trained()
        inputs, _ = Text(2).batch()
        before = state_of(model, optimiser)
        for operation, options in (("deepen", {}), ("widen", {"factor": 2.0}), ("stack", {"times": 3})):
            planned = adapt.plan(model, operation, optimizer=optimiser, example=inputs, step_seconds=0.5, **options)
            self.assertTrue(is_same(state_of(model, optimiser), before))
            grown, its = copy.deepcopy(model), None
            growth = getattr(adapt, operation)(grown, optimizer=its, **options)
            self.assertEqual(
                (planned.parameters_before, planned.parameters_after), (growth.parameters_before, growth.parameters_after)
            )
            # Weights, gradients and two moments, four bytes each.
            added = planned.parameters_after - planned.parameters_before
            self.assertEqual(planned.memory_bytes, added * 4 * 4)
            self.assertAlmostEqual(planned.step_seconds or 0.0, 0.5 * planned.step_factor)
            self.assertTrue(1.5 < planned.step_factor < 3.0, planned)
            self.assertGreater(planned.seconds, 0.0)
        with self.assertRaisesRegex(adapt.CannotGrow, "no operation `grow`"):
            adapt.plan(model, "grow")

    def test_the_steps_of_convolutions_are_counted_by_their_images(self) -> None:
        images = torch.randn(2, 1, 12, 12)
        first = adapt.plan(convolutions(), where="0", example=images).step_factor
        second = adapt.plan(convolutions(), where="4", example=images).step_factor
        # 324 weights at 100 places, and at 9; beside 54 at 100, 324 at 9, 240 and 40.
        base = 54 * 100 + 324 * 9 + 240 + 40
        self.assertAlmostEqual(first, 1 + 324 * 100 / base)
        self.assertAlmostEqual(second, 1 + 324 * 9 / base)


class Refusals(GrowthTest):
    def refused(self, message: str, model: Any, optimiser: Any, act: Callable[[], object]) -> None:
        before = state_of(model, optimiser)
        with self.assertRaisesRegex(adapt.CannotGrow, message):
            act()
        self.assertTrue(is_same(state_of(model, optimiser), before), "the refusal left a trace")

    def test_chains_that_cannot_be_deepened(self) -> None:
        even = nn.Sequential(nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
        smooth = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 3), nn.LeakyReLU(), nn.Linear(3, 2))
        recurrent = nn.Sequential(nn.LSTM(3, 3), nn.Linear(3, 2))
        for message, model, where in (
            ("`0` has an even kernel \\(2 by 2\\)", even, "0"),
            ("activation of `0`, GELU, changes values again", smooth, "0"),
            ("activation of `2`, LeakyReLU", smooth, "2"),
            ("`4` has no activation behind it", smooth, "4"),
            ("`0` is a LSTM, which is not known as a block", recurrent, "0"),
            ("has no `7`", smooth, "7"),
            ("there is no block 3", smooth, 3),
            ("no block that can be grown", recurrent, None),
            ("the list is empty", smooth, []),
        ):
            with self.subTest(message=message):
                optimiser = torch.optim.Adam(model.parameters())
                self.refused(message, model, optimiser, partial(adapt.deepen, model, where, optimizer=optimiser))

    def test_one_bad_block_of_several_stops_the_whole_growth(self) -> None:
        model = convolutions()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        self.refused("`11` has no activation", model, optimiser, lambda: adapt.deepen(model, ["0", "11"], optimizer=optimiser))
        self.refused("`0` is named twice", model, optimiser, lambda: adapt.deepen(model, ["0", "0"], optimizer=optimiser))
        self.refused(
            "does not run on the example", model, optimiser, lambda: adapt.deepen(model, "0", example=torch.ones(2, 9))
        )
        self.refused("width of the last layer", model, optimiser, lambda: adapt.widen(model, "11", optimizer=optimiser))
        self.refused("the width 6 is not above 6", model, optimiser, lambda: adapt.widen(model, "0", to=6, optimizer=optimiser))

    def test_post_norm_blocks(self) -> None:
        for model in (TinyGpt(order="post"), nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1)):
            optimiser = torch.optim.Adam(model.parameters())
            self.refused("post-norm block", model, optimiser, partial(adapt.deepen, model, optimizer=optimiser))

    def test_output_projections_that_would_never_learn(self) -> None:
        model = TinyGpt()
        outputs = ["attention.o_proj", "feed.down", "feed.up"]
        self.refused("`feed.down` .* would never learn", model, None, lambda: adapt.deepen(model, 0, outputs=outputs))
        self.refused("no layer `feed.out`", model, None, lambda: adapt.deepen(model, 0, outputs=["feed.out"]))
        self.refused("still changes its input", model, None, lambda: adapt.deepen(model, 0, outputs=["feed.down"]))

    def test_blocks_that_share_weights_but_not_tied_embeddings(self) -> None:
        model = TinyGpt()
        adapt.deepen(model, 0)
        model.blocks[1].feed.up.weight = model.blocks[0].feed.up.weight
        self.refused("shares its weight `feed.up.weight` with `blocks.1", model, None, lambda: adapt.deepen(model, "blocks.0"))
        self.refused("shares its weight `weight`", model, None, lambda: adapt.widen(model, "blocks.0"))
        albert = TinyGpt()
        albert.blocks[1] = albert.blocks[0]
        self.refused("shares its weight", albert, None, lambda: adapt.deepen(albert, "blocks.0"))
        self.refused("shares its weight", albert, None, lambda: adapt.stack(albert))

    def test_compiled_sharded_and_scripted_models(self) -> None:
        class OptimizedModule(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self._orig_mod = inner

        class FullyShardedDataParallel(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.module = inner

        for message, model in (
            ("compiled by torch.compile", OptimizedModule(TinyGpt())),
            ("sharded by FSDP", FullyShardedDataParallel(TinyGpt())),
            ("TorchScript", torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))),
        ):
            for act in (adapt.deepen, adapt.widen, adapt.stack, adapt.shrink, adapt.plan):
                with self.assertRaisesRegex(adapt.CannotGrow, message):
                    act(model)

    @unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch has no torch.compile")
    def test_models_that_a_current_pytorch_compiled_or_sharded(self) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        compiled, in_place, sharded = torch.compile(TinyGpt()), TinyGpt(), TinyGpt()
        in_place.compile()
        with tempfile.TemporaryDirectory(prefix="rota-growth-") as folder:
            torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{folder}/ranks")
            self.addCleanup(torch.distributed.destroy_process_group)
            sharded = fully_shard(sharded, mesh=init_device_mesh("cpu", (1,)))
        for message, model in (("torch.compile", compiled), ("torch.compile", in_place), ("FSDP", sharded)):
            for act in (adapt.deepen, adapt.widen, adapt.stack, adapt.shrink, adapt.plan):
                with self.assertRaisesRegex(adapt.CannotGrow, message):
                    act(model)

    def test_foreign_optimisers(self) -> None:
        model = TinyGpt()
        rms = torch.optim.RMSprop(model.parameters())
        train(model, rms, Text(1), 1)
        others = torch.optim.Adam(nn.Linear(2, 2).parameters())
        for act in (adapt.deepen, adapt.widen, adapt.stack, adapt.shrink):
            self.refused("RMSprop, whose state is not understood", model, rms, partial(act, model, optimizer=rms))
            self.refused("trains no parameter of this model", model, rms, partial(act, model, optimizer=others))

    def test_down_before_up(self) -> None:
        model = TinyGpt()
        self.refused("nothing to take back", model, None, lambda: adapt.shrink(model))
        with self.assertRaisesRegex(adapt.CannotGrow, "`down` at 5 s comes before any `up`"):
            adapt.Countdown(60, [(5, "down"), (9, "up")])

    def test_states_that_do_not_fit(self) -> None:
        grown = TinyGpt()
        adapt.deepen(grown)
        fresh, narrow, wide = TinyGpt(), TinyGpt(width=16), TinyGpt()
        adapt.widen(wide)
        state = grown.state_dict()
        self.refused("does not fit the model", narrow, None, lambda: adapt.load(narrow, state))
        self.refused("grown in another way", wide, None, lambda: adapt.load(wide, state))
        for damaged in (b"{", b'[{"where": []}]', b"[3]"):
            broken = {**state, "rota_growth": torch.tensor(list(damaged), dtype=torch.uint8)}
            self.refused("is damaged", fresh, None, partial(adapt.load, fresh, broken))
        unknown = {**state, "rota_growth": torch.tensor(list(b'[{"operation": "x"}]'), dtype=torch.uint8)}
        self.refused("unknown operation `x`", fresh, None, lambda: adapt.load(fresh, unknown))


class Imports(unittest.TestCase):
    def test_import_rota_does_not_import_pytorch(self) -> None:
        script = "import sys, rota; assert 'torch' not in sys.modules; rota.adapt.deepen; assert 'torch' in sys.modules"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        subprocess.run([sys.executable, "-c", script], check=True, env=environment)


if __name__ == "__main__":
    unittest.main()
