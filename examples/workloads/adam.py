"""Adam (Kingma and Ba, 2015): gradient descent with a step of its own for every parameter, on the matrices of any backend."""

DECAY_MEAN = 0.9
DECAY_SQUARE = 0.999
EPSILON = 1e-8


class Adam:
    """The running means of gradients, by the parameters' names. They are part of a checkpoint: without them a resumed job differs."""

    def __init__(self, parameters, rate):
        self.rate = rate
        self.steps = 0
        self.means = {name: value * 0.0 for name, value in parameters.items()}
        self.squares = {name: value * 0.0 for name, value in parameters.items()}

    def updated(self, parameters, gradients):
        """The parameters after one step against their gradients."""
        self.steps += 1
        rate = self.rate * (1 - DECAY_SQUARE**self.steps) ** 0.5 / (1 - DECAY_MEAN**self.steps)
        after = {}
        for name, gradient in gradients.items():
            self.means[name] = self.means[name] * DECAY_MEAN + gradient * (1 - DECAY_MEAN)
            self.squares[name] = self.squares[name] * DECAY_SQUARE + gradient * gradient * (1 - DECAY_SQUARE)
            after[name] = parameters[name] - self.means[name] * rate / (self.squares[name] ** 0.5 + EPSILON)
        return after

    def save(self, arrays):
        """The state as lists of numbers."""
        saved = {"adam.steps": [float(self.steps)]}
        for name in self.means:
            saved[f"adam.mean.{name}"] = arrays.flat(self.means[name])
            saved[f"adam.square.{name}"] = arrays.flat(self.squares[name])
        return saved

    def load(self, arrays, saved):
        self.steps = int(saved["adam.steps"][0])
        for name, like in list(self.means.items()):
            self.means[name] = arrays.from_flat(saved[f"adam.mean.{name}"], like)
            self.squares[name] = arrays.from_flat(saved[f"adam.square.{name}"], like)


class TorchParameters:
    """The parameters of a network in PyTorch under Adam: learned from a loss, saved and loaded."""

    def __init__(self, torch, arrays, values, rate):
        self.torch, self.arrays, self.values = torch, arrays, values
        self.adam = Adam({name: value.detach() for name, value in values.items()}, rate)

    def learn(self, loss):
        """One step against the gradients of a loss."""
        gradients = dict(zip(self.values, self.torch.autograd.grad(loss, list(self.values.values()))))
        with self.torch.no_grad():
            for name, value in self.adam.updated(self.values, gradients).items():
                self.values[name].copy_(value)

    def save(self):
        return {**{name: self.arrays.flat(value) for name, value in self.values.items()}, **self.adam.save(self.arrays)}

    def load(self, saved):
        with self.torch.no_grad():
            for name, value in self.values.items():
                value.copy_(self.arrays.from_flat(saved[name], value))
        self.adam.load(self.arrays, saved)
