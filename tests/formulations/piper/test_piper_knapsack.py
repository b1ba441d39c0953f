"""The exact knapsack against enumeration: any number of options, equal and different layers, tight and loose limits."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.formulations.piper.stages import Option, enclosure, select

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
    """The enclosure holds its cost, and knows what cannot fit."""
    found, bounds, expected = select(layers, limit), enclosure(layers, limit), cheapest(layers, limit)
    assert (None if found is None else found.cost) == expected
    assert (bounds is None) == (expected is None)
    if found is not None and bounds is not None and expected is not None:
        assert bounds[0] <= expected <= bounds[1]
        chosen = [options[number] for options, number in zip(layers, found.numbers, strict=True)]
        assert sum(option.cost for option in chosen) == found.cost
        assert limit is None or sum(option.memory for option in chosen) <= limit


def test_forty_equal_layers_are_a_matter_of_how_many_not_of_which() -> None:
    """17 of 40 have room for the fast option; all 2^40 choices would never end."""
    layers = [[Option(1.0, 10, 0), Option(3.0, 4, 1)]] * 40
    found = select(layers, 40 * 4 + 17 * 6 + 5)
    assert found.cost == 17 * 1.0 + 23 * 3.0


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
