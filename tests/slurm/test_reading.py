"""What only reads Slurm: the shadow and the import of accounts. Runs on a real Slurm, as root and as a plain user."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import NOBODY, Cluster, reachable
from commands import Recorded

ROTA = os.environ.get("ROTA_BINARY", str(Path(__file__).parents[2] / "target/debug/rota"))


class Folder:
    """A folder that every user can read."""

    def __enter__(self) -> Path:
        self.made = tempfile.TemporaryDirectory(prefix="rota-slurm-test-")
        Path(self.made.name).chmod(0o777)
        return Path(self.made.name)

    def __exit__(self, *_: object) -> None:
        self.made.cleanup()


class ShadowTest(unittest.TestCase):
    def shadow(self, plain: bool) -> None:
        with Folder() as folder, Cluster(plain=plain) as cluster:
            recorded = Recorded(folder)
            state = folder / "state"
            state.mkdir(mode=0o777)
            state.chmod(0o777)
            program = reachable(ROTA, folder)
            sleep = ["--wrap", "sleep 600"]
            # All of the v100 is taken, then a wide job waits, and a narrow one behind it.
            for gpus, minutes in [("v100:4", 30), ("v100:4", 30), ("v100:4", 30), ("v100:1", 5)]:
                cluster.call(["sbatch", "--parsable", "-o", "/dev/null", f"--gres=gpu:{gpus}", f"--time={minutes}", *sleep])
            cluster.call(["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:k80:1", "--hold", *sleep])
            self.assertTrue(Cluster.wait_for(lambda: cluster.squeue("%T").count("RUNNING") == 2, 60))
            process = subprocess.Popen(
                [program, "up", "--engine", "slurm", "--shadow", "--policy", "fcfs", "--state", str(state)],
                env=recorded.environment(cluster.environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                **cluster.rights(),
            )
            try:
                first = process.stdout.readline()
                self.assertIn("rota is ready: the shadow of fcfs on Slurm", first)
                self.assertIn("8 v100", first)

                def look() -> dict:
                    path = state / "shadow.json"
                    return json.loads(path.read_text() or "{}") if path.exists() else {}

                self.assertTrue(Cluster.wait_for(lambda: look().get("waiting") == 2, 60), look())
                self.assertEqual(look()["would_start"], [])
                self.assertEqual(look()["running"], 2)
                # A job ends: the wide job is next, and the narrow one does not pass it.
                running = [line.split()[0] for line in cluster.squeue("%i %T") if "RUNNING" in line]
                cluster.call(["scontrol", "hold", *[line.split()[0] for line in cluster.squeue("%i %T") if "PENDING" in line]])
                cluster.call(["scancel", running[0]])
                self.assertTrue(Cluster.wait_for(lambda: look().get("running") == 1, 60), look())
                self.assertEqual(look()["waiting"], 0)
                self.assertEqual(recorded.writes(), [])
                self.assertTrue(Cluster.wait_for(lambda: len(recorded.calls("squeue")) >= 4, 60))
                moments = [moment for moment, *_ in recorded.calls("squeue")]
                self.assertGreaterEqual(min(b - a for a, b in zip(moments, moments[1:])), 2.0)
            finally:
                process.terminate()
                process.wait(30)
                process.stdout.close()
            # What was seen is a log that can be imported.
            lines = (state / "shadow-jobs.txt").read_text().splitlines()
            self.assertTrue(lines[0].startswith("# since "), lines)
            self.assertEqual(len([line for line in lines if "|COMPLETED|" in line]), 1, lines)

    def test_it_only_reads(self) -> None:
        self.shadow(plain=False)

    @unittest.skipUnless(os.geteuid() == 0, "the other test has run as a plain user")
    def test_it_only_reads_on_the_cluster_of_a_plain_user(self) -> None:
        self.assertNotEqual(os.geteuid(), NOBODY)
        self.shadow(plain=True)

    def test_without_slurm_it_says_what_is_missing(self) -> None:
        with Folder() as folder:
            empty = folder / "empty"
            empty.mkdir()
            done = subprocess.run(
                [ROTA, "up", "--engine", "slurm", "--shadow", "--state", str(folder / "state")],
                env={**os.environ, "PATH": str(empty)},
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("`sinfo` was not found", done.stderr)

    def test_an_old_slurm_and_a_partition_that_is_not_there_are_refused(self) -> None:
        with Folder() as folder, Cluster() as cluster:
            recorded = Recorded(folder)

            def refusal(config: str) -> str:
                (folder / "rota.toml").write_text(config)
                done = subprocess.run(
                    [
                        ROTA,
                        "up",
                        "--engine",
                        "slurm",
                        "--shadow",
                        "--config",
                        str(folder / "rota.toml"),
                        "--state",
                        str(folder / "s"),
                    ],
                    env=recorded.environment(cluster.environment),
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 1, done.stderr)
                return done.stderr

            self.assertIn("partition `nonsense` has no nodes", refusal("[engine.slurm]\npartition = 'nonsense'"))
            recorded.replace("sinfo", "echo slurm 20.02.7")
            self.assertIn("Slurm 20.02.7 is too old: 20.11 or later is needed", refusal(""))
            self.assertEqual(recorded.writes(), [])


class ImportTest(unittest.TestCase):
    def test_a_year_of_jobs(self) -> None:
        # Unoptimised, every plan of the replay is checked against all jobs. `benches/slurm.py` takes 100,000 jobs.
        count = 10_000
        with Folder() as folder:
            log, trace = folder / "sacct.txt", folder / "year.csv"
            log.write_text(made_up_year(count))
            done = subprocess.run(
                [ROTA, "import", "sacct", str(log), "-o", str(trace), "--json"], capture_output=True, text=True, timeout=600
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stderr.startswith("fidelity of a replay ("), done.stderr)
            told = json.loads(done.stdout)
            # Of every forty one had not ended, of every fifty one was queued twice; steps are no jobs.
            self.assertEqual(told["jobs"], count - count // 40 + count // 50)
            self.assertEqual(told["fidelity"]["jobs"], told["jobs"])
            self.assertGreater(told["fidelity"]["starts_within_600_s"], 0.3)
            self.assertEqual(trace.read_text().count("\n"), told["jobs"] + 1)

    def test_accounts_that_are_switched_off_are_told_of(self) -> None:
        with Folder() as folder, Cluster() as cluster:
            done = subprocess.run(
                [ROTA, "import", "sacct", "-o", str(folder / "year.csv")],
                env=cluster.environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("this site keeps no accounts", done.stderr)

    def test_the_command_is_asked_for_everybody(self) -> None:
        with Folder() as folder:
            recorded = Recorded(folder)
            (folder / "log").write_text(made_up_year(50))
            recorded.replace("sacct", f"cat {folder / 'log'}")
            done = subprocess.run(
                [ROTA, "import", "sacct", "-o", str(folder / "year.csv"), "--since", "now-30days"],
                env=recorded.environment(dict(os.environ)),
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            ((_, _, arguments),) = recorded.calls("sacct")
            for part in ["--allusers", "--duplicates", "--parsable2", "--starttime=now-30days"]:
                self.assertIn(part, arguments)


class WhatIfTest(unittest.TestCase):
    def test_a_real_run_is_repeated(self) -> None:
        """Thirty jobs that a real Slurm ran are simulated as they were: the waits are those that were recorded."""
        draw = random.Random(3)
        with Folder() as folder, Cluster(extra="MinJobAge=3600") as cluster:
            for _ in range(30):
                gpus, seconds = draw.choice([1, 1, 2]), draw.randint(20, 50)
                options = [f"--gres=gpu:v100:{gpus}", "--time=5", "-o", "/dev/null", "--wrap", f"sleep {seconds}"]
                cluster.call(["sbatch", "--parsable", *options])
            self.assertTrue(Cluster.wait_for(lambda: not cluster.squeue("%i"), 600, every=1))
            log = folder / "sacct.txt"
            log.write_text(accounts_of(cluster))
            done = subprocess.run(
                [ROTA, "whatif", "--trace", str(log), "--cluster", "v100:8", "--gpus-per-node", "4", "--policy", "las", "--json"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            fidelity = json.loads(done.stdout)["fidelity"]
            print(f"the replay of {fidelity['jobs']} jobs of Slurm: error of waits {fidelity['error_of_waits']:.1%}", fidelity)
            self.assertEqual(fidelity["jobs"], 30)
            self.assertGreater(fidelity["wait_mean_recorded_s"], 20)
            self.assertLess(fidelity["error_of_waits"], 0.1)


def accounts_of(cluster: Cluster) -> str:
    """What `sacct -P` would print of the cluster's ended jobs. A cluster without a database tells the same in `scontrol`."""
    lines = ["JobID|User|State|Submit|Start|End|TimelimitRaw|AllocTRES"]
    for line in cluster.call(["scontrol", "show", "job", "--oneliner"]).splitlines():
        told = dict(part.split("=", 1) for part in line.split() if "=" in part)
        tres = told.get("AllocTRES") or told["TRES"]
        times = f"{told['SubmitTime']}|{told['StartTime']}|{told['EndTime']}"
        lines.append(f"{told['JobId']}|u|{told['JobState']}|{times}|5|{tres},gres/gpu={told['TresPerNode'].split(':')[-1]}")
    return "\n".join(lines) + "\n"


def made_up_year(count: int, seed: int = 7) -> str:
    """Accounts as Slurm's versions write them: arrays, steps, requeues, jobs that wait, types or none."""
    draw = random.Random(seed)
    zero = 1_735_689_600
    lines = ["JobID|User|Account|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|ReqTRES|AllocGRES|Priority"]

    def clock(seconds: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(zero + seconds))

    number, array = 1000, 0
    for row in range(count):
        submit = int(row * 31_536_000 / count)
        start = submit + int(draw.expovariate(1 / 600))
        length = 1 + int(draw.lognormvariate(7.5, 1.5))
        gpus = draw.choice([1, 1, 1, 1, 2, 4, 8])
        kind = draw.choice(["v100", "a100", None])
        if array == 0:
            number += 1
            array = draw.choice([0] * 9 + [5])
        job = f"{number}_{array}" if array else f"{number}"
        array = max(0, array - 1)
        typed = f",gres/gpu:{kind}={gpus}" if kind else ""
        tres, gres = f"billing=8,cpu=8,gres/gpu={gpus}{typed},mem=64G,node=1", ""
        if row % 10 == 0:
            # As Slurm 20.11 wrote it where the site counted no GPUs in TRES.
            tres, gres = "billing=8,cpu=8,mem=64G,node=1", f"gpu:{kind}:{gpus}" if kind else f"gpu:{gpus}"
        state = draw.choice(["COMPLETED"] * 8 + ["FAILED", "TIMEOUT", "CANCELLED by 1000", "OUT_OF_ME+"])
        end = start + length
        times, rest = f"{clock(submit)}|%s|%s|%d|{length // 60 + 10}", f"{tres}|{tres}|{gres}|{draw.randrange(1 << 32)}"
        common = f"{job}|u{row % 40}|lab|%s|{times}|{rest}"
        if row % 50 == 0:
            # It was queued again once: `sacct --duplicates` lists both runs.
            lines.append(common % ("REQUEUED", clock(start), clock(start + 5), 5))
        if row % 40 == 0:
            lines.append(common % ("PENDING", "Unknown", "Unknown", 0))
            continue
        lines.append(common % (state, clock(start), clock(end), length))
        if row % 25 == 0:
            lines.append(
                f"{job}.batch|||COMPLETED|{clock(submit)}|{clock(start)}|{clock(end)}|{length}||cpu=8,gres/gpu={gpus}|||"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    unittest.main()
