"""What fits is decided on decimals as written, without tolerance; whole numbers stand in for them exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.instances.base.amounts import MOST_EXACT, as_written, exact_sum, fits, in_digits, whole_amounts

AMOUNTS = st.one_of(
    st.integers(0, 10**12),
    st.floats(0, 1e12, allow_subnormal=False),
    st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 1e-9, 1e12, 8589934609]),
)


def test_a_tenth_and_two_tenths_fit_into_three_tenths() -> None:
    assert fits([0.1, 0.2], 0.3)
    assert not fits([8589934592, 8589934609], 17179869184)
    assert fits([8589934592, 8589934592], 17179869184)
    assert fits([1e300], None)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1000000001.4, "1000000001.4"), (0.25, "0.25"), (12.0, "12"), (1e-9, "0.000000001"), (Fraction(1, 3), "1/3")],
)
def test_messages_show_every_digit(value: float, text: str) -> None:
    assert in_digits(value) == text


@given(st.lists(AMOUNTS, max_size=6), st.one_of(AMOUNTS, st.none()))
def test_whole_numbers_decide_like_fractions(amounts: list[float], limit: float | None) -> None:
    """Rounded down they lose no sum that fits, rounded up they take none too many, without a bound they are exact."""
    down, endless = whole_amounts(amounts, [limit]), whole_amounts(amounts, [limit], math.inf)
    up = whole_amounts(amounts, [limit], upwards=True)
    assert endless.exact
    assert max(sum(down.amounts), down.limits[0] or 0, sum(up.amounts)) < MOST_EXACT
    for size in range(len(amounts) + 1):
        for chosen in combinations(range(len(amounts)), size):
            truth = fits([amounts[i] for i in chosen], limit)
            low, high, exactly = (
                whole.limits[0] is None or sum(whole.amounts[i] for i in chosen) <= whole.limits[0]
                for whole in (down, up, endless)
            )
            assert exactly == truth
            assert low == truth if down.exact else low or not truth
            assert truth or not high


@pytest.mark.parametrize("limit", [1e31, None])
def test_sizes_of_very_different_magnitude_round_down(limit: float | None) -> None:
    whole = whole_amounts([1e30, 2e-20, 3], [limit])
    assert not whole.exact
    assert whole.amounts[0] > 0


def test_a_sentinel_above_every_limit_costs_no_precision() -> None:
    whole = whole_amounts([1e30, 1, 2], [2])
    assert (whole.amounts, whole.limits, whole.exact) == ((3, 1, 2), (2,), True)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.integers(0, 10**6), st.integers(-9, 9))
def test_scaling_in_decimals_changes_nothing(amounts: list[int], limit: int, power: int) -> None:
    factor = Fraction(10) ** power
    scaled = whole_amounts([float(amount * factor) for amount in amounts], [float(limit * factor)])
    plain = whole_amounts(amounts, [limit])
    assert scaled.exact
    assert (scaled.amounts, scaled.limits) == (plain.amounts, plain.limits)
    assert all(math.isfinite(amount) for amount in scaled.amounts)


@given(st.lists(AMOUNTS, max_size=6), AMOUNTS)
def test_rounded_sums_decide_only_without_doubt(amounts: list[float], limit: float) -> None:
    assert fits(amounts, limit) == (exact_sum(amounts) <= as_written(limit))


def test_the_least_numbers_are_decided_as_written() -> None:
    """Their floats have few digits: the float of 1.2e-323 prints as 1e-323."""
    assert fits([5e-324, 5e-324], 1e-323)
    assert not fits([5e-324, 5e-324, 5e-324], 1e-323)
