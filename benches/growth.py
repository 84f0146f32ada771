#!/usr/bin/env python3
"""Growing a small language model at half time, beside staying small; and what `adapter.step()` costs when nothing changes.

Usage: growth.py [--seeds 5] [--steps 400] [--only deepened]. Needs PyTorch: `/usr/bin/python3` with Debian's `python3-torch`. Takes some minutes on one core.
A character model over this repository's own documentation, width 64, 2 blocks; at half time the grown arms get 4 blocks. Two comparisons:
equal steps (the extra GPU pays for the deeper network) and equal multiplications (the same GPU pays; the grown arms get fewer steps).
Every arm begins with the same weights and moments at half time. The last tenth of the text is kept for the score.
The exit code is 1 if `adapter.step()` misses its target. Whether growth pays is reported and not judged.
"""

import argparse
import copy
import math
import pathlib
import statistics
import sys
import time

PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"
sys.path.insert(0, str(PYTHON))

import torch  # noqa: E402

from rota import adapt  # noqa: E402
from rota.adapt.warmup import WarmUp  # noqa: E402
from tests.growth_models import CONTEXT, Text, TinyGpt, loss_of  # noqa: E402

TARGET_MICROSECONDS = 50.0
WIDTH, BATCH, RATE, WARMUP_STEPS = 64, 8, 3e-3, 20
ARMS = {"deepened": "deepen", "stacked": "stack", "widened": "widen"}
# Two-sided 95 % of Student's t, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


class HeldBack(Text):
    """The documentation, of which the last tenth is for the score."""

    def __init__(self, seed):
        super().__init__(seed, BATCH)
        cut = len(self._text) * 9 // 10
        self._text, rest = self._text[:cut], self._text[cut:]
        rows = [rest[start : start + CONTEXT + 1] for start in range(0, len(rest) - CONTEXT - 1, CONTEXT)]
        self._score = torch.stack(rows)

    def score(self, model):
        with torch.no_grad():
            return float(loss_of(model, (self._score[:, :-1], self._score[:, 1:])))


def train(model, optimiser, text, steps, rates, growth=None):
    """Trains with a rate for each step; new parameters are warmed up."""
    warming = WarmUp(growth.new_parameters, WARMUP_STEPS) if growth is not None and growth.new_parameters else None
    for rate in rates[-steps:]:
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = loss_of(model, text.batch())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if warming is not None and not warming.is_over:
            warming.step()


def one_seed(seed, steps, arms):
    """The score of every arm."""
    torch.manual_seed(seed)
    model, text = TinyGpt(width=WIDTH), HeldBack(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    half = steps // 2
    # Constant, then falling over the last quarter: growth belongs in the stable phase.
    rates = [RATE] * (steps - steps // 4) + [RATE * (1 - number / (steps // 4)) for number in range(steps // 4)]
    train(model, optimiser, text, half, rates[:half])
    scores = {}
    for arm, operation in {"small": None, **arms}.items():
        for pays in ("steps", "multiplications"):
            if arm == "small" and pays == "multiplications":
                continue
            network = copy.deepcopy(model)
            mine = torch.optim.AdamW(network.parameters(), lr=RATE)
            mine.load_state_dict(copy.deepcopy(optimiser.state_dict()))
            growth, left = None, steps - half
            if operation is not None:
                factor = adapt.plan(network, operation, example=text.batch()[0]).step_factor
                growth = getattr(adapt, operation)(network, optimizer=mine)
                left = left if pays == "steps" else int(left / factor)
            later = HeldBack(1000 + seed)
            train(network, mine, later, left, rates[half:], growth)
            scores[arm, pays] = text.score(network)
    return scores


def step_cost():
    """Seconds of `adapter.step()` when nothing changes; best of five."""
    model = TinyGpt()
    adapter = adapt.Adapter(model, torch.optim.Adam(model.parameters()), 10**6)
    best, calls = math.inf, 20_000
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(calls):
            adapter.step()
        best = min(best, (time.perf_counter() - began) / calls)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many times [5]")
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="steps of the small model in all [400]")
    parser.add_argument("--only", choices=ARMS, metavar="ARM", help=f"only this of {', '.join(ARMS)}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cost = step_cost()
    verdict = "ok" if cost * 1e6 < TARGET_MICROSECONDS else "MISSED"
    print(f"`adapter.step()` without a change     {cost * 1e6:8.3f} µs  < {TARGET_MICROSECONDS:g} µs  {verdict}", flush=True)
    arms = {arm: operation for arm, operation in ARMS.items() if options.only in (None, arm)}
    runs = []
    for seed in range(options.seeds):
        runs.append(one_seed(seed, options.steps, arms))
        scores = "  ".join(f"{arm} at equal {pays} {score:.4f}" for (arm, pays), score in runs[-1].items() if arm != "small")
        print(f"seed {seed}: small {runs[-1]['small', 'steps']:.4f}  {scores}", flush=True)
    small = [run["small", "steps"] for run in runs]
    print(f"score (loss on text kept back) after {options.steps} steps, {options.seeds} seeds; small: {statistics.mean(small):.4f}")
    for key in [key for key in runs[0] if key[0] != "small"]:
        differences = [run[key] - run["small", "steps"] for run in runs]
        mean = statistics.mean(differences)
        interval = 0.0
        if len(runs) > 1:
            interval = STUDENT.get(len(runs) - 1, 1.96) * statistics.stdev(differences) / math.sqrt(len(runs))
        says = "better" if mean + interval < 0 else "worse" if mean - interval > 0 else "no difference to be seen"
        print(f"  {key[0]:<9} at equal {key[1]:<16} {mean:+.4f} ± {interval:.4f} (95 %, paired)  {says}")
    sys.exit(0 if verdict == "ok" else 1)


if __name__ == "__main__":
    main()
