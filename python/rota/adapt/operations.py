"""The growths: deepen, widen, stack, and shrink, which takes the latest of them back.

Each makes a draft first, in which everything that can fail happens, and then does it. The optimiser given is changed along with
the model; under DistributedDataParallel every rank must call the same growth at the same step.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from torch import nn

from . import optimisers, recipe
from .blocks import Block, Where, refusal_of, resolve
from .draft import Draft, Insertion, remove, resize
from .errors import CannotGrow
from .identity import identity_block
from .residual import copied, new_block
from .sharing import refuse_shared
from .teacher import Teacher, check_steps
from .width import Units, check_residual, new_width, resizings, units_of
from .wrappers import unwrapped, wrap_again

Optimiser = Optional[torch.optim.Optimizer]


@dataclass(frozen=True)
class Growth:
    """What was done."""

    operation: str
    paths: tuple[str, ...]
    """The paths of new blocks, or of widened layers."""
    parameters_before: int
    parameters_after: int
    new_parameters: tuple[nn.Parameter, ...]
    """The parameters that were added. They start without moments; `Adapter` warms them up."""
    teacher: Optional[Teacher] = None
    """After a shrinking with `teach_steps`: the larger network, to learn from."""


def deepen(
    model: nn.Module,
    where: Where = None,
    *,
    optimizer: Optimiser = None,
    example: Any = None,
    outputs: Optional[Sequence[str]] = None,
) -> Growth:
    """Puts a new block behind each of the given ones (all, unless said). The model's outputs stay as they are.

    `where` names blocks by path or by their number in `blocks(model)`. `example` is a batch as the model takes it (a tensor, a
    tuple of arguments or a dictionary); with it a new BatchNorm is set so that training mode is preserved too, and blocks that
    are called with more than their input can be tried. `outputs` names the output projections of a residual block, if they
    are not the last layers of its branches.
    """
    network = unwrapped(model)
    draft = draft_of_deepen(network, where, optimizer, example, outputs)
    return _done(model, network, optimizer, draft)


def draft_of_deepen(
    network: nn.Module, where: Where, optimizer: Optimiser, example: Any = None, outputs: Optional[Sequence[str]] = None
) -> Draft:
    """What `deepen` would do."""
    optimisers.check(optimizer, network)
    chosen = resolve(network, where)
    draft = Draft({"operation": "deepen", "where": [block.path for block in chosen]})
    for block in chosen:
        refusal = refusal_of(network, block)
        if refusal is not None:
            raise CannotGrow(refusal)
        for name in block.names:
            path = f"{block.container}.{name}" if block.container else name
            refuse_shared(network, path, network.get_submodule(path))
        new = (
            new_block(network, block, example, outputs) if block.kind == "residual" else identity_block(network, block, example)
        )
        draft.insertions.append(_insertion(network, block, new))
    return draft


def widen(
    model: nn.Module,
    where: Where = None,
    *,
    optimizer: Optimiser = None,
    factor: Optional[float] = None,
    to: Optional[int] = None,
    noise: float = 0.1,
    example: Any = None,
) -> Growth:
    """Gives blocks `factor` times as many hidden units, or as many as `to` says. The model's outputs stay as they are.

    In a residual block these are the units between the two halves of its feed-forward part (gated or not), in a chain the
    outputs of the layer. `noise` is how unequally the next layer divides what it reads between a unit and its copy.
    """
    network = unwrapped(model)
    factor = 2.0 if factor is None and to is None else factor
    draft = draft_of_widen(network, where, optimizer, factor, to, noise, example)
    return _done(model, network, optimizer, draft)


def draft_of_widen(
    network: nn.Module,
    where: Where,
    optimizer: Optimiser,
    factor: Optional[float],
    to: Optional[int] = None,
    noise: float = 0.1,
    example: Any = None,
) -> Draft:
    """What `widen` would do."""
    optimisers.check(optimizer, network)
    if not 0.0 <= noise < 1.0:
        raise CannotGrow(f"noise: {noise} is not between 0 and 1")
    draft = Draft({"operation": "widen", "where": []})
    touched: set[tuple[str, str]] = set()
    for block in resolve(network, where):
        units = units_of(network, block, example)
        for path in (*units.makers, *units.norms, units.reader):
            refuse_shared(network, path, network.get_submodule(path))
        width = new_width(units, factor, to)
        changes = resizings(network, units, width, noise)
        places = {(resizing.path, resizing.name) for resizing in changes[0]}
        if places & touched:
            raise CannotGrow(f"`{block.path}` and the block before it cannot be widened in one call; widen one after the other")
        touched |= places
        if block.kind == "residual":
            check_residual(network, block, changes, example)
        draft.resizings += changes[0]
        draft.attributes += changes[1]
        draft.entry["where"].append({**units.entry(), "to": width})
    return draft


def stack(model: nn.Module, *, optimizer: Optimiser = None, times: int = 2) -> Growth:
    """Repeats the whole list of residual blocks, as plain copies: `times` as deep, and the outputs change."""
    network = unwrapped(model)
    return _done(model, network, optimizer, draft_of_stack(network, optimizer, times))


def draft_of_stack(network: nn.Module, optimizer: Optimiser, times: int = 2) -> Draft:
    """What `stack` would do."""
    optimisers.check(optimizer, network)
    if isinstance(times, bool) or not isinstance(times, int) or times < 2:
        raise CannotGrow(f"times: {times!r} is not a whole number of at least 2")
    chosen = resolve(network, None)
    if any(block.kind != "residual" for block in chosen):
        raise CannotGrow("the model has no residual blocks; only these can be stacked")
    containers = {block.container for block in chosen}
    if len(containers) > 1:
        raise CannotGrow(
            f"the model has {len(containers)} lists of blocks ({', '.join(sorted(containers))}); one can be stacked"
        )
    draft = Draft({"operation": "stack", "where": [block.path for block in chosen], "times": times})
    for _ in range(times - 1):
        for block in chosen:
            original = network.get_submodule(block.path)
            refuse_shared(network, block.path, original)
            insertion = _insertion(network, block, copied(original))
            draft.insertions.append(replace(insertion, after=chosen[-1].names[0]))
    return draft


def shrink(model: nn.Module, *, optimizer: Optimiser = None, teach_steps: int = 0) -> Growth:
    """Takes the latest growth back. What the other blocks have learned since stays; everything trains on.

    Blocks that were added go. Units that were added go too, and the next layer reads their share from the units they repeat.
    With `teach_steps` the growth that is returned has a `teacher`: a copy of the larger network, which the smaller one learns
    from for so many steps.
    """
    network = unwrapped(model)
    optimisers.check(optimizer, network)
    entries = recipe.recipe(network)
    if not entries:
        raise CannotGrow("there is nothing to take back: the model was not grown (`down` before `up`)")
    before = _count(network)
    entry = entries[-1]
    paths = list(entry["inserted"])
    _check_presence(network, entry)
    if teach_steps != 0:
        check_steps(teach_steps)
    teacher = Teacher(network, teach_steps) if teach_steps else None
    for place in reversed(entry["where"]) if entry["operation"] == "widen" else ():
        units = Units.of_entry(place)
        changes = resizings(network, replace(units, width=place["to"]), units.width, 0.0)
        resize(network, changes[0], changes[1], optimizer)
        paths += units.makers
    remove(network, entry["inserted"], optimizer)
    recipe.write(network, entries[:-1])
    wrap_again(model)
    return Growth("shrink", tuple(paths), before, _count(network), (), teacher)


def load(model: nn.Module, state: Mapping[str, Any], *, optimizer: Optimiser = None) -> list[Growth]:
    """Grows a fresh model as the one whose `state_dict` this is, and loads it.

    The optimiser given is grown along, so that its own `load_state_dict` fits afterwards.
    """
    network = unwrapped(model)
    wanted, present = recipe.of_state(state), recipe.recipe(network)
    if wanted[: len(present)] != present:
        raise CannotGrow("the model was grown in another way than the one that was saved; load into a fresh model")
    optimisers.check(optimizer, network)
    # Tried on a copy first: a state that does not fit leaves the model as it was.
    trial = copy.deepcopy(network)
    for entry in wanted[len(present) :]:
        _draft_again(trial, entry, None).do(trial, trial, None)
    try:
        trial.load_state_dict(dict(state))
    except RuntimeError as error:
        raise CannotGrow(f"the state does not fit the model, even after {len(wanted)} growths: {error}") from error
    growths = []
    for entry in wanted[len(present) :]:
        growths.append(_done(model, network, optimizer, _draft_again(network, entry, optimizer)))
    network.load_state_dict(dict(state))
    return growths


def _draft_again(network: nn.Module, entry: recipe.Entry, optimizer: Optimiser) -> Draft:
    """The draft of a growth in the recipe. Its values are loaded afterwards, so only the shapes matter here."""
    draft = Draft({key: value for key, value in entry.items() if key != "inserted"})
    try:
        if entry["operation"] == "widen":
            for place in entry["where"]:
                changes = resizings(network, Units.of_entry(place), place["to"], 0.0)
                draft.resizings += changes[0]
                draft.attributes += changes[1]
        elif entry["operation"] == "stack":
            return draft_of_stack(network, optimizer, entry["times"])
        elif entry["operation"] == "deepen":
            for block in resolve(network, entry["where"]):
                is_residual = block.kind == "residual"
                new = copied(network.get_submodule(block.path)) if is_residual else identity_block(network, block)
                draft.insertions.append(_insertion(network, block, new))
        else:
            raise CannotGrow(f"the recipe names the unknown operation `{entry['operation']}`")
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise CannotGrow(f"the recipe does not fit the model: {error}") from error
    return draft


def _insertion(network: nn.Module, block: Block, new: nn.Module) -> Insertion:
    """The new block behind its original, and the parameter that each of its parameters was made from."""
    if block.kind == "residual":
        sources = dict(network.get_submodule(block.path).named_parameters())
        return Insertion(block.container, block.names[0], new, sources)
    container = network.get_submodule(block.container)
    sources = {}
    for number, name in enumerate(block.names):
        for key, parameter in container._modules[name].named_parameters():
            sources[f"{number}.{key}"] = parameter
    return Insertion(block.container, block.names[-1], new, sources)


def _check_presence(network: nn.Module, entry: recipe.Entry) -> None:
    known = dict(network.named_modules())
    paths = [*entry["inserted"], *(place["reader"] for place in entry["where"] if entry["operation"] == "widen")]
    missing = [path for path in paths if path not in known]
    if missing:
        raise CannotGrow(f"`{missing[0]}`, which was grown, is no longer part of the model; it was changed by other means")


def _done(model: nn.Module, network: nn.Module, optimizer: Optimiser, draft: Draft) -> Growth:
    before = _count(network)
    entry = draft.do(model, network, optimizer)
    paths = entry["inserted"] or [path for place in entry["where"] for path in place["makers"]]
    return Growth(entry["operation"], tuple(paths), before, _count(network), tuple(draft.new_parameters()))


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
