#!/usr/bin/env python3
"""A convolutional network that learns to tell the direction of stripes in noisy images.

Layers of 3 x 3 convolution, ReLU and 2 x 2 max pooling, then a dense layer and softmax; Adam on the cross-entropy. The images are generated.
With PyTorch the gradients are its own; with NumPy and plain Python they are written out here.
"""

import math
import random

import adam
import arrays
import epochs

CLASSES = 4
RATE = 0.01
NOISE = 0.7
# Width of the images, channels of the layers, images in a batch, batches in an epoch, by backend.
SIZES = {
    "cuda": {"small": (32, (16, 32, 64), 64, 100), "large": (64, (32, 64, 128, 256), 64, 800)},
    "torch": {"small": (16, (8, 16), 32, 60), "large": (64, (32, 64, 128), 64, 80)},
    "numpy": {"small": (16, (8, 16), 32, 40), "large": (32, (16, 32), 64, 100)},
    "pure": {"small": (8, (4, 6), 8, 16), "large": (16, (4, 8), 8, 60)},
}


def build(backend, size, seed):
    """The network and its images for a backend."""
    images = Images(arrays.arrays_of(backend), *SIZES[backend.kind][size], seed)
    return TorchTraining(backend, images) if backend.kind in ("cuda", "torch") else Training(images)


class Images:
    """Batches of generated images: waves in one of four directions, any phase, with noise. Every epoch has them in another order."""

    def __init__(self, array_kind, width, channels, batch, batches, seed):
        self.arrays, self.width, self.channels, self.batch, self.seed = array_kind, width, channels, batch, seed
        pixels = [(row, column) for row in range(width) for column in range(width)]
        places = self.arrays.matrix(pixels)
        self.batches = [self.draw(places, number) for number in range(batches)]

    def draw(self, places, number):
        """One batch: images in rows, and the class of each."""
        draw = random.Random(repr((self.seed, number)))
        classes = [draw.randrange(CLASSES) for _ in range(self.batch)]
        angles = [math.pi * direction / CLASSES for direction in classes]
        waves = self.arrays.matrix([[1.6 * math.cos(angle) for angle in angles], [1.6 * math.sin(angle) for angle in angles]])
        phases = self.arrays.matrix([[draw.uniform(0, 2 * math.pi) for _ in classes]])
        images = self.arrays.sin(places @ waves + phases).T
        return images + self.arrays.normal((self.seed, number), *images.shape) * NOISE, classes

    def __len__(self):
        return len(self.batches)

    def at(self, epoch, step):
        """The batch of a step."""
        order = list(range(len(self.batches)))
        random.Random(repr((self.seed, "order", epoch))).shuffle(order)
        return self.batches[order[step]]

    def __str__(self):
        return f"{len(self) * self.batch} images of {self.width} x {self.width}, channels {'/'.join(map(str, self.channels))}"


class Training:
    """The network with its gradients written out. Images lie below each other, a pixel a row, a channel a column."""

    figures = ("loss", "accuracy")

    def __init__(self, images):
        self.images, self.arrays, self.steps = images, images.arrays, len(images)
        self.layers = [Convolution(self.arrays, images.batch, images.width >> depth) for depth in range(len(images.channels))]
        self.parameters = {}
        before = 1
        for depth, channels in enumerate(images.channels):
            self.add(f"convolution{depth}", 9 * before, channels)
            before = channels
        self.features = before * (images.width >> len(images.channels)) ** 2
        self.add("dense", self.features, CLASSES)
        self.adam = adam.Adam(self.parameters, RATE)

    def add(self, name, inputs, outputs):
        """A layer's parameters, of a variance that neither swells nor shrinks what goes through (He et al., 2015)."""
        key = (self.images.seed, 1_000_000 + len(self.parameters))
        self.parameters[f"{name}.weight"] = self.arrays.normal(key, inputs, outputs) * (2 / inputs) ** 0.5
        self.parameters[f"{name}.bias"] = self.arrays.zeros(1, outputs)

    def __str__(self):
        return str(self.images)

    def step(self, epoch, step):
        results, gradients = self.gradients(*self.images.at(epoch, step))
        self.parameters = self.adam.updated(self.parameters, gradients)
        return results

    def gradients(self, images, classes):
        """Loss and accuracy of a batch, and the gradients of the loss by the parameters."""
        batch = len(classes)
        signal = self.arrays.reshape(images, batch * self.images.width**2, 1)
        for depth, layer in enumerate(self.layers):
            signal = layer.forward(signal, self.parameters[f"convolution{depth}.weight"], self.parameters[f"convolution{depth}.bias"])
        features = self.arrays.reshape(signal, batch, self.features)
        scores = features @ self.parameters["dense.weight"] + self.parameters["dense.bias"]
        loss, accuracy, back = softmax_loss(self.arrays, scores, classes)
        gradients = {"dense.weight": features.T @ back, "dense.bias": self.arrays.sum_rows(back)}
        back = self.arrays.reshape(back @ self.parameters["dense.weight"].T, *signal.shape)
        for depth, layer in reversed(list(enumerate(self.layers))):
            name = f"convolution{depth}"
            gradients[f"{name}.weight"], gradients[f"{name}.bias"], back = layer.backward(back, self.parameters[f"{name}.weight"])
        return (loss, accuracy), gradients

    def save(self):
        return {**{name: self.arrays.flat(value) for name, value in self.parameters.items()}, **self.adam.save(self.arrays)}

    def load(self, saved):
        self.parameters = {name: self.arrays.from_flat(saved[name], like) for name, like in self.parameters.items()}
        self.adam.load(self.arrays, saved)


