"""The exact choice of configurations: every choice tried, and a large stage of equal layers."""

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


def test_sixty_equal_layers_are_chosen_at_once() -> None:
    """In any order they are the same choice: 37 of them must recompute."""
    costs, memories = [[0.1, 0.13]] * 60, [[3, 1]] * 60
    found = choose(costs, memories, 180 - 2 * 37 + 1)
    assert (sum(found.ways), found.cost) == (37, pytest.approx(6.0 + 37 * 0.03))
