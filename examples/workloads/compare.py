#!/usr/bin/env python3
"""The teaching project's experiment as one command: its four jobs on real processes, under one policy after the other.

For every policy a fresh daemon is started, the four workloads are submitted while the queue is drained, so that all wait at the start, and
when they have ended the history and a report are kept. At the end stands a table. Whatever was started is stopped again, also after an error
or Ctrl-C.
"""

import argparse
import contextlib
import csv
import datetime
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import checkpoint

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = "fcfs,sjf,rr:quantum=2,lottery,wfq,priority,least-loaded"
# The jobs in the order of the teaching project's list, with its estimates (seconds), weights and tickets. It gives these four no
# priorities; those of the CNN and the LSTM are the middle of its task generator's ranges, and the two others come after them.
JOBS = (
    ("boosting", {"estimate": 2, "weight": 7, "tickets": 7, "priority": 1}),
    ("cnn", {"estimate": 50, "weight": 5, "tickets": 10, "priority": 4}),
    ("matmul", {"estimate": 3, "weight": 3, "tickets": 5, "priority": 2}),
    ("lstm", {"estimate": 30, "weight": 2, "tickets": 15, "priority": 3}),
)
COLUMNS = ("policy", "makespan_s", "wait_mean_s", "turnaround_mean_s", "energy_wh", "restarts")
TITLES = ("policy", "makespan s", "mean wait s", "mean turnaround s", "energy Wh", "restarts")
COMMAND_SECONDS_MAX = 60
READY_SECONDS_MAX = 30


class Failure(Exception):
    """Something that did not work, in words for the user."""


class BadUsage(Failure):
    """A mistake in the command line; nothing was started."""


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP as one exception, which waits while something is being started that must be known to be stopped again."""

    def __init__(self):
        self.signal = None
        self.holding = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.heed)

    def heed(self, number, _frame):
        first = self.signal is None
        self.signal = signal.Signals(number)
        if first and not self.holding:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self):
        """Nothing is interrupted inside; what came meanwhile interrupts at the end, unless there is an error to tell already."""
        before = self.signal
        self.holding += 1
        try:
            yield
        finally:
            self.holding -= 1
        if self.signal and not before and not self.holding:
            raise KeyboardInterrupt


class Rota:
    """The `rota` command, on one state directory."""

    def __init__(self, binary, state):
        self.binary = binary
        self.state = state

    def __call__(self, *arguments, command=(), seconds_max=COMMAND_SECONDS_MAX, check=True):
        """Runs `rota ARGUMENTS --state DIR [-- COMMAND]` and returns what it printed."""
        line = [str(self.binary), *map(str, arguments), "--state", str(self.state), *(["--", *command] if command else [])]
        return call(line, seconds_max, check)


def call(line, seconds_max=COMMAND_SECONDS_MAX, check=True):
    """What a command prints. It has a session of its own, so that Ctrl-C reaches this script alone, which then ends it."""
    # Files, not pipes: a daemon that keeps them open must not keep this script waiting.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        try:
            done = subprocess.run(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=complaints, timeout=seconds_max, start_new_session=True
            )
        except OSError as error:
            raise Failure(f"`{line[0]}` cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failure(f"`{shown(line)}` was not done after {seconds_max:g} s") from error
        output.seek(0)
        complaints.seek(0)
        text, complaint = output.read().decode(errors="replace"), complaints.read().decode(errors="replace").strip()
    if check and done.returncode != 0:
        raise Failure(f"`{shown(line)}` failed with exit code {done.returncode}: {complaint or text.strip() or 'it said nothing'}")
    return text


def shown(line):
    """A command as it may be told: without the workload's own options."""
    return " ".join(line[: line.index("--")] + ["--", "…"] if "--" in line else line)


def parsed(text, what):
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(f"`{what}` printed no JSON but {text[:200]!r}") from error