def softmax_loss(array_kind, scores, classes):
    """Mean cross-entropy, share of right answers, and the gradient by the scores."""
    exponents = array_kind.exp(scores - array_kind.max_columns(scores))
    chances = exponents / array_kind.sum_columns(exponents)
    numbers = array_kind.flat(chances)
    rows = [numbers[row * CLASSES : (row + 1) * CLASSES] for row in range(len(classes))]
    loss = -sum(math.log(max(row[right], 1e-300)) for row, right in zip(rows, classes)) / len(classes)
    accuracy = sum(row[right] == max(row) for row, right in zip(rows, classes)) / len(classes)
    truth = array_kind.matrix([[float(which == right) for which in range(CLASSES)] for right in classes])
    return loss, accuracy, (chances - truth) * (1 / len(classes))


class Convolution:
    """A 3 x 3 convolution, ReLU and 2 x 2 max pooling, as products of matrices over gathered rows."""

    def __init__(self, array_kind, batch, width):
        self.arrays = array_kind
        rows = batch * width * width
        # For each of the nine places of the kernel, the pixel under it; outside the image that is the row of zeros appended at the end.
        self.shifts = [
            array_kind.indices([self.beneath(pixel, width, down, right, rows) for pixel in range(rows)])
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        ]
        corners = [pixel for pixel in range(rows) if pixel // width % 2 == 0 and pixel % 2 == 0]
        offsets = (0, 1, width, width + 1)
        self.pools = [array_kind.indices([corner + offset for corner in corners]) for offset in offsets]
        # Where each pixel's gradient is found among the four gathered lists laid below each other.
        origin = {corner + offset: which * len(corners) + at for which, offset in enumerate(offsets) for at, corner in enumerate(corners)}
        self.unpool = array_kind.indices([origin[pixel] for pixel in range(rows)])

    @staticmethod
    def beneath(pixel, width, down, right, outside):
        row, column = pixel // width % width + down, pixel % width + right
        return pixel + down * width + right if 0 <= row < width and 0 <= column < width else outside

    def gather(self, matrix, which):
        padded = self.arrays.below([matrix, self.arrays.zeros(1, matrix.shape[1])])
        return self.arrays.take_rows(padded, self.shifts[which])

    def forward(self, signal, weight, bias):
        self.channels = signal.shape[1]
        self.patches = self.arrays.beside([self.gather(signal, which) for which in range(9)])
        linear = self.patches @ weight + bias
        self.active = self.arrays.positive(linear)
        rectified = linear * self.active
        self.parts = [self.arrays.take_rows(rectified, pool) for pool in self.pools]
        self.pooled = self.arrays.maximum(self.arrays.maximum(*self.parts[:2]), self.arrays.maximum(*self.parts[2:]))
        return self.pooled

    def backward(self, back, weight):
        """Gradients by weight, bias and input."""
        # Two equal maxima above zero do not occur in practice; at zero the gradient is cut off by `active`.
        spread = self.arrays.below([back * self.arrays.equal(part, self.pooled) for part in self.parts])
        linear = self.arrays.take_rows(spread, self.unpool) * self.active
        patches = linear @ weight.T
        signal = self.arrays.zeros(patches.shape[0], self.channels)
        for which in range(9):
            # What a pixel gave by one shift comes back by the opposite one.
            part = self.arrays.block(patches, 0, patches.shape[0], which * self.channels, (which + 1) * self.channels)
            signal = signal + self.gather(part, 8 - which)
        return self.patches.T @ linear, self.arrays.sum_rows(linear), signal


class TorchTraining:
    """The network in PyTorch."""

    figures = ("loss", "accuracy")

    def __init__(self, backend, images):
        torch = backend.library
        self.torch, self.images, self.arrays, self.steps = torch, images, images.arrays, len(images)
        torch.manual_seed(images.seed)
        layers, before = [], 1
        for channels in images.channels:
            layers += [torch.nn.Conv2d(before, channels, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
            before = channels
        dense = torch.nn.Linear(before * (images.width >> len(images.channels)) ** 2, CLASSES)
        self.network = torch.nn.Sequential(*layers, torch.nn.Flatten(), dense).to(backend.device)
        self.parameters = adam.TorchParameters(torch, self.arrays, dict(self.network.named_parameters()), RATE / 2)

    def __str__(self):
        return str(self.images)

    def step(self, epoch, step):
        images, classes = self.images.at(epoch, step)
        truth = self.arrays.indices(classes)
        scores = self.network(images.reshape(-1, 1, self.images.width, self.images.width))
        loss = self.torch.nn.functional.cross_entropy(scores, truth)
        self.parameters.learn(loss)
        return loss.item(), (scores.argmax(1) == truth).float().mean().item()

    def save(self):
        return self.parameters.save()

    def load(self, saved):
        self.parameters.load(saved)


if __name__ == "__main__":
    epochs.main("cnn", __doc__, build)
