"""The teaching environment: its rules score as they should, and the teaching project's own script runs unchanged."""

from __future__ import annotations

import contextlib
import io
import random
import unittest
from typing import Any

import rota
from rota._classroom import generate_task


class Rule:
    """A model that goes by a rule."""

    def __init__(self, gpus: int, least_loaded: bool, seed: int = 0) -> None:
        self.gpus = gpus
        self.least_loaded = least_loaded
        self.random = random.Random(seed)

    def predict(self, observation: Any, deterministic: bool = True) -> tuple[int, None]:
        usage = observation[: self.gpus]
        return (usage.index(min(usage)) if self.least_loaded else self.random.randrange(self.gpus)), None


def mean_reward(model: Rule, episodes: int) -> float:
    env = rota.MLWorkloadSchedulingEnv(num_gpus=4, seed=1, compat=True)
    total = 0.0
    for _ in range(episodes):
        observation, done = env.reset(), False
        while not done:
            observation, reward, done, _ = env.step(model.predict(observation)[0])
            total += reward
    return total / episodes


class Classroom(unittest.TestCase):
    def test_rules_score_as_in_the_original(self) -> None:
        # An independent implementation: 288 and 381 over 1,000 to 2,000 episodes.
        self.assertAlmostEqual(mean_reward(Rule(4, least_loaded=False), 1000), 288, delta=6)
        self.assertAlmostEqual(mean_reward(Rule(4, least_loaded=True), 1000), 381, delta=6)

    def test_nothing_is_lost_and_all_tasks_given_are_played(self) -> None:
        env = rota.MLWorkloadSchedulingEnv(num_gpus=2, seed=3)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            makespan, waited = rota.evaluate_model(Rule(2, least_loaded=True), env, num_tasks=50)
        self.assertEqual((len(env.waiting_times), len(env.lost), env.tasks), (50, 0, []))
        self.assertEqual(waited, sum(env.waiting_times) / 50)
        self.assertEqual(makespan, env.total_time)
        self.assertIn(f"Average Waiting Time: {waited:.2f}", out.getvalue())

    def test_the_original_script_runs_unchanged(self) -> None:
        env = rota.MLWorkloadSchedulingEnv(num_gpus=2)
        model = Rule(2, least_loaded=True)
        env.tasks = [generate_task(number) for number in range(30)]
        obs = env.reset()
        rewards, total_waiting_time = [], 0
        with contextlib.redirect_stdout(io.StringIO()) as out:
            while True:
                action, _ = model.predict(obs, deterministic=True)
                obs, reward, done, _ = env.step(action)
                rewards.append(reward)
                total_waiting_time += sum(env.task_waiting_times)
                env.render()
                if done:
                    break
        self.assertEqual(len(rewards), env.total_time)
        self.assertIn("GPU 1:", out.getvalue())
        self.assertGreater(total_waiting_time, 0)

    def test_an_impossible_action_is_refused(self) -> None:
        env = rota.MLWorkloadSchedulingEnv(num_gpus=2)
        for action in (-1, 2):
            with self.assertRaisesRegex(ValueError, "the GPUs are 0 to 1"):
                env.step(action)
        self.assertEqual(env.total_time, 0)
        with self.assertRaises(ValueError):
            rota.MLWorkloadSchedulingEnv(num_gpus=0)


if __name__ == "__main__":
    unittest.main()