def main():
    interrupts = Interrupts()
    options = parse()
    try:
        known = policies_known(options.rota)
        chosen = [(policy, slug, preempts(policy, known)) for policy, slug in named(split_policies(options.policies))]
        options.out.mkdir(parents=True, exist_ok=True)
    except (Failure, OSError) as failure:
        print(f"compare: {failure}", file=sys.stderr)
        sys.exit(2 if isinstance(failure, BadUsage) else 1)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="rota-compare-"))
    rows, failures = [], []
    try:
        for policy, slug, preemptive in chosen:
            experiment = Experiment(options, interrupts, scratch, policy, slug, preemptive)
            try:
                experiment.run(rows)
            except Failure as failure:
                failures.append(f"{policy}: {failure}")
                tell("  failed")
            finally:
                failures += [f"{policy}: {left}" for left in experiment.left_behind]
    except KeyboardInterrupt:
        print(f"compare: stopped by {interrupts.signal.name}", file=sys.stderr)
    write_results(options.out, rows)
    if rows:
        print(table(rows))
        print(f"\nReports: {options.out / 'index.html'}")
    for failure in failures:
        print(f"compare: {failure}", file=sys.stderr)
    if failures:
        print(f"compare: logs and state are kept in {scratch}", file=sys.stderr)
    else:
        shutil.rmtree(scratch, ignore_errors=True)
    if interrupts.signal:
        sys.exit(128 + interrupts.signal)
    sys.exit(1 if failures else 0)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python3 examples/workloads/compare.py --rota target/release/rota --out comparison",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rota", required=True, type=pathlib.Path, metavar="FILE", help="the rota binary")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR", help="where comparison.csv, index.html and the reports go")
    parser.add_argument("--policies", default=POLICIES, metavar="LIST", help=f"policies, separated by commas [{POLICIES}]")
    parser.add_argument("--virtual-gpus", default="t4:1", metavar="SPEC", help="virtual GPUs of the daemon; `none` for the real ones [t4:1]")
    parser.add_argument("--epochs", type=int, default=2, metavar="N", help="epochs of every workload [2]")
    parser.add_argument("--size", choices=("small", "large"), default="small", help="size of every workload [small]")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="how long the four jobs of a policy may take [1800]")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    # A bare name would be looked for in PATH, a path must not depend on where commands are run.
    if len(options.rota.parts) > 1:
        options.rota = options.rota.resolve()
    return options


def split_policies(text):
    """The policies of a list. A comma also stands between the parameters of one policy: `fcfs:backfill=easy,depth=500,sjf` are two."""
    policies = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if policies and "=" in part and ":" not in part.split("=")[0]:
            policies[-1] += "," + part
        else:
            policies.append(part)
    if not policies:
        raise BadUsage("no policies are named")
    return policies


def named(policies):
    """Each policy with a file name of its own."""
    taken = set()
    for policy in policies:
        plain = slug = re.sub(r"[^A-Za-z0-9]+", "-", policy).strip("-")[:40]
        while slug in taken:
            slug = f"{plain}-{len(taken)}"
        taken.add(slug)
        yield policy, slug


def policies_known(binary):
    """Whether a policy preempts, by every name it has."""
    listed = parsed(call([str(binary), "policies", "--json"]), "rota policies --json")
    return {name: info["preemptive"] for info in listed for name in [info["name"], *info["aliases"]]}


def preempts(policy, known):
    name = policy.split(":")[0]
    if name not in known:
        raise BadUsage(f"there is no policy `{name}`; see `rota policies`")
    return known[name]


