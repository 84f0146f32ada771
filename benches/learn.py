"""Speed of learning, side by side with plain Python: python3 benches/learn.py target/release/rota [LUBLIN-2.swf]

Prints steps per CPU second of the environments (Rota's, and a Python one of the package's own), the time a network takes for 16 and
128 jobs, whether the targets hold, and how five trainings of 50,000 steps do against the rules. With a trace in the Standard Workload
Format it also trains on that.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import rota

EPISODES = 300
SEEDS = range(1, 6)


def run(binary, *arguments):
    done = subprocess.run([binary, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def python_steps_per_cpu_second():
    env = rota.MLWorkloadSchedulingEnv(num_gpus=4, seed=0, compat=True)
    steps, before = 0, time.process_time()
    for _ in range(EPISODES):
        env.reset()
        done = False
        while not done:
            _, _, done, _ = env.step(steps % 4)
            steps += 1
    return steps / (time.process_time() - before)


def train(binary, folder, name, *arguments):
    models = []
    for seed in SEEDS:
        model = str(folder / f"{name}-{seed}.safetensors")
        run(binary, "learn", "train", "--seed", str(seed), "-o", model, "--json", *arguments)
        models += ["--model", model]
    return models


def main():
    binary = sys.argv[1]
    figures = run(binary, "learn", "bench", "--env", "classroom-compat", "--episodes", "20000", "--json")
    python = python_steps_per_cpu_second()
    ours = figures["steps_per_cpu_second"]
    print(f"classroom-compat: {ours:,.0f} steps per CPU second; in Python {python:,.0f}; ratio {ours / python:,.0f}")
    print(f"inference: {figures['inference_us_16']:.1f} us for 16 jobs (target 5), {figures['inference_us_128']:.1f} us for 128 (target 25)")
    classroom = run(binary, "learn", "bench", "--env", "classroom", "--json")["steps_per_cpu_second"]
    print(f"classroom: {classroom:,.0f} steps per CPU second (target 5,000,000)")
    with tempfile.TemporaryDirectory() as folder:
        # More jobs than the cluster can run, so that 128 of them always wait.
        jobs = str(Path(folder) / "jobs.csv")
        command = ["trace", "gen", "--model", "poisson", "--jobs", "20000", "--rate", "200", "--multi-gpu", "--seed", "1", "-o", jobs]
        subprocess.run([binary, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = ["--cluster", "v100:64", "--jobs-seen", "128"]
        trace = run(binary, "learn", "bench", "--env", f"trace:{jobs}", *seen, "--json")["steps_per_cpu_second"]
        print(f"trace, 128 jobs seen: {trace:,.0f} steps per CPU second (target 200,000)")
        compat = ["--env", "classroom-compat"]
        models = train(binary, Path(folder), "compat", *compat, "--algo", "ppo", "--steps", "50000")
        rules = ["--against", "random", "--against", "least-loaded", "--against", "best-fit"]
        show("classroom-compat, reward", "reward_mean", run(binary, "learn", "eval", *compat, *models, *rules, "--episodes", "2000", "--json"))
        if len(sys.argv) > 2:
            batch = ["--env", f"swf-compat:{sys.argv[2]}", "--resort"]
            models = train(binary, Path(folder), "batch", *batch, "--objective", "bsld", "--hidden", "none", "--episodes", "4", "--steps", "4000000")
            rules = ["--against", "sjf", "--against", "saf", "--against", "f1", "--against", "f2"]
            show("swf-compat re-sorted, bounded slowdown", "bsld_mean", run(binary, "learn", "eval", *batch, *models, *rules, "--json"))


def show(title, metric, scores):
    print(title)
    for score in scores:
        print(f"  {Path(score['policy']).name:<28} {score[metric]:10.2f} [{score[metric + '_low']:.2f}, {score[metric + '_high']:.2f}]")
    learned = [score[metric] for score in scores if score["policy"].endswith(".safetensors")]
    print(f"  mean of {len(learned)} training seeds    {sum(learned) / len(learned):10.2f}")


if __name__ == "__main__":
    main()
