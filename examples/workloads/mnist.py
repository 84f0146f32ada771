#!/usr/bin/env python3
"""Learns to tell ten kinds of pictures apart, on GPUs that it waits for with the client library of watchmen.

Start it in several terminals, each time with another --id, and look at the queue: every one waits until its GPUs are free, is given them, and
keeps them until it ends. The pictures are those of Fashion-MNIST where Debian's package `dataset-fashion-mnist` is installed, and generated
otherwise. It computes with CUDA, PyTorch on the CPU, NumPy or plain Python, whichever is the best here.
"""

import argparse
import gzip
import math
import os
import pathlib
import random
import sys
import time

import adam
import arrays
import backend

DEBIAN = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = 10
WIDTH = 28
# Width of the pictures after pooling, hidden units, batches in an epoch, by backend.
SIZES = {"cuda": (28, 512, 900), "torch": (28, 128, 200), "numpy": (28, 64, 100), "pure": (7, 16, 10)}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: mnist.py --id first --cuda 0 --wait        exactly GPU 0\n"
        "         mnist.py --id second --cuda 0,1,2 --wait --wait_mode schedule --req_gpu_num 2    any two of three",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--id", required=True, help="names this run in the queue")
    parser.add_argument("--cuda", type=gpu_list, default=[0], metavar="0,1", help="the GPUs to use, or to choose from [0]")
    parser.add_argument("--wait", action="store_true", help="wait for them, in place of using them at once")
    parser.add_argument("--wait_mode", choices=("queue", "schedule"), default="queue", help="queue: all of them; schedule: so many of them [queue]")
    parser.add_argument("--req_gpu_num", type=int, default=1, metavar="N", help="how many of them with schedule [1]")
    parser.add_argument("--host", default="127.0.0.1", help="where the queue is [127.0.0.1]")
    parser.add_argument("--port", type=int, default=62333, metavar="N", help="and its port [62333]")
    parser.add_argument("--token", help="if it wants one; the client remembers it in its working directory")
    parser.add_argument("--data", type=pathlib.Path, default=DEBIAN, metavar="DIR", help="where Fashion-MNIST is looked for [Debian's place]")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="[5]")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="[64]")
    parser.add_argument("--lr", type=float, default=0.002, metavar="RATE", help="length of a step [0.002]")
    parser.add_argument("--gamma", type=float, default=0.7, metavar="PART", help="what is left of it after each epoch [0.7]")
    return parser.parse_args()


def gpu_list(text):
    return [int(part) for part in text.split(",")]


def wait_for_gpus(options):
    """The GPUs that this process is given, once it is given them. They are its own until it ends."""
    from watchmen import ClientMode, WatchClient

    client = WatchClient(
        id=options.id,
        gpus=options.cuda,
        server_host=options.host,
        server_port=options.port,
        mode=ClientMode.QUEUE if options.wait_mode == "queue" else ClientMode.SCHEDULE,
        req_gpu_num=options.req_gpu_num,
        token=options.token,
    )
    began = time.monotonic()
    granted = client.wait()
    tell(f"{options.id}: granted {','.join(map(str, granted))} after {time.monotonic() - began:.1f} s")
    return granted


def main():
    options = parse()
    gpus = wait_for_gpus(options) if options.wait else options.cuda
    if not gpus:
        sys.exit("no GPU was granted")
    # Before anything looks for GPUs.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    chosen = backend.choose()
    width, hidden, batches = SIZES[chosen.kind]
    pictures = Pictures(arrays.arrays_of(chosen), options.data, width, options.batch_size, batches)
    network = Perceptron(pictures, hidden, options.lr)
    tell(f"{options.id}: {chosen}, {pictures}")
    for epoch in range(options.epochs):
        began = time.monotonic()
        results = [network.step(*batch) for batch in pictures.epoch(epoch)]
        loss, accuracy = (sum(column) / len(results) for column in zip(*results))
        tell(f"epoch {epoch + 1}/{options.epochs}  loss {loss:.4f}  accuracy {accuracy:.3f}  {time.monotonic() - began:.2f} s")
        network.adam.rate *= options.gamma


