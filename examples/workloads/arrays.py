"""Matrices with the same few operations in PyTorch, NumPy and plain Python, so that data and hand-written gradients exist once.

All matrices have two dimensions. Operators `+ - * / ** @` and `.T` work on every kind; in arithmetic a single row or column stands for as
many as the other side has. A draw of random numbers depends on its key alone: a resumed job sees the numbers it would have seen.
"""

import math
import operator
import random
import zlib


def arrays_of(backend):
    """The operations of a backend."""
    if backend.kind == "pure":
        return PureArrays()
    if backend.kind == "numpy":
        return NumpyArrays(backend.library)
    return TorchArrays(backend.library, backend.device)


class NumpyArrays:
    """NumPy, in double precision."""

    def __init__(self, numpy):
        self.numpy = numpy
        self.exp, self.sin, self.tanh = numpy.exp, numpy.sin, numpy.tanh
        self.maximum = numpy.maximum

    def matrix(self, rows):
        return self.numpy.array(rows, dtype=float)

    def zeros(self, rows, columns):
        return self.numpy.zeros((rows, columns))

    def uniform(self, key, rows, columns):
        return self.numpy.random.default_rng(list(key)).random((rows, columns))

    def normal(self, key, rows, columns):
        return self.numpy.random.default_rng(list(key)).standard_normal((rows, columns))

    def block(self, matrix, first_row, end_row, first_column, end_column):
        return matrix[first_row:end_row, first_column:end_column]

    def indices(self, numbers):
        """Row numbers in the form that `take_rows` is quickest with."""
        return self.numpy.array(numbers)

    def take_rows(self, matrix, indices):
        return matrix[indices]

    def beside(self, matrices):
        return self.numpy.concatenate(matrices, axis=1)

    def below(self, matrices):
        return self.numpy.concatenate(matrices, axis=0)

    def reshape(self, matrix, rows, columns):
        return matrix.reshape(rows, columns)

    def positive(self, matrix):
        """1 where the entry is above 0, else 0."""
        return (matrix > 0) * 1.0

    def equal(self, left, right):
        return (left == right) * 1.0

    def sum_rows(self, matrix):
        """All rows added up: one row."""
        return matrix.sum(axis=0, keepdims=True)

    def sum_columns(self, matrix):
        """All columns added up: one column."""
        return matrix.sum(axis=1, keepdims=True)

    def max_columns(self, matrix):
        return matrix.max(axis=1, keepdims=True)

    def total(self, matrix):
        return float(matrix.sum())

    def flat(self, matrix):
        """The entries as a list of numbers, row by row."""
        return matrix.ravel().tolist()

    def from_flat(self, numbers, like):
        """A matrix in the shape of another from its entries."""
        return self.numpy.array(numbers, dtype=float).reshape(like.shape)


class TorchArrays(NumpyArrays):
    """PyTorch, in single precision, on one device."""

    def __init__(self, torch, device):
        self.torch = torch
        self.device = device
        self.exp, self.sin, self.tanh = torch.exp, torch.sin, torch.tanh
        self.maximum = torch.maximum

    def matrix(self, rows):
        return self.torch.tensor(rows, dtype=self.torch.float32, device=self.device)

    def zeros(self, rows, columns):
        return self.torch.zeros((rows, columns), device=self.device)

    def _generator(self, key):
        return self.torch.Generator(device=self.device).manual_seed(zlib.crc32(repr(tuple(key)).encode()))

    def uniform(self, key, rows, columns):
        return self.torch.rand((rows, columns), generator=self._generator(key), device=self.device)

    def normal(self, key, rows, columns):
        return self.torch.randn((rows, columns), generator=self._generator(key), device=self.device)

    def indices(self, numbers):
        return self.torch.tensor(numbers, device=self.device)

    def beside(self, matrices):
        return self.torch.cat(matrices, dim=1)

    def below(self, matrices):
        return self.torch.cat(matrices, dim=0)

    def max_columns(self, matrix):
        return matrix.amax(dim=1, keepdim=True)

    def flat(self, matrix):
        return matrix.detach().reshape(-1).tolist()

    def from_flat(self, numbers, like):
        return self.torch.tensor(list(numbers), dtype=self.torch.float32, device=self.device).reshape(like.shape)


class Matrix:
    """A matrix as a list of rows."""

    __slots__ = ("rows",)

    def __init__(self, rows):
        self.rows = rows

    @property
    def shape(self):
        return len(self.rows), len(self.rows[0])

    @property
    def T(self):
        return Matrix([list(column) for column in zip(*self.rows)])

    def map(self, function):
        return Matrix([[function(entry) for entry in row] for row in self.rows])

    def combine(self, other, function):
        """Entry by entry with a number or a matrix, either of which may be a single row or column."""
        if not isinstance(other, Matrix):
            return Matrix([[function(entry, other) for entry in row] for row in self.rows])
        height, width = (max(sizes) for sizes in zip(self.shape, other.shape))
        left, right = self._spread(height, width), other._spread(height, width)
        return Matrix([list(map(function, first, second)) for first, second in zip(left, right)])

    def _spread(self, height, width):
        rows = self.rows if len(self.rows[0]) == width else [row * width for row in self.rows]
        return rows if len(rows) == height else rows * height

    def __add__(self, other):
        return self.combine(other, operator.add)

    def __sub__(self, other):
        return self.combine(other, operator.sub)

    def __mul__(self, other):
        return self.combine(other, operator.mul)

    def __truediv__(self, other):
        return self.combine(other, operator.truediv)

    def __pow__(self, exponent):
        return self.combine(exponent, operator.pow)

    def __rsub__(self, number):
        return self.map(lambda entry: number - entry)

    def __rtruediv__(self, number):
        return self.map(lambda entry: number / entry)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self):
        return self * -1.0

    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return Matrix([[sum(map(operator.mul, row, column)) for column in columns] for row in self.rows])


class PureArrays:
    """Plain Python."""

    def matrix(self, rows):
        return Matrix([list(map(float, row)) for row in rows])

    def zeros(self, rows, columns):
        return Matrix([[0.0] * columns for _ in range(rows)])

    def uniform(self, key, rows, columns):
        draw = random.Random(repr(tuple(key))).random
        return Matrix([[draw() for _ in range(columns)] for _ in range(rows)])

    def normal(self, key, rows, columns):
        draw = random.Random(repr(tuple(key))).gauss
        return Matrix([[draw(0.0, 1.0) for _ in range(columns)] for _ in range(rows)])

    def block(self, matrix, first_row, end_row, first_column, end_column):
        return Matrix([row[first_column:end_column] for row in matrix.rows[first_row:end_row]])

    def indices(self, numbers):
        return list(numbers)

    def take_rows(self, matrix, indices):
        return Matrix([matrix.rows[index] for index in indices])

    def beside(self, matrices):
        return Matrix([sum(parts, []) for parts in zip(*(matrix.rows for matrix in matrices))])

    def below(self, matrices):
        return Matrix([row for matrix in matrices for row in matrix.rows])

    def reshape(self, matrix, rows, columns):
        numbers = self.flat(matrix)
        return Matrix([numbers[row * columns : (row + 1) * columns] for row in range(rows)])

    def exp(self, matrix):
        return matrix.map(math.exp)

    def sin(self, matrix):
        return matrix.map(math.sin)

    def tanh(self, matrix):
        return matrix.map(math.tanh)

    def maximum(self, left, right):
        return left.combine(right, max)

    def positive(self, matrix):
        return matrix.map(lambda entry: 1.0 if entry > 0 else 0.0)

    def equal(self, left, right):
        return left.combine(right, lambda first, second: 1.0 if first == second else 0.0)

    def sum_rows(self, matrix):
        return Matrix([[sum(column) for column in zip(*matrix.rows)]])

    def sum_columns(self, matrix):
        return Matrix([[sum(row)] for row in matrix.rows])

    def max_columns(self, matrix):
        return Matrix([[max(row)] for row in matrix.rows])

    def total(self, matrix):
        return sum(map(sum, matrix.rows))

    def flat(self, matrix):
        return [entry for row in matrix.rows for entry in row]

    def from_flat(self, numbers, like):
        rows, columns = like.shape
        return Matrix([list(numbers[row * columns : (row + 1) * columns]) for row in range(rows)])
