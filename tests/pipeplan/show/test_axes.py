"""Axes begin and end at round values, and what is written beside them is round and never twice the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.show.lanes import FEW, MANY, from_zero, number, round_ends, ticks
from pipeplan.show.words import plain


@pytest.mark.parametrize(
    ("low", "high", "written"),
    [
        (0, 427.2, "0 200 400"),
        (0, 0.01661, "0 0.005 0.010 0.015"),
        (15.98, 16.02, "15.98 15.99 16.00 16.01 16.02"),
        (0, 31529, "0 10000 20000 30000"),
        (-5, 5, "-5 0 5"),
        (7, 7, "7"),
    ],
)
def test_steps_are_1_2_or_5_and_have_as_many_decimals_as_it_takes(low: float, high: float, written: str) -> None:
    assert " ".join(text for _, text in ticks(low, high, FEW)) == written


AMOUNTS = st.floats(-1e9, 1e9).filter(lambda amount: abs(amount) > 1e-6)


@given(AMOUNTS, st.floats(1e-6, 1e9), st.sampled_from([FEW, MANY]))
def test_ticks_lie_within_and_no_two_are_written_alike(low: float, span: float, most: int) -> None:
    high = low + max(span, abs(low) * 1e-6)
    found = ticks(low, high, most)
    texts = [text for _, text in found]
    assert len(set(texts)) == len(texts) <= most + 1
    slack = 1e-6 * (high - low)
    assert all(low - slack <= value <= high + slack for value, _ in found)


@given(AMOUNTS, st.floats(1e-6, 1e9))
def test_round_ends_are_outside_and_near(low: float, span: float) -> None:
    high = low + max(span, abs(low) * 1e-6)
    start, end = round_ends(low, high, FEW)
    slack = 1e-6 * (high - low)
    assert start <= low + slack
    assert end >= high - slack
    assert end - start <= 3 * (high - low)


def test_shares_end_at_0_and_100() -> None:
    assert round_ends(0.0, 100.0, FEW + 1) == (0.0, 100.0)


def test_an_axis_without_any_length_still_has_one() -> None:
    assert round_ends(0.0, 0.0, FEW) == (0.0, 1.0)
    assert round_ends(16.0, 16.0, FEW) == (0.0, 20.0)


def test_amounts_are_measured_from_0_unless_they_would_look_alike() -> None:
    assert from_zero(3.0, 13.0) == 0.0
    assert from_zero(12.5, 13.0) == 12.5
    assert from_zero(-1.0, 1.0) == -1.0


def test_large_numbers_are_written_out() -> None:
    assert [number(value) for value in (31529.4, 0.16614, 12.0, 3e12)] == ["31529", "0.1661", "12", "3e+12"]
    assert number(math.pi) == "3.142"
    assert [plain(value) for value in (4392.34, 1234567.0, 0.00002)] == ["4392.3", "1234600", "0.00002"]
