#!/usr/bin/env python3
"""A Transformer that translates sentences of Multi30k's shape: up to 30 of 9,521 words."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import math  # noqa: E402

import torch  # noqa: E402
import training  # noqa: E402
from torch import nn  # noqa: E402

EXAMPLES, WORDS, LENGTH = 29_000, 9_521, 30
PADDING, BEGIN = 0, 1
# Of these the generated sentences are made, so that a short training learns something.
COMMON = 100


class Translator(nn.Module):
    """Encoder and decoder. With shared weights, a word's row in the last layer is its embedding."""

    def __init__(self, width, heads, layers, inner, shares_weights):
        super().__init__()
        self.width = width
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.transformer = nn.Transformer(width, heads, layers, layers, inner, dropout=0.1, batch_first=True)
        self.words = nn.Linear(width, WORDS, bias=False)
        for weights in (self.source.weight, self.target.weight):
            nn.init.normal_(weights, std=width**-0.5)
        if shares_weights:
            self.words.weight = self.target.weight
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
        angles = torch.arange(LENGTH + 1)[:, None] * rates
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), 2).flatten(1))

    def forward(self, source, target):
        def embedded(table, words):
            return table(words) * math.sqrt(self.width) + self.positions[: words.shape[1]]

        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).to(target.device)
        return self.words(self.transformer(embedded(self.source, source), embedded(self.target, target), tgt_mask=later))


def sentences(seed):
    """Sentences with their translation: every word has one other word that stands for it."""

    def make(generator):
        source = torch.randint(2, 2 + COMMON, (LENGTH,), generator=generator)
        target = 2 + (source - 2) * 7 % COMMON
        length = int(torch.randint(8, LENGTH + 1, (), generator=generator))
        source[length:], target[length:] = PADDING, PADDING
        return source, torch.cat((torch.tensor([BEGIN]), target))

    return training.Generated(EXAMPLES, seed, make)


def build(setting):
    options = setting.options
    sizes = (32, 4, 1, 64) if setting.is_small else (512, 8, 6, 2048)
    model = setting.parallel(Translator(*sizes, options.proj_share_weight))
    optimiser = torch.optim.Adam(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), eps=1e-9)

    def step(batch):
        source, target = (tensor.to(setting.device) for tensor in batch)
        guesses = model(source, target[:, :-1])
        loss = nn.functional.cross_entropy(guesses.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    batches = setting.loader(sentences(options.seed), options.batch_size)
    return training.Task({"model": model, "optimiser": optimiser}, batches, step)


def main(arguments=None):
    parser = training.parser(__doc__, ["-step", "--step"], 30)
    parser.add_argument("-data", metavar="FILE", help="accepted, not read")
    parser.add_argument("-batch_size", type=int, default=64, metavar="B", help="sentences a step [64]")
    parser.add_argument("-proj_share_weight", action="store_true", help="the last layer shares its weights with the embedding")
    parser.add_argument("-learning_rate", type=float, default=1e-3, metavar="R", help="[0.001]")
    training.run(parser.parse_args(arguments), build)


if __name__ == "__main__":
    main()
