"""Pictures with a class: noise over a pattern that belongs to the class."""

import torch
from training import Generated


def pictures(length, seed, side, classes):
    """A dataset of images of `side` x `side` with one of so many classes."""
    angles = torch.linspace(0, 1, side)

    def make(generator):
        label = int(torch.randint(classes, (), generator=generator))
        # A wave whose frequency and direction tell the class.
        across, down = 1 + label % 10, 1 + label // 10
        wave = torch.sin(6.283 * (across * angles[None, :] + down * angles[:, None]))
        return wave.expand(3, side, side) + 0.5 * torch.randn(3, side, side, generator=generator), label

    return Generated(length, seed, make)
