#!/usr/bin/env python3
"""ResNet-50 on pictures of ImageNet's shape: 3 x 224 x 224, 1000 classes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402
import training  # noqa: E402
from images import pictures  # noqa: E402
from resnet import DEPTHS, resnet  # noqa: E402

EXAMPLES = 1_281_167


def build(setting):
    options = setting.options
    model = setting.parallel(resnet(options.arch, 1000, 2 if setting.is_small else 64, has_large_images=True))
    optimiser = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9, weight_decay=1e-4)

    def step(batch):
        images, labels = (tensor.to(setting.device) for tensor in batch)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    batches = setting.loader(pictures(EXAMPLES, options.seed, 224, 1000), options.batch_size, options.workers)
    return training.Task({"model": model, "optimiser": optimiser}, batches, step)


def main(arguments=None):
    parser = training.parser(__doc__, ["--num_minibatches"], 20)
    parser.add_argument("data", nargs="?", metavar="DIR", help="accepted, not read")
    parser.add_argument("-a", "--arch", choices=sorted(DEPTHS), default="resnet50", help="the network [resnet50]")
    parser.add_argument("-b", "--batch_size", type=int, default=64, metavar="B", help="images a step [64]")
    parser.add_argument("-j", "--workers", type=int, default=4, metavar="N", help="processes that load data, with a GPU [4]")
    parser.add_argument("--learning_rate", type=float, default=0.1, metavar="R", help="[0.1]")
    training.run(parser.parse_args(arguments), build)


if __name__ == "__main__":
    main()
