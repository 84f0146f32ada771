"""Pong for one player against a wall, as pictures of 80 x 80 points: what Atari's game looks like to a network."""

import torch

SIDE, PADDLE, SPEED = 80, 12, 3.0
ACTIONS = 3  # stay, up, down


class Pong:
    """A game. Its whole state is a few numbers and a generator, so that it can be saved in the middle."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.serve()

    def serve(self):
        """The ball starts from the left wall; the paddle is on the right."""
        height, slope = torch.rand(2, generator=self.generator).tolist()
        self.ball = [2.0, 5 + height * (SIDE - 10)]
        self.motion = [SPEED, (slope - 0.5) * 2 * SPEED]
        self.paddle = SIDE / 2

    def picture(self):
        """One channel, as networks take it."""
        points = torch.zeros(1, SIDE, SIDE)
        column, row = (min(int(place), SIDE - 3) for place in self.ball)
        points[0, row : row + 3, column : column + 3] = 1.0
        top = int(self.paddle - PADDLE / 2)
        points[0, top : top + PADDLE, SIDE - 3 : SIDE - 1] = 1.0
        return points

    def play(self, action):
        """Moves on; returns the reward: 1 for a ball that is returned, -1 for one that is missed."""
        self.paddle = min(max(self.paddle + (0, -4, 4)[action], PADDLE / 2), SIDE - PADDLE / 2)
        self.ball = [place + motion for place, motion in zip(self.ball, self.motion)]
        if not 0 <= self.ball[1] <= SIDE - 3:
            self.ball[1] = min(max(self.ball[1], 0.0), SIDE - 3.0)
            self.motion[1] = -self.motion[1]
        if self.ball[0] < SIDE - 5:
            return 0.0
        is_hit = abs(self.ball[1] - self.paddle) <= PADDLE / 2 + 2
        self.serve()
        return 1.0 if is_hit else -1.0

    def state_dict(self):
        return {"ball": self.ball, "motion": self.motion, "paddle": self.paddle, "generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.ball, self.motion, self.paddle = list(state["ball"]), list(state["motion"]), state["paddle"]
        self.generator.set_state(state["generator"].cpu())
