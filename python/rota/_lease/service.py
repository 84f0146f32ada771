"""The daemon's lease service: JSON over HTTP on a loopback port, with the token of this run.

Every request has a connection of its own: there are a few a minute, and none survives a restart of the daemon anyway.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

from .._errors import Problem, Unintelligible, Unreachable, problem_of
from .._exchange import Response

ANSWER_SECONDS_MAX = 30.0
"""An answer that takes longer is given up. The daemon writes to its disk before it answers some requests."""

SILENCE_SECONDS_MAX = 40.0
"""The stream of notices has a sign of life every 15 seconds."""


@dataclass(frozen=True)
class Grant:
    """The lease as it was granted."""

    max_seconds: float
    steps_done: int
    resume_from: Optional[str]


@dataclass(frozen=True)
class Renewal:
    """The lease as it is now."""

    is_stop: bool
    max_seconds: float
    last_step: Optional[int]
    grace_seconds: Optional[float]
    """How long the job may take to leave, once it is to stop."""


@dataclass(frozen=True)
class Extras:
    """The GPUs of a job beyond those it asked for, and its time."""

    uuids: tuple[str, ...]
    """GPUs that it may use now; those it was asked to give back are not among them."""
    seconds_left: float
    """What is left of the job's budget."""


class Service:
    """The lease service as one rank of a job sees it."""

    def __init__(self, address: str, token: str, lease: int, rank: int, world: int) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._token = token
        self.lease, self.rank, self.world = lease, rank, world

    def grant(self) -> Grant:
        """Asks for the lease. The answer comes when the processes of the run before are gone."""
        answer = self._post("grant", seconds_max=None, world=self.world)
        with _understood("grant"):
            return Grant(float(answer["max_seconds"]), int(answer["steps_done"]), answer["resume_from"])

    def renew(self, steps: int, seconds: float) -> Renewal:
        """Asks whether the job may go on."""
        answer = self._post("renew", steps=steps, seconds=seconds)
        with _understood("renew"):
            last_step, grace_seconds = answer["last_step"], answer["grace_seconds"]
            return Renewal(
                answer["state"] == "stop",
                float(answer["max_seconds"]),
                None if last_step is None else int(last_step),
                None if grace_seconds is None else float(grace_seconds),
            )

    def progress(self, steps: int, seconds: float) -> None:
        """Tells how far the job is."""
        self._post("progress", steps=steps, seconds=seconds)

    def commit(self, step: int, path: str) -> None:
        """Makes a checkpoint the one that the job goes on from. It is on the daemon's disk when this returns."""
        self._post("commit", step=step, path=path)

    def complete(self, steps: int) -> None:
        """Tells that all work is done."""
        self._post("complete", steps=steps)

    def extras(self) -> Extras:
        """Asks for the extra GPUs of the job."""
        answer = self._post("extras")
        with _understood("extras"):
            return Extras(tuple(str(uuid) for uuid in answer["uuids"]), float(answer["seconds_left"]))

    def give_back(self, kept: int) -> None:
        """Tells that the job uses so many extra GPUs and no more."""
        self._post("give-back", kept=kept)

    def notices(self, on_open: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
        """What the daemon has to say to the job, as it says it; ends when the connection does.

        `on_open` is called when the daemon listens: what changed before that is not said, what changes from then on is.
        """
        connection = self._connection(SILENCE_SECONDS_MAX)
        try:
            connection.request("GET", f"/lease/v1/notice?lease={self.lease}", headers=self._headers())
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise _refusal(response.status, response.read())
            on_open()
            for line in response:
                if line.strip():
                    with _understood("notice"):
                        yield dict(json.loads(line))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the lease service went away: {error}") from error
        finally:
            connection.close()

    def _post(self, what: str, seconds_max: Optional[float] = ANSWER_SECONDS_MAX, **fields: object) -> dict[str, Any]:
        connection = self._connection(seconds_max)
        body = json.dumps({"lease": self.lease, "rank": self.rank, **fields})
        try:
            connection.request("POST", f"/lease/v1/{what}", body, {**self._headers(), "Content-Type": "application/json"})
            response = connection.getresponse()
            status, content = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the lease service at {self._host}:{self._port} does not answer: {error}") from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise _refusal(status, content)
        with _understood(what):
            return dict(json.loads(content or b"{}"))

    def _connection(self, seconds_max: Optional[float]) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=seconds_max)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


def _refusal(status: int, content: bytes) -> Problem:
    """A refusal with the daemon's own words, which this service tells as `error`."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        content = json.dumps({"title": str(json.loads(content)["error"])}).encode()
    return problem_of(Response(status, {}, content))


class _understood:  # noqa: N801 - reads as a phrase where it is used
    """Turns an answer of another shape into an error that says so."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, _: object) -> None:
        if isinstance(error, (ValueError, KeyError, TypeError)):
            raise Unintelligible(f"the answer to `{self._what}` cannot be understood: {error!r}") from error
