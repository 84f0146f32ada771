#!/usr/bin/env python3
"""An autoencoder that recommends films, on ratings of ML-20M's shape: 20,108 films, some hundred of them a user."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import training  # noqa: E402
from torch import nn  # noqa: E402

USERS, FILMS, SEEN, TASTES = 116_677, 20_108, 100, 50


class Recommender(nn.Module):
    """A user's films, squeezed through a narrow layer, and all films that would fit."""

    def __init__(self, width):
        super().__init__()
        self.narrow = nn.Sequential(nn.Dropout(0.5), nn.Linear(FILMS, width), nn.Tanh())
        self.films = nn.Linear(width, FILMS)

    def forward(self, seen):
        return self.films(self.narrow(nn.functional.normalize(seen)))


def users(seed):
    """The films of each user: those of a taste, and a few others."""

    def make(generator):
        taste = int(torch.randint(TASTES, (), generator=generator))
        films = torch.randint(FILMS // TASTES, (SEEN,), generator=generator) * TASTES + taste
        films[: SEEN // 10] = torch.randint(FILMS, (SEEN // 10,), generator=generator)
        return films

    return training.Generated(USERS, seed, make)


def build(setting):
    options = setting.options
    model = setting.parallel(Recommender(8 if setting.is_small else 200))
    optimiser = torch.optim.Adam(model.parameters(), lr=options.learning_rate)

    def step(batch):
        films = batch.to(setting.device)
        seen = torch.zeros(len(films), FILMS, device=setting.device).scatter_(1, films, 1.0)
        loss = -(torch.log_softmax(model(seen), 1) * seen).sum(1).mean() / SEEN
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    batches = setting.loader(users(options.seed), options.batch_size)
    return training.Task({"model": model, "optimiser": optimiser}, batches, step)


def main(arguments=None):
    parser = training.parser(__doc__, ["-n", "--num_steps"], 20)
    parser.add_argument("--data_dir", metavar="DIR", help="accepted, not read")
    parser.add_argument("--batch_size", type=int, default=512, metavar="B", help="users a step [512]")
    parser.add_argument("--learning_rate", type=float, default=1e-2, metavar="R", help="[0.01]")
    training.run(parser.parse_args(arguments), build, is_distributed=False)


if __name__ == "__main__":
    main()
