#!/usr/bin/env python3
"""A3C on Pong: several players with games of their own teach one network, each in its turn; a step is one player's update."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import training  # noqa: E402
from pong import ACTIONS, SIDE, Pong  # noqa: E402
from torch import nn  # noqa: E402

ROLLOUT, DISCOUNT, TRACE, ENTROPY = 20, 0.99, 1.0, 0.01


class ActorCritic(nn.Module):
    """Convolutions, a memory, and what to do and to expect."""

    def __init__(self, channels, width):
        super().__init__()
        layers, inputs = [], 1
        for _ in range(4):
            layers += [nn.Conv2d(inputs, channels, 3, 1, 1), nn.MaxPool2d(2), nn.ReLU()]
            inputs = channels
        self.eyes = nn.Sequential(*layers, nn.Flatten())
        self.memory = nn.LSTMCell(channels * (SIDE // 16) ** 2, width)
        self.critic, self.actor = nn.Linear(width, 1), nn.Linear(width, ACTIONS)

    def forward(self, picture, state):
        state = self.memory(self.eyes(picture), state)
        return self.critic(state[0]), self.actor(state[0]), state


class Player:
    """A game, and what the network remembers of it."""

    def __init__(self, seed, width, device):
        self.game, self.device = Pong(seed), device
        self.state = tuple(torch.zeros(1, width, device=device) for _ in range(2))

    def state_dict(self):
        return {"game": self.game.state_dict(), "state": [tensor.clone() for tensor in self.state]}

    def load_state_dict(self, saved):
        self.game.load_state_dict(saved["game"])
        self.state = tuple(tensor.to(self.device) for tensor in saved["state"])

    def rollout(self, model):
        """Plays on for a while; returns the loss by generalised advantage estimation."""
        state = tuple(tensor.detach() for tensor in self.state)
        values, chances, entropies, rewards = [], [], [], []
        for _ in range(ROLLOUT):
            value, actions, state = model(self.game.picture()[None].to(self.device), state)
            logarithms = torch.log_softmax(actions, 1)
            action = torch.multinomial(logarithms.exp().detach(), 1)
            values.append(value[0, 0])
            chances.append(logarithms.gather(1, action)[0, 0])
            entropies.append(-(logarithms * logarithms.exp()).sum())
            rewards.append(self.game.play(int(action)))
        with torch.no_grad():
            following = model(self.game.picture()[None].to(self.device), state)[0][0, 0]
        self.state = tuple(tensor.detach() for tensor in state)
        loss, expected, advantage, next_value = 0.0, following, 0.0, following
        for value, chance, entropy, reward in zip(*(reversed(each) for each in (values, chances, entropies, rewards))):
            expected = DISCOUNT * expected + reward
            advantage = advantage * DISCOUNT * TRACE + reward + DISCOUNT * next_value - value.detach()
            next_value = value.detach()
            loss = loss + 0.5 * (expected - value) ** 2 - chance * advantage - ENTROPY * entropy
        return loss


def build(setting):
    options = setting.options
    channels, width = (4, 32) if setting.is_small else (32, 512)
    model = setting.parallel(ActorCritic(channels, width))
    optimiser = torch.optim.Adam(model.parameters(), lr=options.lr, amsgrad=options.amsgrad)
    players = [Player(options.seed * 100 + number, width, setting.device) for number in range(options.workers)]

    def step(number):
        loss = players[number].rollout(model)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 40.0)
        optimiser.step()
        return loss

    parts = {"model": model, "optimiser": optimiser, **{f"player {number}": player for number, player in enumerate(players)}}
    return training.Task(parts, range(options.workers), step)


def truth(text):
    return text.lower() in ("true", "1", "yes")


def main(arguments=None):
    parser = training.parser(__doc__, ["--max-steps"], 100)
    parser.add_argument("--env", choices=("PongDeterministic-v4",), default="PongDeterministic-v4", help="the game")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="players [4]")
    parser.add_argument("--amsgrad", type=truth, default=True, metavar="True|False", help="Adam with the largest second moment [True]")
    parser.add_argument("--lr", type=float, default=1e-3, metavar="R", help="[0.001]")
    training.run(parser.parse_args(arguments), build, is_distributed=False)


if __name__ == "__main__":
    main()
