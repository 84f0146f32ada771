#!/usr/bin/env python3
"""Blocked multiplication of two random square matrices, each block of rows checked.

An epoch draws two new matrices and multiplies them block by block; a step is one block of rows of the product. Freivalds' check compares
the product times a random vector with what the factors make of that vector, so `error` is the rounding of the multiplication.
"""

import arrays
import epochs

# Width of the matrices and of a block, by backend.
SIZES = {
    "cuda": {"small": (4096, 1024), "large": (16384, 2048)},
    "torch": {"small": (1024, 256), "large": (4096, 512)},
    "numpy": {"small": (1024, 256), "large": (4096, 512)},
    "pure": {"small": (128, 16), "large": (384, 32)},
}


class MatrixMultiplication:
    """A product that is being made."""

    figures = ("mean", "error")

    def __init__(self, backend, size, seed):
        self.arrays = arrays.arrays_of(backend)
        self.width, self.block = SIZES[backend.kind][size]
        self.seed = seed
        self.steps = self.width // self.block
        self.flop_per_step = 2 * self.block * self.width**2
        self.checksum = 0.0
        self.drawn = None

    def __str__(self):
        return f"{self.width} x {self.width}, in blocks of {self.block}"

    def draw(self, epoch):
        """The factors of an epoch, and the vector of its check."""
        self.left, self.right = (self.arrays.uniform((self.seed, epoch, which), self.width, self.width) for which in (0, 1))
        self.vector = self.arrays.uniform((self.seed, epoch, 2), self.width, 1)
        self.right_vector = self.right @ self.vector
        self.drawn = epoch

    def step(self, epoch, step):
        if self.drawn != epoch:
            self.draw(epoch)
        top, bottom = step * self.block, (step + 1) * self.block
        product = self.arrays.beside([self.product_block(top, bottom, column) for column in range(0, self.width, self.block)])
        left_rows = self.arrays.block(self.left, top, bottom, 0, self.width)
        expected = left_rows @ self.right_vector
        difference = product @ self.vector - expected
        total = self.arrays.total(product)
        self.checksum += total
        error = (self.arrays.total(difference * difference) / self.arrays.total(expected * expected)) ** 0.5
        return total / (self.block * self.width), error

    def product_block(self, top, bottom, column):
        """One block of the product: the sum over the blocks between."""
        total = self.arrays.zeros(bottom - top, self.block)
        for between in range(0, self.width, self.block):
            left = self.arrays.block(self.left, top, bottom, between, between + self.block)
            total = total + left @ self.arrays.block(self.right, between, between + self.block, column, column + self.block)
        return total

    def save(self):
        return {"checksum": [self.checksum]}

    def load(self, saved):
        self.checksum = saved["checksum"][0]


if __name__ == "__main__":
    epochs.main("matmul", __doc__, MatrixMultiplication)
