"""The life of an example workload: its options, its epochs, its checkpoints, and its end when it is told to stop.

An epoch is a number of steps. Told to stop (SIGTERM, or Ctrl-C), the step in hand is finished, a checkpoint written, and the exit code is
128 + the signal, as the shell has it: 143. The next run with the same id goes on with the next step, and comes to the same figures as a run
that was never stopped. So a job makes headway even if it is given less time than an epoch takes.
"""

import argparse
import pathlib
import re
import signal
import sys
import time

import backend
import checkpoint

BORN = time.monotonic()


def main(name, description, build):
    """Runs a workload and ends the process. `build(backend, size, seed)` makes it."""
    stop = Stop()
    options = parse(name, description)
    try:
        sys.exit(run(name, build, options, stop))
    except (backend.BackendError, checkpoint.CheckpointError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)


class Stop:
    """Remembers the signal that asked the job to stop."""

    def __init__(self):
        self.signal = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.heed)

    def heed(self, number, _frame):
        self.signal = signal.Signals(number)


def parse(name, description):
    """The options that all workloads have."""
    parser = argparse.ArgumentParser(
        prog=f"{name}.py",
        description=description,
        epilog=f"example: rota submit --preemptible -- python3 {name}.py --epochs 10 --id 1 --checkpoint-dir checkpoints\n\n"
        f"Computes with CUDA, PyTorch, NumPy or plain Python, whichever is here; {backend.VARIABLE}=torch|numpy|pure asks for one.\n"
        "Exit codes: 0 done, 2 bad usage or an unfit checkpoint, 143 stopped by SIGTERM with the checkpoint written.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--epochs", type=_at_least(1), default=2, metavar="N", help="epochs in all, those of earlier runs included [2]")
    parser.add_argument("--id", type=_id, default="0", metavar="K", help="names the checkpoint, so that several can share a folder [0]")
    parser.add_argument(
        "--checkpoint-dir", type=pathlib.Path, metavar="DIR", help="where checkpoints are kept and looked for; without it, none is written"
    )
    parser.add_argument("--size", choices=("small", "large"), default="small", help="small: about a second on one core [small]")
    parser.add_argument("--seed", type=_at_least(0), default=0, metavar="S", help="of the generated data and the first parameters [0]")
    return parser.parse_args()


def _at_least(least):
    def number(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    number.__name__ = "number"
    return number


def _id(text):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise argparse.ArgumentTypeError("letters, digits, `.`, `_` and `-` only")
    return text


class Progress:
    """How far a workload is: whole epochs, steps of the next one, and what that one has to show so far."""

    def __init__(self, epoch=0, step=0, sums=(), seconds=0.0, run_seconds=0.0):
        self.epoch = epoch
        self.step = step
        self.sums = list(sums)
        self.seconds = seconds
        self.earlier_seconds = run_seconds

    def header(self):
        """What a checkpoint keeps of it. `run_seconds` is the time of all runs so far, for what waiting and running times are told from."""
        run_seconds = self.earlier_seconds + time.monotonic() - BORN
        return {"epoch": self.epoch, "step": self.step, "sums": self.sums, "seconds": self.seconds, "run_seconds": run_seconds}


def run(name, build, options, stop):
    """All epochs; returns the exit code."""
    chosen = backend.choose()
    identity = {"workload": name, "backend": chosen.kind, "size": options.size, "seed": options.seed}
    path = options.checkpoint_dir and options.checkpoint_dir / f"{name}-{options.id}.ckpt"
    found = path and checkpoint.read(path)
    workload = build(chosen, options.size, options.seed)
    tell(f"{name} {options.id}: {chosen}, {options.size}, seed {options.seed}: {workload}")
    progress = Progress()
    if found:
        progress = resume(path, found, identity, workload)
        tell(f"resumed after epoch {progress.epoch}" + (f" and {progress.step} of {workload.steps} steps" if progress.step else ""))

    def save():
        if path:
            checkpoint.write(path, {**identity, **progress.header()}, workload.save())

    while progress.epoch < options.epochs:
        while progress.step < workload.steps and not stop.signal:
            one_step(workload, progress)
        if progress.step == workload.steps:
            tell(f"epoch {progress.epoch + 1}/{options.epochs}  {figures(workload, progress)}  {progress.seconds:.2f} s")
            progress = Progress(progress.epoch + 1, run_seconds=progress.earlier_seconds)
        save()
        if stop.signal and progress.epoch < options.epochs:
            kept = f"checkpoint {path} written" if path else "no --checkpoint-dir, so nothing is kept"
            tell(f"stopped by {stop.signal.name} after epoch {progress.epoch} and {progress.step} of {workload.steps} steps; {kept}")
            return 128 + stop.signal
    return 0


def resume(path, found, identity, workload):
    """Puts a workload where its checkpoint left it. One of another workload, size, seed or backend is refused, not overwritten."""
    header, arrays = found
    for key, mine in identity.items():
        if header.get(key) != mine:
            raise checkpoint.CheckpointError(f"{path} has {key} `{header.get(key)}`, this run `{mine}`; choose another --id or remove the file")
    try:
        workload.load(arrays)
        return Progress(*(header[key] for key in ("epoch", "step", "sums", "seconds", "run_seconds")))
    except (KeyError, ValueError, RuntimeError) as error:
        raise checkpoint.CheckpointError(f"{path} does not fit this version of the workload: {error!r}") from error


def one_step(workload, progress):
    """One step, its figures and its time added to the epoch's."""
    began = time.monotonic()
    results = workload.step(progress.epoch, progress.step)
    progress.seconds += time.monotonic() - began
    progress.sums = [total + result for total, result in zip(progress.sums or [0.0] * len(results), results)]
    progress.step += 1


def figures(workload, progress):
    """The means of an epoch's figures, and how fast they came."""
    means = [f"{label} {total / workload.steps:.6g}" for label, total in zip(workload.figures, progress.sums)]
    flop = getattr(workload, "flop_per_step", 0)
    return "  ".join(means + ([f"{flop * workload.steps / progress.seconds / 1e9:.3g} Gflop/s"] if flop else []))


def tell(line):
    """A line of output, there at once for whoever follows the job."""
    print(line, flush=True)
