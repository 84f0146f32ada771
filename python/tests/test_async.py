"""The same on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import unittest
from typing import TYPE_CHECKING

import rota

from .daemon import DaemonTest, until, until_file

if TYPE_CHECKING:
    from collections.abc import Awaitable


class Async(DaemonTest):
    def setUp(self) -> None:
        super().setUp()
        self.other = rota.AsyncClient(self.daemon.state)

    def run_all(self, work: Awaitable[None]) -> None:
        async def all_of_it() -> None:
            await asyncio.wait_for(work, 60)

        asyncio.run(all_of_it())

    def test_a_job_from_submit_to_end(self) -> None:
        async def work() -> None:
            go = self.folder / "go"
            job = await self.other.submit(f"echo one; {until_file(go)}; printf 'two\\nthree'", name="async")
            lines = []
            async for line in self.other.logs(job, follow=True):
                lines.append(line)
                go.touch()
            self.assertEqual(lines, ["one\n", "two\n", "three"])
            self.assertTrue((await self.other.wait(job)).check().is_done)
            self.assertEqual((await self.other.job(job)).name, "async")
            self.assertEqual(b"".join([piece async for piece in self.other.log_bytes(job)]), b"one\ntwo\nthree")
            ids = await self.other.sweep(["false", "{x}"], gpus=0, params={"x": [1, 2]})
            self.assertEqual([ended.state for ended in await self.other.wait(ids, timeout=60)], ["failed", "failed"])
            again = await self.other.retry(ids[0])
            self.assertEqual([seen.id async for seen in self.other.jobs(finished=True, limit=2)], [again.id, ids[1]])
            await self.other.wait(again)

        self.run_all(work())

    def test_what_can_be_done_to_jobs_and_to_the_machine(self) -> None:
        async def work() -> None:
            job = await self.other.submit(["true"], hold=True)
            self.assertEqual((await self.other.explain(job)).blockers[0].kind, "hold")
            await self.other.release(job)
            await self.other.wait(job)
            job = await self.other.submit(["sleep", "1000"])
            await self.other.cancel(job)
            self.assertEqual((await self.other.wait(job)).state, "cancelled")
            with self.assertRaises(rota.Conflict):
                await self.other.hold(job)
            with self.assertRaises(rota.NotFound):
                await self.other.job(4711)
            with self.assertRaises(rota.BadInput):
                await self.other.submit(["true"], gpus=-1)
            with self.assertRaises(rota.BadInput) as caught:
                await self.other.submit(["true", "x" * (20 << 20)])
            self.assertEqual(caught.exception.status, 413)
            self.assertEqual(len(await self.other.gpus()), 2)
            await self.other.drain()
            self.assertTrue((await self.other.status()).draining)
            await self.other.resume()
            await self.other.set_policy("priority")
            self.assertEqual(len((await self.other.history())["jobs"]), 2)

        self.run_all(work())

    def test_many_wait_at_once(self) -> None:
        async def work() -> None:
            go = self.folder / "go"
            first = await self.other.submit(until_file(go), gpus=0)
            rest = await asyncio.gather(*(self.other.submit(["true"], gpus=0, after=first) for _ in range(20)))
            waits = [asyncio.ensure_future(self.other.wait(job)) for job in rest]
            await asyncio.sleep(0)
            go.touch()
            self.assertEqual({job.state for job in await asyncio.gather(*waits)}, {"done"})

        self.run_all(work())

    def test_events_and_waits_go_on_after_a_restart(self) -> None:
        async def work() -> None:
            go = self.folder / "go"
            job = await self.other.submit(f"echo one; {until_file(go)}; echo two")
            seen = []

            async def watch() -> None:
                async for event in self.other.events(0):
                    seen.append(event)
                    if event.kind == "finished":
                        return

            async def read() -> list[str]:
                return [line async for line in self.other.logs(job, follow=True)]

            async def first_line() -> None:
                async for _ in self.other.log_bytes(job, follow=True):
                    return

            watching, reading = asyncio.ensure_future(watch()), asyncio.ensure_future(read())
            waiting = asyncio.ensure_future(self.other.wait(job))
            await first_line()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self.daemon.kill)
            await loop.run_in_executor(None, self.daemon.up)
            go.touch()
            self.assertTrue((await waiting).is_done)
            await watching
            self.assertEqual(await reading, ["one\n", "two\n"])
            numbers = [event.seq for event in seen]
            self.assertEqual(numbers, sorted(set(numbers)))
            self.assertEqual((seen[0].kind, seen[-1].kind, seen[-1].job), ("submitted", "finished", job.id))

        self.run_all(work())

    def test_claims(self) -> None:
        async def work() -> None:
            async with self.other.claim(gpus=2, name="both") as claim:
                self.assertEqual((claim.indices, claim.device), ((0, 1), "cuda:0"))
                with self.assertRaises(rota.TimedOut):
                    await self.other.claim(timeout=0.1)
                waiting = asyncio.ensure_future(self.take())
                await self.count(2)
                waiting.cancel()
                await asyncio.wait({waiting}, timeout=60)
                self.assertTrue(waiting.cancelled())
                # A task that was cancelled has given up its place.
                await self.count(1)
            await self.count(0)
            kept = await self.other.claim()
            await self.count(1)
            await kept.release()
            await kept.release()
            await self.count(0)

        self.run_all(work())

    def test_a_claim_that_is_cancelled_at_whatever_moment_is_given_up(self) -> None:
        async def work() -> None:
            async with self.other.claim(gpus=2):
                for turns in range(0, 60, 2):
                    waiting = asyncio.ensure_future(self.take())
                    for _ in range(turns):
                        await asyncio.sleep(0.0001)
                    waiting.cancel()
                    await asyncio.wait({waiting}, timeout=60)
                    self.assertTrue(waiting.cancelled())
                await self.count(1)

        self.run_all(work())

    async def take(self) -> rota.AsyncClaim:
        return await self.other.claim()

    async def count(self, expected: int) -> None:
        def is_so() -> bool:
            return len([job for job in self.client.jobs() if job.claim]) == expected

        await asyncio.get_running_loop().run_in_executor(None, until, f"there are {expected} claims", is_so)


class Alike(unittest.TestCase):
    def test_both_clients_have_the_same_methods_with_the_same_parameters(self) -> None:
        for name, method in inspect.getmembers(rota.Client, inspect.isfunction):
            if name.startswith("_") and name != "__init__":
                continue
            twin = getattr(rota.AsyncClient, name)
            ours, theirs = inspect.signature(method), inspect.signature(twin)
            self.assertEqual(ours.parameters, theirs.parameters, name)
            self.assertTrue(name == "__init__" or twin.__doc__, name)
