"""Tokens, pages, priorities, and the past in pictures and sums."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from datetime import datetime, timedelta, timezone

import rota
from rota import _operations as operations

from .daemon import DaemonTest, until


class Priorities(DaemonTest):
    gpus = "a100:1"

    def test_a_waiting_job_is_moved_up(self) -> None:
        self.client.set_policy("priority")
        running, go = self.blocked()
        first, second = (self.client.submit(f"echo {word} >> {self.folder}/order") for word in ("first", "second"))
        self.assertEqual(self.client.set_priority(second, 1000).priority, 1000)
        with self.assertRaises(rota.Conflict):
            self.client.set_priority(running, 5)
        with self.assertRaises(rota.NotFound):
            self.client.set_priority(4711, 5)
        go.touch()
        self.client.wait([first, second])
        self.assertEqual((self.folder / "order").read_text(), "second\nfirst\n")


class Predictions(DaemonTest):
    gpus = "a100:1"

    def test_a_waiting_job_has_three_times_for_its_start_and_its_end(self) -> None:
        self.assertEqual(self.client.predictions().jobs, ())
        running = self.client.submit("sleep 600", estimate=600)
        waiting = self.client.submit("sleep 300", estimate=300)
        until("a start is predicted", lambda: [job.id for job in self.client.predictions().jobs] == [waiting.id])
        said = self.client.predictions()
        self.assertIsNone(said.earlier)
        (job,) = said.jobs
        assert (
            said.made_at and job.start_p10 and job.start_p50 and job.start_p90 and job.end_p10 and job.end_p50 and job.end_p90
        )
        self.assertTrue(said.made_at < job.start_p10 < job.start_p50 < job.start_p90)
        self.assertTrue(job.start_p10 < job.end_p10 < job.end_p50 < job.end_p90)
        self.assertEqual((job.position, job.depends_on, job.note), (1, (running.id,), None))
        self.client.cancel(waiting)
        self.client.cancel(running)


class Lists(DaemonTest):
    def test_all_pages_are_followed(self) -> None:
        over = self.client.sweep(["true"], gpus=0, array=range(5))
        self.client.wait(over)
        self.client.drain()
        waiting = self.client.sweep(["true"], gpus=0, array=range(5))

        def pages(*, finished: bool) -> list[list[int]]:
            listing = operations.Listing(finished=finished)
            assert listing._query is not None
            listing._query.append(("limit", "3"))
            seen = []
            while not listing.is_complete:
                seen.append([job.id for job in self.client._run(listing.page())])
            return seen

        self.assertEqual(pages(finished=False), [waiting[:3], waiting[3:]])
        newest_first = [*over, *waiting][::-1]
        self.assertEqual(pages(finished=True), [newest_first[at : at + 3] for at in range(0, 10, 3)])

    def test_more_than_one_page_unasked(self) -> None:
        self.client.drain()
        ids = self.client.sweep(["true"], gpus=0, array=range(1003))
        self.assertEqual([job.id for job in self.client.jobs()], ids)
        self.assertEqual([job.id for job in self.client.jobs(finished=True)], ids[::-1])
        self.assertEqual([job.id for job in self.client.jobs(limit=1001)], ids[:1001])

    def test_search_and_spans_of_time(self) -> None:
        named = self.client.submit(["true"], gpus=0, name="My Training")
        other = self.client.submit(["echo", "Something"], gpus=0, project="maps")
        self.client.wait([named, other])
        self.assertEqual([job.id for job in self.client.jobs(finished=True, project="maps")], [other.id])
        self.assertEqual([job.id for job in self.client.jobs(finished=True, search="training")], [named.id])
        self.assertEqual([job.id for job in self.client.jobs(finished=True, search="ECHO some")], [other.id])
        self.assertEqual(list(self.client.jobs(finished=True, search="nothing like it")), [])
        self.assertEqual(list(self.client.jobs(until=timedelta(hours=1))), [])
        soon = datetime.now(timezone.utc) + timedelta(hours=1)
        self.assertEqual([job.id for job in self.client.jobs(since=timedelta(hours=1), until=soon)], [other.id, named.id])


class Past(DaemonTest):
    def test_what_became_of_a_job(self) -> None:
        before = datetime.now(timezone.utc) - timedelta(seconds=1)
        job = self.client.wait(self.client.submit(["true"], name="short", project="thesis"))
        self.assertEqual(job.project, "thesis")
        kinds = [event.kind for event in self.client.job_events(job)]
        self.assertEqual((kinds[0], kinds[-1]), ("submitted", "finished"))
        self.assertIn("started", kinds)
        self.assertEqual({event.job for event in self.client.job_events(job)}, {job.id})
        with self.assertRaises(rota.NotFound):
            self.client.job_events(4711)
        self.assertEqual(self.client.samples(job).job, job.id)
        running, go = self.blocked()
        timeline = self.client.timeline(since=before)
        self.assertEqual(len(timeline.gpus), 2)
        bars = {bar.job: bar for bar in timeline.bars}
        self.assertEqual((bars[job.id].name, bars[job.id].gpus), ("short", job.gpu_uuids))
        assert job.started_at is not None
        self.assertLess(abs(bars[job.id].start - job.started_at), timedelta(seconds=1))
        self.assertIsNotNone(bars[job.id].finish)
        self.assertIsNone(bars[running.id].finish)
        usage = self.client.usage(since=before)
        self.assertEqual((usage.total.jobs, [user.name for user in usage.users]), (2, [job.user]))
        self.assertEqual({project.name for project in usage.projects}, {"thesis", None})
        self.assertGreater(usage.total.gpu_hours, 0.0)
        heat = self.client.heatmap(since=timedelta(hours=1), buckets=12)
        self.assertEqual([len(row.allocated) for row in heat.gpus], [12, 12])
        self.assertAlmostEqual(heat.bucket_seconds, 300.0, delta=1.0)
        with self.assertRaises(rota.BadInput):
            self.client.usage(since="yesterday")
        go.touch()
        self.client.wait(running)

    def test_simulations(self) -> None:
        self.assertIn("fcfs", [policy["name"] for policy in self.client.policies()])
        trace = "arrival_s,duration_s,gpus\n0,100,1\n5,50,1\n6,20,1\n"
        simulation = self.client.simulate(["fcfs", "srtf"], trace=trace, cluster="a100:1", seed=1)
        until("it is over", lambda: self.client.simulation(simulation).is_over)
        ended = self.client.simulation(simulation)
        self.assertEqual((ended.state, ended.error, ended.policies), ("done", None, ("fcfs", "srtf")))
        means = [result["jct_mean_s"] for result in ended.results]
        self.assertGreater(means[0], means[1])
        self.assertIn("<svg", self.client.simulation_gantt(simulation, 1))
        self.client.cancel_simulation(simulation)
        with self.assertRaises(rota.BadInput):
            self.client.simulate([], trace=trace)
        self.client.wait(self.client.submit(["true"]))
        of_history = self.client.simulate(["fcfs"], since=timedelta(hours=1))
        until("it is over", lambda: self.client.simulation(of_history).is_over)
        self.assertEqual(self.client.simulation(of_history).state, "done")


class Tokens(DaemonTest):
    arguments = ("--port", "0")

    def network(self, token: rota.Token) -> rota.Client:
        return rota.Client(url=(self.daemon.state / "http").read_text().strip(), token=token.token)

    def test_a_token_allows_what_its_scope_says_until_it_is_revoked(self) -> None:
        self.assertEqual(self.client.session().scope, "admin")
        reader = self.client.create_token("page", "read", expires_in=timedelta(hours=1))
        writer = self.client.create_token("laptop")
        assert reader.expires_at is not None
        self.assertLess(abs(reader.expires_at - reader.created_at - timedelta(hours=1)), timedelta(seconds=1))
        self.assertEqual((writer.scope, writer.expires_at), ("submit", None))
        known = {token.name: token for token in self.client.tokens()}
        self.assertTrue({"page", "laptop"} <= set(known))
        self.assertIsNone(known["page"].token)
        self.assertEqual(self.network(reader).session().scope, "read")
        self.assertEqual(list(self.network(reader).jobs()), [])
        with self.assertRaises(rota.Forbidden):
            self.network(reader).submit(["true"])
        self.assertTrue(self.network(writer).wait(self.network(writer).submit(["true"])).is_done)
        with self.assertRaises(rota.Forbidden):
            self.network(writer).drain()
        self.client.revoke_token(writer)
        with self.assertRaises(rota.Unauthorized):
            self.network(writer).gpus()
        with self.assertRaises(rota.NotFound):
            self.client.revoke_token(4711)

    def test_the_asyncio_twins(self) -> None:
        async def work() -> None:
            client = rota.AsyncClient(self.daemon.state)
            self.assertEqual((await client.session()).scope, "admin")
            token = await client.create_token("twin", "read")
            self.assertIn(token.id, [one.id for one in await client.tokens()])
            await client.revoke_token(token)
            job = await client.submit(["true"], hold=True, project="twin")
            self.assertEqual((await client.set_priority(job, 7)).priority, 7)
            await client.release(job)
            await client.wait(job)
            self.assertEqual((await client.job_events(job))[0].kind, "submitted")
            self.assertEqual((await client.samples(job)).job, job.id)
            self.assertEqual([bar.job for bar in (await client.timeline()).bars], [job.id])
            self.assertEqual((await client.usage()).projects[0].name, "twin")
            self.assertEqual(len((await client.heatmap(buckets=4)).gpus[0].used), 4)
            self.assertTrue(await client.policies())
            simulation = await client.simulate(["fcfs"])
            over = lambda: self.client.simulation(simulation).is_over  # noqa: E731
            await asyncio.get_running_loop().run_in_executor(None, until, "it is over", over)
            self.assertTrue((await client.simulation(simulation)).is_over)
            self.assertIn("<svg", await client.simulation_gantt(simulation))
            await client.cancel_simulation(simulation)

        asyncio.run(work())


class Tls(DaemonTest):
    def setUp(self) -> None:
        super().setUp()
        self.daemon.kill()
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        openssl = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {key} -out {certificate}"
        whose = "-days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
        subprocess.run(f"{openssl} {whose}".split(), check=True, capture_output=True)
        self.daemon.add("--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key))
        self.daemon.up()
        self.url = (self.daemon.state / "http").read_text().strip()
        self.token = (self.daemon.state / "token").read_text().strip()
        self.trusted = ssl.create_default_context(cafile=str(certificate))

    def test_a_certificate_is_checked(self) -> None:
        self.assertTrue(self.url.startswith("https://"), self.url)
        client = rota.Client(url=self.url, token=self.token, tls=self.trusted)
        job = client.submit("echo over tls")
        self.assertEqual(list(client.logs(job, follow=True)), ["over tls\n"])
        with self.assertRaisesRegex(rota.Unreachable, "(?i)certificate"):
            rota.Client(url=self.url, token=self.token).status()

        async def twin() -> None:
            other = rota.AsyncClient(url=self.url, token=self.token, tls=self.trusted)
            self.assertEqual([line async for line in other.logs(job)], ["over tls\n"])
            async for event in other.events(0):
                self.assertEqual(event.job, job.id)
                break
            with self.assertRaises(rota.Unreachable):
                await rota.AsyncClient(url=self.url, token=self.token).status()

        asyncio.run(twin())
