"""The exact choice of configurations: every choice tried, and large stages of equal and unequal layers."""

from __future__ import annotations

import itertools
import random

import pytest

from pipeplan.planners.staging.costs import choose

Rows = list[list[float]]
Units = list[list[int]]
"""Memory is counted in whole units."""


def random_rows(seed: int, layers: int, ways: int = 3, whole: bool = True) -> tuple[Rows, Units, int]:
    rng = random.Random(seed)
    costs, memories = [], []
    for _ in range(layers):
        count = rng.randint(1, ways)
        costs.append([float(rng.randint(0, 20)) if whole else rng.uniform(0, 20) for _ in range(count)])
        memories.append([rng.randint(0, 9 if whole else 9 * 10**14) for _ in range(count)])
    least, most = sum(map(min, memories)), sum(map(max, memories))
    return costs, memories, round(least + rng.uniform(-0.05, 0.9) * (most - least))


def brute(costs: Rows, memories: Units, limit: int) -> float | None:
    totals = [
        sum(row[x] for row, x in zip(costs, ways, strict=True))
        for ways in itertools.product(*(range(len(row)) for row in costs))
        if sum(row[x] for row, x in zip(memories, ways, strict=True)) <= limit
    ]
    return min(totals, default=None)


@pytest.mark.parametrize("seed", range(150))
def test_no_choice_is_better(seed: int) -> None:
    costs, memories, limit = random_rows(seed, layers=1 + seed % 7, whole=seed % 2 == 0)
    found, expected = choose(costs, memories, limit), brute(costs, memories, limit)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.cost == pytest.approx(expected, rel=1e-11)
        assert sum(row[x] for row, x in zip(costs, found.ways, strict=True)) == pytest.approx(found.cost)
        assert sum(row[x] for row, x in zip(memories, found.ways, strict=True)) <= limit


def test_without_a_limit_the_fastest_wins() -> None:
    assert choose([[2.0, 1.0], [3.0]], [[0, 9], [9]], None) == (4.0, (1, 0))


def test_of_equally_fast_ways_the_smaller_wins() -> None:
    assert choose([[1.0, 1.0]], [[5, 2]], 100) == (1.0, (1,))


def test_the_greedy_choice_is_beaten() -> None:
    """Cheapest saving first takes 1 for 2 bytes and then 6 for 10; 6 for 10 alone is enough."""
    found = choose([[0.0, 1.0], [0.0, 6.0]], [[2, 0], [10, 0]], 2)
    assert found == (6.0, (0, 1))


def test_sixty_equal_layers_are_chosen_at_once() -> None:
    """In any order they are the same choice: 37 of them must recompute."""
    costs, memories = [[0.1, 0.13]] * 60, [[3, 1]] * 60
    found = choose(costs, memories, 180 - 2 * 37 + 1)
    assert found is not None
    assert (sum(found.ways), found.cost) == (37, pytest.approx(6.0 + 37 * 0.03))


def test_a_unit_at_a_high_price_does_not_hide_the_best_choice() -> None:
    """Memory counts 10^15 units, a step of one unit is dear: prices times memory round by more than costs differ."""
    costs = [[1.0, 3.0], [1.0, 2.0], [1.0, 1.5]]
    memories = [[10**15 + 1, 10**15], [10**15 + 2, 10**15], [10**15 + 3, 10**15]]
    assert choose(costs, memories, 3 * 10**15 + 3) == (3.5, (0, 0, 1))


def test_forty_different_layers_are_chosen_in_time() -> None:
    """Against the linear bound: at most one layer's saving above it."""
    rng = random.Random(5)
    costs = [[1.0, 1.0 + rng.uniform(0.1, 0.5)] for _ in range(40)]
    memories = [[rng.randint(2_000_000, 8_000_000), 1_000_000] for _ in range(40)]
    limit = round(0.6 * sum(row[0] for row in memories))
    found = choose(costs, memories, limit)
    assert found is not None
    ratios = sorted((c[1] - c[0]) / (m[0] - m[1]) for c, m in zip(costs, memories, strict=True))
    need = sum(row[0] for row in memories) - limit
    price = ratios[next(n for n in range(1, 41) if _saved(costs, memories, ratios[n - 1]) >= need) - 1]
    bound = sum(
        min(c + price * m for c, m in zip(*rows, strict=True)) for rows in zip(costs, memories, strict=True)
    )
    assert bound - price * limit <= found.cost <= bound - price * limit + 0.5
    assert sum(row[x] for row, x in zip(memories, found.ways, strict=True)) <= limit


def _saved(costs: Rows, memories: Units, price: float) -> float:
    return sum(m[0] - m[1] for c, m in zip(costs, memories, strict=True) if (c[1] - c[0]) / (m[0] - m[1]) <= price)
