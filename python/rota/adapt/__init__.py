"""Growing a PyTorch network while it trains, together with its optimiser.

    import rota.adapt

    rota.adapt.blocks(model)                                            # what can be deepened, with paths
    print(rota.adapt.plan(model, "deepen", optimizer=optimizer))        # parameters, memory and seconds first
    rota.adapt.deepen(model, "blocks.1", optimizer=optimizer)           # one more block after this one; outputs stay the same
    rota.adapt.widen(model, "blocks.1", optimizer=optimizer, factor=2)  # more hidden units; outputs stay the same
    rota.adapt.stack(model, optimizer=optimizer)                        # plain copies of all blocks; outputs change
    rota.adapt.shrink(model, optimizer=optimizer)                       # takes the latest growth back

    torch.save(model.state_dict(), "grown.pt")
    rota.adapt.load(fresh_model, torch.load("grown.pt"))                # grows the fresh model first, by the recorded recipe

In a training loop the adapter watches the time and the GPUs, and grows and shrinks the network:

    adapter = rota.adapt.Adapter(model, optimizer, budget=3600)
    for batch in loader:
        train(batch)
        adapter.step()
        if adapter.is_over:
            break

Whatever cannot be done is raised as `CannotGrow`, and leaves model and optimiser exactly as they were. `import rota` does not
import PyTorch; `import rota.adapt` does. docs/adapt-pytorch.md says more.

recipe.py      the growths of a model, kept in its state_dict
blocks.py      what can be grown
identity.py    new blocks of convolutions and linear layers; residual.py: new transformer blocks; width.py: more units
probing.py     runs a block or a model without leaving a trace in it
draft.py       a growth that is worked out and not yet done; optimisers.py: what it means for the optimiser
wrappers.py    models inside DistributedDataParallel; sharing.py: weights used twice
operations.py  deepen, widen, stack, shrink, load; planning.py: what they would cost
teacher.py     learning from the larger network after a shrinking
adapter.py     the loop: clock.py (time and GPUs), decisions.py (what to do), warmup.py (new parameters), ranks.py (all alike)
"""

from .adapter import Adapter
from .blocks import Block, blocks
from .clock import Clock, Countdown
from .decisions import Action, Fixed, Interleave, Nothing, Question
from .errors import CannotGrow
from .operations import Growth, deepen, load, shrink, stack, widen
from .planning import Plan, plan
from .recipe import recipe
from .teacher import Teacher

__all__ = [
    "Action",
    "Adapter",
    "Block",
    "CannotGrow",
    "Clock",
    "Countdown",
    "Fixed",
    "Growth",
    "Interleave",
    "Nothing",
    "Plan",
    "Question",
    "Teacher",
    "blocks",
    "deepen",
    "load",
    "plan",
    "recipe",
    "shrink",
    "stack",
    "widen",
]
