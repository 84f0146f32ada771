#!/usr/bin/env python3
"""What learned durations are worth: mean completion time, fairness and CPU time on production logs, against the marks.

usage: benches/history.py path/to/rota [--parts | --swf FILE]

With --parts: parts of the logs instead, with and without the users' estimates, how far `lag-history` goes there from `lag-match`, which
knows nothing of lengths, to `lag-srsf`, which knows them, and which share of jobs take more than 1.1 times as long as with a private
share under the first two.

With --swf: the same for a log in the standard workload format, whole, at two loads. `MaxProcs` in its header says how many GPUs there are.
Jobs count whether they failed or not, as in the other logs.

Tables are empty at the start of every run and learn from the run itself. The logs are read from the shared reference data and are not part
of the repository; without them nothing is measured. Arrival times are scaled to the load that a row names.
"""

import bisect
import csv
import datetime
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared/data"
PHILLY = DATA / "philly/philly.csv"

# Log, GPUs, load (as it was if None), policy, further flags, largest mean JCT in seconds.
RUNS = (
    ("philly", 400, None, "lag-match", [], None),
    ("philly", 400, None, "lag-history", [], 35_500),
    ("philly", 400, None, "lag-history", ["--restart-cost", "30"], 37_500),
    ("philly", 400, None, "gittins", [], None),
    ("philly", 400, None, "gittins:classes=on", [], 33_500),
    ("philly", 400, None, "srsf:estimates=history", [], 36_000),
    ("philly", 400, None, "sjf:estimates=history", [], 70_000),
    ("philly", 400, None, "las", [], 36_000),
    ("kth-sp2", 100, None, "lag-match", [], None),
    ("kth-sp2", 100, None, "lag-history", [], 10_900),
    ("kth-sp2", 100, None, "lag-srsf", [], None),
    ("kth-sp2", 100, 0.92, "lag-match", [], None),
    ("kth-sp2", 100, 0.92, "lag-history", [], 17_600),
    ("kth-sp2", 100, 0.92, "lag-srsf", [], None),
    ("cea-curie-sample", 5832, 0.92, "lag-match", [], None),
    ("cea-curie-sample", 5832, 0.92, "lag-history", [], 7_580),
    ("cea-curie-sample", 5832, 0.92, "lag-srsf", [], None),
)
CPU_SECONDS_MAX = 60.0

# Part, log, jobs of it (from and to which part of the log, or day for Philly; virtual cluster; widest job), GPUs, load, with estimates.
PARTS = (
    ("kth-sp2, first half", "kth-sp2", (0.0, 0.5, None, None), 100, 0.92, False),
    ("kth-sp2, second half", "kth-sp2", (0.5, 1.0, None, None), 100, 0.92, False),
    ("kth-sp2, second half", "kth-sp2", (0.5, 1.0, None, None), 100, 0.8, True),
    ("kth-sp2", "kth-sp2", (0.0, 1.0, None, None), 100, 0.92, False),
    ("Curie, first half", "cea-curie-sample", (0.0, 0.5, None, None), 5832, 0.92, False),
    ("Curie, second half", "cea-curie-sample", (0.5, 1.0, None, None), 5832, 0.92, True),
    ("Curie, 16 nodes at most", "cea-curie-sample", (0.0, 1.0, None, 16), 512, 0.92, True),
    ("Curie, same, second half", "cea-curie-sample", (0.5, 1.0, None, 16), 256, 0.92, False),
    ("Philly, until day 40", "philly", (0.0, 40.0, None, None), 400, 0.9, False),
    ("Philly, from day 40", "philly", (40.0, 1e9, None, None), 400, 0.9, False),
    ("Philly, 11cb48", "philly", (0.0, 1e9, "11cb48", None), 64, 0.9, False),
    ("Philly, 6c71a0", "philly", (0.0, 1e9, "6c71a0", None), 64, 0.9, False),
    ("Philly, b436b2", "philly", (0.0, 1e9, "b436b2", None), 64, 0.9, False),
)


