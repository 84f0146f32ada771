"""Writes the Philly trace in Rota's own format, with estimates that are wrong by a log-normal factor.

    python3 benches/philly_estimates.py philly.csv OUTPUT.csv [--draw S]

The estimate of a job is its length times exp(z). The numbers z are `numpy.random.default_rng(S).normal` over all jobs in order of
arrival, jobs of one second in the order of the file. Without --draw no estimates are written. Needs NumPy.
"""

import argparse
import csv
import datetime
import pathlib


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--draw", type=int, help="the seed of the draw")
    args = parser.parse_args()
    with args.trace.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if float(row["duration"]) > 0]
    moments = [datetime.datetime.fromisoformat(row["timestamp"]) for row in rows]
    order = sorted(range(len(rows)), key=lambda place: moments[place])
    factors = None
    if args.draw is not None:
        import numpy

        factors = numpy.exp(numpy.random.default_rng(args.draw).normal(size=len(rows)))
    with args.output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "arrival_s", "gpus", "duration_s"] + ([] if factors is None else ["estimate_s"]))
        for number, place in enumerate(order):
            row, since = rows[place], moments[place] - moments[order[0]]
            seconds = float(row["duration"])
            line = [row["cluster"], int(since.total_seconds()), row["num_gpus"], seconds]
            writer.writerow(line if factors is None else [*line, f"{seconds * factors[number]:.3f}"])


if __name__ == "__main__":
    main()
