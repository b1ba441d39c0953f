"""Seven random chains on two GPUs, all terms counted, whose optima two models and a brute force agree on."""

from __future__ import annotations

from .known_answers import KnownChain
from .problem import ChainProblem

SOURCE = "random; integer program, constraint model and brute force agree"

Row = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, tuple[int, ...], int, int, int]

ROWS: tuple[Row, ...] = (
    ((1, 3, 3, 1, 3, 2, 3, 2), (4, 0, 4, 0, 3, 0, 4, 0, 4), None, (1, 2, 0, 0), 25, 11, 9),
    ((3, 1, 2, 2, 3, 1, 1, 1), (4, 3, 2, 2, 0, 2, 2, 3, 4), None, (1, 1, 0, 2), 24, 10, 7),
    ((3, 2, 3, 2, 1, 1, 1, 2), (2, 4, 2, 2, 2, 2, 2, 4, 2), None, (1, 0, 0, 0), 24, 10, 8),
    ((3, 1, 3, 1, 3, 3, 2, 2), (4, 1, 4, 4, 2, 4, 4, 1, 4), None, (2, 2, 1, 1), 34, 13, 9),
    ((2, 2, 1, 2, 2, 1), (2, 0, 4, 1, 4, 0, 2), (0, 1, 0, 1, 0), (2, 1, 1), 18, 7, 6),
    ((1, 1, 1, 2, 1, 1), (3, 2, 2, 2, 2, 2, 3), (1, 1, 0, 1, 1), (1, 2, 1), 28, 5, 4),
    ((2, 2, 2, 1, 2, 1), (3, 1, 2, 2, 2, 1, 3), (1, 1, 0, 1, 1), (1, 1, 0), 17, 7, 6),
)
"""Durations of tasks 1..2L, a_0..a_2L, transfer times, weights, memory, shortest period, the same without limit."""


def golden_chains() -> tuple[KnownChain, ...]:
    """golden-1 to golden-7."""
    return tuple(_golden(number, row) for number, row in enumerate(ROWS, start=1))


def _golden(number: int, row: Row) -> KnownChain:
    durations, activations, transfers, weights, memory, period, unlimited = row
    layers = len(weights)
    problem = ChainProblem(
        forward=durations[:layers],
        backward=durations[: layers - 1 : -1],
        activations=activations,
        weights=weights,
        gpus=2,
        memory_bytes=memory,
        transfer_times=transfers,
        name=f"golden-{number}",
        time_unit=None,
    )
    return KnownChain(problem, {"general": period, "unlimited": unlimited}, SOURCE)
