"""`rota up --engine slurm` on a real Slurm with default settings: allocations come, hold jobs, and go."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster
from daemon import Daemon


class WholeTest(unittest.TestCase):
    def run_jobs(self, plain: bool) -> None:
        with Cluster(plain=plain) as cluster, Daemon(cluster) as daemon:
            one = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "sh", "-c", "echo on $ROTA_GPUS; sleep 1")
            gang = daemon.submit("-g", "8", "--gpu-type", "v100", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE; sleep 1")
            failed = daemon.submit("-g", "1", "--", "sh", "-c", "exit 3")
            jobs = daemon.wait_over([one, gang, failed], 120)
            self.assertEqual((jobs[one]["state"], jobs[gang]["state"], jobs[failed]["exit_code"]), ("done", "done", 3))
            self.assertIn("on 1", daemon.rota("logs", str(one)))
            # Allocations without jobs are given back, by scancel, and nothing is left to warn of.
            self.assertTrue(Cluster.wait_for(lambda: not daemon.allocations(), 60), daemon.allocations())
            self.assertTrue(daemon.recorded.calls("scancel"))
            self.assertTrue(Cluster.wait_for(lambda: "WARNING" not in daemon.rota("status"), 60), daemon.rota("status"))
            for arguments in daemon.requests():
                for part in ["--no-requeue", "--signal=B:TERM@120", "--comment=rota:", "--gres=gpu:"]:
                    self.assertIn(part, arguments)
            # A type that nobody has is refused at once, with the types there are.
            done = daemon.rota("submit", "-g", "1", "--gpu-type", "h100", "--", "true", check=False)
            self.assertEqual(done, "")

    def test_jobs_run_in_allocations_and_these_are_given_back(self) -> None:
        self.run_jobs(plain=False)

    @unittest.skipUnless(os.geteuid() == 0, "the other test has run as a plain user")
    def test_the_same_on_the_cluster_of_a_plain_user(self) -> None:
        self.run_jobs(plain=True)


class AccidentTest(unittest.TestCase):
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster().__enter__()
        cls.addClassCleanup(cls.cluster.stop)

    def daemon(self, more: str = "") -> Daemon:
        return Daemon(self.cluster, more=more)

    def reason(self, daemon: Daemon, job: int) -> str:
        return json.loads(daemon.rota("explain", str(job), "--json"))["reason"]

    def test_an_allocation_that_is_cancelled_from_outside_loses_no_job(self) -> None:
        with self.daemon() as daemon:
            mark = daemon.folder / "runs"
            # The first run does not end by itself.
            nap = "[ $ROTA_ATTEMPT = 2 ] || sleep 600 || exit 1"
            command = f"echo began $ROTA_ATTEMPT >> {mark}; {nap}; echo ended $ROTA_ATTEMPT >> {mark}"
            job = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "sh", "-c", command)
            self.assertTrue(Cluster.wait_for(mark.exists, 60))
            self.cluster.call(["scancel", daemon.allocations()[0].split()[0]])
            jobs = daemon.wait_over([job], 120)
            self.assertEqual(jobs[job]["state"], "done", jobs[job])
            self.assertEqual(mark.read_text().splitlines(), ["began 1", "began 2", "ended 2"])

    def test_refusals_are_told_and_not_repeated_in_a_loop(self) -> None:
        refused = "echo 'sbatch: error: QOSMaxGRESPerUser' >&2; [ \"$1\" = --version ] && exit; exit 1"
        for words, more, script in [
            ("QOSMaxGRESPerUser", "", refused),
            ("Invalid feature", 'options = ["--constraint=none-has-it"]', None),
        ]:
            with self.subTest(words), self.daemon(more) as daemon:
                if script is not None:
                    daemon.recorded.replace("sbatch", script)
                self.check_refusal(daemon, words)

    def check_refusal(self, daemon: Daemon, words: str) -> None:
        job = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "true")
        self.assertTrue(Cluster.wait_for(lambda: words in self.reason(daemon, job), 60), self.reason(daemon, job))
        self.assertEqual(len(daemon.requests()), 1)

    def test_a_limit_of_the_account_is_told_in_slurms_word(self) -> None:
        with self.daemon() as daemon:
            other = ["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:k80:2", "--wrap", "sleep 600"]
            stranger = self.cluster.call(other).strip()
            self.addCleanup(self.cluster.call, ["scancel", stranger], check=False)
            self.assertTrue(Cluster.wait_for(lambda: "RUNNING" in self.cluster.squeue("%T"), 60))
            # Without accounting Slurm has no such limits: its word for what it waits for is another.
            real = f"{shutil.which('squeue')} \"$@\" | sed 's/Resources/AssocGrpGRES/; s/Priority/AssocGrpGRES/'"
            daemon.recorded.replace("squeue", real)
            job = daemon.submit("-g", "2", "--gpu-type", "k80", "--", "true")
            self.assertTrue(Cluster.wait_for(lambda: "waits for AssocGrpGRES" in self.reason(daemon, job), 60), self.reason(daemon, job))
            self.assertEqual(len(daemon.requests()), 1)

    def test_a_state_directory_that_the_nodes_do_not_see_is_told_and_not_asked_for_in_a_loop(self) -> None:
        with self.daemon() as daemon:
            program = (
                "import os, sys; *options, script = sys.argv[1:]\n"
                "if options:\n"
                f"    text = open(script).read().replace({str(daemon.state)!r}, '/nowhere')\n"
                "    script = script + '.elsewhere'; open(script, 'w').write(text)\n"
                f"os.execv({shutil.which('sbatch')!r}, ['sbatch', *options, script])"
            )
            daemon.recorded.replace("sbatch", f"exec /usr/bin/python3 -c \"{program}\" \"$@\"")
            daemon.submit("-g", "1", "--gpu-type", "k80", "--", "true")

            def told() -> bool:
                return "ended before its workers had joined" in daemon.rota("status")

            self.assertTrue(Cluster.wait_for(told, 60), daemon.report())
            self.assertIn("the state directory must be seen", daemon.rota("status"))
            self.assertEqual(len(daemon.requests()), 1)

    def test_rota_down_gives_back_what_no_job_needs(self) -> None:
        with Daemon(self.cluster, idle=600.0) as daemon:
            done = daemon.submit("-g", "1", "--gpu-type", "p100", "--", "true")
            daemon.wait_over([done], 60)
            running = daemon.submit("-g", "2", "--gpu-type", "k80", "--", "sleep", "600")
            self.assertTrue(Cluster.wait_for(lambda: daemon.jobs()[running]["state"] == "running", 60))
            waiting = daemon.submit("-g", "2", "--gpu-type", "k80", "--", "true")
            self.assertTrue(Cluster.wait_for(lambda: len(daemon.allocations()) == 3, 60), daemon.allocations())
            daemon.rota("down")
            daemon.process.wait(60)
            self.assertTrue(Cluster.wait_for(lambda: len(daemon.allocations()) == 1, 60), daemon.allocations())
            self.assertIn("k1", daemon.allocations()[0], "the allocation with a job stays with it")
            daemon.start()
            # Its worker finds the daemon again.
            self.assertTrue(Cluster.wait_for(lambda: daemon.jobs()[running]["state"] == "running", 60), daemon.report())
            daemon.rota("cancel", str(running), str(waiting), "--yes")
            daemon.wait_over([running, waiting], 60)

    def test_after_rota_down_an_allocation_ends_with_its_last_job(self) -> None:
        with Daemon(self.cluster, idle=600.0) as daemon:
            runs = daemon.folder / "runs"
            command = f"echo begun; while [ ! -e {daemon.folder}/go ]; do sleep 0.1; done; echo over; echo run >> {runs}; exit 3"
            gang = daemon.submit("-g", "8", "--gpu-type", "v100", "--", "sh", "-c", command)
            single = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "sh", "-c", command)
            jobs = [gang, single]
            self.assertTrue(Cluster.wait_for(lambda: all(daemon.jobs()[job]["state"] == "running" for job in jobs), 60))
            daemon.rota("down")
            daemon.process.wait(60)
            # Three looks of a worker without a daemon: it stays as long as its job runs.
            self.assertFalse(Cluster.wait_for(lambda: len(daemon.allocations()) != 2, 3.5), daemon.allocations())
            (daemon.folder / "go").touch()
            self.assertTrue(Cluster.wait_for(lambda: not daemon.allocations(), 30), daemon.allocations())
            began = time.monotonic()
            daemon.start()
            over = daemon.wait_over(jobs, 60)
            self.assertLess(time.monotonic() - began, 20, "the ends were on the disk, and Slurm's kill time is not waited for")
            for job in jobs:
                self.assertEqual((over[job]["state"], over[job]["exit_code"], over[job]["attempts"]), ("failed", 3, 1))
                self.assertEqual(daemon.rota("logs", str(job)), "begun\nover\n", "what it printed without a daemon is there")
            self.assertEqual(len(runs.read_text().split()), 3, "one on each node of the gang, and the single one")
            # The next job gets an allocation as ever.
            daemon.wait_over([daemon.submit("-g", "1", "--gpu-type", "k80", "--", "true")], 60)

    def test_what_is_wrong_with_slurm_is_said_at_the_start(self) -> None:
        def without(name: str) -> Callable[[Daemon], None]:
            def take(daemon: Daemon) -> None:
                daemon.recorded.remove(name)
                daemon.environment["PATH"] = str(daemon.recorded.folder)

            return take

        def old(daemon: Daemon) -> None:
            daemon.recorded.replace("sinfo", "echo slurm 20.02.7")

        for words, more, prepare in [
            ("`sinfo` was not found", "", without("sinfo")),
            ("`sbatch` was not found", "", without("sbatch")),
            ("Slurm 20.02.7 is too old", "", old),
            ("partition `none` has no nodes", 'partition = "none"', None),
        ]:
            with self.subTest(words):
                daemon = self.daemon(more)
                self.addCleanup(daemon.made.cleanup)
                if prepare is not None:
                    prepare(daemon)
                with self.assertRaisesRegex(RuntimeError, re.escape(words)):
                    daemon.start()
                daemon.kill()
                self.assertEqual(daemon.requests(), [])


if __name__ == "__main__":
    unittest.main()
