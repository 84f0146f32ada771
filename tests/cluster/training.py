"""A training for `three_workers.py`: one process on each node of a gang, gradients averaged by gloo, stopped and gone on with."""

import os
import sys
import time

import torch
import torch.distributed

import rota

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


def note(text):
    """Writes a line to the file that all ranks share; short lines are written whole."""
    with open(os.path.join(FOLDER, "training.txt"), "a") as file:
        file.write(f"{text} rank {os.environ['RANK']} lease {os.environ['ROTA_LEASE']}\n")


def main():
    """Trains until all steps are done, or until the job is to leave."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(parallel.parameters(), 0.01)
    batches = rota.Iterator(
        [torch.full((2, 4), float(number)) for number in range(STEPS)],
        save=lambda path: torch.save({"model": model.state_dict()}, path),
        load=lambda path: model.load_state_dict(torch.load(path)["model"]),
    )
    note(f"begin {batches.steps}")
    try:
        for batch in batches:
            optimiser.zero_grad()
            parallel(batch).sum().backward()
            optimiser.step()
            time.sleep(0.02)
    except SystemExit:
        note(f"left {batches.steps}")
        raise
    note(f"done {batches.steps}")
    batches.complete()


main()