def own_format(log, gpus, load, folder):
    """A log with users in Rota's own table, its arrivals scaled to a load."""
    with gzip.open(DATA / f"history/{log}.csv.gz", "rt") as file:
        jobs = list(csv.DictReader(file))
    span = float(jobs[-1]["submit_s"]) - float(jobs[0]["submit_s"])
    work = sum(float(job["duration_s"]) * int(job["gpus"]) for job in jobs)
    scale = 1.0 if load is None else work / span / gpus / load
    path = pathlib.Path(folder) / f"{log}-{load}.csv"
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "user", "project", "arrival_s", "duration_s", "gpus", "estimate_s"])
        for job in jobs:
            estimate = job["requested_s"] if float(job["requested_s"] or 0) > 0 else ""
            arrival = f"{float(job['submit_s']) * scale:.3f}"
            table.writerow([job["job_id"], job["user"], job["vc"], arrival, job["duration_s"], job["gpus"], estimate])
    return path


def swf_jobs(path):
    """The fields of each line that is no comment."""
    with open(path) as file:
        return [line.split() for line in file if line.strip() and not line.startswith(";")]


def known(field, before=""):
    """A name in a log in the standard workload format, where -1 stands for one that is not known."""
    return "" if field == "-1" else before + field


def swf_parts(path):
    """What is measured of a log in the standard workload format."""
    with open(path) as file:
        gpus = next((int(line.split(":")[1]) for line in file if line.startswith("; MaxProcs:")), None)
    if gpus is None:
        sys.exit(f"{path}: no line `; MaxProcs:` in the header")
    name = pathlib.Path(path).stem
    return [(name, path, (0.0, 1.0, None, None), gpus, load, has_estimates) for load in (0.7, 0.92) for has_estimates in (True, False)]


def read_log(log):
    """Submit time, user, project, length, GPUs and estimate of each job, in order."""
    if log.endswith(".swf"):
        rows = [
            (float(row[1]), known(row[11]), known(row[12], "group "), row[3], row[4] if int(row[4]) > 0 else row[7], row[8])
            for row in swf_jobs(log)
        ]
        jobs = [row for row in rows if float(row[3]) > 0 and int(row[4]) > 0]
    elif log == "philly":
        with open(PHILLY) as file:
            jobs = [
                (datetime.datetime.fromisoformat(job["timestamp"]).timestamp(), "", job["cluster"], job["duration"], job["num_gpus"], "")
                for job in csv.DictReader(file)
            ]
    else:
        with gzip.open(DATA / f"history/{log}.csv.gz", "rt") as file:
            jobs = [
                (float(job["submit_s"]), job["user"], job["vc"], job["duration_s"], job["gpus"], job["requested_s"])
                for job in csv.DictReader(file)
            ]
    return sorted(jobs, key=lambda job: job[0])


def write_part(log, which, gpus, load, has_estimates, path):
    """A part of a log in Rota's own table, its arrivals scaled to a load."""
    first, last, project, widest = which
    jobs = read_log(log)
    start = jobs[0][0]
    jobs = [job for job in jobs if project in (None, job[2]) and int(job[4]) <= min(gpus, widest or gpus)]
    if log == "philly":
        jobs = [job for job in jobs if first <= (job[0] - start) / 86_400 < last]
    else:
        jobs = jobs[int(first * len(jobs)) : int(last * len(jobs))]
    span = jobs[-1][0] - jobs[0][0]
    scale = sum(float(job[3]) * int(job[4]) for job in jobs) / span / gpus / load
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "user", "project", "arrival_s", "duration_s", "gpus", "estimate_s"])
        for number, (submit, user, vc, duration, size, requested) in enumerate(jobs):
            estimate = requested if has_estimates and float(requested or 0) > 0 else ""
            table.writerow([number, user, vc, f"{(submit - jobs[0][0]) * scale:.3f}", duration, size, estimate])


