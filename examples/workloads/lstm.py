#!/usr/bin/env python3
"""An LSTM that learns to say how a noisy sine wave goes on.

One layer of LSTM over the sequence, a dense layer on its last state, Adam on the squared error. The waves are generated, each with its own
frequency and phase. With PyTorch the gradients are its own; with NumPy and plain Python they are written out here.
"""

import math
import random

import adam
import arrays
import epochs

RATE = 0.01
NOISE = 0.05
# Length of the sequences, width of the hidden state, sequences in a batch, batches in an epoch, by backend.
SIZES = {
    "cuda": {"small": (50, 50, 64, 100), "large": (200, 256, 64, 160)},
    "torch": {"small": (30, 32, 32, 40), "large": (200, 50, 64, 100)},
    "numpy": {"small": (24, 24, 32, 50), "large": (200, 50, 64, 60)},
    "pure": {"small": (10, 8, 8, 24), "large": (30, 12, 8, 60)},
}


def build(backend, size, seed):
    """The network and its sequences for a backend."""
    waves = Waves(arrays.arrays_of(backend), *SIZES[backend.kind][size], seed)
    return TorchTraining(backend, waves) if backend.kind in ("cuda", "torch") else Training(waves)


class Waves:
    """Batches of generated sequences, one a row, the value to be foretold in the last column."""

    def __init__(self, array_kind, length, hidden, batch, batches, seed):
        self.arrays, self.length, self.hidden, self.batch, self.seed = array_kind, length, hidden, batch, seed
        self.batches = [self.draw(number) for number in range(batches)]

    def draw(self, number):
        draw = random.Random(repr((self.seed, number)))
        frequencies = self.arrays.matrix([[draw.uniform(0.2, 1.0)] for _ in range(self.batch)])
        phases = self.arrays.matrix([[draw.uniform(0, 2 * math.pi)] for _ in range(self.batch)])
        times = self.arrays.matrix([list(range(self.length + 1))])
        values = self.arrays.sin(frequencies * times + phases)
        return values + self.arrays.normal((self.seed, number), *values.shape) * NOISE

    def __len__(self):
        return len(self.batches)

    def at(self, epoch, step):
        """The batch of a step; every epoch has them in another order."""
        order = list(range(len(self.batches)))
        random.Random(repr((self.seed, "order", epoch))).shuffle(order)
        return self.batches[order[step]]

    def column(self, values, time):
        return self.arrays.block(values, 0, self.batch, time, time + 1)

    def __str__(self):
        return f"{len(self) * self.batch} sequences of {self.length}, hidden state of {self.hidden}"


