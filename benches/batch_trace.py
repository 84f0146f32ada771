"""A trace to learn on that is not the published one: python3 benches/batch_trace.py --seed 7 -o other.swf

Writes jobs in the Standard Workload Format, in the manner of the batch workloads of large machines: many jobs on one processor, most others on
powers of two, run times of two kinds (minutes and hours, the wider jobs more often hours), and arrivals in bursts. The machine is loaded to the
part that `--load` says.
"""

import argparse
import math
import random


def size(draw, processors):
    if draw.random() < 0.25:
        return 1
    largest = math.log2(processors)
    power = draw.uniform(0.8, largest - 2.5) if draw.random() < 0.86 else draw.uniform(largest - 2.5, largest)
    wanted = 2 ** round(power) if draw.random() < 0.75 else round(2**power)
    return max(1, min(processors, wanted))


def run_seconds(draw, processors):
    is_short = draw.random() < max(0.0, min(1.0, 0.78 - 0.0054 * processors))
    logarithm = draw.gammavariate(4.2, 0.94) if is_short else draw.gammavariate(312, 0.03)
    return min(200_000, max(1, round(math.exp(logarithm))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--processors", type=int, default=256)
    parser.add_argument("--load", type=float, default=0.75)
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    jobs = []
    for _ in range(args.jobs):
        width = size(draw, args.processors)
        jobs.append((width, run_seconds(draw, width)))
    gaps = [math.exp(draw.gauss(0, 1.6)) for _ in jobs]
    span_seconds = sum(width * seconds for width, seconds in jobs) / (args.processors * args.load)
    scale, submitted = span_seconds / sum(gaps), 0.0
    with open(args.output, "w") as file:
        file.write(f"; Version: 2\n; MaxNodes: {args.processors}\n")
        for number, ((width, seconds), gap) in enumerate(zip(jobs, gaps), start=1):
            submitted += gap * scale
            file.write(f"{number} {int(submitted)} -1 {seconds} {width} -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n")


if __name__ == "__main__":
    main()
