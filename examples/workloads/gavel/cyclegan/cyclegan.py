#!/usr/bin/env python3
"""CycleGAN on pictures of monet2photo's shape: 3 x 256 x 256, two collections without pairs, one picture of each a step."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import itertools  # noqa: E402
import random  # noqa: E402

import torch  # noqa: E402
import training  # noqa: E402
from torch import nn  # noqa: E402

SIDE, PICTURES, REMEMBERED = 256, 6_287, 50


def layer(inputs, outputs, size, stride=1):
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2), nn.InstanceNorm2d(outputs), nn.ReLU()]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(*layer(width, width, 3), *layer(width, width, 3)[:2])

    def forward(self, images):
        return images + self.layers(images)


def generator(width, depth):
    layers = [*layer(3, width, 7), *layer(width, width * 2, 3, 2), *layer(width * 2, width * 4, 3, 2)]
    layers += [Residual(width * 4) for _ in range(depth)]
    for inputs in (width * 4, width * 2):
        layers += [nn.Upsample(scale_factor=2), *layer(inputs, inputs // 2, 3)]
    return nn.Sequential(*layers, nn.Conv2d(width, 3, 7, padding=3), nn.Tanh())


def discriminator(width):
    layers, inputs = [], 3
    for stage in range(4):
        layers += [nn.Conv2d(inputs, width << stage, 4, 2, 1), nn.LeakyReLU(0.2)]
        inputs = width << stage
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1, 3, padding=1))


class Remembered:
    """Pictures that were made earlier: the discriminator sees one of them every other time."""

    def __init__(self, seed):
        self.pictures = []
        # Its own, and saved with it: a training that goes on sees the pictures that it would have seen.
        self.dice = random.Random(seed)

    def exchange(self, picture):
        if len(self.pictures) < REMEMBERED:
            self.pictures.append(picture)
            return picture
        if self.dice.random() < 0.5:
            return picture
        place = self.dice.randrange(REMEMBERED)
        picture, self.pictures[place] = self.pictures[place], picture
        return picture

    def state_dict(self):
        return {"pictures": list(self.pictures), "dice": self.dice.getstate()}

    def load_state_dict(self, saved):
        self.pictures = saved["pictures"]
        self.dice.setstate(saved["dice"])


def collections(seed):
    """A picture of each collection: waves across, and waves down."""
    ramp = torch.linspace(0, 1, SIDE)

    def make(random_numbers):
        def picture(wave):
            frequency, phase = torch.rand(2, generator=random_numbers).tolist()
            shape = torch.sin(6.283 * ((2 + 6 * frequency) * wave + phase)).expand(3, SIDE, SIDE)
            return (0.7 * shape + 0.1 * torch.randn(3, SIDE, SIDE, generator=random_numbers)).clamp(-1, 1)

        return picture(ramp[None, :]), picture(ramp[:, None])

    return training.Generated(PICTURES, seed, make)


class CycleGan:
    """Two generators, two discriminators, and what a step does with them."""

    def __init__(self, setting):
        options = setting.options
        width, depth = (2, 1) if setting.is_small else (64, 9)
        self.device = setting.device
        self.there, self.back = (generator(width, depth).to(self.device) for _ in range(2))
        self.judge_first, self.judge_second = (discriminator(width).to(self.device) for _ in range(2))
        self.made_first, self.made_second = Remembered(options.seed), Remembered(options.seed + 1)
        makers = itertools.chain(self.there.parameters(), self.back.parameters())
        judges = itertools.chain(self.judge_first.parameters(), self.judge_second.parameters())
        self.makers, self.judges = (torch.optim.Adam(each, lr=options.lr, betas=(0.5, 0.999)) for each in (makers, judges))
        epochs = max(options.n_epochs - options.decay_epoch, 1)

        def rate(epoch):
            return 1.0 - max(0, epoch - options.decay_epoch) / epochs

        self.rates = [torch.optim.lr_scheduler.LambdaLR(each, rate) for each in (self.makers, self.judges)]
        self.steps_left = PICTURES
        self.losses = nn.functional.mse_loss, nn.functional.l1_loss

    def state_dict(self):
        return {"steps_left": self.steps_left}

    def load_state_dict(self, saved):
        self.steps_left = saved["steps_left"]

    def parts(self):
        modules = {"there": self.there, "back": self.back, "judge first": self.judge_first, "judge second": self.judge_second}
        others = {"makers": self.makers, "judges": self.judges, "makers' rate": self.rates[0], "judges' rate": self.rates[1]}
        return {**modules, **others, "made first": self.made_first, "made second": self.made_second, "steps": self}

    def step(self, batch):
        first, second = (picture.to(self.device) for picture in batch)
        squared, absolute = self.losses
        made_second, made_first = self.there(first), self.back(second)
        judged_first, judged_second = self.judge_first(made_first), self.judge_second(made_second)
        fooled = squared(judged_first, torch.ones_like(judged_first)) + squared(judged_second, torch.ones_like(judged_second))
        cycle = absolute(self.back(made_second), first) + absolute(self.there(made_first), second)
        same = absolute(self.back(first), first) + absolute(self.there(second), second)
        loss = fooled + 10.0 * cycle + 5.0 * same
        self.makers.zero_grad()
        loss.backward()
        self.makers.step()
        wrong = self.judged(self.judge_first, first, self.made_first.exchange(made_first.detach()))
        wrong = wrong + self.judged(self.judge_second, second, self.made_second.exchange(made_second.detach()))
        self.judges.zero_grad()
        wrong.backward()
        self.judges.step()
        self.steps_left -= 1
        if self.steps_left == 0:
            self.steps_left = PICTURES
            for each in self.rates:
                each.step()
        return loss

    def judged(self, judge, real, made):
        squared, right, wrong = self.losses[0], judge(real), judge(made)
        return 0.5 * (squared(right, torch.ones_like(right)) + squared(wrong, torch.zeros_like(wrong)))


def build(setting):
    gan = CycleGan(setting)
    return training.Task(gan.parts(), setting.loader(collections(setting.options.seed), 1), gan.step)


def main(arguments=None):
    parser = training.parser(__doc__, ["--n_steps"], 20)
    parser.add_argument("--dataset_path", metavar="DIR", help="accepted, not read")
    parser.add_argument("--n_epochs", type=int, default=200, metavar="N", help="passes until the rate is 0 [200]")
    parser.add_argument("--decay_epoch", type=int, default=100, metavar="N", help="the pass after which the rate falls [100]")
    parser.add_argument("--lr", type=float, default=2e-4, metavar="R", help="[0.0002]")
    training.run(parser.parse_args(arguments), build, is_distributed=False)


if __name__ == "__main__":
    main()
