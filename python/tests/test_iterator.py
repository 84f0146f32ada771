"""Training loops under a lease, against a lease service that the test controls."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import rota
from rota._lease.keeper import Ending, Keeper

from .daemon import ROOT, until, without_rota
from .lease_server import LeaseServer


class Training:
    """A training without a library: a number that depends on every batch, their order, and on random numbers."""

    def __init__(self, passes: int = 3, length: int = 7, **options: Any) -> None:
        self.value = 0.0
        self.passes, self.length = passes, length
        self.seen: list[tuple[int, int]] = []
        self.stop_after: Optional[tuple[int, LeaseServer]] = None
        random.seed(5)
        self.batches = rota.Iterator(self, save=self.save, load=self.load, **options)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        order = list(range(self.length))
        random.shuffle(order)
        return iter(order)

    def save(self, path: str) -> None:
        Path(path).write_text(json.dumps(self.value))

    def load(self, path: str) -> None:
        self.value = json.loads(Path(path).read_text())

    @property
    def keeper(self) -> Keeper:
        keeper = self.batches._keeper
        assert keeper is not None
        return keeper

    def until_ending(self) -> None:
        keeper = self.keeper
        until("the run is to stop", lambda: keeper.ending is not None)

    def run(self) -> float:
        for epoch in range(self.batches.epoch, self.passes):
            for batch in self.batches:
                self.seen.append((epoch, batch))
                self.value = self.value * 0.9 + batch + random.random()
                if self.stop_after and len(self.seen) == self.stop_after[0]:
                    self.stop_after[1].stop()
                    # The notice is heard before the next step, however fast steps are.
                    self.until_ending()
        self.batches.complete()
        return self.value


class IteratorTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rota-lease-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "checkpoints"
        self.server = LeaseServer(self.folder)
        self.addCleanup(self.server.down)
        clean = mock.patch.dict(os.environ, without_rota(), clear=True)
        clean.start()
        self.addCleanup(clean.stop)

    def lease(self, **options: Any) -> Training:
        """The next run of the job."""
        os.environ.update(self.server.next_lease())
        return Training(**options)

    def stopped(self, training: Training, after: int) -> None:
        """Runs it until it is stopped after so many steps of this lease."""
        training.stop_after = (after, self.server)
        with self.assertRaises(SystemExit) as leaving:
            training.run()
        self.assertEqual(leaving.exception.code, 85)
        self.assertTrue(training.batches.done)


class Plain(IteratorTest):
    def test_outside_the_queue_it_is_a_plain_loop(self) -> None:
        training = Training()
        training.run()
        self.assertEqual([epoch for epoch, _ in training.seen], [0] * 7 + [1] * 7 + [2] * 7)
        self.assertEqual((training.batches.steps, training.batches.epoch, training.batches.done), (21, 3, True))
        self.assertEqual(list(training.batches), [])
        self.assertFalse(self.folder.exists())

    def test_pytorch_is_not_imported(self) -> None:
        line = "import sys, rota; rota.Iterator([1], save=print, load=print); print({'torch', 'numpy'} & set(sys.modules))"
        said = subprocess.run([sys.executable, "-c", line], cwd=ROOT / "python", capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "set()\n")

    def test_next_and_passes_that_are_left_early(self) -> None:
        batches = rota.Iterator("abc", save=print, load=print)
        self.assertEqual((next(batches), next(batches), len(batches)), ("a", "b", 3))
        self.assertEqual((list(batches), batches.epoch, batches.steps), (["a", "b", "c"], 2, 5))

    def test_bad_options(self) -> None:
        for options in ({"rank": 2, "world": 2}, {"rank": -1}, {"save_every": 0}):
            with self.assertRaises(ValueError):
                rota.Iterator([1], save=print, load=print, **options)  # type: ignore[arg-type]
        os.environ["WORLD_SIZE"] = "two"
        with self.assertRaisesRegex(ValueError, "WORLD_SIZE is `two`"):
            rota.Iterator([1], save=print, load=print)

    def test_an_incomplete_environment_is_told(self) -> None:
        os.environ["ROTA_LEASE_ADDR"] = "127.0.0.1:1"
        with self.assertRaisesRegex(rota.RotaError, "ROTA_LEASE is not"):
            Training()


class Stops(IteratorTest):
    def test_it_goes_on_with_the_very_next_batch(self) -> None:
        whole = Training()
        whole_value = whole.run()
        seen = []
        # In a pass, at its end (7), within the next one, and after a single step.
        for after, step in ((3, 3), (4, 7), (2, 9), (1, 10)):
            training = self.lease()
            self.stopped(training, after)
            self.assertEqual((self.server.step, training.batches.steps), (step, step))
            seen += training.seen
        last = self.lease()
        self.assertEqual((last.run(), seen + last.seen), (whole_value, whole.seen))
        self.assertEqual((self.server.commits, self.server.completed), ([(1, 3), (2, 7), (3, 9), (4, 10)], 21))
        # Of earlier checkpoints nothing is left.
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"step-10.lease-4", "step-10.lease-4.rank-0"})

    def test_a_stop_may_end_the_loop_instead(self) -> None:
        training = self.lease(exit_when_stopped=False)
        training.stop_after = (3, self.server)
        training.run()
        self.assertEqual((training.batches.done, self.server.step, self.server.completed), (True, 3, None))

    def test_batches_need_not_be_read_to_be_skipped(self) -> None:
        self.stopped(self.lease(), 3)
        skipped: list[int] = []

        def rest(count: int) -> Any:
            skipped.append(count)
            return list(training)[count:]

        training = self.lease(rest=rest)
        whole_seen = Training(passes=1).seen
        training.run()
        self.assertEqual((skipped, len(training.seen), whole_seen), ([3], 18, []))

    def test_data_that_has_become_shorter_is_told(self) -> None:
        self.stopped(self.lease(), 5)
        with self.assertRaisesRegex(rota.RotaError, "ends after 4 batches, but the job was stopped after 5"):
            self.lease(length=4).run()

    def test_a_checkpoint_of_the_scripts_own(self) -> None:
        self.folder.mkdir()
        (self.folder / "mine").write_text("1.5")
        self.server.step, self.server.path = 9, "mine"
        training = self.lease()
        self.assertEqual((training.value, training.batches.steps, training.batches.epoch), (1.5, 9, 1))
        training.run()
        self.assertEqual(len(training.seen), 12)

    def test_saves_in_between(self) -> None:
        training = self.lease(save_every=5)
        training.run()
        self.assertEqual(self.server.commits, [(1, 5), (1, 10), (1, 15), (1, 20)])
        os.environ.update(self.server.next_lease())
        again = Training(save_every=5)
        again.run()
        # Committed at 20, it had one step left.
        self.assertEqual((len(again.seen), again.value), (1, training.value))


class Leases(IteratorTest):
    def test_renewed_at_three_quarters(self) -> None:
        self.server.max_seconds = 0.4
        training = self.lease()
        self.server.max_seconds = 1000.0
        self.server.until(lambda: bool(self.server.said("renew")))
        self.assertGreaterEqual(self.server.said("renew")[0]["seconds"], 0.3)
        keeper = training.keeper
        until("the answer is heard", lambda: keeper._max_seconds == 1000.0)
        self.assertIsNone(keeper.ending)
        until("the next renewal is set", lambda: keeper._renew_at == 0.4 + 0.75 * (1000.0 - 0.4))

    def test_extended_by_a_notice(self) -> None:
        self.server.max_seconds = 1000.0
        keeper = self.lease().keeper
        self.server.extend(2000.0)
        until("the notice is heard", lambda: keeper._max_seconds == 2000.0)
        self.assertEqual((keeper._renew_at, keeper.ending), (1750.0, None))

    def test_a_lease_that_is_not_extended_ends(self) -> None:
        self.server.max_seconds = 0.2
        training = self.lease()
        with self.assertRaises(SystemExit):
            for _ in training.batches:
                training.until_ending()
        self.assertEqual((self.server.step, training.keeper.ending), (1, Ending.LEASE_OVER))
        self.assertGreaterEqual(training.keeper.seconds, 0.2)

    def test_while_the_daemon_is_away_the_lease_goes_on_to_its_end(self) -> None:
        whole_value = Training().run()
        self.server.max_seconds = 0.5
        training = self.lease()
        with self.assertRaises(SystemExit):
            for batch in training.batches:
                training.value = training.value * 0.9 + batch + random.random()
                if training.batches.steps == 4:
                    self.server.down()
                    training.until_ending()
                    self.assertGreaterEqual(training.keeper.seconds, 0.5)
        self.assertEqual(self.server.commits, [])
        # What was saved is committed by the next lease.
        self.server.up()
        self.server.max_seconds = 3600.0
        again = self.lease()
        self.assertEqual((self.server.commits, again.batches.steps), ([(2, 4)], 4))
        self.assertEqual(again.run(), whole_value)

    def test_progress_is_told_after_the_first_step(self) -> None:
        training = self.lease()
        for _ in training.batches:
            if training.batches.steps == 3:
                break
            if training.batches.steps == 2:
                self.server.until(lambda: bool(self.server.said("progress")))
        self.assertIn(self.server.said("progress")[0]["steps"], (1, 2))

    def test_an_older_lease_leaves_and_overwrites_nothing(self) -> None:
        old = self.lease()
        following = iter(old.batches)
        for _ in range(5):
            next(following)
        self.stopped(self.lease(), 2)
        before = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        old.keeper._renew_at = 0.0
        old.keeper._wake.set()
        old.until_ending()
        with self.assertRaises(SystemExit) as leaving:
            next(following)
        self.assertEqual(leaving.exception.code, 85)
        self.assertEqual({path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}, before)
        self.assertEqual(self.server.commits, [(2, 2)])

    def test_a_commit_of_an_older_lease_is_refused(self) -> None:
        old = self.lease()
        next(iter(old.batches))
        self.stopped(self.lease(), 2)
        old.batches.checkpoint()
        self.assertEqual((self.server.commits, self.server.path), ([(2, 2)], "step-2.lease-2"))
        self.assertTrue((self.folder / "step-2.lease-2").exists())

    def test_a_daemon_that_was_restarted_learns_of_the_ranks_again(self) -> None:
        training = self.lease(rank=1, world=2)
        self.assertEqual(self.server.world, 2)
        self.server.world = 1
        training.keeper._renew_at = 0.0
        training.keeper._wake.set()
        self.server.until(lambda: self.server.world == 2)
        self.assertIsNone(training.keeper.ending)

    def test_a_rank_that_has_done_all_its_steps_keeps_no_other_waiting(self) -> None:
        environment = self.server.next_lease()
        os.environ.update(environment)
        first, second = (Training(passes=1, rank=rank, world=2) for rank in range(2))
        first.run()
        second.stop_after = (7, self.server)
        second.run()
        self.assertEqual((second.batches.steps, second.batches.done, self.server.commits), (7, True, []))

    def test_the_wrong_token(self) -> None:
        os.environ.update(self.server.next_lease(), ROTA_LEASE_TOKEN="another")
        with self.assertRaisesRegex(rota.Unauthorized, "the token is not of this run"):
            Training()


class Saves(IteratorTest):
    def test_a_save_that_is_cut_off_leaves_the_one_before(self) -> None:
        whole_value = Training().run()
        self.stopped(self.lease(), 3)
        training = self.lease()

        def half(path: str) -> None:
            Path(path).write_text("0.")
            raise KeyboardInterrupt

        training.batches._save = half
        training.stop_after = (4, self.server)
        with self.assertRaises(KeyboardInterrupt):
            training.run()
        self.assertEqual(self.server.step, 3)
        last = self.lease()
        self.assertEqual((last.batches.steps, last.run()), (3, whole_value))

    def test_a_disk_that_is_full_is_told_and_nothing_is_lost(self) -> None:
        self.stopped(self.lease(), 3)
        training = self.lease()
        full = mock.Mock(side_effect=OSError(28, "No space left on device"))
        training.batches._save = full
        training.stop_after = (2, self.server)
        with self.assertRaisesRegex(rota.SaveFailed, "step 5 cannot be written to .*No space left on device"):
            training.run()
        self.assertEqual((self.server.step, self.lease().batches.steps), (3, 3))

    def test_a_folder_that_cannot_be_written_to_is_told_at_the_start(self) -> None:
        self.folder.parent.mkdir(exist_ok=True)
        self.folder.write_text("a file in its place")
        with self.assertRaisesRegex(rota.SaveFailed, "checkpoints cannot be written to"):
            self.lease()

    def mount(self) -> None:
        """The checkpoint folder becomes a file system of its own, of 64 kB."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(self.folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            self.skipTest("file systems cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.folder)], check=True)

    def test_a_file_system_that_fills_up_keeps_what_was_committed(self) -> None:
        whole_value = Training().run()
        self.mount()
        self.stopped(self.lease(), 3)
        training = self.lease()
        with self.assertRaises(OSError), (self.folder / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(1024)):
                pass
        training.stop_after = (2, self.server)
        with self.assertRaisesRegex(rota.SaveFailed, "step 5 cannot be written to .*No space left on device"):
            training.run()
        (self.folder / "ballast").unlink()
        last = self.lease()
        self.assertEqual((self.server.step, last.batches.steps, last.run()), (3, 3, whole_value))

    def test_a_file_system_that_is_read_only_is_told_at_the_start(self) -> None:
        self.mount()
        self.stopped(self.lease(), 3)
        remount = ["mount", "-o", "remount,{}", str(self.folder)]
        subprocess.run([word.format("ro") for word in remount], check=True)
        with self.assertRaisesRegex(rota.SaveFailed, "checkpoints cannot be written to .*Read-only file system"):
            self.lease()
        subprocess.run([word.format("rw") for word in remount], check=True)
        self.assertEqual((self.server.step, self.lease().batches.steps), (3, 3))

    def test_a_save_that_writes_nothing_is_told(self) -> None:
        training = self.lease()
        training.batches._save = lambda path: None
        training.stop_after = (2, self.server)
        with self.assertRaisesRegex(rota.SaveFailed, "there is no such file"):
            training.run()

    def test_a_checkpoint_may_be_a_folder(self) -> None:
        training = self.lease()

        def save(path: str) -> None:
            (Path(path) / "inner").mkdir(parents=True)
            (Path(path) / "inner" / "value").write_text("1.0")

        training.batches._save = save
        self.stopped(training, 2)
        self.assertEqual((self.folder / "step-2.lease-1/inner/value").read_text(), "1.0")

    def test_a_daemon_that_cannot_write_does_not_stop_the_training(self) -> None:
        training = self.lease(save_every=4)
        for _ in training.batches:
            self.server.failure = (507, "the disk of the daemon is full") if training.batches.steps >= 4 else None
        self.server.failure = None
        self.assertEqual((self.server.commits, training.batches.steps), ([], 7))
        self.assertTrue((self.folder / "step-4.lease-1").exists())


