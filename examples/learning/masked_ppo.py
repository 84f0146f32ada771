"""MaskablePPO of sb3-contrib in Rota's classroom, then a model file: python3 examples/learning/masked_ppo.py [STEPS] [MODEL]

Needs gymnasium, numpy, sb3-contrib.
"""

import sys

from sb3_contrib import MaskablePPO

import rota


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    file = sys.argv[2] if len(sys.argv) > 2 else "masked-ppo.safetensors"
    env = rota.learn.stable_baselines3_env("classroom", num_envs=16, seed=1, jobs_seen=32)
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=256, n_epochs=4, seed=1, device="cpu").learn(steps)
    rota.learn.export(model, file, objective="wait", seed=1)
    print(f"written to {file}; try: rota sim --trace scenarios/classroom.toml --cluster t4:4 --policy learned:model={file}")


if __name__ == "__main__":
    main()
