"""PPO of stable-baselines3 in Rota's classroom, beside first come, first served: python3 examples/learning/ppo.py [STEPS]

Needs gymnasium, numpy, stable-baselines3. PPO knows no masks: an illegal row is replaced by waiting.
"""

import sys

from stable_baselines3 import PPO

import rota


def mean_wait(choose, episodes=50):
    """Mean waiting time in seconds over the same episodes for everyone."""
    env = rota.VecEnv("classroom", seed=1000, illegal="replace", jobs_seen=32)
    waits = []
    while len(waits) < episodes:
        _, _, ended = env.step([choose(env)])
        if ended[0]:
            waits.append(env.outcome(0)["wait_mean_s"])
    return sum(waits) / len(waits)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    env = rota.learn.stable_baselines3_env("classroom", num_envs=16, seed=1, jobs_seen=32)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=256, n_epochs=4, seed=1, device="cpu").learn(steps)
    print(f"fcfs {mean_wait(lambda env: env.action_masks[0, 1:].argmax() + 1):.2f} s")
    print(f"ppo  {mean_wait(lambda env: model.predict(env.observations[0], deterministic=True)[0]):.2f} s")


if __name__ == "__main__":
    main()
