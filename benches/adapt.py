"""Network adaptation, side by side with PyTorch: /usr/bin/python3 benches/adapt.py target/release/rota [SIMULATIONS.csv]

Prints a training step (batch 64, forward, backward, Adam) of Rota's kernels and of PyTorch with one thread, in CPU milliseconds, taken in
turns so that a busy machine slows both. With the recorded tables of the study it also prints, for ten seeds, the ranks that learning as the
study does ends with, and how many episodes a CPU second has. The exit code is 1 if a target is missed.
"""

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 3
STEPS = 20
# For each table of the study: its episodes, and the highest median rank that is good enough.
TABLES = {
    "ConvNet2/early": (75_000, 3),
    "ConvNet2/middle": (20_000, 6),
    "ConvNet2/late": (10_000, 2),
    "ConvNet3/early": (75_000, 10),
    "ConvNet3/middle": (75_000, 10),
    "ConvNet3/late": (75_000, 10),
}
SEEDS = range(1, 11)
LEAST_EPISODES_PER_SECOND = 1_500
LONGEST_SECONDS_OF_75_000 = 50


def verdict(is_held):
    return "ok" if is_held else "MISSED"


def run(binary, *arguments):
    done = subprocess.run([binary, "adapt", *arguments, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def torch_step_ms(torch, side, added):
    nn = torch.nn

    def block(inputs, outputs, padding):
        return [nn.Conv2d(inputs, outputs, 3, padding=padding), nn.BatchNorm2d(outputs), nn.ReLU()]

    first = block(1, 32, 0) + [layer for _ in range(added[0]) for layer in block(32, 32, 1)]
    second = block(32, 32, 0) + [layer for _ in range(added[1]) for layer in block(32, 32, 1)]
    model = nn.Sequential(*first, nn.AvgPool2d(2), *second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    images, labels = torch.rand(64, 1, side, side) * 2 - 1, torch.randint(0, 10, (64,))
    times = []
    for step in range(STEPS + 1):
        before = time.process_time()
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()
        if step > 0:
            times.append(1e3 * (time.process_time() - before))
    return statistics.median(times)


def steps(binary):
    """Whether no step is slower than PyTorch's."""
    import torch

    torch.set_num_threads(1)
    print(f"a training step of 64 images, CPU ms of one thread, PyTorch {torch.__version__}")
    held = True
    for side, grow in [(28, ""), (28, "011"), (14, ""), (14, "011")]:
        added = (grow.count("0"), grow.count("1"))
        ours, theirs = [], []
        for _ in range(ROUNDS):
            arguments = ["--side", str(side), "--steps", str(STEPS)] + (["--grow", grow] if grow else [])
            ours.append(run(binary, "bench", *arguments)["step_ms_median"])
            theirs.append(torch_step_ms(torch, side, added))
        mine, other = statistics.median(ours), statistics.median(theirs)
        held &= mine <= other
        words = f"Rota {mine:7.1f}  PyTorch {other:7.1f}  ratio {other / mine:.2f}  {verdict(mine <= other)}"
        print(f"  ConvNet2 {side}x{side} {grow or 'as it is':<8} {words}", flush=True)
    return held


def ranks(binary, tables):
    """Whether all medians and the speed are good enough."""
    print("learning as the study does, ten seeds: ranks of the greedy triple")
    held, speeds = True, []
    for table, (episodes, highest) in TABLES.items():
        options = ["--tables", tables, "--table", table, "--compat", "--episodes", str(episodes)]
        runs = [run(binary, "learn", *options, "--seed", str(seed)) for seed in SEEDS]
        found = [result["rank"] for result in runs]
        low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
        speeds += [result["episodes_per_cpu_second"] for result in runs]
        held &= middle <= highest
        words = f"median {middle:g} (quartiles {low:g} to {high:g}), at most {highest}  {verdict(middle <= highest)}"
        print(f"  {table:<16} {episodes:6} episodes: {words}  ranks {found}", flush=True)
    speed = statistics.median(speeds)
    seconds = 75_000 / speed
    fast = speed >= LEAST_EPISODES_PER_SECOND and seconds < LONGEST_SECONDS_OF_75_000
    words = f"at least {LEAST_EPISODES_PER_SECOND:,}; 75,000 in {seconds:.1f} s, below {LONGEST_SECONDS_OF_75_000}"
    print(f"  {speed:,.0f} episodes per CPU second (slowest {min(speeds):,.0f}), {words}  {verdict(fast)}")
    return held and fast


def main():
    held = steps(sys.argv[1])
    if len(sys.argv) > 2:
        held &= ranks(sys.argv[1], sys.argv[2])
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
