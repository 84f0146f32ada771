"""Rota decides whose turn it is on the GPU. This is its client for Python.

A training script that is started by hand takes its turn with one line, and sees only the GPUs it was given:

    import rota
    claim = rota.claim(gpus=1)              # waits for a GPU; given back when the script ends, however it ends

    import torch
    model = torch.nn.Linear(8, 8).to(claim.device)

The same script may be submitted to the queue; there the line does nothing, as a job has its GPUs already.

Everything else is done with a client:

    client = rota.Client()                                              # the daemon of this machine: `rota up --detach`
    job = client.submit(["python", "train.py", "--lr", "0.1"], gpus=2, name="first")
    print(client.explain(job).reason)                                   # why it waits, with numbers
    for line in client.logs(job, follow=True):
        print(line, end="")
    client.wait(job).check()                                            # raises unless it ended with exit code 0

    ids = client.sweep(["python", "train.py", "--lr", "{lr}"], params={"lr": [0.1, 0.01, 0.001]})
    client.wait(ids, timeout=3600)

    for gpu in client.gpus():
        print(gpu.index, gpu.type, gpu.state, gpu.jobs)

A training that may be stopped and goes on later with the very next batch wraps its loader:

    batches = rota.Iterator(loader, save=save, load=load)               # submit it with `--preemptible`
    for epoch in range(batches.epoch, 90):
        for batch in batches:
            train(batch)
    batches.complete()

A network grows while it trains, with its optimiser, when the job is given more GPUs (needs PyTorch):

    adapter = rota.adapt.Adapter(model, optimizer, budget=3600)         # then `adapter.step()` after every step

`rota.Client(url=…, token=…)` speaks to a daemon over the network, and `rota.AsyncClient` has the same methods for asyncio.

What the daemon says comes as records (`Job`, `Gpu`, `Status`, …) with typed fields: times are `datetime` in UTC, what is not
known is None, and `raw` holds everything as it was sent. What it refuses is raised as a `Problem`: `BadInput`, `NotFound`,
`Forbidden`, `Conflict` and so on, all of them a `RotaError`, with the daemon's own words for what is wrong and what to do.
A restart of the daemon does not disturb those who wait for a job or a claim, or follow a log or the events.
"""

from typing import TYPE_CHECKING

from ._claim import Claim, claim
from ._client import Client
from ._errors import (
    BadInput,
    ClaimEnded,
    Conflict,
    Forbidden,
    JobFailed,
    NotFound,
    Problem,
    RotaError,
    Stopping,
    TimedOut,
    TooMany,
    Unauthorized,
    Unavailable,
    Unintelligible,
    Unreachable,
)
from ._jobs import (
    After,
    Blocker,
    Counterfactual,
    Delay,
    EarlierPredictions,
    Event,
    Explanation,
    Job,
    Point,
    Prediction,
    Predictions,
    Samples,
)
from ._lease.iterator import Iterator
from ._lease.vault import SaveFailed
from ._machine import Gpu, GpuProcess, Session, Status, Token
from ._past import Bar, GpuUse, Heatmap, HeatRow, NamedUse, Simulation, Timeline, TimelineGpu, Usage, Use, Waste
from ._registration import register_when_loaded
from ._submission import JobOptions

if TYPE_CHECKING:
    from . import learn as learn
    from ._async_client import AsyncClaim, AsyncClient
    from ._classroom import MLWorkloadSchedulingEnv, evaluate_model
    from ._environments import VecEnv
    from ._live import LiveEnv

__all__ = [
    "After",
    "AsyncClaim",
    "AsyncClient",
    "BadInput",
    "Bar",
    "Blocker",
    "Claim",
    "ClaimEnded",
    "Client",
    "Conflict",
    "Counterfactual",
    "Delay",
    "EarlierPredictions",
    "Event",
    "Explanation",
    "Forbidden",
    "Gpu",
    "GpuProcess",
    "GpuUse",
    "HeatRow",
    "Heatmap",
    "Iterator",
    "Job",
    "JobFailed",
    "JobOptions",
    "LiveEnv",
    "MLWorkloadSchedulingEnv",
    "NamedUse",
    "NotFound",
    "Point",
    "Prediction",
    "Predictions",
    "Problem",
    "RotaError",
    "Samples",
    "SaveFailed",
    "Session",
    "Simulation",
    "Status",
    "Stopping",
    "TimedOut",
    "Timeline",
    "TimelineGpu",
    "Token",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Unintelligible",
    "Unreachable",
    "Usage",
    "Use",
    "VecEnv",
    "Waste",
    "claim",
    "evaluate_model",
]

_LATE = {
    "AsyncClaim": "_async_client",
    "AsyncClient": "_async_client",
    "LiveEnv": "_live",
    "MLWorkloadSchedulingEnv": "_classroom",
    "VecEnv": "_environments",
    "evaluate_model": "_classroom",
}
"""What most scripts do not need, with the module it is in: asyncio takes longer to load than all the rest."""

_LATE_MODULES = ("adapt", "learn")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _LATE_MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATE[name]}")
    globals()[name] = _named(getattr(module, name))
    return globals()[name]


def _named(thing: object) -> object:
    """As people import it, in help, in tracebacks and in pickles."""
    thing.__module__ = __name__
    return thing


for _name in __all__:
    if _name not in _LATE:
        _named(globals()[_name])
del _name

register_when_loaded()
