#!/usr/bin/env python3
"""An LSTM that learns a text of Wikitext-2's shape: 33,278 words, 35 of them a step. What it remembers goes from step to step."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import training  # noqa: E402
from torch import nn  # noqa: E402

TOKENS, WORDS, LENGTH = 2_088_628, 33_278, 35
COMMON = 200


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(WORDS, width), nn.LSTM(width, width, 2, dropout=0.2)
        self.words = nn.Linear(width, WORDS)

    def forward(self, text, memory):
        states, memory = self.lstm(self.embedding(text), memory)
        return self.words(states), memory


class Memory:
    """What the network remembers of the text so far: saved as any part."""

    def __init__(self, model, batch_size, device):
        width = model.lstm.hidden_size
        self.device, self.state = device, tuple(torch.zeros(2, batch_size, width, device=device) for _ in range(2))

    def state_dict(self):
        return {"state": [tensor.clone() for tensor in self.state]}

    def load_state_dict(self, saved):
        self.state = tuple(tensor.to(self.device) for tensor in saved["state"])


def texts(batch_size, seed):
    """Pieces of as many texts as a batch has columns, in order: each word follows from the one before, most of the time."""
    steps = TOKENS // (batch_size * LENGTH)

    def make(generator):
        words = torch.randint(COMMON, (LENGTH + 1, batch_size), generator=generator)
        for place in range(1, LENGTH + 1):
            words[place] = torch.where(words[place] < COMMON * 3 // 4, (words[place - 1] * 3 + 1) % COMMON, words[place])
        return words

    return training.Generated(steps, seed, make)


def build(setting):
    options = setting.options
    if options.batch_size % setting.world:
        sys.exit(f"--batch_size {options.batch_size} cannot be divided among {setting.world} processes")
    batch_size = options.batch_size // setting.world
    plain = Model(16 if setting.is_small else 200)
    model = setting.parallel(plain)
    memory = Memory(plain, batch_size, setting.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=options.learning_rate)

    def step(batch):
        text = batch[0].to(setting.device)
        guesses, state = model(text[:-1], memory.state)
        memory.state = tuple(tensor.detach() for tensor in state)
        loss = nn.functional.cross_entropy(guesses.flatten(0, 1), text[1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimiser.step()
        return loss

    # Each rank has texts of its own. They are read in order.
    batches = torch.utils.data.DataLoader(texts(batch_size, options.seed + 1000 * setting.rank), 1)
    return training.Task({"model": model, "optimiser": optimiser, "memory": memory}, batches, step)


def main(arguments=None):
    parser = training.parser(__doc__, ["--steps"], 50)
    parser.add_argument("--cuda", action="store_true", help="accepted: a GPU is used wherever there is one")
    parser.add_argument("--data", metavar="DIR", help="accepted, not read")
    parser.add_argument("--batch_size", type=int, default=20, metavar="B", help="texts side by side [20]")
    parser.add_argument("--learning_rate", type=float, default=20.0, metavar="R", help="[20]")
    training.run(parser.parse_args(arguments), build)


if __name__ == "__main__":
    main()
