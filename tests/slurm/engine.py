"""`rota up --engine slurm` among strangers and accidents, and on other clusters. `test_engine.py` has what `make test` runs."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from accidents import campaign
from cluster import Cluster
from crowd import crowd
from daemon import Daemon


class UntypedCluster(Cluster):
    """A Slurm that knows how many GPUs a node has, and not of which type."""

    def configuration(self) -> str:
        return re.sub(r"gpu:(v100|p100|k80):", "gpu:", super().configuration())

    def devices(self) -> str:
        return re.sub(r"Type=\S+ ", "", super().devices())


class CampaignTest(unittest.TestCase):
    def test_gpus_without_types_are_used(self) -> None:
        with UntypedCluster() as cluster, Daemon(cluster) as daemon:
            jobs = daemon.wait_over([daemon.submit("-g", gpus, "--gpu-type", "gpu", "--", "true") for gpus in ("1", "6")], 120)
            self.assertEqual({job["state"] for job in jobs.values()}, {"done"}, jobs)
            asked = " ".join(daemon.requests())
            self.assertIn("--gres=gpu:3 ", asked)

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

    def test_a_crowd_of_jobs_beside_a_stranger(self) -> None:
        counts = crowd("fcfs", jobs=20, seed=1)
        self.assertGreater(counts["switches"], 0, counts)

    def test_accidents_lose_nothing_and_run_nothing_twice(self) -> None:
        campaign(rounds=3, seed=1)

    def test_the_same_accidents_to_a_plain_user(self) -> None:
        campaign(rounds=3, seed=2, plain=True)


if __name__ == "__main__":
    unittest.main()