class Experiment:
    """The four jobs under one policy."""

    def __init__(self, options, interrupts, scratch, policy, slug, preemptive):
        self.options, self.interrupts, self.policy, self.slug, self.preemptive = options, interrupts, policy, slug, preemptive
        self.rota = Rota(options.rota, scratch / slug)
        self.checkpoints = scratch / f"{slug}-checkpoints"
        self.started = False
        self.left_behind = []

    def run(self, rows):
        """Runs it and adds its row; the daemon is stopped in any case."""
        tell(f"{self.policy}: starting a daemon")
        since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            with self.interrupts.held():
                self.start()
            jobs = self.run_jobs()
            row = {"policy": self.policy, "slug": self.slug, **figures(jobs, self.run_seconds)}
            rows.append(row)
            self.rota("history", "export", "-o", self.options.out / f"{self.slug}.csv")
            row["history"] = f"{self.slug}.csv"
            self.rota("report", "--since", since, "-o", self.options.out / f"{self.slug}.html")
            row["report"] = f"{self.slug}.html"
            tell(f"  makespan {row['makespan_s']:.2f} s, mean wait {row['wait_mean_s']:.2f} s")
        finally:
            # Another Ctrl-C does not keep it from being stopped.
            with self.interrupts.held():
                self.stop()

    def start(self):
        self.rota.state.mkdir(parents=True)
        gpus = [] if self.options.virtual_gpus == "none" else ["--virtual-gpus", self.options.virtual_gpus]
        # Port 0: any free one, so that a daemon of the user's own is not in the way.
        self.rota("up", *gpus, "--policy", self.policy, "--port", 0, "--detach")
        self.started = True
        latest = time.monotonic() + READY_SECONDS_MAX
        while not self.answers():
            if time.monotonic() > latest:
                self.rota("status")
                raise Failure(f"the daemon was not ready after {READY_SECONDS_MAX} s")
            time.sleep(0.1)

    def answers(self):
        """Whether the daemon is there."""
        try:
            self.rota("status")
            return True
        except Failure:
            return False

    def run_jobs(self):
        """Submits the jobs, lets them start together, and waits for all; returns them as `rota queue` tells them."""
        self.rota("drain")
        with self.interrupts.held():
            ids = [self.submit(number, name, asks) for number, (name, asks) in enumerate(JOBS, start=1)]
        self.rota("resume")
        trouble = None
        try:
            self.rota("wait", *ids, seconds_max=self.options.timeout)
        except Failure as failure:
            trouble = failure  # Of a job that failed, the job itself tells more.
        listed = parsed(self.rota("queue", "--all", "--json"), "rota queue --all --json")
        jobs = [job for job in listed if job["id"] in ids]
        if len(jobs) != len(ids):
            raise Failure(f"jobs {ids} were submitted, but `rota queue --all` has only {[job['id'] for job in jobs]}")
        wrong = [self.complaint(job) for job in jobs if job["state"] in ("failed", "cancelled", "lost")]
        if wrong:
            raise Failure("; ".join(wrong))
        if any(job["state"] != "done" for job in jobs):
            raise trouble or Failure(f"`rota wait` came back before jobs {[job['id'] for job in jobs if job['state'] != 'done']} had ended")
        return jobs

    def submit(self, number, name, asks):
        line = [sys.executable, str(HERE / f"{name}.py"), "--epochs", str(self.options.epochs), "--id", str(number)]
        line += ["--checkpoint-dir", str(self.checkpoints), "--size", self.options.size]
        flags = [text for ask, value in asks.items() for text in (f"--{ask}", value)]
        flags += ["--preemptible"] if self.preemptive else []
        backend = os.environ.get("ROTA_EXAMPLE_BACKEND")
        flags += ["--env", f"ROTA_EXAMPLE_BACKEND={backend}"] if backend else []
        answer = parsed(self.rota("submit", "--gpus", 1, "--name", name, *flags, "--json", command=line), "rota submit --json")
        return answer["id"]

    def complaint(self, job):
        """What became of a job that is not done, and its last words."""
        text = f"job {job['id']} ({job.get('name')}) is {job['state']}, exit code {job.get('exit_code')}"
        text += f", {job['reason']}" if job.get("reason") else ""
        try:
            last = self.rota("logs", job["id"]).strip().splitlines()[-3:]
        except Failure:
            last = []
        return text + (": " + " | ".join(last) if last else "")

    def run_seconds(self, job):
        """How long a job has run in all. The queue tells when the last attempt began; of earlier ones the checkpoint knows."""
        if job["attempts"] > 1:
            number = next(number for number, (name, _) in enumerate(JOBS, start=1) if name == job["name"])
            found = checkpoint.read(self.checkpoints / f"{job['name']}-{number}.ckpt")
            if not found:
                raise Failure(f"job {job['id']} ({job['name']}) was restarted and has left no checkpoint that tells how long it ran")
            return found[0]["run_seconds"]
        return seconds(job["finished_at"]) - seconds(job["started_at"])

    def stop(self):
        """Ends jobs that are left, then the daemon. What cannot be stopped is told."""
        if not self.started and not self.answers():
            return
        try:
            ids = [job["id"] for job in parsed(self.rota("queue", "--json"), "rota queue --json")]
            if ids:
                self.rota("cancel", *ids)
                self.rota("wait", *ids, check=False)
        except Failure as failure:
            self.left_behind.append(f"jobs may be left running: {failure}")
        try:
            self.rota("down")
        except Failure as failure:
            self.left_behind.append(f"the daemon may be left running: {failure}")


