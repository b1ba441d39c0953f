"""One way to run for each layer of a stage: least cost within a memory, exactly.

A multiple-choice knapsack, solved by merging the layers' choices one by one and keeping what no other choice beats in
both cost and memory. A Lagrangian bound (memory at the price that the linear relaxation sets) drops what cannot come
below a greedy solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

EQUAL = 1e-12
"""Relative: choices whose costs differ by less are the same choice to us (equal layers in another order)."""


class Choice(NamedTuple):
    """Total cost, and for each layer the position of its way."""

    cost: float
    ways: tuple[int, ...]


def choose(costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int | None) -> Choice | None:
    """The cheapest choice whose memories, in whole units, sum to at most `limit`; None where no choice fits."""
    fastest = [
        min(range(len(row)), key=lambda x: (row[x], sizes[x])) for row, sizes in zip(costs, memories, strict=True)
    ]
    if limit is None or sum(sizes[x] for sizes, x in zip(memories, fastest, strict=True)) <= limit:
        return Choice(sum(row[x] for row, x in zip(costs, fastest, strict=True)), tuple(fastest))
    if sum(min(sizes) for sizes in memories) > limit:
        return None
    price, ways = _greedy(costs, memories, limit, fastest)
    greedy = Choice(sum(row[x] for row, x in zip(costs, ways, strict=True)), tuple(ways))
    return _merge(costs, memories, limit, price, greedy)


def _greedy(
    costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int, fastest: Sequence[int]
) -> tuple[float, list[int]]:
    """Along the lower hulls of the layers, cheapest saving first, until all fits; the last price and the choice."""
    steps = sorted(
        (step for v, first in enumerate(fastest) for step in _hull(costs[v], memories[v], v, first)),
        key=lambda step: step[0],
    )
    ways, price = list(fastest), 0.0
    used = sum(sizes[x] for sizes, x in zip(memories, ways, strict=True))
    for price, v, way in steps:  # noqa: B007 - the price of the last step is wanted
        used += memories[v][way] - memories[v][ways[v]]
        ways[v] = way
        if used <= limit:
            break
    return price, ways


def _hull(costs: Sequence[float], memories: Sequence[int], v: int, first: int) -> list[tuple[float, int, int]]:
    """Steps (cost per byte saved, layer, way) along the lower hull; their prices rise."""
    steps: list[tuple[float, int, int]] = []
    now = first
    while True:
        smaller = [x for x in range(len(costs)) if memories[x] < memories[now]]
        if not smaller:
            return steps
        best = min(smaller, key=lambda x: ((costs[x] - costs[now]) / (memories[now] - memories[x]), memories[x]))
        steps.append(((costs[best] - costs[now]) / (memories[now] - memories[best]), v, best))
        now = best


def _merge(
    costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int, price: float, greedy: Choice
) -> Choice:
    import numpy as np

    # What the layers still to come cost at least, memory priced; and the least memory they need. Whole numbers add up
    # exactly as floats; prices may make sums far larger than the costs that are compared, and their rounding with them.
    priced = [min(c + price * m for c, m in zip(*row, strict=True)) for row in zip(costs, memories, strict=True)]
    ahead = np.append(np.cumsum(priced[::-1])[::-1], 0.0)
    need = np.append(np.cumsum([min(sizes) for sizes in memories][::-1])[::-1], 0.0)
    most = greedy.cost + EQUAL * (greedy.cost + ahead[0] + price * limit)
    cost, memory = np.zeros(1), np.zeros(1)
    history: list[tuple[Any, Any]] = []
    for v, (row, sizes) in enumerate(zip(costs, memories, strict=True)):
        total = (cost[:, None] + np.asarray(row)).ravel()
        held = (memory[:, None] + np.asarray(sizes)).ravel()
        bound = total + ahead[v + 1] - price * (limit - held)
        keep = (held + need[v + 1] <= limit) & (bound <= most)
        kept = np.flatnonzero(keep)
        kept = kept[_undominated(total[kept], held[kept])]
        history.append((kept // len(row), kept % len(row)))
        cost, memory = total[kept], held[kept]
    fitting = np.flatnonzero(memory <= limit)
    if not len(fitting):
        return greedy
    at = int(fitting[np.argmin(cost[fitting])])
    if cost[at] >= greedy.cost:
        return greedy
    return Choice(float(cost[at]), _trace(history, at))


def _undominated(cost: Any, memory: Any) -> Any:
    """Positions, by memory, of what costs less than everything that needs no more memory."""
    import numpy as np

    order = np.lexsort((cost, memory))
    least = np.minimum.accumulate(np.append(np.inf, cost[order][:-1]))
    return order[cost[order] < least * (1 - EQUAL)]


def _trace(history: Sequence[tuple[Any, Any]], at: int) -> tuple[int, ...]:
    ways = []
    for parents, chosen in reversed(history):
        ways.append(int(chosen[at]))
        at = int(parents[at])
    return tuple(reversed(ways))
