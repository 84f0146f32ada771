"""What a program does with the queue."""

from __future__ import annotations

import os
import pickle
from datetime import datetime, timedelta, timezone
from pathlib import Path

import rota

from .daemon import DaemonTest, until_file


class Jobs(DaemonTest):
    def test_a_job_is_submitted_waited_for_and_read(self) -> None:
        before = datetime.now(timezone.utc)
        job = self.client.submit(["sh", "-c", "echo to be; printf 'or not'"], name="first", time_limit=timedelta(minutes=5))
        self.assertEqual((job.name, job.command[0], job.gpus_requested, job.time_limit_seconds), ("first", "sh", 1, 300.0))
        ended = self.client.wait(job)
        self.assertEqual((ended.id, ended.state, ended.exit_code, ended.attempts), (job.id, "done", 0, 1))
        self.assertTrue(ended.is_over and ended.is_done)
        self.assertIs(ended.check(), ended)
        assert ended.started_at is not None and ended.finished_at is not None
        self.assertTrue(before - timedelta(seconds=1) < ended.submitted_at <= ended.started_at <= ended.finished_at)
        self.assertEqual(ended.finished_at.tzinfo, timezone.utc)
        self.assertEqual(len(ended.gpu_uuids or ()), 1)
        self.assertEqual(ended.raw["id"], job.id)
        self.assertEqual(list(self.client.logs(job)), ["to be\n", "or not"])
        self.assertEqual(list(self.client.logs(job, tail=1)), ["or not"])
        self.assertEqual(list(self.client.logs(job, attempt=1, follow=True)), ["to be\n", "or not"])
        self.assertEqual(b"".join(self.client.log_bytes(job)), b"to be\nor not")

    def test_a_line_is_for_the_shell_and_runs_here_with_this_environment(self) -> None:
        os.environ["ROTA_TEST_OWN"] = "inherited"
        self.addCleanup(os.environ.pop, "ROTA_TEST_OWN")
        line = 'echo "$PWD $ROTA_TEST_OWN $OTHER $ROTA_GPUS" | tr a-z A-Z'
        here = self.client.submit(line, gpus=0, env={"OTHER": "own"})
        there = self.client.submit(line, cwd=self.folder, inherit_env=False, env={"OTHER": "x", "PATH": os.environ["PATH"]})
        self.client.wait([here, there])
        self.assertEqual(list(self.client.logs(here)), [f"{Path.cwd()} INHERITED OWN 0\n".upper()])
        self.assertEqual(list(self.client.logs(there)), [f"{self.folder}  X 1\n".upper()])

    def test_bytes_that_are_no_text_come_back_as_they_were(self) -> None:
        odd = os.fsdecode(b"caf\xe9")
        (self.folder / odd).mkdir()
        job = self.client.submit(["printf", "%s %s", odd, "ä"], gpus=0, cwd=self.folder / odd)
        self.assertEqual((job.command[2], job.cwd), (odd, str(self.folder / odd)))
        self.assertTrue(self.client.wait(job).is_done)
        self.assertEqual(b"".join(self.client.log_bytes(job)), b"caf\xe9 \xc3\xa4")
        self.assertEqual(list(self.client.logs(job)), ["caf\ufffd ä"])

    def test_every_option_reaches_the_daemon(self) -> None:
        first, go = self.blocked()
        job = self.client.submit(
            ["true"],
            gpus=1,
            memory=4000,
            share=0.5,
            gpu_ids=[0, 1],
            gpu_types="a100",
            priority=3,
            weight=2.0,
            tickets=5,
            estimate=timedelta(minutes=2),
            deadline=datetime.now(timezone.utc) + timedelta(hours=1),
            time_limit=600,
            grace=5,
            after={first.id: "any"},
            retries=2,
            retry_delay=0.5,
            preemptible=True,
            hold=True,
            key="one",
            name="all",
        )
        self.assertEqual((job.state, job.memory_mib, job.share, job.gpu_types), ("held", 4000, 0.5, ("a100",)))
        self.assertEqual((job.priority, job.estimate_seconds, job.time_limit_seconds), (3, 120.0, 600.0))
        self.assertEqual((job.retries, job.preemptible, job.claim), (2, True, False))
        self.assertEqual([(after.id, after.condition) for after in job.after], [(first.id, "any")])
        again = self.client.submit(["true"], key="one")
        self.assertEqual(again.id, job.id)
        self.client.release(job)
        go.touch()
        self.assertTrue(self.client.wait(job).is_done)
        learned = self.client.submit(["true"], memory="auto", buffer=100, profile_as="class", job_type="LSTM")
        self.assertEqual((learned.raw["profile"], learned.raw["job_type"]), ("class", "LSTM"))
        self.client.wait(learned)

    def test_an_option_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(TypeError, "no option `gpu`; is `gpus` meant"):
            self.client.submit("true", gpu=2)  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "no option `timelimit`; is `time_limit` meant"):
            self.client.submit(["true"], timelimit=3)  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "no option `xyz`: .*JobOptions"):
            self.client.submit(["true"], xyz=3)  # type: ignore[call-arg]

    def test_a_failure_is_an_answer_until_it_is_checked(self) -> None:
        ended = self.client.wait(self.client.submit("exit 7"))
        self.assertEqual((ended.state, ended.exit_code, ended.is_over, ended.is_done), ("failed", 7, True, False))
        with self.assertRaisesRegex(rota.JobFailed, f"job {ended.id} is failed") as caught:
            ended.check()
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).job, ended)

    def test_jobs_are_held_released_cancelled_and_tried_again(self) -> None:
        running, go = self.blocked(gpus=2)
        waiting = self.client.submit(["true"])
        why = self.client.explain(waiting)
        self.assertEqual((why.id, why.state), (waiting.id, "waiting"))
        self.assertIn(f"job {running.id}", why.reason)
        self.assertEqual(why.blockers[0].kind, "gpu")
        self.client.hold(waiting)
        self.assertEqual(self.client.job(waiting).state, "held")
        self.client.release(waiting)
        self.assertEqual(self.client.job(waiting).state, "waiting")
        self.client.cancel(waiting)
        self.assertEqual(self.client.wait(waiting).state, "cancelled")
        with self.assertRaises(rota.Conflict) as caught:
            self.client.hold(waiting)
        self.assertEqual((caught.exception.type, caught.exception.status), ("conflict", 409))
        again = self.client.retry(waiting)
        self.assertNotEqual(again.id, waiting.id)
        go.touch()
        self.assertEqual([job.state for job in self.client.wait([running, again.id])], ["done", "done"])

    def test_a_wait_ends_in_time_with_what_was_seen(self) -> None:
        done = self.client.wait(self.client.submit(["true"]))
        running, go = self.blocked()
        with self.assertRaisesRegex(rota.TimedOut, f"not over in time: {running.id}$") as caught:
            self.client.wait([done, running], timeout=0.2)
        self.assertEqual([job.state for job in caught.exception.jobs], ["done", "running"])
        self.assertIsInstance(caught.exception, TimeoutError)
        with self.assertRaises(rota.TimedOut):
            self.client.wait(running, timeout=timedelta(0))
        go.touch()
        self.client.wait(running)

    def test_sweeps_and_arrays(self) -> None:
        ids = self.client.sweep(["echo", "{lr}", "{seed}"], gpus=0, params={"lr": [0.1, 0.01], "seed": range(2)})
        self.client.wait(ids)
        said = sorted("".join(self.client.logs(job)) for job in ids)
        self.assertEqual(said, ["0.01 0\n", "0.01 1\n", "0.1 0\n", "0.1 1\n"])
        ids = self.client.sweep("echo $ROTA_ARRAY_INDEX", gpus=0, array=[3, 5])
        self.client.wait(ids)
        self.assertEqual(["".join(self.client.logs(job)) for job in ids], ["3\n", "5\n"])

    def test_lists(self) -> None:
        over = [self.client.submit(["true"], gpus=0) for _ in range(3)]
        self.client.wait(over)
        running, go = self.blocked(gpus=2)
        waiting = [self.client.submit(["true"], name="wait") for _ in range(3)]
        numbers = [job.id for job in [*over, running, *waiting]]
        self.assertEqual([job.id for job in self.client.jobs()], numbers[3:])
        self.assertEqual([job.id for job in self.client.jobs(limit=2)], numbers[3:5])
        self.assertEqual([job.id for job in self.client.jobs(state="waiting")], numbers[4:])
        self.assertEqual([job.id for job in self.client.jobs(state="waiting", finished=True)], numbers[4:])
        self.assertEqual([job.id for job in self.client.jobs(finished=True)], numbers[::-1])
        self.assertEqual([job.id for job in self.client.jobs(state="done")], numbers[2::-1])
        self.assertEqual([job.id for job in self.client.jobs(since=timedelta(hours=1))], numbers[2::-1])
        self.assertEqual(list(self.client.jobs(since=datetime.now(timezone.utc) + timedelta(hours=1))), [])
        self.assertEqual([job.id for job in self.client.jobs(user=running.user)], numbers[3:])
        self.assertEqual(list(self.client.jobs(user="nobody-of-this-name")), [])
        self.assertEqual(next(self.client.jobs()).position, None)
        go.touch()
        self.client.wait(waiting)

    def test_refusals_are_told_apart(self) -> None:
        with self.assertRaisesRegex(rota.NotFound, "4711") as caught:
            self.client.job(4711)
        self.assertIsInstance(caught.exception, LookupError)
        self.assertEqual((caught.exception.type, caught.exception.status), ("not-found", 404))
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), again.title), (rota.NotFound, caught.exception.title))
        with self.assertRaisesRegex(rota.BadInput, "--share"):
            self.client.submit(["true"], share=7.0)
        with self.assertRaises(rota.BadInput):
            self.client.submit([])
        # This one is refused below the API, in plain words.
        with self.assertRaises(rota.BadInput):
            self.client.submit(["true"], gpus=-1)
        with self.assertRaises(ValueError):
            self.client.submit(["true"], weight=float("nan"))
        with self.assertRaises(rota.NotFound):
            list(self.client.logs(4711))
        with self.assertRaises(rota.NotFound):
            list(self.client.logs(4711, follow=True))

    def test_the_machine(self) -> None:
        job, go = self.blocked()
        status = self.client.status()
        self.assertEqual(
            (status.running, status.waiting, status.draining, status.state_dir), (1, 0, False, str(self.daemon.state))
        )
        gpus = self.client.gpus()
        self.assertEqual([gpu.index for gpu in gpus], [0, 1])
        self.assertEqual(sorted(gpu.state for gpu in gpus), ["free", "full"])
        self.assertEqual([gpu.jobs for gpu in gpus if gpu.jobs], [(job.id,)])
        self.client.drain([0, 1])
        self.assertEqual({gpu.state for gpu in self.client.gpus()} - {"full"}, {"drained"})
        self.client.resume([0, 1])
        self.client.drain()
        self.assertTrue(self.client.status().draining)
        self.client.resume()
        self.client.set_policy("priority")
        self.assertIn("priority", self.client.status().policy)
        with self.assertRaises(rota.BadInput):
            self.client.set_policy("no-such-policy")
        go.touch()
        self.client.wait(job)
        history = self.client.history(since=timedelta(hours=1))
        self.assertEqual([past["job"]["id"] for past in history["jobs"]], [job.id])

    def test_a_log_is_followed_as_it_grows(self) -> None:
        go = self.folder / "go"
        job = self.client.submit(f"echo one; {until_file(go)}; printf 'two\\nthree'; exit 3")
        lines = self.client.logs(job, follow=True)
        self.assertEqual(next(lines), "one\n")
        go.touch()
        self.assertEqual(list(lines), ["two\n", "three"])
        self.assertEqual(self.client.wait(job).exit_code, 3)


