"""`rota up --engine slurm` on a real Slurm with default settings: allocations come, hold jobs, and go."""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from accidents import campaign
from cluster import Cluster
from crowd import crowd
from daemon import Daemon


class EngineTest(unittest.TestCase):
    def run_jobs(self, plain: bool) -> None:
        with Cluster(plain=plain) as cluster, Daemon(cluster) as daemon:
            one = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "sh", "-c", "echo on $ROTA_GPUS; sleep 1")
            gang = daemon.submit("-g", "8", "--gpu-type", "v100", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE; sleep 1")
            failed = daemon.submit("-g", "1", "--", "sh", "-c", "exit 3")
            jobs = daemon.wait_over([one, gang, failed], 120)
            self.assertEqual((jobs[one]["state"], jobs[gang]["state"], jobs[failed]["exit_code"]), ("done", "done", 3))
            self.assertIn("on 1", daemon.rota("logs", str(one)))
            # Allocations without jobs are given back, by scancel.
            self.assertTrue(Cluster.wait_for(lambda: not daemon.allocations(), 60), daemon.allocations())
            self.assertTrue(daemon.recorded.calls("scancel"))
            for _, _, arguments in daemon.recorded.calls("sbatch"):
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

    def test_a_waiting_allocation_is_explained_in_slurms_words(self) -> None:
        with Cluster() as cluster, Daemon(cluster) as daemon:
            cluster.call(["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:k80:2", "--wrap", "sleep 600"])
            self.assertTrue(Cluster.wait_for(lambda: cluster.squeue("%T") == ["RUNNING"], 60))
            job = daemon.submit("-g", "2", "--gpu-type", "k80", "--", "true")

            def reason() -> str:
                return json.loads(daemon.rota("explain", str(job), "--json"))["reason"]

            self.assertTrue(Cluster.wait_for(lambda: "waits for Resources" in reason(), 60), reason())
            # Nobody needs it any more: the request is taken back.
            daemon.rota("cancel", str(job))
            self.assertTrue(Cluster.wait_for(lambda: not daemon.allocations(), 60), daemon.allocations())

    def test_an_allocation_that_is_cancelled_from_outside_loses_no_job(self) -> None:
        with Cluster() as cluster, Daemon(cluster) as daemon:
            mark = daemon.folder / "runs"
            command = f"echo began $ROTA_ATTEMPT >> {mark}; sleep 3; echo ended $ROTA_ATTEMPT >> {mark}"
            job = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "sh", "-c", command)
            self.assertTrue(Cluster.wait_for(mark.exists, 60))
            cluster.call(["scancel", daemon.allocations()[0].split()[0]])
            jobs = daemon.wait_over([job], 120)
            self.assertEqual(jobs[job]["state"], "done", jobs[job])
            self.assertEqual(mark.read_text().splitlines()[-1], "ended 2")

    def test_refusals_are_told_and_not_repeated_in_a_loop(self) -> None:
        with Cluster() as cluster, Daemon(cluster) as daemon:
            daemon.recorded.replace("sbatch", "echo 'sbatch: error: QOSMaxGRESPerUser' >&2; exit 1")
            job = daemon.submit("-g", "1", "--gpu-type", "k80", "--", "true")

            def reason() -> str:
                return json.loads(daemon.rota("explain", str(job), "--json"))["reason"]

            self.assertTrue(Cluster.wait_for(lambda: "QOSMaxGRESPerUser" in reason(), 60), reason())
            self.assertEqual(len(daemon.recorded.calls("sbatch")), 1)

    def test_a_crowd_of_jobs_beside_a_stranger(self) -> None:
        counts = crowd("fcfs", jobs=20, seed=1)
        self.assertGreater(counts["switches"], 0, counts)

    def test_accidents_lose_nothing_and_run_nothing_twice(self) -> None:
        campaign(rounds=3, seed=1)


if __name__ == "__main__":
    unittest.main()