class Pictures:
    """Batches of pictures and their classes, in another order every epoch."""

    def __init__(self, array_kind, folder, width, batch, batches):
        self.arrays, self.width, self.batch, self.batches = array_kind, width, batch, batches
        count = batch * batches
        is_there = (folder / "train-images-idx3-ubyte.gz").exists()
        self.source = "Fashion-MNIST" if is_there else "generated pictures"
        rows, self.classes = fashion(folder, count) if is_there else generated(count)
        self.rows = [pooled(row, width) for row in rows]

    def __str__(self):
        return f"{len(self.rows)} of {self.source}, {self.width} x {self.width}"

    def epoch(self, number):
        order = list(range(len(self.rows)))
        random.Random(number).shuffle(order)
        for first in range(0, len(order) - self.batch + 1, self.batch):
            chosen = order[first : first + self.batch]
            yield self.arrays.matrix([self.rows[which] for which in chosen]), [self.classes[which] for which in chosen]


def fashion(folder, count):
    """The first pictures of Fashion-MNIST, with brightnesses from 0 to 1."""
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as images, gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels:
        images.seek(16)
        labels.seek(8)
        classes = list(labels.read(count))
        size = WIDTH * WIDTH
        return [[level / 255 for level in images.read(size)] for _ in classes], classes


def generated(count):
    """A blot at one of ten places on a ring, with noise."""
    draw = random.Random(0)
    classes = [draw.randrange(CLASSES) for _ in range(count)]
    rows = []
    for kind in classes:
        angle = 2 * math.pi * kind / CLASSES + draw.gauss(0, 0.15)
        down, right = 14 + 9 * math.sin(angle), 14 + 9 * math.cos(angle)
        bright = [math.exp(-((at - down) ** 2) / 12) for at in range(WIDTH)]
        across = [math.exp(-((at - right) ** 2) / 12) for at in range(WIDTH)]
        rows.append([one * other + 0.3 * draw.random() for one in bright for other in across])
    return rows, classes


def pooled(row, width):
    """A picture of less width, by means."""
    side = WIDTH // width
    if side == 1:
        return row
    return [
        sum(row[(down * side + y) * WIDTH + right * side + x] for y in range(side) for x in range(side)) / side**2
        for down in range(width)
        for right in range(width)
    ]


class Perceptron:
    """One hidden layer of rectified units, under Adam, with its gradients written out."""

    def __init__(self, pictures, hidden, rate):
        self.arrays = pictures.arrays
        inputs = pictures.width**2
        self.parameters = {
            "in.weight": self.arrays.normal((1, 1), inputs, hidden) * (2 / inputs) ** 0.5,
            "in.bias": self.arrays.zeros(1, hidden),
            "out.weight": self.arrays.normal((1, 2), hidden, CLASSES) * (2 / hidden) ** 0.5,
            "out.bias": self.arrays.zeros(1, CLASSES),
        }
        self.adam = adam.Adam(self.parameters, rate)

    def step(self, images, classes):
        """One step against the gradients of a batch; its loss and the share of right answers."""
        values = self.parameters
        linear = images @ values["in.weight"] + values["in.bias"]
        active = self.arrays.positive(linear)
        rectified = linear * active
        scores = rectified @ values["out.weight"] + values["out.bias"]
        exponents = self.arrays.exp(scores - self.arrays.max_columns(scores))
        chances = exponents / self.arrays.sum_columns(exponents)
        truth = self.arrays.matrix([[float(which == right) for which in range(CLASSES)] for right in classes])
        back = (chances - truth) * (1 / len(classes))
        behind = (back @ values["out.weight"].T) * active
        gradients = {
            "in.weight": images.T @ behind,
            "in.bias": self.arrays.sum_rows(behind),
            "out.weight": rectified.T @ back,
            "out.bias": self.arrays.sum_rows(back),
        }
        self.parameters = self.adam.updated(values, gradients)
        numbers = self.arrays.flat(chances)
        rows = [numbers[at : at + CLASSES] for at in range(0, len(numbers), CLASSES)]
        loss = -sum(math.log(max(row[right], 1e-30)) for row, right in zip(rows, classes)) / len(classes)
        return loss, sum(row[right] == max(row) for row, right in zip(rows, classes)) / len(classes)


def tell(line):
    """A line of output, there at once for whoever follows the job."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
