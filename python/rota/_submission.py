"""What can be asked of a job, and how it is sent."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Callable, Literal, Optional, TypedDict, Union

from ._decoding import Duration, encode_text, rfc3339, seconds
from ._jobs import Job, JobRef, number

Argument = Union[str, bytes, "os.PathLike[str]"]

Command = Union[str, Iterable[Argument]]
"""A list is a program and its arguments, run as they are; a string is a line for `/bin/sh`."""

After = Union[JobRef, Iterable[JobRef], Mapping[int, Literal["ok", "any"]]]
"""Jobs that must end first. By default they must end well; `{17: "any"}` is content with any end of job 17."""


class JobOptions(TypedDict, total=False):
    """What `submit` and `sweep` take beside the command and the number of GPUs.

    Which GPUs, and how much of them:
        memory        MiB on each GPU, so that others may use the rest; or "auto": by what it took before
        share         share of each GPU, above 0 and at most 1
        exclusive     nobody else on its GPUs, even if memory or share are given
        gpu_ids       the only GPUs it may use, by index
        gpu_types     types it accepts, as "a100" or ["a100", "h100"]
        any_type      its GPUs may be of several types, where no type has enough of them
        mps           it shares its GPU through NVIDIA's MPS, with jobs of the same user
        threads_percent  part of the GPU's threads it may use under MPS
        buffer        MiB to add to what `memory="auto"` predicts
        profile_as    class its memory is learned under, in place of one made from its command
        profile_epochs   epochs of a first run that only measures memory
        job_type      what it is in the site's table of speeds, which says who may be beside it

    Whose turn it is:
        priority      higher runs first, under the policies that look at it
        weight        weight of its fair share
        tickets       tickets in the lottery
        estimate      how long it is believed to run; helps it and others to start earlier
        deadline      when it should be finished: a `datetime`, or text as RFC 3339 has it
        after         jobs that must end first: `after=job`, `after=[3, 4]`, `after={3: "any"}`
        hold          not to be started before `release`
        preemptible   it may be stopped for others, and started again later
        budget        how long it trains in all; told to the job, which ends by itself (`rota.adapt`)
        extra_gpus    GPUs it may be offered beyond its own while nobody waits for them; needs `budget`

    How it runs:
        cwd           directory it runs in; the present one if not given
        env           variables to add to those of this process
        inherit_env   False: only those of `env`
        time_limit    it is ended after so long
        grace         time between asking it to stop and killing it
        retries       how often it is tried again after a failure
        retry_delay   wait before the first of these; doubled each time
        cpus          processors it may use, where control groups are permitted
        host_memory   MiB of the machine's memory it may use, likewise

    For people and programs:
        name          a name
        project       what it is counted under in `Client.usage`
        key           a repeated submit with the same key returns the same job

    Durations are seconds or `timedelta`.
    """

    memory: Union[int, Literal["auto"], None]
    share: Optional[float]
    exclusive: bool
    gpu_ids: Iterable[int]
    gpu_types: Union[str, Iterable[str]]
    any_type: bool
    mps: bool
    threads_percent: Optional[int]
    buffer: Optional[int]
    profile_as: Optional[str]
    profile_epochs: Optional[int]
    job_type: Optional[str]
    priority: int
    weight: float
    tickets: int
    estimate: Optional[Duration]
    deadline: Union[datetime, str, None]
    after: After
    hold: bool
    preemptible: bool
    budget: Optional[Duration]
    extra_gpus: int
    cwd: Union[str, os.PathLike[str], None]
    env: Mapping[str, str]
    inherit_env: bool
    time_limit: Optional[Duration]
    grace: Optional[Duration]
    retries: int
    retry_delay: Optional[Duration]
    cpus: Optional[float]
    host_memory: Optional[int]
    name: Optional[str]
    project: Optional[str]
    key: Optional[str]


def _types(types: Union[str, Iterable[str]]) -> list[str]:
    return types.split(",") if isinstance(types, str) else list(types)


def _after(after: After) -> list[dict[str, Any]]:
    if isinstance(after, Mapping):
        return [{"id": job, "condition": condition} for job, condition in after.items()]
    jobs: Iterable[JobRef] = [after] if isinstance(after, (int, Job)) else after
    return [{"id": number(job), "condition": "ok"} for job in jobs]


# The option, the daemon's name for it, and how its value is sent.
_SENT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("name", str),
    "project": ("project", str),
    "key": ("key", str),
    "share": ("share", float),
    "exclusive": ("exclusive", bool),
    "mps": ("mps", bool),
    "threads_percent": ("threads_percent", int),
    "profile_as": ("profile_as", str),
    "profile_epochs": ("profile_epochs", int),
    "job_type": ("job_type", str),
    "priority": ("priority", int),
    "weight": ("weight", float),
    "tickets": ("tickets", int),
    "hold": ("hold", bool),
    "preemptible": ("preemptible", bool),
    "extra_gpus": ("extra_gpus", int),
    "retries": ("retries", int),
    "cpus": ("cpus", float),
    "gpu_ids": ("gpu_ids", list),
    "gpu_types": ("gpu_types", _types),
    "any_type": ("any_type", bool),
    "buffer": ("buffer_mib", int),
    "host_memory": ("host_memory_mib", int),
    "deadline": ("deadline", rfc3339),
    "after": ("after", _after),
    "estimate": ("estimate_seconds", seconds),
    "time_limit": ("time_limit_seconds", seconds),
    "grace": ("grace_seconds", seconds),
    "budget": ("budget_seconds", seconds),
    "retry_delay": ("retry_delay_seconds", seconds),
}

_TAKEN_APART = {"memory", "cwd", "env", "inherit_env"}


def submission(
    command: Command,
    gpus: int,
    options: Mapping[str, Any],
    array: Iterable[int] = (),
    params: Optional[Mapping[str, Iterable[object]]] = None,
) -> dict[str, Any]:
    """The body of a submit."""
    for name in options:
        if name not in _SENT and name not in _TAKEN_APART:
            # `gpus` is an argument of its own, and nearer to `gpu` than `gpu_ids` is.
            near = difflib.get_close_matches(name, ["gpus", "command", "array", "params", *_SENT, *_TAKEN_APART], 1)
            hint = f"; is `{near[0]}` meant?" if near else ": `help(rota.JobOptions)` lists those there are"
            raise TypeError(f"a job has no option `{name}`{hint}")
    arguments: Iterable[Argument] = ("/bin/sh", "-c", command) if isinstance(command, str) else command
    own = dict(os.environb) if options.get("inherit_env", True) else {}
    own.update((os.fsencode(name), os.fsencode(value)) for name, value in options.get("env", {}).items())
    body: dict[str, Any] = {
        "command": [encode_text(argument) for argument in arguments],
        "cwd": encode_text(os.path.abspath(options.get("cwd") or ".")),  # noqa: PTH100 (bytes that are no text pass)
        "env": [[encode_text(name), encode_text(value)] for name, value in own.items()],
        "gpus": gpus,
    }
    memory = options.get("memory")
    if memory == "auto":
        body["memory_auto"] = True
    elif memory is not None:
        body["memory_mib"] = memory
    for name, (sent, convert) in _SENT.items():
        value = options.get(name)
        if value is not None:
            body[sent] = convert(value)
    if array:
        body["array"] = list(array)
    if params:
        body["params"] = [{"name": name, "values": [str(value) for value in values]} for name, values in params.items()]
    return body
