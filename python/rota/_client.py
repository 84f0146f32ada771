"""The client that blocks."""

from __future__ import annotations

import functools
import os
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, overload

from . import _operations as operations
from . import _streams as streams
from ._claim import Claim
from ._connection import Connection
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

_NOTHING_ASKED = Response(200, {}, b"")

ABSENCE_SECONDS_MAX = 60.0


class Client:
    """Speaks to a daemon of Rota.

        client = rota.Client()                                          # this machine's, over its socket
        client = rota.Client("/tmp/q")                                  # the one with this state directory
        client = rota.Client(url="https://gpu1:8800", token="…")        # over the network

    On the socket, callers are known by their user; over the network by a token (`rota token create`). A client holds no
    connection: it may be used by several threads, and after a fork.

    Where a job is expected, its number will do. Refusals of the daemon are raised as subclasses of `Problem`.

    Parameters
    ----------
    state
        the daemon's state directory; by default `ROTA_STATE`, or what the command `rota` takes without `--state`
    url
        in place of it: where the daemon's API is on the network
    token
        with `url`: who asks
    tls
        with `https`: an `ssl.SSLContext`, for a certificate that this machine does not know
    absence
        seconds (or `timedelta`) for which a daemon that was there may be away, as in a restart, before `wait`, `claim`, `logs`
        and `events` give up
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

    def submit(self, command: Command, gpus: int = 1, **options: Unpack[JobOptions]) -> Job:
        """Gives a job to the queue, and returns it. Once this returns, the job is on the daemon's disk.

            job = client.submit(["python", "train.py", "--lr", "0.1"], gpus=2, time_limit=12 * 3600)
            job = client.submit("python prepare.py | gzip > data.gz", gpus=0)
            job = client.submit(["python", "small.py"], memory=8000, after=job, name="small")

        A list is a program and its arguments; a string is a line for `/bin/sh`. The job runs in the present directory with
        the environment of this process, unless `cwd` and `env` say otherwise. `help(rota.JobOptions)` lists all options.
        """
        return self._run(operations.submit_one(submission(command, gpus, options)))

    def sweep(
        self,
        command: Command,
        gpus: int = 1,
        *,
        array: Iterable[int] = (),
        params: Optional[Mapping[str, Iterable[object]]] = None,
        **options: Unpack[JobOptions],
    ) -> list[int]:
        """Gives a job to the queue for each index and each combination of values, and returns their numbers.

            ids = client.sweep(["python", "train.py", "--lr", "{lr}"], params={"lr": [0.1, 0.01], "seed": range(3)})
            ids = client.sweep(["python", "part.py", "{index}"], array=range(100))

        `{index}` and `{NAME}` are replaced in the command; the job also finds them as `ROTA_ARRAY_INDEX` and
        `ROTA_PARAM_NAME`.
        """
        return self._run(operations.submit(submission(command, gpus, options, array, params)))

    def job(self, job: JobRef) -> Job:
        """A job as it is now."""
        return self._run(operations.job(job))

    def jobs(
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
    ) -> Iterator[Job]:
        """Jobs that wait or run, in order of arrival; with any of those that are over, the newest first.

        Parameters
        ----------
        state
            only in this state
        user
            only of this user
        project
            only of this project
        search
            only with this text in name or command
        since, until
            only those that ended in this time
        finished
            those that are over, too
        limit
            no more than this; they are fetched page by page, as they are looked at
        """
        listing = operations.Listing(
            state=state, user=user, project=project, search=search, since=since, until=until, finished=finished, limit=limit
        )
        while not listing.is_complete:
            yield from self._run(listing.page())

    @overload
    def wait(self, jobs: JobRef, timeout: Optional[Duration] = None) -> Job: ...
    @overload
    def wait(self, jobs: JobRefs, timeout: Optional[Duration] = None) -> list[Job]: ...

    def wait(self, jobs: Union[JobRef, JobRefs], timeout: Optional[Duration] = None) -> Union[Job, list[Job]]:
        """Waits until a job is over, or all of several, and returns it or them as they ended.

            client.wait(job).check()                    # raises `JobFailed` unless it ended with exit code 0
            ended = client.wait(ids, timeout=3600)      # raises `TimedOut` after an hour

        How a job ended does not matter here. A restart of the daemon meanwhile is waited for.
        """
        if isinstance(jobs, (int, Job)):
            return self._run(operations.wait(jobs, timeout, self._patience()))
        return self._run(operations.wait_all(jobs, timeout, self._patience()))

    def cancel(self, job: JobRef) -> None:
        """Takes a job out of the queue, or ends it: TERM, its grace time, KILL."""
        self._run(operations.act(job, "cancel"))

    def hold(self, job: JobRef) -> None:
        """Keeps a waiting job from being started."""
        self._run(operations.act(job, "hold"))

    def release(self, job: JobRef) -> None:
        """Lets a held job wait for its turn again."""
        self._run(operations.act(job, "release"))

    def retry(self, job: JobRef) -> Job:
        """The same again, as a new job, which is returned."""
        return self._run(operations.retry(job))

    def set_priority(self, job: JobRef, priority: int) -> Job:
        """Another priority for a job that has not started yet."""
        return self._run(operations.set_priority(job, priority))

    def explain(self, job: JobRef) -> Explanation:
        """Why a job waits, with numbers."""
        return self._run(operations.explain(job))

    def predictions(self) -> Predictions:
        """When the waiting jobs are expected to start and to end."""
        return self._run(operations.predictions())

    def job_events(self, job: JobRef) -> list[Event]:
        """What happened to a job, in order."""
        return self._run(operations.job_events(job))

    def samples(self, job: JobRef) -> Samples:
        """What a job took of its GPUs over time: memory, utilisation, power."""
        return self._run(operations.samples(job))

    # What goes on

    def logs(
        self, job: JobRef, *, follow: bool = False, tail: Optional[int] = None, attempt: Optional[int] = None
    ) -> Iterator[str]:
        r"""What a job wrote, line by line, each with its line end.

            for line in client.logs(job, follow=True):
                print(line, end="")

        Parameters
        ----------
        follow
            go on until the job is over, also through a restart of the daemon
        tail
            only so many of the last lines; one who follows these is not brought through a restart
        attempt
            of this attempt, counted from 1; of the last if not given

        Bytes that are not UTF-8 are replaced; `log_bytes` has them as they are, and does not wait for ends of lines.
        """
        pieces = streams.LogPieces(job, tail, attempt, self._patience(), follow=follow)
        return self._stream(streams.LogLines(pieces))

    def log_bytes(
        self, job: JobRef, *, follow: bool = False, tail: Optional[int] = None, attempt: Optional[int] = None
    ) -> Iterator[bytes]:
        """What a job wrote, byte for byte, in pieces as they come; for the parameters see `logs`."""
        return self._stream(streams.LogPieces(job, tail, attempt, self._patience(), follow=follow))

    def events(self, last_event_id: Optional[int] = None) -> Iterator[Event]:
        """What happens, as it happens, for ever.

            for event in client.events():
                print(event.at, event.kind, event.job)

        With `last_event_id`, from the one after that (its `seq`) on: 0 begins at the beginning. A connection that was lost
        is made again, and goes on after the last event seen, so that nothing is left out that happened meanwhile.
        """
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
    ) -> Claim:
        """Waits for GPUs for this process, or for another of the same user, and returns what was granted.

            with client.claim(gpus=2) as claim:
                subprocess.run(["python", "train.py"], env={**os.environ, **claim.environment})

        The GPUs are given back at the end of the block, with `release`, or when the process ends. Unlike `rota.claim`, this
        does not touch the environment of this process.

        Parameters
        ----------
        gpus
            how many
        gpu_ids
            only of these, by index; all if empty
        timeout
            seconds (or `timedelta`) to wait at most; then `TimedOut` is raised
        name
            what the queue shows
        pid
            the process whose life the grant is tied to; this one if not given
        """
        return self._claim(gpus, gpu_ids, timeout=timeout, name=name, pid=pid)

    def _claim(
        self,
        gpus: int,
        gpu_ids: Iterable[int],
        *,
        timeout: Optional[Duration] = None,
        name: Optional[str] = None,
        pid: Optional[int] = None,
        waits: Optional[Callable[[Job], None]] = None,
    ) -> Claim:
        body = operations.claim_body(self.endpoint, gpus, gpu_ids, pid, name)
        granted = self._run(operations.claim(body, timeout, self._patience(), waits))
        return Claim(
            granted.id,
            granted.gpu_indices or (),
            granted.gpu_uuids or (),
            lambda: self._run(operations.give_back(granted.id)),
        )

    def gpus(self) -> list[Gpu]:
        """The GPUs, and who is on them."""
        return self._run(operations.gpus())

    def status(self) -> Status:
        """The whole state at a glance."""
        return self._run(operations.status())

    def session(self) -> Session:
        """Who the daemon takes this client for, and what it may do."""
        return self._run(operations.session())

    def drain(self, gpus: Iterable[int] = ()) -> None:
        """Starts nothing more on these GPUs, or at all if none is named; what runs goes on."""
        self._run(operations.drain(gpus))

    def resume(self, gpus: Iterable[int] = ()) -> None:
        """Takes these GPUs into use again, or everything."""
        self._run(operations.resume(gpus))

    def policies(self) -> list[Any]:
        """The policies there are, as `rota policies --json` lists them."""
        return self._run(operations.policies())

    def set_policy(self, policy: str) -> None:
        """Another policy, at once: `name:key=value,…`."""
        self._run(operations.set_policy(policy))

    def tokens(self) -> list[Token]:
        """The tokens there are, without their text."""
        return self._run(operations.tokens())

    def create_token(
        self, name: str, scope: Scope = "submit", *, user: Optional[str] = None, expires_in: Optional[Duration] = None
    ) -> Token:
        """A new token. Its text, in `token`, is never shown again."""
        return self._run(operations.create_token(name, scope, user, expires_in))

    def revoke_token(self, token: Union[int, Token]) -> None:
        """Makes a token worthless."""
        self._run(operations.revoke_token(token))

    # The past, and what would have been

    def usage(self, since: Optional[Moment] = None, until: Optional[Moment] = None) -> Usage:
        """Who used how much: GPU hours, energy, cost, and what was left idle; of the last day if nothing is said.

        for use in client.usage(since=timedelta(days=7)).users:
            print(use.name, use.gpu_hours)
        """
        return self._run(operations.usage(since, until))

    def timeline(self, since: Optional[Moment] = None, until: Optional[Moment] = None) -> Timeline:
        """Which job was on which GPU, and when; of the last day if nothing is said."""
        return self._run(operations.timeline(since, until))

    def heatmap(self, since: Optional[Moment] = None, until: Optional[Moment] = None, buckets: int = 96) -> Heatmap:
        """How much of each GPU was given out, and how much of that was used, in so many buckets of time."""
        return self._run(operations.heatmap(since, until, buckets))

    def history(self, since: Optional[Moment] = None) -> dict[str, Any]:
        """All that was recorded, as one JSON document: jobs with their runs, and samples of the GPUs."""
        return self._run(operations.history(since))

    def simulate(
        self,
        policies: Iterable[str],
        *,
        trace: Optional[str] = None,
        since: Optional[Moment] = None,
        trace_format: Optional[str] = None,
        cluster: Optional[str] = None,
        seed: Optional[int] = None,
    ) -> Simulation:
        """Begins to simulate what this queue recorded, or a trace, under some policies; `simulation` tells how far it is.

        Parameters
        ----------
        policies
            1 to 8 of them, as `rota sim --policy` takes them
        trace
            the text of a trace; without it, what was recorded
        since
            of what was recorded, only jobs that ended since then
        trace_format
            of the trace, where it cannot be told from the text
        cluster
            as `a100:2,t4:2`; by default this machine's GPUs
        seed
            of everything random
        """
        return self._run(operations.simulate(policies, trace, since, trace_format, cluster, seed))

    def simulation(self, simulation: Union[int, Simulation]) -> Simulation:
        """A simulation as it is now."""
        return self._run(operations.simulation(simulation))

    def simulation_gantt(self, simulation: Union[int, Simulation], index: int = 0) -> str:
        """The Gantt chart of a simulation under one of its policies, counted from 0, as SVG."""
        return self._run(operations.simulation_gantt(simulation, index))

    def cancel_simulation(self, simulation: Union[int, Simulation]) -> None:
        """Ends a simulation."""
        self._run(operations.cancel_simulation(simulation))

    # Carrying out

    def _patience(self) -> Patience:
        return Patience(self._absence_seconds)

    def _run(self, steps: Steps[T]) -> T:
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
                        answer, interrupted = _to_its_end(functools.partial(self._take, step))
                    else:
                        answer = self._take(step)
                except BaseException as error:  # noqa: BLE001 (what it means, the steps decide)
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _take(self, step: Union[Request, Pause]) -> Response:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return _NOTHING_ASKED
        with Connection(self.endpoint, step) as connection:
            return connection.response()

    def _stream(self, stream: streams.Stream[T]) -> Iterator[T]:
        goes_on = True
        while goes_on:
            lost: Optional[RotaError] = None
            try:
                with Connection(self.endpoint, stream.request()) as connection:
                    if not 200 <= connection.head() < 300:
                        raise problem_of(connection.response())
                    stream.opened()
                    for piece in connection.pieces():
                        yield from stream.feed(piece)
            except ABSENT as error:
                lost = error
            goes_on = self._run(stream.goes_on(lost))
        yield from stream.rest()


def _to_its_end(work: Callable[[], T]) -> tuple[T, Optional[BaseException]]:
    """What the work returns, also if this thread is interrupted meanwhile, and the interrupt. Signals reach the main thread
    alone: the work goes on in another."""
    results: list[T] = []
    errors: list[BaseException] = []
    is_over = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
            errors.append(error)
        finally:
            is_over.set()

    interrupted: Optional[BaseException] = None
    threading.Thread(target=run, daemon=True).start()
    while not is_over.is_set():
        try:
            is_over.wait()
        except BaseException as error:  # noqa: BLE001 (an interrupt, raised as soon as the work is over)
            interrupted = error
    if errors:
        raise errors[0]
    return results[0], interrupted
