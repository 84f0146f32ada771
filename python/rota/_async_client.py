"""The client for asyncio: the same steps, carried out on the event loop."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, overload

from . import _operations as operations
from . import _streams as streams
from ._async_connection import AsyncConnection
from ._claim import Grant
from ._client import _NOTHING_ASKED, ABSENCE_SECONDS_MAX, Client
from ._decoding import Duration, Moment, seconds
from ._endpoint import Endpoint, find
from ._errors import ABSENT, RotaError, problem_of
from ._exchange import Pause, Request, Response
from ._jobs import Event, Explanation, Job, JobRef, JobRefs, Predictions, Samples, State
from ._machine import Gpu, Scope, Session, Status, Token
from ._past import Heatmap, Simulation, Timeline, Usage
from ._patience import Patience, Steps
from ._submission import Command, submission

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._submission import JobOptions

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


def _as(like: Callable[..., object]) -> Callable[[F], F]:
    """Says of a method what is said of its blocking twin."""

    def document(method: F) -> F:
        method.__doc__ = like.__doc__
        return method

    return document


class AsyncClaim(Grant):
    """GPUs that this process has until `release`, the end of the `async with` block, or its own end."""

    def __init__(self, granted: Job, give_back: Callable[[], Awaitable[None]]) -> None:
        super().__init__(granted.id, granted.gpu_indices or (), granted.gpu_uuids or ())
        self._give_back = give_back
        self._is_held = True

    async def release(self) -> None:
        """Gives the GPUs back. Doing so again does nothing."""
        if self._is_held:
            self._is_held = False
            await self._give_back()


class _Claiming:
    """A claim that is still to be made: by `await`, or by `async with`, which gives it back at its end."""

    def __init__(self, ask: Callable[[], Generator[Any, None, AsyncClaim]]) -> None:
        self._ask = ask
        self._claim: Optional[AsyncClaim] = None

    def __await__(self) -> Generator[Any, None, AsyncClaim]:
        return self._ask()

    async def __aenter__(self) -> AsyncClaim:
        self._claim = await self
        return self._claim

    async def __aexit__(self, *_: object) -> None:
        if self._claim is not None:
            await self._claim.release()


class AsyncClient:
    """Speaks to a daemon of Rota on the event loop of asyncio.

        client = rota.AsyncClient()
        job = await client.submit(["python", "train.py"], gpus=2)
        async for line in client.logs(job, follow=True):
            print(line, end="")
        (await client.wait(job)).check()

    Its methods are those of `Client`, with the same parameters: `await` those that give an answer, `async for` those that
    give one thing after another, `async with` a claim. A task that is cancelled while it waits for a claim gives it up.
    """

    def __init__(
        self,
        state: Union[str, os.PathLike[str], None] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        absence: Duration = ABSENCE_SECONDS_MAX,
    ) -> None:
        self.endpoint: Endpoint = find(state, url, token, tls)
        self._absence_seconds = seconds(absence)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.endpoint.socket or f'{self.endpoint.host}:{self.endpoint.port}'}>"

    # Jobs

    @_as(Client.submit)
    async def submit(self, command: Command, gpus: int = 1, **options: Unpack[JobOptions]) -> Job:
        return await self._run(operations.submit_one(submission(command, gpus, options)))

    @_as(Client.sweep)
    async def sweep(
        self,
        command: Command,
        gpus: int = 1,
        *,
        array: Iterable[int] = (),
        params: Optional[Mapping[str, Iterable[object]]] = None,
        **options: Unpack[JobOptions],
    ) -> list[int]:
        return await self._run(operations.submit(submission(command, gpus, options, array, params)))

    @_as(Client.job)
    async def job(self, job: JobRef) -> Job:
        return await self._run(operations.job(job))

    @_as(Client.jobs)
    async def jobs(
        self,
        *,
        state: Optional[State] = None,
        user: Optional[str] = None,
        project: Optional[str] = None,
        search: Optional[str] = None,
        since: Optional[Moment] = None,
        until: Optional[Moment] = None,
        finished: bool = False,
        limit: Optional[int] = None,
    ) -> AsyncIterator[Job]:
        listing = operations.Listing(
            state=state, user=user, project=project, search=search, since=since, until=until, finished=finished, limit=limit
        )
        while not listing.is_complete:
            for job in await self._run(listing.page()):
                yield job

    @overload
    async def wait(self, jobs: JobRef, timeout: Optional[Duration] = None) -> Job: ...
    @overload
    async def wait(self, jobs: JobRefs, timeout: Optional[Duration] = None) -> list[Job]: ...

    @_as(Client.wait)
    async def wait(self, jobs: Union[JobRef, JobRefs], timeout: Optional[Duration] = None) -> Union[Job, list[Job]]:
        if isinstance(jobs, (int, Job)):
            return await self._run(operations.wait(jobs, timeout, self._patience()))
        return await self._run(operations.wait_all(jobs, timeout, self._patience()))

    @_as(Client.cancel)
    async def cancel(self, job: JobRef) -> None:
        await self._run(operations.act(job, "cancel"))

    @_as(Client.hold)
    async def hold(self, job: JobRef) -> None:
        await self._run(operations.act(job, "hold"))

    @_as(Client.release)
    async def release(self, job: JobRef) -> None:
        await self._run(operations.act(job, "release"))

    @_as(Client.retry)
    async def retry(self, job: JobRef) -> Job:
        return await self._run(operations.retry(job))

    @_as(Client.set_priority)
    async def set_priority(self, job: JobRef, priority: int) -> Job:
        return await self._run(operations.set_priority(job, priority))

    @_as(Client.explain)
    async def explain(self, job: JobRef) -> Explanation:
        return await self._run(operations.explain(job))

    @_as(Client.predictions)
    async def predictions(self) -> Predictions:
        return await self._run(operations.predictions())

    @_as(Client.job_events)
    async def job_events(self, job: JobRef) -> list[Event]:
        return await self._run(operations.job_events(job))

    @_as(Client.samples)
    async def samples(self, job: JobRef) -> Samples:
        return await self._run(operations.samples(job))

    # What goes on

    @_as(Client.logs)
    def logs(
        self, job: JobRef, *, follow: bool = False, tail: Optional[int] = None, attempt: Optional[int] = None
    ) -> AsyncIterator[str]:
        pieces = streams.LogPieces(job, tail, attempt, self._patience(), follow=follow)
        return self._stream(streams.LogLines(pieces))

    @_as(Client.log_bytes)
    def log_bytes(
        self, job: JobRef, *, follow: bool = False, tail: Optional[int] = None, attempt: Optional[int] = None
    ) -> AsyncIterator[bytes]:
        return self._stream(streams.LogPieces(job, tail, attempt, self._patience(), follow=follow))

    @_as(Client.events)
    def events(self, last_event_id: Optional[int] = None) -> AsyncIterator[Event]:
        return self._stream(streams.Events(last_event_id, self._patience()))

    # GPUs and the daemon

    def claim(
        self,
        gpus: int = 1,
        *,
        gpu_ids: Iterable[int] = (),
        timeout: Optional[Duration] = None,
        name: Optional[str] = None,
        pid: Optional[int] = None,
    ) -> _Claiming:
        """Waits for GPUs for this process, or for another of the same user.

            async with client.claim(gpus=2) as claim:
                ...
            claim = await client.claim(gpus=2)      # until `await claim.release()`, or the end of the process

        For the parameters see `Client.claim`. The environment of this process is not touched.
        """

        async def ask() -> AsyncClaim:
            body = operations.claim_body(self.endpoint, gpus, gpu_ids, pid, name)
            granted = await self._run(operations.claim(body, timeout, self._patience()))
            return AsyncClaim(granted, lambda: self._run(operations.give_back(granted.id)))

        return _Claiming(lambda: ask().__await__())

    @_as(Client.gpus)
    async def gpus(self) -> list[Gpu]:
        return await self._run(operations.gpus())

    @_as(Client.status)
    async def status(self) -> Status:
        return await self._run(operations.status())

    @_as(Client.session)
    async def session(self) -> Session:
        return await self._run(operations.session())

    @_as(Client.drain)
    async def drain(self, gpus: Iterable[int] = ()) -> None:
        await self._run(operations.drain(gpus))

    @_as(Client.resume)
    async def resume(self, gpus: Iterable[int] = ()) -> None:
        await self._run(operations.resume(gpus))

    @_as(Client.policies)
    async def policies(self) -> list[Any]:
        return await self._run(operations.policies())

    @_as(Client.set_policy)
    async def set_policy(self, policy: str) -> None:
        await self._run(operations.set_policy(policy))

    @_as(Client.tokens)
    async def tokens(self) -> list[Token]:
        return await self._run(operations.tokens())

    @_as(Client.create_token)
    async def create_token(
        self, name: str, scope: Scope = "submit", *, user: Optional[str] = None, expires_in: Optional[Duration] = None
    ) -> Token:
        return await self._run(operations.create_token(name, scope, user, expires_in))

    @_as(Client.revoke_token)
    async def revoke_token(self, token: Union[int, Token]) -> None:
        await self._run(operations.revoke_token(token))

    # The past, and what would have been

    @_as(Client.usage)
    async def usage(self, since: Optional[Moment] = None, until: Optional[Moment] = None) -> Usage:
        return await self._run(operations.usage(since, until))

    @_as(Client.timeline)
    async def timeline(self, since: Optional[Moment] = None, until: Optional[Moment] = None) -> Timeline:
        return await self._run(operations.timeline(since, until))

    @_as(Client.heatmap)
    async def heatmap(self, since: Optional[Moment] = None, until: Optional[Moment] = None, buckets: int = 96) -> Heatmap:
        return await self._run(operations.heatmap(since, until, buckets))

    @_as(Client.history)
    async def history(self, since: Optional[Moment] = None) -> dict[str, Any]:
        return await self._run(operations.history(since))

    @_as(Client.simulate)
    async def simulate(
        self,
        policies: Iterable[str],
        *,
        trace: Optional[str] = None,
        since: Optional[Moment] = None,
        trace_format: Optional[str] = None,
        cluster: Optional[str] = None,
        seed: Optional[int] = None,
    ) -> Simulation:
        return await self._run(operations.simulate(policies, trace, since, trace_format, cluster, seed))

    @_as(Client.simulation)
    async def simulation(self, simulation: Union[int, Simulation]) -> Simulation:
        return await self._run(operations.simulation(simulation))

    @_as(Client.simulation_gantt)
    async def simulation_gantt(self, simulation: Union[int, Simulation], index: int = 0) -> str:
        return await self._run(operations.simulation_gantt(simulation, index))

    @_as(Client.cancel_simulation)
    async def cancel_simulation(self, simulation: Union[int, Simulation]) -> None:
        await self._run(operations.cancel_simulation(simulation))

    # Carrying out

    def _patience(self) -> Patience:
        return Patience(self._absence_seconds)

    async def _run(self, steps: Steps[T]) -> T:
        """Takes the steps, one after the other."""
        interrupted: Optional[BaseException] = None
        try:
            step = next(steps)
            while True:
                try:
                    if interrupted is not None:
                        error, interrupted = interrupted, None
                        raise error
                    if isinstance(step, Request) and step.is_whole:
                        answer, interrupted = await _to_its_end(self._take(step))
                    else:
                        answer = await self._take(step)
                except BaseException as error:  # noqa: BLE001 (what it means, the steps decide)
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _take(self, step: Union[Request, Pause]) -> Response:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return _NOTHING_ASKED
        async with AsyncConnection(self.endpoint, step) as connection:
            return await connection.response()

    async def _stream(self, stream: streams.Stream[T]) -> AsyncIterator[T]:
        goes_on = True
        while goes_on:
            lost: Optional[RotaError] = None
            try:
                async with AsyncConnection(self.endpoint, stream.request()) as connection:
                    if not 200 <= await connection.head() < 300:
                        raise problem_of(await connection.response())
                    stream.opened()
                    async for piece in connection.pieces():
                        for item in stream.feed(piece):
                            yield item
            except ABSENT as error:
                lost = error
            goes_on = await self._run(stream.goes_on(lost))
        for item in stream.rest():
            yield item


async def _to_its_end(work: Coroutine[Any, Any, T]) -> tuple[T, Optional[BaseException]]:
    """What comes of it, also if this task is cancelled meanwhile; and that it was."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task), None
    except asyncio.CancelledError as cancelled:
        await asyncio.wait({task})
        return task.result(), cancelled