class Launches(unittest.TestCase):
    def launched(self, processes: int, script: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "script.py"
            path.write_text(script)
            line = [sys.executable, "-m", "rota.launch", "--processes", str(processes), str(path), "a", "--b"]
            environment = {**without_rota(), "PYTHONPATH": str(ROOT / "python")}
            return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)

    def test_each_process_knows_its_place(self) -> None:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
        words = f"[os.environ[name] for name in {names}] + sys.argv[1:]"
        # One write each, so that lines of several processes are not mixed.
        done = self.launched(3, f"import os, sys; os.write(1, (' '.join({words}) + chr(10)).encode())")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} {rank} 3 127.0.0.1 a --b" for rank in range(3)])
        self.assertEqual(done.returncode, 0)

    def test_the_exit_code_is_that_of_the_job(self) -> None:
        rank = "import os, sys, time; rank = int(os.environ['RANK']); "
        self.assertEqual(self.launched(2, rank + "sys.exit(85)").returncode, 85)
        # One had done all its work when the others were stopped.
        self.assertEqual(self.launched(2, rank + "sys.exit(85 * rank)").returncode, 85)
        # A failure ends the others, which would wait for ever.
        self.assertEqual(self.launched(3, rank + "time.sleep(600) if rank else sys.exit(3)").returncode, 3)
        self.assertEqual(self.launched(1, "import os; os.kill(os.getpid(), 9)").returncode, 137)
        self.assertEqual(self.launched(0, "").returncode, 2)


if __name__ == "__main__":
    unittest.main()
