"""Models of a few thousand parameters that ranks run in tests: rows, skips, branches, tied weights, writes in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, WORDS, LENGTH, SAMPLES = 16, 40, 8, 3
Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


class Block(nn.Module):
    """Attention and two layers, with dropout in both."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.project = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.inner = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        x = x + functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=0.2 if self.training else 0.0
        )
        out: torch.Tensor = x + self.inner(x)
        return out


class Gpt(nn.Module):
    """The head's weights are the embedding's."""

    def __init__(self, blocks: int = 4, tied: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.3)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def gpt() -> Made:
    return Gpt(), (_words(),), {"labels": _words()}


def wider_gpt() -> Made:
    return Gpt(blocks=5), (_words(),), {"labels": _words()}


class Skips(nn.Module):
    """What the first part makes is read by every later one, and one value by two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, 1)
        self.parts = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        memory = torch.tanh(self.first(x))
        y = memory * scale
        for part in self.parts:
            y = torch.relu_(part(torch.cat([y, memory], dim=-1)))
        return self.last(torch.cat([y, memory], dim=-1)).square().mean()


def skips() -> Made:
    return Skips(), (torch.randn(SAMPLES, WIDTH),), {"scale": torch.rand(SAMPLES, WIDTH)}


class Towers(nn.Module):
    """Two rows that meet at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.right = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.scale = nn.Linear(SAMPLES, SAMPLES)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for layer in self.left:
            a = torch.tanh(layer(a))
        for layer in self.right:
            b = torch.tanh(layer(b))
        return self.scale(a @ b.T).logsumexp(dim=-1).mean()


def towers() -> Made:
    return Towers(), (torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH)), {}


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.norm(self.convolution(x)), inplace=True)


class Cnn(nn.Module):
    """Buffers that are updated, and writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.layers = nn.Sequential(*(Residual() for _ in range(4)))
        self.head = nn.Linear(4, 5)

    def forward(self, pixels: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem(pixels)).mean(dim=(2, 3))
        return functional.cross_entropy(self.head(x), labels)


def cnn() -> Made:
    return Cnn(), (torch.randn(SAMPLES, 3, 8, 8),), {"labels": torch.randint(0, 5, (SAMPLES,))}


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x) + torch.rand_like(x))
        return x.square().mean()


def noisy() -> Made:
    return Noisy(), (torch.randn(SAMPLES, WIDTH),), {}


class Cusp(nn.Module):
    """The gradient of its last weights, which are zero, is no number; the loss is."""

    def __init__(self, at: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last = nn.ParameterList([torch.full((WIDTH,), at)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean() + (self.last[0].sqrt() * self.last[0]).sum()


def cusp() -> Made:
    return Cusp(), (torch.randn(SAMPLES, WIDTH),), {}


def rootless() -> Made:
    return Cusp(-1.0), (torch.randn(SAMPLES, WIDTH),), {}


def raising() -> Made:
    raise ValueError("there is no such file of weights")


def _words() -> torch.Tensor:
    return torch.randint(0, WORDS, (SAMPLES, LENGTH))
