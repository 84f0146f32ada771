#!/usr/bin/env python3
"""Gradient boosted decision trees that learn a yes-or-no question about a generated table.

Each round adds a tree, fitted to the first and second derivatives of the logistic loss by histograms, level by level. A step is one round.
`loss` and `accuracy` are of the fifth of the rows that no tree has learned from.
"""

import math

import arrays
import epochs

BINS = 32
RATE = 0.2
# Added to the second derivatives, so that leaves of a few rows stay modest.
DAMPING = 1.0
# Rows and columns of the table, depth of the trees, rounds in an epoch, by backend.
SIZES = {
    "cuda": {"small": (100_000, 20, 6, 20), "large": (1_000_000, 40, 8, 100)},
    "torch": {"small": (10_000, 20, 4, 8), "large": (100_000, 20, 6, 50)},
    "numpy": {"small": (10_000, 20, 4, 15), "large": (100_000, 20, 6, 50)},
    "pure": {"small": (1_200, 6, 3, 12), "large": (5_000, 12, 5, 40)},
}


def build(backend, size, seed):
    """The trees and their table for a backend."""
    rows, columns, depth, rounds = SIZES[backend.kind][size]
    kind = PureTrees if backend.kind == "pure" else Trees
    return kind(backend, rows, columns, depth, rounds, seed)


class Boosting:
    """What all backends share: the table, the trees so far, and the sums of all rows' leaves (`margins`)."""

    figures = ("loss", "accuracy")

    def __init__(self, backend, rows, columns, depth, rounds, seed):
        self.arrays = arrays.arrays_of(backend)
        self.rows, self.columns, self.depth, self.steps = rows, columns, depth, rounds
        table = self.arrays.normal((seed, 0), rows, columns)
        column = lambda which: self.arrays.block(table, 0, rows, which, which + 1)
        rule = column(0) * column(1) + self.arrays.sin(column(2) * 2.0) + column(3) * 0.5
        noise = self.arrays.normal((seed, 1), rows, 1) * 0.3
        self.truth = self.arrays.positive(rule + noise)
        self.train_rows = rows * 4 // 5
        # Trees as lists: column and bin of every question, level by level, then the leaves.
        self.splits, self.leaves = [], []
        self.prepare(table)

    def __str__(self):
        return f"table of {self.rows} x {self.columns}, {self.steps} trees of depth {self.depth} an epoch"

    def save(self):
        return {"splits": self.splits, "leaves": self.leaves, "margins": self.arrays.flat(self.margins)}

    def load(self, saved):
        self.splits, self.leaves = saved["splits"].tolist(), saved["leaves"].tolist()
        self.margins = self.arrays.from_flat(saved["margins"], self.margins)


