"""Every placement of a tiny inference problem with its load and its latency: shares no code with models and referee."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from oracles.latency import latency_by_definition
from oracles.placement import Book

from pipeplan.instances.placement.problem import PlacementProblem

Slot = tuple[int, int]
"""Device and piece; CPUs come after accelerators and have one piece, which says nothing."""


@lru_cache(maxsize=64)
def tradeoffs(problem: PlacementProblem, pieces: int, contiguous: bool) -> tuple[tuple[float, float], ...]:
    """Latency and load of the plans that no other beats in both, by growing latency."""
    kept: list[tuple[float, float]] = []
    for latency, load in sorted(set(_plans(problem, pieces, contiguous))):
        if not kept or load < kept[-1][1]:
            kept.append((latency, load))
    return tuple(kept)


def best_load(problem: PlacementProblem, limit: float, pieces: int, contiguous: bool) -> float | None:
    """The least load within the limit; None: there is no plan."""
    loads = [load for latency, load in tradeoffs(problem, pieces, contiguous) if latency <= limit * (1 + 1e-9)]
    return min(loads, default=None)


def _plans(problem: PlacementProblem, pieces: int, contiguous: bool) -> Iterator[tuple[float, float]]:
    """(latency, load)."""
    book, k = Book(problem), problem.accelerators
    slots = [*itertools.product(range(k), range(pieces)), *((k + j, 0) for j in range(problem.cpus))]
    for choice in itertools.product(slots, repeat=len(problem.nodes)):
        if not _in_order_of_use(choice, k) or _is_torn(problem, choice):
            continue
        held = [frozenset(i for i, slot in enumerate(choice) if slot[0] == d) for d in range(k + problem.cpus)]
        parts = [book.parts(d < k, nodes) for d, nodes in enumerate(held)]
        if None in parts or (contiguous and not book.is_chain(held)):
            continue
        latency = latency_by_definition(problem, tuple(None if slot[0] >= k else slot for slot in choice))
        if latency is not None:
            yield latency, max(sum(part) for part in parts if part is not None)


def _in_order_of_use(choice: tuple[Slot, ...], accelerators: int) -> bool:
    """Devices of a kind are alike: the first used is called 0."""
    for kind in (
        [d for d, _ in choice if d < accelerators],
        [d - accelerators for d, _ in choice if d >= accelerators],
    ):
        used = list(dict.fromkeys(kind))
        if used != list(range(len(used))):
            return False
    return True


def _is_torn(problem: PlacementProblem, choice: tuple[Slot, ...]) -> bool:
    """Are nodes of one colour on several devices?"""
    home: dict[str, int] = {}
    colored = ((node.color, slot[0]) for node, slot in zip(problem.nodes, choice, strict=True) if node.color)
    return any(home.setdefault(color, device) != device for color, device in colored)
