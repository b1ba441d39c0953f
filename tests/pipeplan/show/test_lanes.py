"""Axes begin and end at round values, and what is written beside them is round and never twice the same; nodes of a
graph stand where few arrows cross."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.show.lanes import FEW, MANY, from_zero, number, ranks, round_ends, ticks
from pipeplan.show.words import plain


@pytest.mark.parametrize(("low", "high", "written"), [
    (0, 427.2, "0 200 400"), (0, 0.01661, "0 0.005 0.010 0.015"), (0, 31529, "0 10000 20000 30000"),
    (15.98, 16.02, "15.98 15.99 16.00 16.01 16.02"), (-5, 5, "-5 0 5"), (7, 7, "7"),
])  # fmt: skip
def test_steps_are_1_2_or_5_and_have_as_many_decimals_as_it_takes(low: float, high: float, written: str) -> None:
    assert " ".join(text for _, text in ticks(low, high, FEW)) == written


AMOUNTS = st.floats(-1e9, 1e9).filter(lambda amount: abs(amount) > 1e-6)


@given(AMOUNTS, st.floats(1e-6, 1e9), st.sampled_from([FEW, MANY]))
def test_ticks_lie_within_and_differ_and_round_ends_are_outside_and_near(
    low: float, span: float, most: int
) -> None:
    high = low + max(span, abs(low) * 1e-6)
    slack, found, (start, end) = 1e-6 * (high - low), ticks(low, high, most), round_ends(low, high, FEW)
    assert len({text for _, text in found}) == len(found) <= most + 1
    assert all(low - slack <= value <= high + slack for value, _ in found)
    assert start <= low + slack
    assert end >= high - slack
    assert end - start <= 3 * (high - low)


def test_axes_without_any_length_have_one_and_begin_at_0_unless_values_would_look_alike() -> None:
    ends = [round_ends(low, high, FEW) for low, high in ((0.0, 100.0), (0.0, 0.0), (16.0, 16.0))]
    assert ends == [(0.0, 100.0), (0.0, 1.0), (0.0, 20.0)]
    assert [from_zero(low, high) for low, high in ((3.0, 13.0), (12.5, 13.0), (-1.0, 1.0))] == [0.0, 12.5, -1.0]


def test_large_numbers_are_written_out() -> None:
    values = (31529.4, 0.16614, 12.0, 3e12, 3.14159)
    assert [number(value) for value in values] == ["31529", "0.1661", "12", "3e+12", "3.142"]
    assert [plain(value) for value in (4392.34, 1234567.0, 0.00002)] == ["4392.3", "1234600", "0.00002"]


def test_branches_keep_their_rows() -> None:
    """Two branches of two stages that join: nobody's arrows cross."""
    assert ranks((0, 0, 1, 1, 2), ((0, 2), (1, 3), (2, 4), (3, 4)), 1) == [0, 1, 0, 1, 0]
    assert ranks((0, 0, 1, 1), ((1, 2), (0, 3)), 1) == [0, 1, 1, 0]