class Trees(Boosting):
    """With the operations that NumPy and PyTorch have in common."""

    def prepare(self, table):
        self.library = self.arrays.torch if hasattr(self.arrays, "torch") else self.arrays.numpy
        # Equal bins over three standard deviations on either side.
        bins = ((table + 3.0) * (BINS / 6.0)).clip(0, BINS - 1)
        self.bins = bins.long() if hasattr(bins, "long") else bins.astype(int)
        self.column_offsets = self.arrays.indices([[column * BINS for column in range(self.columns)]])
        self.everyone = self.arrays.indices(list(range(self.rows)))
        self.margins = self.truth * 0.0

    def step(self, _epoch, _step):
        chances = 1.0 / (1.0 + self.arrays.exp(-self.margins))
        first, second = (chances - self.truth)[:, 0], (chances * (1.0 - chances))[:, 0]
        node = self.everyone * 0
        for level in range(self.depth):
            column, cut = self.best_splits(first, second, node, 1 << level)
            self.splits += [number for pair in zip(column, cut) for number in pair]
            asked = self.bins[self.everyone, self.arrays.indices(column)[node]]
            node = 2 * node + (asked > self.arrays.indices(cut)[node])
        leaves = self.sums(first, node, 1 << self.depth) * -RATE / (self.sums(second, node, 1 << self.depth) + DAMPING)
        self.leaves += leaves.tolist()
        self.margins = self.margins + leaves[node][:, None].reshape(self.rows, 1)
        return self.held_out()

    def sums(self, weights, index, length):
        """The weights of the rows learned from, added up by index."""
        count = self.train_rows
        return self.library.bincount(index[:count], weights=weights[:count], minlength=length)

    def best_splits(self, first, second, node, nodes):
        """For each node, the column and the last bin of its left side that lower the loss most."""
        count = self.train_rows
        index = (node[:count, None] * (self.columns * BINS) + self.column_offsets + self.bins[:count]).reshape(-1)
        lefts = []
        for weights in (first, second):
            spread = self.library.broadcast_to(weights[:count, None], (count, self.columns)).reshape(-1)
            histogram = self.library.bincount(index, weights=spread, minlength=nodes * self.columns * BINS)
            lefts.append(histogram.reshape(nodes, self.columns, BINS).cumsum(2))
        (first_left, second_left), (first_all, second_all) = lefts, (left[:, :, -1:] for left in lefts)
        gain = first_left**2 / (second_left + DAMPING) + (first_all - first_left) ** 2 / (second_all - second_left + DAMPING)
        best = gain.reshape(nodes, -1).argmax(1).tolist()
        return [place // BINS for place in best], [place % BINS for place in best]

    def held_out(self):
        margins, truth = self.margins[self.train_rows :], self.truth[self.train_rows :]
        # The logistic loss in the form that cannot overflow.
        surprise = -margins * (2.0 * truth - 1.0)
        loss = self.arrays.maximum(surprise, surprise * 0.0) + self.library.log1p(self.arrays.exp(-abs(surprise)))
        right = self.arrays.equal(margins > 0, truth > 0.5)
        return float(loss.mean()), float(right.mean())


class PureTrees(Boosting):
    """In plain Python."""

    def prepare(self, table):
        self.bins = [[min(max(int((entry + 3.0) * BINS / 6.0), 0), BINS - 1) for entry in row] for row in table.rows]
        self.margins = self.truth * 0.0

    def step(self, _epoch, _step):
        margins, truth = self.arrays.flat(self.margins), self.arrays.flat(self.truth)
        chances = [1.0 / (1.0 + math.exp(-margin)) for margin in margins]
        first = [chance - right for chance, right in zip(chances, truth)]
        second = [chance * (1.0 - chance) for chance in chances]
        node = [0] * self.rows
        for level in range(self.depth):
            splits = self.best_splits(first, second, node, 1 << level)
            self.splits += [number for split in splits for number in split]
            node = [2 * at + (bins[splits[at][0]] > splits[at][1]) for at, bins in zip(node, self.bins)]
        sums = [[0.0, DAMPING] for _ in range(1 << self.depth)]
        for row in range(self.train_rows):
            sums[node[row]][0] += first[row]
            sums[node[row]][1] += second[row]
        leaves = [-RATE * total / weight for total, weight in sums]
        self.leaves += leaves
        margins = [margin + leaves[at] for margin, at in zip(margins, node)]
        self.margins = self.arrays.matrix([[margin] for margin in margins])
        return self.held_out(margins[self.train_rows :], truth[self.train_rows :])

    def best_splits(self, first, second, node, nodes):
        """For each node, the column and the last bin of its left side that lower the loss most."""
        first_sums, second_sums = ([[[0.0] * BINS for _ in range(self.columns)] for _ in range(nodes)] for _ in range(2))
        for row in range(self.train_rows):
            first_row, second_row, gradient, curvature = first_sums[node[row]], second_sums[node[row]], first[row], second[row]
            for column, place in enumerate(self.bins[row]):
                first_row[column][place] += gradient
                second_row[column][place] += curvature
        return [self.best_split(*sums) for sums in zip(first_sums, second_sums)]

    def best_split(self, first_sums, second_sums):
        best = (-1.0, 0, BINS - 1)
        for column, (firsts, seconds) in enumerate(zip(first_sums, second_sums)):
            first_all, second_all, first_left, second_left = sum(firsts), sum(seconds), 0.0, 0.0
            for place in range(BINS):
                first_left += firsts[place]
                second_left += seconds[place]
                gain = first_left**2 / (second_left + DAMPING) + (first_all - first_left) ** 2 / (second_all - second_left + DAMPING)
                if gain > best[0]:
                    best = (gain, column, place)
        return best[1:]

    def held_out(self, margins, truth):
        surprises = [-margin * (2.0 * right - 1.0) for margin, right in zip(margins, truth)]
        loss = sum(max(surprise, 0.0) + math.log1p(math.exp(-abs(surprise))) for surprise in surprises)
        right = sum((margin > 0) == (answer > 0.5) for margin, answer in zip(margins, truth))
        return loss / len(margins), right / len(margins)


if __name__ == "__main__":
    epochs.main("boosting", __doc__, build)
