#!/usr/bin/env python3
"""ResNet-18 on pictures of CIFAR-10's shape: 3 x 32 x 32, 10 classes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402
import training  # noqa: E402
from images import pictures  # noqa: E402
from resnet import resnet  # noqa: E402

EXAMPLES = 50_000


def build(setting):
    options = setting.options
    model = setting.parallel(resnet("resnet18", 10, 4 if setting.is_small else 64, has_large_images=False))
    optimiser = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9, weight_decay=5e-4)

    def step(batch):
        images, labels = (tensor.to(setting.device) for tensor in batch)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    batches = setting.loader(pictures(EXAMPLES, options.seed, 32, 10), options.batch_size)
    return training.Task({"model": model, "optimiser": optimiser}, batches, step)


def main(arguments=None):
    parser = training.parser(__doc__, ["--num_steps"], 100)
    parser.add_argument("--data_dir", metavar="DIR", help="accepted, not read")
    parser.add_argument("--batch_size", type=int, default=128, metavar="B", help="images a step [128]")
    parser.add_argument("--learning_rate", type=float, default=0.05, metavar="R", help="[0.05]")
    training.run(parser.parse_args(arguments), build)


if __name__ == "__main__":
    main()