class Training:
    """The network with its gradients written out, back through all times."""

    figures = ("loss",)

    def __init__(self, waves):
        self.waves, self.arrays, self.steps = waves, waves.arrays, len(waves)
        hidden, seed = waves.hidden, waves.seed
        self.parameters = {
            # Rows: input, then hidden state; columns: input gate, forget gate, output gate, candidate.
            "weight": self.arrays.normal((seed, 1_000_000), 1 + hidden, 4 * hidden) * (1 / (1 + hidden)) ** 0.5,
            # Forget gates begin open, so that the error reaches early times from the first step on.
            "bias": self.arrays.matrix([[0.0] * hidden + [1.0] * hidden + [0.0] * 2 * hidden]),
            "dense.weight": self.arrays.normal((seed, 1_000_001), hidden, 1) * (1 / hidden) ** 0.5,
            "dense.bias": self.arrays.zeros(1, 1),
        }
        self.adam = adam.Adam(self.parameters, RATE)

    def __str__(self):
        return str(self.waves)

    def step(self, epoch, step):
        loss, gradients = self.gradients(self.waves.at(epoch, step))
        self.parameters = self.adam.updated(self.parameters, gradients)
        return (loss,)

    def gradients(self, values):
        """The loss of a batch, and its gradients by the parameters."""
        state, memory = (self.arrays.zeros(self.waves.batch, self.waves.hidden) for _ in range(2))
        passed = []
        for time in range(self.waves.length):
            entry = self.arrays.beside([self.waves.column(values, time), state])
            state, memory, kept = self.cell(entry, memory)
            passed.append(kept)
        error = state @ self.parameters["dense.weight"] + self.parameters["dense.bias"] - self.waves.column(values, self.waves.length)
        back = error * (2 / self.waves.batch)
        gradients = {"dense.weight": state.T @ back, "dense.bias": self.arrays.sum_rows(back)}
        gradients["weight"], gradients["bias"] = self.back_through_time(passed, back @ self.parameters["dense.weight"].T)
        return self.arrays.total(error * error) / self.waves.batch, gradients

    def part(self, matrix, which):
        """One of the four gates, or the candidate."""
        hidden = self.waves.hidden
        return self.arrays.block(matrix, 0, self.waves.batch, which * hidden, (which + 1) * hidden)

    def cell(self, entry, memory):
        """One time: the new state and memory, and what the way back needs."""
        linear = entry @ self.parameters["weight"] + self.parameters["bias"]
        # The logistic function by tanh, which does not overflow.
        take, keep, show = (self.arrays.tanh(self.part(linear, which) * 0.5) * 0.5 + 0.5 for which in range(3))
        candidate = self.arrays.tanh(self.part(linear, 3))
        after = keep * memory + take * candidate
        bent = self.arrays.tanh(after)
        return show * bent, after, (entry, memory, take, keep, show, candidate, bent)

    def back_through_time(self, passed, state_back):
        """Gradients by the cell's weight and bias."""
        weight = self.parameters["weight"]
        weight_back, bias_back = weight * 0.0, self.parameters["bias"] * 0.0
        memory_back = state_back * 0.0
        for entry, memory, take, keep, show, candidate, bent in reversed(passed):
            memory_back = memory_back + state_back * show * (1.0 - bent * bent)
            linear_back = self.arrays.beside(
                [
                    memory_back * candidate * take * (1.0 - take),
                    memory_back * memory * keep * (1.0 - keep),
                    state_back * bent * show * (1.0 - show),
                    memory_back * take * (1.0 - candidate * candidate),
                ]
            )
            weight_back = weight_back + entry.T @ linear_back
            bias_back = bias_back + self.arrays.sum_rows(linear_back)
            state_back = self.arrays.block(linear_back @ weight.T, 0, self.waves.batch, 1, 1 + self.waves.hidden)
            memory_back = memory_back * keep
        return weight_back, bias_back

    def save(self):
        return {**{name: self.arrays.flat(value) for name, value in self.parameters.items()}, **self.adam.save(self.arrays)}

    def load(self, saved):
        self.parameters = {name: self.arrays.from_flat(saved[name], like) for name, like in self.parameters.items()}
        self.adam.load(self.arrays, saved)


class TorchTraining:
    """The network in PyTorch."""

    figures = ("loss",)

    def __init__(self, backend, waves):
        torch = backend.library
        self.torch, self.waves, self.arrays, self.steps = torch, waves, waves.arrays, len(waves)
        torch.manual_seed(waves.seed)
        self.lstm = torch.nn.LSTM(1, waves.hidden, batch_first=True).to(backend.device)
        self.dense = torch.nn.Linear(waves.hidden, 1).to(backend.device)
        parts = {"lstm": self.lstm, "dense": self.dense}
        values = {f"{part}.{name}": value for part, layer in parts.items() for name, value in layer.named_parameters()}
        self.parameters = adam.TorchParameters(torch, self.arrays, values, RATE)

    def __str__(self):
        return str(self.waves)

    def step(self, epoch, step):
        values = self.waves.at(epoch, step)
        states, _ = self.lstm(values[:, :-1, None])
        loss = self.torch.nn.functional.mse_loss(self.dense(states[:, -1]), values[:, -1:])
        self.parameters.learn(loss)
        return (loss.item(),)

    def save(self):
        return self.parameters.save()

    def load(self, saved):
        self.parameters.load(saved)


if __name__ == "__main__":
    epochs.main("lstm", __doc__, build)
