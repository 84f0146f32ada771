#!/usr/bin/env python3
"""Gavel's seven workloads under `las` on one virtual GPU: each is stopped at least twice, goes on, and reaches the loss of a run that was never stopped.

Usage: workloads.py path/to/rota [--steps 1.0]. Needs an interpreter with PyTorch, which also runs the workloads: `/usr/bin/python3`, with Debian's
`python3-torch`. Takes some minutes on one core. Prints a table; the exit code is 1 if a workload was stopped less than twice or ended elsewhere.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples/workloads/gavel"
# Each with Gavel's smallest batch, and steps for some ten seconds on one core.
WORKLOADS = {
    "ResNet-18": ("image_classification/cifar10", ["main.py", "--batch_size", "16", "--num_steps"], 300),
    "ResNet-50": ("image_classification/imagenet", ["main.py", "-j", "8", "-a", "resnet50", "-b", "16", "--num_minibatches"], 40),
    "Transformer": ("translation", ["train.py", "-batch_size", "16", "-proj_share_weight", "-step"], 120),
    "LM": ("language_modeling", ["main.py", "--cuda", "--batch_size", "5", "--steps"], 120),
    "Recommendation": ("recommendation", ["train.py", "--batch_size", "512", "-n"], 20),
    "A3C": ("rl", ["main.py", "--env", "PongDeterministic-v4", "--workers", "4", "--amsgrad", "True", "--max-steps"], 250),
    "CycleGAN": ("cyclegan", ["cyclegan.py", "--decay_epoch", "0", "--n_steps"], 120),
}
STOPS_MIN = 2


def last_line(text):
    """The line that tells the loss and the weights."""
    done = [line for line in text.splitlines() if line.startswith("done after step")]
    return done[-1] if done else "it did not end"


def uninterrupted(folder, command):
    return last_line(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rota", help="the binary")
    parser.add_argument("--steps", type=float, default=1.0, metavar="FACTOR", help="so many times the steps [1.0]")
    parser.add_argument("--policy", default="las:first=1,factor=2", metavar="P", help="[las:first=1,factor=2]")
    options = parser.parse_args()
    state = tempfile.mkdtemp(prefix="rota-workloads-")
    up = [options.rota, "up", "--foreground", "--state", state, "--virtual-gpus", "a100:1", "--port", "0"]
    daemon = subprocess.Popen([*up, "--policy", options.policy, "--min-run", "0.5"], stdout=subprocess.PIPE, text=True)

    def rota(verb, *words, cwd=None):
        line = [options.rota, verb, "--state", state, *words]
        return subprocess.run(line, check=True, capture_output=True, text=True, cwd=cwd).stdout

    is_missed = False
    try:
        daemon.stdout.readline()
        rota("drain")
        jobs = {}
        for name, (place, words, steps) in WORKLOADS.items():
            command = [sys.executable, *words, str(max(int(steps * options.steps), 4))]
            submit = ["--name", name, "--preemptible", "--json", "--", *command]
            jobs[name] = (json.loads(rota("submit", *submit, cwd=FOLDER / place))["id"], FOLDER / place, command)
        rota("resume")
        subprocess.run([options.rota, "wait", "--state", state, *(str(job) for job, _, _ in jobs.values())], check=False)
        print(f"{'workload':<16} {'stops':>5} {'state':>7}  loss and weights")
        for name, (number, folder, command) in jobs.items():
            job = json.loads(rota("show", str(number), "--json"))
            stopped, whole = last_line(rota("logs", str(number))), uninterrupted(folder, command)
            stops = job["preemptions"]
            is_right = stops >= STOPS_MIN and stopped == whole
            is_missed = is_missed or not is_right
            print(f"{name:<16} {stops:>5} {job['state']:>7}  {stopped}  {'ok' if is_right else f'MISSED: uninterrupted, {whole}'}", flush=True)
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(state, ignore_errors=True)
    sys.exit(1 if is_missed else 0)


if __name__ == "__main__":
    main()
