"""What can be asked of the daemon, each as the steps it takes. Nothing here touches a socket: see `Steps`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from ._decoding import Duration, Moment, decode, rfc3339, seconds
from ._errors import ABSENT, ClaimEnded, RotaError, TimedOut, Unintelligible, problem_of
from ._exchange import Request, Response
from ._jobs import OVER, Event, Explanation, Job, JobRef, JobRefs, Predictions, Samples, State, number
from ._machine import Gpu, Scope, Session, Status, Token
from ._past import Heatmap, Simulation, Timeline, Usage
from ._patience import Deadline, Patience, Steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._endpoint import Endpoint

T = TypeVar("T")

Query = list[tuple[str, str]]

LONG_POLL_SECONDS = 50.0
"""Below the longest that the daemon keeps a caller waiting."""

MOMENT_SECONDS = 0.5


def ask(method: str, path: str, query: Sequence[tuple[str, str]] = (), body: Optional[Any] = None) -> Steps[Response]:
    """One request; a refusal is raised."""
    return send(Request(method, path, query, body))


def send(request: Request) -> Steps[Response]:
    answer = yield request
    if not answer.is_accepted:
        raise problem_of(answer)
    return answer


def fetch(kind: type[T], path: str, query: Sequence[tuple[str, str]] = ()) -> Steps[T]:
    answer = yield from ask("GET", path, query)
    return decode(kind, answer.json())


def tell(method: str, path: str, body: Optional[Any] = None) -> Steps[None]:
    """Something to be done whose answer says nothing more."""
    yield from ask(method, path, body=body)


def submit(body: dict[str, Any]) -> Steps[list[int]]:
    answer = yield from ask("POST", "/api/v1/jobs", body=body)
    return _ids(answer)


def submit_one(body: dict[str, Any]) -> Steps[Job]:
    ids = yield from submit(body)
    return (yield from job(ids[0]))


def _ids(answer: Response) -> list[int]:
    told = answer.json()
    ids = decode(list[int], told.get("ids") if isinstance(told, dict) else told)
    if not ids:
        raise Unintelligible("the daemon gave no number")
    return ids


def _time(moment: Optional[Moment]) -> Optional[str]:
    return None if moment is None else rfc3339(moment)


def job(of: JobRef) -> Steps[Job]:
    return fetch(Job, f"/api/v1/jobs/{number(of)}")


def act(of: JobRef, verb: str) -> Steps[int]:
    """The number of the job; of the new one for `retry`."""
    answer = yield from ask("POST", f"/api/v1/jobs/{number(of)}/{verb}")
    return _ids(answer)[0]


def retry(of: JobRef) -> Steps[Job]:
    again = yield from act(of, "retry")
    return (yield from job(again))


def set_priority(of: JobRef, priority: int) -> Steps[Job]:
    answer = yield from ask("PATCH", f"/api/v1/jobs/{number(of)}", body={"priority": priority})
    return decode(Job, answer.json())


def explain(of: JobRef) -> Steps[Explanation]:
    return fetch(Explanation, f"/api/v1/jobs/{number(of)}/explain")


def predictions() -> Steps[Predictions]:
    return fetch(Predictions, "/api/v1/predictions")


def job_events(of: JobRef) -> Steps[list[Event]]:
    return fetch(list[Event], f"/api/v1/jobs/{number(of)}/events")


def samples(of: JobRef) -> Steps[Samples]:
    return fetch(Samples, f"/api/v1/jobs/{number(of)}/samples")


class Listing:
    """A list of jobs, page by page."""

    def __init__(
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
    ) -> None:
        query: Query = []
        if finished:
            query.append(("all", "true"))
        filters = {
            "state": state,
            "user": user,
            "project": project,
            "q": search,
            "since": _time(since),
            "until": _time(until),
        }
        query.extend((name, value) for name, value in filters.items() if value is not None)
        if limit is not None:
            query.append(("limit", str(min(limit, 10_000))))
        self._query: Optional[Query] = query
        self._left = limit
        # Pages of the past go back in time, and each is in order of arrival: read backwards, the whole is newest first.
        self._is_past = (finished and state is None) or since is not None or until is not None or state in OVER

    @property
    def is_complete(self) -> bool:
        return self._query is None or self._left == 0

    def page(self) -> Steps[list[Job]]:
        """The next page."""
        answer = yield from ask("GET", "/api/v1/jobs", self._query or ())
        jobs = decode(list[Job], answer.json())
        if self._is_past:
            jobs.reverse()
        following = answer.next_page()
        # A page that leads to itself would lead there for ever.
        self._query = None if following == self._query else following
        if self._left is not None:
            jobs = jobs[: self._left]
            self._left -= len(jobs)
        return jobs


def wait(of: JobRef, timeout: Optional[Duration], patience: Patience) -> Steps[Job]:
    ended = yield from wait_all([of], timeout, patience)
    return ended[0]


def wait_all(of: JobRefs, timeout: Optional[Duration], patience: Patience) -> Steps[list[Job]]:
    deadline = Deadline(None if timeout is None else seconds(timeout))
    seen: list[Job] = []
    for one in of:
        seen.append((yield from _until_over(number(one), deadline, patience)))
    late = [str(one.id) for one in seen if not one.is_over]
    if late:
        raise TimedOut(f"not over in time: {', '.join(late)}", seen)
    return seen


def _until_over(job_id: int, deadline: Deadline, patience: Patience) -> Steps[Job]:
    """The job once it is over, or as it is at the deadline."""
    # A daemon that was never there is not waited for.
    seen = yield from job(job_id)
    while not seen.is_over and not deadline.is_past:
        seen = (yield from _poll(job_id, deadline.left(LONG_POLL_SECONDS), patience)) or seen
    return seen


def _poll(job_id: int, longest_seconds: float, patience: Patience, *more: tuple[str, str]) -> Steps[Optional[Job]]:
    """The job when it has changed as was asked for, or after a while; None if the daemon was not there."""
    query = [("timeout", f"{longest_seconds:.3f}"), *more]
    try:
        seen = yield from fetch(Job, f"/api/v1/jobs/{job_id}/wait", query)
    except ABSENT as error:
        yield from patience.missed(error)
        return None
    patience.met()
    return seen


def claim(
    body: dict[str, Any], timeout: Optional[Duration], patience: Patience, waits: Optional[Callable[[Job], None]] = None
) -> Steps[Job]:
    """The claim once it is granted. Where that takes longer than a moment, `waits` is told."""
    deadline = Deadline(None if timeout is None else seconds(timeout))
    answer = yield from send(Request("POST", "/api/v1/claims", body=body, is_whole=True))
    job_id = _ids(answer)[0]
    longest = MOMENT_SECONDS
    try:
        while True:
            seen = yield from _poll(job_id, deadline.left(longest), patience, ("started", "true"))
            if seen is not None and seen.state == "running":
                return seen
            if seen is not None and seen.is_over:
                raise ClaimEnded(f"claim {job_id} is {seen.state}: {seen.reason}")
            if deadline.is_past:
                why = f": {seen.reason}" if seen is not None and seen.reason else ""
                raise TimedOut(f"no GPU was to be had in time{why}", [seen] if seen is not None else [])
            if seen is not None and waits is not None and longest == MOMENT_SECONDS:
                waits(seen)
            longest = LONG_POLL_SECONDS
    except GeneratorExit:
        # The event loop is gone, and nothing can be asked any more: the end of the process gives it back.
        raise
    except BaseException:
        # It must not be granted to nobody later.
        yield from give_back(job_id)
        raise


def give_back(job_id: int) -> Steps[None]:
    """Ends a claim; one that is over already, or whose daemon is away, ends with the process at the latest."""
    try:
        yield from act(job_id, "cancel")
    except RotaError:
        return


def claim_body(
    endpoint: Endpoint, gpus: int, gpu_ids: Iterable[int], pid: Optional[int], name: Optional[str]
) -> dict[str, Any]:
    if endpoint.socket is None:
        raise ValueError("GPUs are claimed over the daemon's socket: over the network nobody can be tied to a process")
    # As many as are asked for, of those that are named: that names them all, too, if it is all of them.
    holder = os.getpid() if pid is None else pid
    return {"gpus": gpus, "from": list(gpu_ids), "mode": "schedule", "pid": holder, "name": name}


def gpus() -> Steps[list[Gpu]]:
    return fetch(list[Gpu], "/api/v1/gpus")


def status() -> Steps[Status]:
    return fetch(Status, "/api/v1/status")


def session() -> Steps[Session]:
    return fetch(Session, "/api/v1/session")


def history(since: Optional[Moment]) -> Steps[dict[str, Any]]:
    query = [] if since is None else [("since", rfc3339(since))]
    answer = yield from ask("GET", "/api/v1/history", query)
    told = answer.json()
    if not isinstance(told, dict):
        raise Unintelligible("the daemon's history is not one document")
    return told


def policies() -> Steps[list[Any]]:
    return fetch(list[Any], "/api/v1/policies")


def _span(since: Optional[Moment], until: Optional[Moment]) -> Query:
    ends = {"from": _time(since), "to": _time(until)}
    return [(name, time) for name, time in ends.items() if time is not None]


def usage(since: Optional[Moment], until: Optional[Moment]) -> Steps[Usage]:
    return fetch(Usage, "/api/v1/usage", _span(since, until))


def timeline(since: Optional[Moment], until: Optional[Moment]) -> Steps[Timeline]:
    return fetch(Timeline, "/api/v1/timeline", _span(since, until))


def heatmap(since: Optional[Moment], until: Optional[Moment], buckets: int) -> Steps[Heatmap]:
    return fetch(Heatmap, "/api/v1/heatmap", [*_span(since, until), ("buckets", str(buckets))])


def set_policy(policy: str) -> Steps[None]:
    return tell("PUT", "/api/v1/policy", {"policy": policy})


def drain(gpus: Iterable[int]) -> Steps[None]:
    return tell("POST", "/api/v1/drain", {"gpus": list(gpus)})


def resume(gpus: Iterable[int]) -> Steps[None]:
    return tell("POST", "/api/v1/resume", {"gpus": list(gpus)})


def tokens() -> Steps[list[Token]]:
    return fetch(list[Token], "/api/v1/tokens")


def create_token(name: str, scope: Scope, user: Optional[str], expires_in: Optional[Duration]) -> Steps[Token]:
    body: dict[str, Any] = {"name": name, "scope": scope}
    if user is not None:
        body["user"] = user
    if expires_in is not None:
        body["expires_in_seconds"] = int(seconds(expires_in))
    answer = yield from ask("POST", "/api/v1/tokens", body=body)
    return decode(Token, answer.json())


def revoke_token(token: Union[int, Token]) -> Steps[None]:
    return tell("DELETE", f"/api/v1/tokens/{token.id if isinstance(token, Token) else token}")


def simulate(
    policies: Iterable[str],
    trace: Optional[str],
    since: Optional[Moment],
    trace_format: Optional[str],
    cluster: Optional[str],
    seed: Optional[int],
) -> Steps[Simulation]:
    body: dict[str, Any] = {"source": "history" if trace is None else "trace", "policies": list(policies)}
    told = {"text": trace, "since": _time(since), "format": trace_format, "cluster": cluster, "seed": seed}
    body.update((name, value) for name, value in told.items() if value is not None)
    answer = yield from ask("POST", "/api/v1/simulations", body=body)
    started = answer.json()
    return (yield from simulation(started["id"] if isinstance(started, dict) else 0))


def simulation(of: Union[int, Simulation]) -> Steps[Simulation]:
    return fetch(Simulation, f"/api/v1/simulations/{_simulation_number(of)}")


def simulation_gantt(of: Union[int, Simulation], index: int) -> Steps[str]:
    answer = yield from ask("GET", f"/api/v1/simulations/{_simulation_number(of)}/gantt/{index}")
    return answer.body.decode()


def cancel_simulation(of: Union[int, Simulation]) -> Steps[None]:
    return tell("DELETE", f"/api/v1/simulations/{_simulation_number(of)}")


def _simulation_number(of: Union[int, Simulation]) -> int:
    return of.id if isinstance(of, Simulation) else of
