"""Rota's environments from Python: arrays without copies, Gymnasium's own checker, stable-baselines3 and sb3-contrib.

Needs NumPy, Gymnasium, stable-baselines3 and sb3-contrib (requirements-gym.txt) beside PyTorch. `make test` puts them together:
`../target/gym/bin/python -m unittest tests.environments`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy
import torch
from gymnasium.utils.env_checker import check_env
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO

import rota
from rota._classroom import generate_task
from rota._native import candidates, library

from .daemon import ROOT, program

torch.set_num_threads(1)
SCENARIO = ROOT / "scenarios" / "poisson-small.toml"


def first_legal_job(masks: Any) -> Any:
    """The last legal row of each environment: a job wherever one fits."""
    return masks.shape[1] - 1 - masks[:, ::-1].argmax(axis=1)


class Arrays(unittest.TestCase):
    def test_the_arrays_are_the_librarys_memory_and_change_in_place(self) -> None:
        many = rota.VecEnv("classroom", num_envs=4, seed=3, cluster="t4:4")
        self.assertEqual(many.observations.shape, (4, 65, len(many.features)))
        self.assertIn("log_wait", many.features)
        self.assertEqual((many.observations.dtype, many.action_masks.dtype), (numpy.float32, numpy.bool_))
        address = many.observations.ctypes.data
        before = many.observations.copy()
        observations, rewards, ended = many.step(first_legal_job(many.action_masks))
        self.assertIs(observations, many.observations)
        self.assertIs(rewards, many.rewards)
        self.assertIs(ended, many.terminated)
        self.assertEqual(observations.ctypes.data, address)
        self.assertFalse(numpy.array_equal(observations, before))
        self.assertTrue(numpy.array_equal(many.reset(3), before))

    def test_an_array_outlives_its_environments(self) -> None:
        kept = rota.VecEnv("classroom-compat", num_envs=2).observations
        before = kept.copy()
        gc.collect()
        others = [rota.VecEnv("classroom-compat", num_envs=2, seed=seed) for seed in range(5)]
        self.assertTrue(numpy.array_equal(kept, before))
        del others

    def test_episodes_follow_each_other_and_say_what_they_came_to(self) -> None:
        many = rota.VecEnv("classroom", num_envs=3, seed=1000, objective="wait")
        sums, outcomes = numpy.zeros(3), []
        for _ in range(250):
            self.assertTrue(many.action_masks.any(axis=1).all())
            _, rewards, ended = many.step(first_legal_job(many.action_masks))
            sums += rewards
            for place in numpy.flatnonzero(ended):
                outcomes.append(many.outcome(int(place)))
                self.assertAlmostEqual(outcomes[-1]["wait_mean_s"], -sums[place], places=3)
                self.assertEqual(outcomes[-1]["lost"], 0)
                sums[place] = 0
        self.assertGreater(len(outcomes), 9)

    def test_a_trace_is_played_in_stretches(self) -> None:
        many = rota.VecEnv(f"trace:{SCENARIO}", num_envs=2, cluster="gpu:8", jobs_seen=16, stretch=20, objective="jct")
        ended = 0
        for _ in range(300):
            many.step(first_legal_job(many.action_masks))
            ended += int(many.terminated.sum())
        self.assertGreater(ended, 5)

    def test_what_cannot_be_is_refused_with_the_reason(self) -> None:
        for env, settings, reason in (
            ("chess", {}, "known are classroom"),
            ("classroom", {"colour": "red"}, "unknown field `colour`"),
            ("classroom", {"cluster": "t4:x"}, "cluster"),
            ("trace:/nowhere.csv", {"cluster": "t4:1"}, "/nowhere.csv"),
            ("classroom", {"illegal": "maybe"}, "error, replace"),
        ):
            with self.subTest(env=env, settings=settings), self.assertRaisesRegex(ValueError, reason):
                rota.VecEnv(env, **settings)  # type: ignore[arg-type]
        many = rota.VecEnv("classroom", num_envs=2)
        before = many.observations.copy()
        for actions, reason in (([0], "shape"), ([1, 65], "environment 1: action 65"), ([-1, 1], "environment 0: action -1")):
            with self.assertRaisesRegex(ValueError, reason):
                many.step(actions)
        self.assertTrue(numpy.array_equal(many.observations, before))
        tolerant = rota.VecEnv("classroom", num_envs=2, illegal="replace")
        tolerant.step([-1, 10**9])

    def test_a_missing_library_is_told_with_what_to_do(self) -> None:
        script = "import rota; rota.VecEnv('classroom')"
        for file, reason in (
            ("/nowhere/librota_python.so", "cargo build --release"),
            (__file__, "cannot be used"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", script],
                env={**os.environ, "ROTA_LIBRARY": file},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)

    def test_rota_loads_none_of_them_by_itself(self) -> None:
        script = "import rota, sys; print([name for name in ('numpy', 'torch', 'gymnasium') if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")


class Gymnasium(unittest.TestCase):
    def test_gymnasiums_checker_finds_nothing(self) -> None:
        for settings in (
            {"env": "classroom"},
            {"env": "classroom-compat", "cluster": "gpu:2"},
            {"env": f"trace:{SCENARIO}", "cluster": "gpu:8", "jobs_seen": 16, "stretch": 20},
        ):
            with self.subTest(settings), warnings.catch_warnings():
                warnings.simplefilter("error")
                check_env(gymnasium.make("rota/Scheduling-v0", **settings).unwrapped, skip_render_check=True)

    def test_the_order_of_imports_does_not_matter(self) -> None:
        for imports in ("import rota, gymnasium", "import gymnasium, rota"):
            script = f"{imports}\nenv = gymnasium.make('rota/Scheduling-v0')\nprint(env.reset(seed=1)[0].shape[0])"
            done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(done.stdout.strip(), "65", imports)

    def test_a_seed_gives_one_episode_and_an_episode_can_be_named(self) -> None:
        env = gymnasium.make("rota/Scheduling-v0", env="classroom")
        first, _ = env.reset(seed=7)
        self.assertFalse(numpy.array_equal(first, env.reset()[0]))
        self.assertTrue(numpy.array_equal(first, env.reset(seed=7)[0]))
        many = rota.VecEnv("classroom", seed=1000)
        self.assertTrue(numpy.array_equal(env.reset(options={"episode": 1000})[0], many.observations[0]))


class StableBaselines(unittest.TestCase):
    def test_ppo_learns_in_the_environment(self) -> None:
        env = gymnasium.make("rota/Scheduling-v0", env="classroom", jobs_seen=16)
        model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=2, seed=1, device="cpu").learn(256)
        self.assertEqual(model.num_timesteps, 256)

    def test_masked_ppo_never_chooses_an_illegal_row(self) -> None:
        env = gymnasium.make("rota/Scheduling-v0", env="classroom", jobs_seen=16, illegal="error")
        model = MaskablePPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=2, seed=1, device="cpu").learn(256)
        observation, _ = env.reset(seed=5)
        ended = False
        while not ended:
            masks = env.unwrapped.action_masks()
            action, _ = model.predict(observation, action_masks=masks, deterministic=True)
            self.assertTrue(masks[action])
            observation, _, ended, _, outcome = env.step(action)
        self.assertEqual(outcome["lost"], 0)

    def test_many_environments_at_once(self) -> None:
        env = rota.learn.stable_baselines3_env("classroom", num_envs=8, seed=2, jobs_seen=16)
        model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu").learn(512)
        self.assertEqual(model.num_timesteps, 512)


class Export(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-export-")
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "model.safetensors"

    def same_actions(self, model: Any, env: Any, chosen: Any) -> None:
        """Plays an episode by the exported model, and asks the other what it would have chosen."""
        exported = rota.learn.Model(self.file, env)
        observation, _ = env.reset(seed=11)
        ended, steps = False, 0
        while not ended:
            masks = env.unwrapped.action_masks()
            action, _ = exported.predict(observation, action_masks=masks)
            if masks[1:].any() or not env.unwrapped.has_wait:
                self.assertEqual(int(action), int(chosen(model, observation, masks)))
            observation, _, ended, _, _ = env.step(action)
            steps += 1
        self.assertGreater(steps, 30)

    def test_models_of_stable_baselines_choose_the_same_after_the_journey(self) -> None:
        def by_logits(model: Any, observation: Any, masks: Any) -> int:
            with torch.no_grad():
                tensor = model.policy.obs_to_tensor(observation)[0]
                logits = model.policy.get_distribution(tensor).distribution.logits[0].numpy()
            first = 1 if len(masks) == 17 else 0
            return int(numpy.where(masks, logits, -numpy.inf)[first:].argmax()) + first

        for kind, settings in (
            (PPO, {"env": "classroom-compat", "cluster": "gpu:3"}),
            (PPO, {"env": "classroom", "jobs_seen": 16}),
            (MaskablePPO, {"env": "classroom", "jobs_seen": 16}),
        ):
            with self.subTest(kind=kind.__name__, settings=settings):
                env = gymnasium.make("rota/Scheduling-v0", **settings)
                model = kind("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=2, seed=3, device="cpu").learn(128)
                rota.learn.export(model, self.file)
                self.same_actions(model, env, by_logits)

    def test_a_network_of_pytorch_chooses_the_same_and_plays_in_the_simulator(self) -> None:
        env = gymnasium.make("rota/Scheduling-v0", env="classroom")
        torch.manual_seed(4)
        count = len(env.unwrapped.features)
        scorer = torch.nn.Sequential(torch.nn.Linear(count, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

        def by_rows(model: Any, observation: Any, masks: Any) -> int:
            with torch.no_grad():
                scores = model(torch.from_numpy(observation)).numpy()[:, 0]
            return int(numpy.where(masks, scores, -numpy.inf)[1:].argmax()) + 1

        rota.learn.export(scorer, self.file, env)
        self.same_actions(scorer, env, by_rows)
        whole = torch.nn.Sequential(
            torch.nn.Flatten(0), torch.nn.Linear(65 * count, 8), torch.nn.Tanh(), torch.nn.Linear(8, 65)
        )
        for model in (scorer, whole):
            rota.learn.export(model, self.file, env)
            trace = str(ROOT / "scenarios" / "classroom.toml")
            command = [str(program()), "sim", "--trace", trace, "--cluster", "t4:4", "--json"]
            done = subprocess.run([*command, "--policy", f"learned:model={self.file}"], stdout=subprocess.PIPE, check=True)
            summary = json.loads(done.stdout)
            summary = summary[0] if isinstance(summary, list) else summary
            self.assertEqual(summary["completed"], summary["jobs"])

    def test_what_is_no_dense_policy_is_refused(self) -> None:
        env = gymnasium.make("rota/Scheduling-v0", env="classroom")
        linear, nn, count = torch.nn.Linear, torch.nn, len(env.unwrapped.features)
        not_a_number = nn.Sequential(linear(count, 1))
        not_a_number[0].weight.data[0, 3] = float("nan")
        for model, reason in (
            (nn.Sequential(nn.Conv1d(1, 1, 3)), "Conv1d"),
            (nn.Sequential(linear(count, 4), nn.Tanh(), linear(4, 4), nn.ReLU(), linear(4, 1)), "both Tanh and ReLU"),
            (nn.Sequential(linear(count, 4), linear(4, 1)), "one Tanh or ReLU between"),
            (nn.Sequential(linear(count, 4), nn.Tanh()), "must be Linear"),
            (nn.Sequential(linear(7, 1)), "takes 7 numbers"),
            (not_a_number, "no finite number"),
            (nn.GRU(count, 1), "GRU"),
            (object(), "no model of stable-baselines3"),
        ):
            with self.subTest(reason), self.assertRaisesRegex(ValueError, reason):
                rota.learn.export(model, self.file, env)
        with self.assertRaisesRegex(ValueError, "name the environment"):
            rota.learn.export(nn.Sequential(linear(count, 1)), self.file)
        with self.assertRaisesRegex(ValueError, "none of Rota's environments"):
            rota.learn.export(nn.Sequential(linear(count, 1)), self.file, gymnasium.make("CartPole-v1"))
        self.assertFalse(self.file.exists())
        convolutional = DQN(
            "MlpPolicy", gymnasium.make("rota/Scheduling-v0", env="classroom-compat"), device="cpu", buffer_size=10
        )
        rota.learn.export(convolutional, self.file)
        with self.assertRaisesRegex(ValueError, "feature"):
            rota.learn.Model(self.file, env)


class TeachingProject(unittest.TestCase):
    def test_its_evaluation_script_runs_unchanged_with_a_model_of_stable_baselines(self) -> None:
        env = rota.MLWorkloadSchedulingEnv(num_gpus=2)
        model = PPO("MlpPolicy", env.as_gymnasium(), n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu").learn(128)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            makespan, average = self.evaluate_as_in_the_project(model, env, num_tasks=50)
            ours = rota.evaluate_model(model, env, num_tasks=50)
        self.assertEqual(printed.getvalue().count("Final Makespan (Total Time): "), 2)
        self.assertIn("GPU 1:", printed.getvalue())
        self.assertGreater(makespan, 50)
        self.assertGreater(average, 0)
        self.assertGreater(ours[0], 50)

    @staticmethod
    def evaluate_as_in_the_project(model: Any, env: Any, num_tasks: int) -> tuple[int, float]:
        """The calls of the project's own `evaluate_model`, in its order."""
        env.tasks = [generate_task(number) for number in range(num_tasks)]
        observation = env.reset()
        rewards, waited = [], 0
        while True:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, done, _ = env.step(action)
            rewards.append(reward)
            waited += sum(env.task_waiting_times)
            env.render()
            if done:
                break
        print(f"Final Makespan (Total Time): {env.total_time}")
        print(f"Total Reward: {sum(rewards)}")
        return env.total_time, waited / num_tasks

    def test_the_environment_for_gymnasium_passes_its_checker(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(rota.MLWorkloadSchedulingEnv(num_gpus=2).as_gymnasium(), skip_render_check=True)


class Library(unittest.TestCase):
    def test_it_is_the_one_that_was_built_here(self) -> None:
        self.assertTrue(library())
        self.assertTrue(any(path.exists() for path in candidates()))
