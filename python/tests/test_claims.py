"""GPUs for a process itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any

import rota

from .daemon import ROOT, DaemonTest, until, without_rota


class Grants(unittest.TestCase):
    def test_a_gpu_without_a_uuid_is_named_by_its_number(self) -> None:
        claim = rota.Claim(1, (0, 3), ("GPU-a", "PCI-00000000:3B:00.0"), lambda: None)
        self.assertEqual(claim.environment["CUDA_VISIBLE_DEVICES"], "GPU-a,3")
        self.assertEqual(repr(claim), "<Claim 1: GPU 0, 3>")


class SlowAnswer(unittest.TestCase):
    def test_an_interrupt_before_the_answer_gives_up_the_claim(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-python-")
        self.addCleanup(folder.cleanup)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(Path(folder.name) / "rota.sock"))
        listener.listen()
        listener.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-c", "import rota, sys; rota.Client(sys.argv[1]).claim()", folder.name],
            env={**without_rota(), "PYTHONPATH": str(ROOT / "python")},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.kill)
        asked = []
        for interrupts in (True, False):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                asked.append(stream.readline().split()[1].decode())
                if interrupts:
                    # The interrupt is there before the answer is.
                    process.send_signal(signal.SIGINT)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ids":[7]}')
        said = process.communicate()[1]
        self.assertEqual(asked, ["/api/v1/claims", "/api/v1/jobs/7/cancel"])
        self.assertIn("KeyboardInterrupt", said)


class Claims(DaemonTest):
    gpus = "a100:2"

    def script(self, text: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """A script as a person would start it."""
        path = self.folder / "train.py"
        path.write_text(textwrap.dedent(text))
        environment = {**without_rota(), "ROTA_STATE": str(self.daemon.state), "PYTHONPATH": str(ROOT / "python"), **variables}
        process = subprocess.Popen(
            [sys.executable, path, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def claims(self) -> list[rota.Job]:
        return [job for job in self.client.jobs() if job.claim]

    def uuids(self) -> list[str]:
        return [gpu.uuid for gpu in self.client.gpus()]

    def test_a_claim_lasts_as_long_as_its_block(self) -> None:
        before = dict(os.environ)
        with self.client.claim(gpus=2, name="both") as claim:
            self.assertEqual((claim.indices, list(claim.uuids), len(claim)), ((0, 1), self.uuids(), 2))
            self.assertEqual((claim.devices, claim.device), (("cuda:0", "cuda:1"), "cuda:0"))
            self.assertEqual(claim.environment["CUDA_VISIBLE_DEVICES"], ",".join(self.uuids()))
            self.assertEqual([(job.id, job.name) for job in self.claims()], [(claim.job, "both")])
            self.assertEqual(dict(os.environ), before)
        until("it is given back", lambda: not self.claims())
        claim.release()

    def test_only_of_those_that_are_named(self) -> None:
        with self.client.claim(gpu_ids=[1]) as claim:
            self.assertEqual(claim.indices, (1,))
        with self.assertRaises(rota.BadInput):
            self.client.claim(gpus=2, gpu_ids=[1])

    def test_a_claim_that_is_not_granted_in_time_is_given_up(self) -> None:
        job, go = self.blocked(gpus=2)
        with self.assertRaisesRegex(rota.TimedOut, "no GPU was to be had in time: .*0 of 2 free"):
            self.client.claim(timeout=0.2)
        self.assertEqual(self.claims(), [])
        go.touch()
        self.client.wait(job)

    def test_a_claim_that_somebody_cancels_is_told(self) -> None:
        job, go = self.blocked(gpus=2)
        process = self.script("""
            import rota
            try:
                rota.claim()
            except rota.ClaimEnded as end:
                print(end)
        """)
        until("it waits", lambda: bool(self.claims()))
        self.client.cancel(self.claims()[0])
        self.assertRegex(self.line(process), r"^claim \d+ is cancelled")
        go.touch()
        self.client.wait(job)

    def test_a_claim_outlasts_a_restart_of_the_daemon(self) -> None:
        job, go = self.blocked(gpus=2)
        process = self.script("import rota; print(rota.claim().indices, flush=True); input()")
        until("it waits", lambda: bool(self.claims()))
        self.daemon.restart()
        go.touch()
        self.assertIn(self.line(process), ("(0,)", "(1,)"))
        self.daemon.restart()
        self.assertEqual([claim.state for claim in self.claims()], ["running"])
        process.communicate("\n")
        until("it is given back", lambda: not self.claims())
        self.client.wait(job)

    def test_a_script_sees_its_gpus_only_and_gives_them_back_when_it_ends(self) -> None:
        process = self.script("""
            import os, rota
            claim = rota.claim(gpus=1)
            assert rota.claim() is claim
            print(os.environ["CUDA_DEVICE_ORDER"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
            input()
        """)
        self.assertEqual(self.line(process), f"PCI_BUS_ID {self.uuids()[0]}")
        self.assertEqual([(claim.name, claim.gpu_indices) for claim in self.claims()], [("train.py", (0,))])
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)
        until("it is given back", lambda: not self.claims())
        self.assertEqual([job.state for job in self.client.jobs(finished=True)], ["done"])

    def test_a_script_that_is_killed_gives_them_back_too(self) -> None:
        process = self.script("import rota; rota.claim(gpus=2); print('granted', flush=True); input()")
        self.assertEqual(self.line(process), "granted")
        process.kill()
        until("they are free", lambda: [gpu.state for gpu in self.client.gpus()] == ["free", "free"])

    def test_what_was_set_before_is_put_back(self) -> None:
        process = self.script(
            """
            import os, rota
            with rota.claim():
                pass
            print(os.environ["CUDA_VISIBLE_DEVICES"], "CUDA_DEVICE_ORDER" in os.environ, "ROTA_CLAIM" in os.environ)
            """,
            CUDA_VISIBLE_DEVICES="7",
        )
        self.assertEqual(self.line(process), "7 False False")

    def test_in_a_job_nothing_is_claimed(self) -> None:
        line = "import rota; claim = rota.claim(gpus=2); print(claim.job, claim.indices, ','.join(claim.uuids))"
        job = self.client.submit([sys.executable, "-c", line], gpus=2, env={"PYTHONPATH": str(ROOT / "python")})
        self.assertTrue(self.client.wait(job).is_done)
        self.assertEqual("".join(self.client.logs(job)), f"{job.id} (0, 1) {','.join(self.uuids())}\n")
        # It knows its GPUs without the daemon, and that they are fewer than it hoped for.
        line = "import rota; claim = rota.claim(gpus=2); print(claim.uuids, claim.device, *claim.environment.values())"
        environment = {"ROTA_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "GPU-x", "ROTA_STATE": str(self.folder / "gone")}
        process = subprocess.run(
            [sys.executable, "-c", line],
            env={**without_rota(), **environment, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(process.stdout, "('GPU-x',) cuda:0 PCI_BUS_ID GPU-x\n")
        self.assertIn("2 GPUs are claimed where 1 were given already", process.stderr)

    def test_children_live_under_their_parents_claim(self) -> None:
        process = self.script("""
            import multiprocessing, os, rota
            claim = rota.claim(gpus=2)

            def child(claim):
                mine = rota.claim()
                mine.release()
                print(mine.job == claim, os.environ["CUDA_VISIBLE_DEVICES"].count("-") > 0, flush=True)

            if __name__ == "__main__":
                for how in ("spawn", "fork"):
                    worker = multiprocessing.get_context(how).Process(target=child, args=(claim.job,))
                    worker.start()
                    worker.join()
                if os.fork() == 0:
                    raise SystemExit
                os.wait()
                print(rota.Client().job(claim.job).state, flush=True)
                input()
        """)
        self.assertEqual([self.line(process) for _ in range(3)], ["True True", "True True", "running"])
        self.assertEqual(len(self.claims()), 1)
        process.communicate("\n")

    def test_an_interrupt_gives_up_the_claim(self) -> None:
        job, go = self.blocked(gpus=2)
        process = self.script("""
            import os, rota
            try:
                rota.claim()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                input()
        """)
        until("it waits", lambda: bool(self.claims()))
        process.send_signal(2)
        self.assertEqual(self.line(process), "interrupted")
        self.assertEqual(self.claims(), [])
        go.touch()
        self.client.wait(job)

    def test_cuda_that_is_in_use_already_is_refused(self) -> None:
        process = self.script("""
            import sys, types, rota
            sys.modules["torch"] = torch = types.ModuleType("torch")
            torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
            try:
                rota.claim()
            except RuntimeError as error:
                print(error)
        """)
        self.assertRegex(self.line(process), "claim them earlier")
        self.assertEqual(self.claims(), [])

    def test_the_example_of_the_readme(self) -> None:
        processes: list[Any] = []
        for _ in range(3):
            environment = {**without_rota(), "ROTA_STATE": str(self.daemon.state), "PYTHONPATH": str(ROOT / "python")}
            processes.append(
                subprocess.Popen(
                    [sys.executable, ROOT / "examples/claim.py"], env=environment, stdout=subprocess.PIPE, text=True
                )
            )
        said = [process.communicate()[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0])
        for words in said:
            self.assertRegex(words, r"trained on GPU \(\d,\)")
        until("all are given back", lambda: not self.claims())
        claims = [job for job in self.client.jobs(finished=True) if job.claim]
        self.assertEqual(len(claims), 3)
        # Nobody had a GPU before the one who had it before gave it back.
        for gpu in self.uuids():
            mine = [job for job in claims if gpu in (job.gpu_uuids or ())]
            turns = sorted((job.started_at, job.finished_at) for job in mine if job.started_at and job.finished_at)
            for (_, finish), (start, _) in zip(turns, turns[1:]):
                self.assertLessEqual(finish, start)