class Absence(DaemonTest):
    def test_those_who_wait_do_not_notice_a_restart(self) -> None:
        go = self.folder / "go"
        job = self.client.submit(f"echo one; {until_file(go)}; echo two")
        lines = self.client.logs(job, follow=True)
        events = self.client.events(0)
        self.assertEqual(next(lines), "one\n")
        self.assertEqual(next(events).kind, "submitted")
        self.daemon.restart()
        go.touch()
        self.assertEqual(list(lines), ["two\n"])
        self.assertTrue(self.client.wait(job).is_done)
        seen = [0]
        for event in events:
            self.assertGreater(event.seq, seen[-1])
            seen.append(event.seq)
            if event.kind == "finished" and event.job == job.id:
                break

    def test_nobody_is_waited_for_who_was_never_there(self) -> None:
        nobody = rota.Client(self.folder / "elsewhere")
        with self.assertRaisesRegex(rota.Unreachable, "rota up --detach") as caught:
            nobody.wait(1)
        self.assertIsInstance(caught.exception, ConnectionError)
        for stream in (nobody.events(), nobody.logs(1, follow=True)):
            with self.assertRaises(rota.Unreachable):
                next(iter(stream))

    def test_one_who_stays_away_is_given_up(self) -> None:
        job, _ = self.blocked()
        client = rota.Client(self.daemon.state, absence=0.3)
        events, lines = client.events(0), client.logs(job, follow=True)
        next(events)
        self.daemon.kill()
        for goes_on in (lambda: list(events), lambda: list(lines)):
            with self.assertRaises(rota.Unreachable):
                goes_on()
