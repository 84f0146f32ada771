"""What the seven workloads share: Gavel's options, the device, the gang, and a training loop that can be stopped at any step.

A workload gives a `Task`: its parts (everything that training changes), its batches, and what a step does. `run` does the rest. Data is generated
from the seed, so that two runs see the same batches; the folders that Gavel's commands name are not read.
"""

import argparse
import hashlib
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Read when PyTorch is loaded: several jobs may share the machine.

import torch  # noqa: E402
import torch.distributed  # noqa: E402

try:
    import rota
except ImportError:  # In a checkout, without an install.
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
    import rota


class Task:
    """A training: its parts by name, its batches, and `step(batch)`, which returns the loss.

    A part has `state_dict` and `load_state_dict`, as models and optimisers have.
    """

    def __init__(self, parts, batches, step):
        self.parts, self.batches, self.step = parts, batches, step


class Setting:
    """Where a workload runs: its options, its device and its place in the gang."""

    def __init__(self, options, is_distributed):
        self.options = options
        self.rank = number(options.rank, "RANK", 0)
        self.world = number(options.world_size, "WORLD_SIZE", 1)
        if self.world > 1 and not is_distributed:
            sys.exit("this workload runs on one GPU only")
        has_gpu = torch.cuda.is_available()
        local = number(options.local_rank, "LOCAL_RANK", 0)
        # In the queue a job sees its own GPUs only, which are counted from 0 again.
        self.device = torch.device("cuda", local % torch.cuda.device_count()) if has_gpu else torch.device("cpu")
        self.is_small = (options.size or ("full" if has_gpu else "small")) == "small"
        if self.world > 1:
            address = options.master_addr or os.environ.get("MASTER_ADDR", "127.0.0.1")
            port = options.master_port or os.environ.get("MASTER_PORT", "29500")
            torch.distributed.init_process_group(
                "nccl" if has_gpu else "gloo", init_method=f"tcp://{address}:{port}", rank=self.rank, world_size=self.world
            )
        torch.manual_seed(options.seed)

    def parallel(self, model):
        """A model on the device of this rank, its gradients averaged over the gang."""
        model = model.to(self.device)
        if self.world == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def loader(self, dataset, batch_size, workers=0):
        """Shuffled batches of a dataset; in a gang, this rank's part of them."""
        share = max(batch_size // self.world, 1)
        # Other processes load data only where there is a GPU to be kept busy.
        options = {"num_workers": workers if self.device.type == "cuda" else 0, "drop_last": True}
        if self.world > 1:
            sampler = torch.utils.data.distributed.DistributedSampler(dataset, self.world, self.rank, seed=self.options.seed)
            return torch.utils.data.DataLoader(dataset, share, sampler=sampler, **options)
        return torch.utils.data.DataLoader(dataset, share, shuffle=True, **options)


class Generated(torch.utils.data.Dataset):
    """A dataset whose items are made when they are asked for: `make(generator)` with a generator of the item's own."""

    def __init__(self, length, seed, make):
        self.length, self.seed, self.make = length, seed, make

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(torch.Generator().manual_seed(self.seed * 1_000_003 + index))


def number(option, variable, default):
    """An option, or else a variable as launchers set it, or else a default."""
    return option if option is not None else int(os.environ.get(variable) or default)


def parser(description, steps_flags, default_steps):
    """The options that all workloads have, with the name that Gavel has for the number of steps."""
    found = argparse.ArgumentParser(
        description=description,
        epilog="Data is generated: folders with data are accepted, as Gavel's commands name them, and not read. In a job of the queue "
        "(`rota submit --preemptible`) the training may be stopped at any step, and goes on later.",
    )
    found.add_argument(*steps_flags, dest="steps", type=int, default=default_steps, metavar="N", help=f"steps in all [{default_steps}]")
    found.add_argument("--size", choices=("small", "full"), help="small: narrow networks, for one core [full on a GPU, else small]")
    found.add_argument("--seed", type=int, default=0, metavar="S", help="of the data and the first parameters [0]")
    found.add_argument("--checkpoint_dir", type=pathlib.Path, metavar="DIR", help="where the trained model is written to, as model.pt")
    found.add_argument("--enable_gavel_iterator", action="store_true", help="accepted: wherever there is a lease, it is kept")
    gang = found.add_argument_group("gangs", "one process a GPU; `python -m rota.launch` sets all of these")
    gang.add_argument("--local_rank", type=int, metavar="N", help="which GPU of this machine [LOCAL_RANK, or 0]")
    gang.add_argument("--rank", type=int, metavar="N", help="which process of the gang [RANK, or 0]")
    gang.add_argument("--world_size", type=int, metavar="N", help="processes of the gang [WORLD_SIZE, or 1]")
    gang.add_argument("--master_addr", metavar="ADDR", help="where rank 0 listens [MASTER_ADDR, or 127.0.0.1]")
    gang.add_argument("--master_port", metavar="PORT", help="its port [MASTER_PORT, or 29500]")
    return found


def run(options, build, is_distributed=True):
    """Trains to the end, or until the job is stopped. `build(setting)` makes the task."""
    setting = Setting(options, is_distributed)
    task = build(setting)
    history = Loss()
    parts = {**task.parts, "loss": history}

    def save(path):
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)

    def load(path):
        state = torch.load(path, map_location=setting.device)
        for name, part in parts.items():
            part.load_state_dict(state[name])

    batches = rota.Iterator(task.batches, save=save, load=load, rank=setting.rank, world=setting.world)
    if batches.steps:
        tell(setting, f"resumed after step {batches.steps}")
    # Resumed in the middle of a pass, the data must be in the order of that pass.
    while batches.steps < options.steps and not batches.done:
        shuffle(task.batches, batches.epoch)
        for batch in batches:
            history.add(task.step(batch))
            if batches.steps % 10 == 0:
                tell(setting, f"step {batches.steps}  loss {history.mean:.6f}")
            if batches.steps >= options.steps:
                break
    batches.complete()
    if options.checkpoint_dir and setting.rank == 0:
        options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        save(options.checkpoint_dir / "model.pt")
    tell(setting, f"done after step {batches.steps}  loss {history.mean:.9g}  weights {fingerprint(task.parts)}")


def shuffle(batches, epoch):
    """Tells a sampler of a gang which pass it is: all ranks draw the same order."""
    sampler = getattr(batches, "sampler", None)
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


class Loss:
    """The loss, averaged over about ten steps."""

    def __init__(self):
        self.mean = None

    def add(self, loss):
        loss = float(loss)
        self.mean = loss if self.mean is None else 0.9 * self.mean + 0.1 * loss

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]


def fingerprint(parts):
    """Tells two trainings apart if a single bit of their parameters differs."""
    digest = hashlib.sha256()
    for name, part in sorted(parts.items()):
        if isinstance(part, torch.nn.Module):
            for key, value in sorted(part.state_dict().items()):
                digest.update(f"{name}.{key}".encode())
                digest.update(value.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()[:16]


def tell(setting, line):
    """A line of output of the gang, there at once for whoever follows the job."""
    if setting.rank == 0:
        print(line, flush=True)
