"""Small networks for the tests of `rota.adapt`: transformers of several layouts, and text to train them on."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch import nn
from torch.nn import functional

from .daemon import ROOT

CONTEXT, VOCABULARY = 24, 64


class RMSNorm(nn.Module):
    """As in today's language models; PyTorch 1.13 has none."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        if fused:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(x).chunk(3, -1) if self.fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if mask is None:
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        scores = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.o_proj((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Gelu(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return self.down(functional.gelu(self.up(x)))


class SwiGlu(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.gate_up = nn.Linear(width, 4 * width, bias=False)
        else:
            self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        gate, up = self.gate_up(x).chunk(2, -1) if self.fused else (self.gate(x), self.up(x))
        return self.down(functional.silu(gate) * up)


class TransformerBlock(nn.Module):
    """`order` says where it normalises: `pre` or `post`. `needs_mask` makes it want a second argument."""

    def __init__(self, width: int, layout: str, order: str = "pre", needs_mask: bool = False) -> None:
        super().__init__()
        norm, qkv, feed = layout.split("-")
        make: Any = {"layer": nn.LayerNorm, "rms": RMSNorm}[norm]
        self.order, self.needs_mask = order, needs_mask
        self.norm1, self.norm2 = make(width), make(width)
        self.attention = Attention(width, 4, qkv == "fused")
        self.feed = Gelu(width) if feed == "gelu" else SwiGlu(width, feed == "fusedswiglu")
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Any, mask: Optional[Any] = None) -> Any:
        if self.needs_mask and mask is None:
            raise TypeError("forward() missing 1 required positional argument: 'mask'")
        if self.order == "post":
            x = self.norm1(x + self.attention(x, mask))
            return self.norm2(x + self.feed(x))
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        return x + self.dropout(self.feed(self.norm2(x)))


class TinyGpt(nn.Module):
    """A language model over characters. Its output shares the weights of its embedding."""

    def __init__(self, layers: int = 2, width: int = 32, layout: str = "layer-fused-gelu", **block: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.blocks = nn.ModuleList(TransformerBlock(width, layout, **block) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        x = self.embedding(tokens) + self.position[:length]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        for block in self.blocks:
            x = block(x, mask) if block.needs_mask else block(x)
        return self.head(self.norm(x))


class Text:
    """Batches of the documentation's own text; the same seed gives the same batches."""

    def __init__(self, seed: int, size: int = 16) -> None:
        text = "".join((ROOT / name).read_text() for name in ("ARCHITECTURE.md", "README.md"))
        common = sorted(set(text), key=lambda letter: -text.count(letter))[: VOCABULARY - 1]
        codes = {letter: number + 1 for number, letter in enumerate(common)}
        self._text = torch.tensor([codes.get(letter, 0) for letter in text])
        self._size, self._dice = size, torch.Generator().manual_seed(seed)

    def batch(self) -> tuple[Any, Any]:
        starts = torch.randint(len(self._text) - CONTEXT - 1, (self._size,), generator=self._dice)
        rows = torch.stack([self._text[start : start + CONTEXT + 1] for start in starts.tolist()])
        return rows[:, :-1], rows[:, 1:]


def loss_of(model: Any, batch: tuple[Any, Any]) -> Any:
    logits = model(batch[0])
    return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())


def train(model: Any, optimiser: Any, text: Text, steps: int) -> list[float]:
    """The loss of each step."""
    losses = []
    for _ in range(steps):
        loss = loss_of(model, text.batch())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses
