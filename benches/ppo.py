"""PPO beside stable-baselines3: target/gym/bin/python benches/ppo.py target/release/rota

The same environment (`classroom-compat`, 4 GPUs, 16 at a time, the Rust one in both), the same network (one scorer shared over the rows,
a critic on their mean, tanh, hidden layers of 64 and 64), the same rollouts (64 steps), minibatches (256) and epochs (4), one thread.
Prints steps per CPU second of both, and what the models score on the same episodes.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import numpy
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

import rota

STEPS = 50_000
EPISODES = 500
HIDDEN = (64, 64)


def dense(inputs):
    sizes = (inputs, *HIDDEN)
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 1))


class Rows(nn.Module):
    """The scores of the rows, and the value of their mean."""

    def __init__(self, rows, features):
        super().__init__()
        self.shape = (-1, rows, features)
        self.score, self.critic = dense(features), dense(features)
        self.latent_dim_pi, self.latent_dim_vf = rows, 1

    def forward(self, flat):
        return self.forward_actor(flat), self.forward_critic(flat)

    def forward_actor(self, flat):
        return self.score(flat.view(self.shape)).squeeze(-1)

    def forward_critic(self, flat):
        return self.critic(flat.view(self.shape).mean(dim=1))


class RowPolicy(ActorCriticPolicy):
    def _build(self, lr_schedule):
        self.mlp_extractor = Rows(*self.observation_space.shape)
        self.action_net, self.value_net = nn.Identity(), nn.Identity()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


def theirs():
    torch.set_num_threads(1)
    env = rota.learn.stable_baselines3_env("classroom-compat", num_envs=16, seed=1, cluster="gpu:4")
    model = PPO(RowPolicy, env, learning_rate=3e-3, n_steps=64, batch_size=256, n_epochs=4, ent_coef=0.01, seed=1, device="cpu")
    before = time.process_time()
    model.learn(STEPS)
    return model.num_timesteps / (time.process_time() - before), model


def ours(binary, file):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    hidden = ",".join(map(str, HIDDEN))
    command = ["learn", "train", "--env", "classroom-compat", "--algo", "ppo", "--steps", str(STEPS), "--hidden", hidden, "--seed", "1"]
    subprocess.run([binary, *command, "-o", file, "--json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    score = ["learn", "eval", "--env", "classroom-compat", "--model", file, "--episodes", str(EPISODES), "--json"]
    scores = json.loads(subprocess.run([binary, *score], check=True, stdout=subprocess.PIPE).stdout)
    return STEPS / spent, scores[0]["reward_mean"]


def reward_of(model):
    env = rota.VecEnv("classroom-compat", num_envs=20, seed=0, cluster="gpu:4")
    rewards = []
    while len(rewards) < EPISODES:
        actions, _ = model.predict(env.observations, deterministic=True)
        _, _, ended = env.step(actions)
        rewards.extend(env.outcome(int(place))["reward"] for place in numpy.flatnonzero(ended))
    return sum(rewards) / len(rewards)


def main():
    with tempfile.TemporaryDirectory() as folder:
        speed, reward = ours(sys.argv[1], str(Path(folder) / "model.safetensors"))
    peer, model = theirs()
    print(f"PPO, {STEPS} steps: rota {speed:,.0f} steps per CPU second (validation included), reward {reward:.1f}")
    print(f"                  stable-baselines3 {peer:,.0f}, reward {reward_of(model):.1f}; ratio {speed / peer:.1f} (target 5)")


if __name__ == "__main__":
    main()