def share_behind(part, jobs_csv, gpus):
    """The share of jobs with rho > 1.1: completion time against that with an n-th of the GPUs, n being the jobs there at the time."""
    with open(part) as file:
        work = {job["id"]: float(job["duration_s"]) for job in csv.DictReader(file)}
    with open(jobs_csv) as file:
        jobs = [(float(job["arrival_s"]), float(job["finish_s"]), int(job["gpus"]), work[job["job_id"]]) for job in csv.DictReader(file)]
    changes = sorted([(job[0], 1) for job in jobs] + [(job[1], -1) for job in jobs])
    moments, counts, active = [], [], 0
    for moment, change in changes:
        active += change
        if moments and moments[-1] == moment:
            counts[-1] = max(active, 1)
        else:
            moments.append(moment)
            counts.append(max(active, 1))
    behind = 0
    for size in {job[2] for job in jobs}:
        rates = [gpus / max(count * size, gpus) for count in counts]
        done = [0.0]
        for place in range(1, len(moments)):
            done.append(done[-1] + (moments[place] - moments[place - 1]) * rates[place - 1])
        for arrival, end, gang, seconds in jobs:
            if gang == size:
                goal = done[bisect.bisect_left(moments, arrival)] + seconds
                last = max(bisect.bisect_left(done, goal) - 1, 0)
                behind += end - arrival > 1.1 * (moments[last] + (goal - done[last]) / rates[last] - arrival)
    return behind / len(jobs)


def parts(rota, rows):
    """How far `lag-history` goes from knowing nothing to knowing all, and how many jobs fall behind, on parts of the logs."""
    print(
        f"{'part':25} {'load':>5} {'estimates':>9} {'lag-match':>10} {'lag-history':>11} {'lag-srsf':>9} {'of the way':>10}"
        f" {'behind, match':>13} {'history':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path, jobs_csv = pathlib.Path(folder) / "part.csv", pathlib.Path(folder) / "jobs.csv"
        for name, log, which, gpus, load, has_estimates in rows:
            write_part(log, which, gpus, load, has_estimates, path)
            means, behind = [], []
            for policy in ("lag-match", "lag-history", "lag-srsf"):
                command = [rota, "sim", "--trace", str(path), "--cluster", f"gpu:{gpus}", "--policy", policy, "--json"]
                answer = subprocess.run([*command, "--jobs-csv", str(jobs_csv)], stdout=subprocess.PIPE, check=True)
                means.append(json.loads(answer.stdout)["jct_mean_s"])
                behind.append(share_behind(path, jobs_csv, gpus))
            nothing, learned, exact = means
            way = (nothing - learned) / (nothing - exact)
            estimates = "yes" if has_estimates else "no"
            print(
                f"{name:25} {load:5} {estimates:>9} {nothing:10,.0f} {learned:11,.0f} {exact:9,.0f} {way:10.0%}"
                f" {behind[0]:13.2%} {behind[1]:8.2%}",
                flush=True,
            )


def main():
    rota = sys.argv[1]
    if sys.argv[2:3] == ["--swf"]:
        parts(rota, swf_parts(sys.argv[3]))
        return
    if not PHILLY.exists():
        print("skipped: no reference data")
        return
    if "--parts" in sys.argv[2:]:
        parts(rota, PARTS)
        return
    missed = 0
    print(f"{'log':18} {'load':>5} {'policy':24} {'restart':>7} {'mean JCT s':>11} {'mark':>8} {'worst rho':>9} {'CPU s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for log, gpus, load, policy, flags, mark in RUNS:
            trace = PHILLY if log == "philly" else own_format(log, gpus, load, folder)
            command = [rota, "sim", "--trace", str(trace), "--cluster", f"gpu:{gpus}", "--policy", policy, *flags, "--json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            answer = json.load(process.stdout)
            _, status, usage = os.wait4(process.pid, 0)
            if os.waitstatus_to_exitcode(status) != 0:
                sys.exit(f"failed: {' '.join(command)}")
            cpu_seconds = usage.ru_utime + usage.ru_stime
            holds = (mark is None or answer["jct_mean_s"] <= mark) and cpu_seconds <= CPU_SECONDS_MAX
            missed += not holds
            print(
                f"{log:18} {load or '':>5} {policy:24} {flags[1] if flags else 0:>7} {answer['jct_mean_s']:11,.0f} {mark or '':>8}"
                f" {answer['ftf_worst']:9.2f} {cpu_seconds:6.1f}  {'ok' if holds else 'MISSED'}",
                flush=True,
            )
    if missed:
        sys.exit(f"{missed} marks missed")


if __name__ == "__main__":
    main()