def seconds(text):
    """A time in RFC 3339 as seconds since 1970, of any precision."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text or "")
    if not found:
        raise Failure(f"`{text}` is no time in RFC 3339")
    day, clock, fraction, zone = found.groups()
    whole = datetime.datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    return whole.timestamp() + float(fraction or 0)


def figures(jobs, run_seconds):
    """The figures of the comparison. Waiting is all the time from submission to the end in which a job did not run."""
    submitted = [seconds(job["submitted_at"]) for job in jobs]
    finished = [seconds(job["finished_at"]) for job in jobs]
    turnarounds = [end - begin for begin, end in zip(submitted, finished)]
    waits = [max(turnaround - run_seconds(job), 0.0) for turnaround, job in zip(turnarounds, jobs)]
    energies = [job["energy_wh"] for job in jobs]
    return {
        "makespan_s": max(finished) - min(submitted),
        "wait_mean_s": sum(waits) / len(waits),
        "turnaround_mean_s": sum(turnarounds) / len(turnarounds),
        # One unknown makes the sum unknown, not smaller.
        "energy_wh": None if None in energies else sum(energies),
        "restarts": sum(job["attempts"] - 1 for job in jobs),
    }


def cells(row, unknown):
    """A row as texts."""
    texts = [row["policy"]]
    for column in COLUMNS[1:]:
        value, digits = row[column], {"energy_wh": 4, "restarts": 0}.get(column, 2)
        texts.append(unknown if value is None else f"{value:.{digits}f}")
    return texts


def table(rows):
    """The rows under their titles, figures to the right."""
    lines = [list(TITLES)] + [cells(row, "-") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    return "\n" + "\n".join(
        "  ".join([line[0].ljust(widths[0])] + [text.rjust(width) for text, width in zip(line[1:], widths[1:])]) for line in lines
    )


def write_results(out, rows):
    """comparison.csv and index.html, also of a comparison that was not finished."""
    with open(out / "comparison.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(cells(row, "") for row in rows)
    body = "".join(f"<tr>{html_cells(row)}</tr>\n" for row in rows)
    heads = "".join(f"<th>{html.escape(title)}</th>" for title in (*TITLES, "report", "history"))
    (out / "index.html").write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Policies compared</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
table {{ border-collapse: collapse }}
th, td {{ padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; font-variant-numeric: tabular-nums }}
th:first-child, td:first-child {{ text-align: left }}
</style>
<h1>Policies compared</h1>
<p>Four jobs (gradient boosting, CNN, matrix multiplication, LSTM) that wait together at the start. Wait: all time in which a job did not run.</p>
<table><thead><tr>{heads}</tr></thead><tbody>
{body}</tbody></table>
<p><a href="comparison.csv">comparison.csv</a></p>
</html>
""",
        encoding="utf-8",
    )


def html_cells(row):
    links = [f'<a href="{html.escape(row[kind])}">{kind}</a>' if kind in row else "-" for kind in ("report", "history")]
    return "".join(f"<td>{text}</td>" for text in [*map(html.escape, cells(row, "-")), *links])


def tell(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
