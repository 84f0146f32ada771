"""The live environment: the teaching project's four jobs end on the GPUs that were chosen, and the energy is what was recorded.

Needs NumPy and Gymnasium, as `tests.environments`: `../target/gym/bin/python -m unittest tests.live_environment`.
"""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium

import rota
from rota._live import EnergyMeter

from .daemon import ROOT, DaemonTest, program, until, until_file

WORKLOADS = ROOT / "examples" / "workloads"
FOUR_JOBS = ("matmul", "cnn", "lstm", "boosting")


Points = list[tuple[float, float]]
"""Moments of Unix time, each with the watts that all GPUs drew."""


class WatchedMeter(EnergyMeter):
    """Keeps what it was told, so that the test knows how exact its sum can be."""

    def __init__(self) -> None:
        super().__init__()
        self.points: Points = []

    def note(self, gpus: Sequence[rota.Gpu], now: float) -> None:
        super().note(gpus, now)
        self.points.append((now, sum(gpu.power_watts or 0.0 for gpu in gpus)))


def recorded(file: Path) -> Points:
    """What a recording says of all GPUs together."""
    by_moment: dict[float, float] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines, skipinitialspace=True):
            # The last line may be cut.
            if None in row.values():
                continue
            moment = datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f").timestamp()
            watts = next(value for name, value in row.items() if name.startswith("power.draw"))
            by_moment[moment] = by_moment.get(moment, 0.0) + float(watts.split()[0])
    return list(by_moment.items())


def joules(points: Points, since: float, until: float) -> tuple[float, float]:
    """The energy between two moments, and how far it may be off, because the power changed at an unknown moment between two
    readings."""
    sum_joules, doubt = 0.0, 0.0
    for (start, watts), (end, watts_after) in zip(points, points[1:]):
        overlap = max(0.0, min(end, until) - max(start, since))
        sum_joules += overlap * (watts + watts_after) / 2
        doubt += overlap * abs(watts_after - watts) / 2
    return sum_joules, doubt


class Live(DaemonTest):
    gpus = "v100:2"

    def four_jobs(self) -> list[dict[str, Any]]:
        return [
            {"command": [sys.executable, str(WORKLOADS / f"{name}.py"), "--epochs", "2"], "name": name} for name in FOUR_JOBS
        ]

    @mock.patch("rota._live.EnergyMeter", WatchedMeter)
    def test_the_four_jobs_end_on_the_gpus_chosen_and_the_energy_is_the_recorded_one(self) -> None:
        file = self.folder / "gpu_usage.csv"
        recorder = subprocess.Popen(
            [program(), "record", "--state", self.daemon.state, "-o", file, "-i", "0.02"], stdout=subprocess.DEVNULL
        )
        try:
            until("the recording has begun", lambda: file.exists() and file.stat().st_size > 200)
            env = gymnasium.make(
                "rota/Live-v0", jobs=self.four_jobs(), client=self.client, step_seconds=2.0, sample_seconds=0.02
            )
            env.reset(seed=1)
            live: Any = env.unwrapped
            # The first two jobs go to GPU 1 and 0, the others to whichever is free.
            wanted, rewards, ended = [1, 0], 0.0, False
            while not ended:
                masks = live.action_masks()
                choice = wanted[0] if wanted and masks[wanted[0]] else int(masks.argmax())
                if wanted and choice == wanted[0]:
                    wanted.pop(0)
                _, reward, ended, truncated, info = env.step(choice)
                self.assertFalse(truncated)
                self.assertLessEqual(reward, 0.0)
                rewards += reward
            over = datetime.now().timestamp()
            until("the recording covers the episode", lambda: file.stat().st_mtime > over + 0.3)
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
        self.assertEqual(len(info["jobs"]), 4)
        for job in info["jobs"]:
            self.assertEqual((job.state, list(job.gpu_indices)), ("done", [live.placed[job.id]]), job.name)
        placed = {job.name: live.placed[job.id] for job in info["jobs"]}
        self.assertEqual((placed["matmul"], placed["cnn"]), (1, 0))
        self.assertAlmostEqual(-rewards, info["joules"], places=3)
        meter = live.meter
        # The meter's clock only tells how much time has passed.
        since = over - (meter.points[-1][0] - meter.points[0][0])
        told, doubt = joules(recorded(file), since, over)
        _, live_doubt = joules(meter.points, meter.points[0][0], meter.points[-1][0])
        print(f"live energy {-rewards:.1f} ± {live_doubt:.1f} J, recorded {told:.1f} ± {doubt:.1f} J")
        # Beside that, two percent for the moments at which the two read the same change.
        self.assertAlmostEqual(-rewards, told, delta=live_doubt + doubt + 0.02 * told)

    def test_a_reset_begins_with_all_jobs_anew_and_leaves_none_behind(self) -> None:
        gate = self.folder / "gate"
        env = rota.LiveEnv([until_file(gate), until_file(gate)], client=self.client, step_seconds=0.2)
        for _ in range(2):
            observation, _ = env.reset(seed=0)
            self.assertTrue(env.observation_space.contains(observation))
            self.assertEqual(observation[-2:].tolist(), [1.0, 0.0])
            observation, _, ended, _, _ = env.step(0)
            self.assertEqual((observation[-2:].tolist(), ended), ([0.5, 0.5], False))
            # The GPU is taken: the choice is taken as waiting.
            self.assertEqual(env.action_masks().tolist()[0], False)
            observation, _, _, _, _ = env.step(0)
            self.assertEqual(observation[-2:].tolist(), [0.5, 0.5])
        env.close()
        self.assertEqual([job.state for job in self.client.jobs(finished=True)], ["cancelled", "cancelled"])

    def test_what_cannot_be_is_refused(self) -> None:
        for jobs, reason in (
            ([], "at least one"),
            ([{"name": "x"}], "command"),
            ([{"command": "true", "gpus": 2}], "agent chooses"),
        ):
            with self.assertRaisesRegex(ValueError, reason):
                rota.LiveEnv(jobs, client=self.client)
        env = rota.LiveEnv(["true"], client=self.client)
        env.reset()
        with self.assertRaisesRegex(ValueError, "2 waits"):
            env.step(3)
        self.assertIn("GPU 1:", env.render())
