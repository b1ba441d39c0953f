"""The exact knapsack against enumeration: any number of options, equal and different layers, tight and loose limits."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.formulations.piper.knapsack import Option, enclosure, select, undominated

AMOUNTS = st.integers(0, 12)
LAYERS = st.lists(
    st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4).map(
        lambda pairs: [Option(float(cost), memory, n) for n, (cost, memory) in enumerate(pairs)]
    ),
    min_size=1,
    max_size=5,
)


def cheapest(layers: list[list[Option]], limit: float | None) -> float | None:
    fitting = [
        sum(option.cost for option in choice)
        for choice in itertools.product(*layers)
        if limit is None or sum(option.memory for option in choice) <= limit
    ]
    return min(fitting, default=None)


@given(LAYERS, st.one_of(st.none(), st.integers(0, 40)))
def test_it_is_the_cheapest_choice_that_fits(layers: list[list[Option]], limit: int | None) -> None:
    found = select(layers, limit)
    expected = cheapest(layers, limit)
    assert (None if found is None else found.cost) == expected
    if found is not None:
        chosen = [options[number] for options, number in zip(layers, found.numbers, strict=True)]
        assert sum(option.cost for option in chosen) == found.cost
        assert limit is None or sum(option.memory for option in chosen) <= limit


@given(LAYERS, st.one_of(st.none(), st.integers(0, 40)))
def test_the_enclosure_holds_the_least_cost_and_knows_what_cannot_fit(
    layers: list[list[Option]], limit: int | None
) -> None:
    bounds, expected = enclosure(layers, limit), cheapest(layers, limit)
    assert (bounds is None) == (expected is None)
    if bounds is not None and expected is not None:
        assert bounds[0] <= expected <= bounds[1]


def test_dominated_options_are_not_looked_at() -> None:
    """The second is dearer and larger than the first, the fourth as dear and larger than the third."""
    options = [Option(3, 5), Option(4, 6), Option(2, 8), Option(2, 9)]
    assert undominated(options) == [Option(3, 5), Option(2, 8)]


def test_forty_equal_layers_are_a_matter_of_how_many_not_of_which() -> None:
    """17 of 40 have room for the fast option; all 2^40 choices would never end."""
    layers = [[Option(1.0, 10, 0), Option(3.0, 4, 1)]] * 40
    found = select(layers, 40 * 4 + 17 * 6 + 5)
    assert found is not None
    assert found.cost == 17 * 1.0 + 23 * 3.0


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_different_layers_lie_between_relaxation_and_greedy_choice(seed: int) -> None:
    """With the bound of the relaxation even these are quick; the greedy choice is at most one exchange away."""
    rng = random.Random(seed)
    layers = [
        [Option(rng.uniform(1, 2), rng.randint(500, 900), 0), Option(rng.uniform(2, 4), rng.randint(100, 400), 1)]
        for _ in range(100)
    ]
    limit = 100 * 450
    bounds, found = enclosure(layers, limit), select(layers, limit)
    assert bounds is not None
    assert found is not None
    assert bounds[0] <= found.cost <= bounds[1] <= bounds[0] + 3.0
    assert sum(options[n].memory for options, n in zip(layers, found.numbers, strict=True)) <= limit


def test_forbidden_options_do_not_blur_the_others() -> None:
    """The leanest options cost 1e16: bounds that start from them would have lost what the others cost."""
    for seed in range(1000):
        rng = random.Random(seed)
        layers = [
            [
                Option(round(rng.uniform(0, 5), 2), rng.randint(4, 9), 0),
                Option(round(rng.uniform(0, 5), 2), rng.randint(2, 6), 1),
                Option(1e16, rng.randint(0, 2), 2),
            ]
            for _ in range(rng.randint(2, 5))
        ]
        limit = rng.randint(0, 30)
        least, found, bounds = cheapest(layers, limit), select(layers, limit), enclosure(layers, limit)
        assert (found is None) == (bounds is None) == (least is None)
        if found is not None and bounds is not None and least is not None:
            assert found.cost == pytest.approx(least, rel=1e-12), seed
            assert bounds[0] <= least * (1 + 1e-12) <= bounds[1] * (1 + 1e-11), seed
