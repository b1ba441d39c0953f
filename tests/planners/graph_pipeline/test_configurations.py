"""Samples in flight: the paper's table of ten rows, its figure 5, and the formula that replaces the table."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from pipeplan.planners.graph_pipeline.configurations import Configuration, extra_in_flight, required_in_flight

SIZES = [Configuration(b, k) for b, k in product((1, 2, 3, 4, 5, 8, 12, 16), range(1, 9))]

Row = tuple[Callable[[int, int, int, int, int], bool], Callable[[int, int, int, int, int], int]]

ROWS: dict[int, Row] = {
    # condition and extra samples, from (bx, by, X = kx bx, Y = ky by, m = max(bx, by))
    1: (lambda bx, by, X, Y, m: m < X < Y, lambda bx, by, X, Y, m: 2 * m),
    2: (lambda bx, by, X, Y, m: m == X < Y, lambda bx, by, X, Y, m: m),
    3: (lambda bx, by, X, Y, m: bx <= by < Y < X, lambda bx, by, X, Y, m: X - Y + 2 * by),
    4: (lambda bx, by, X, Y, m: bx <= by == Y < X, lambda bx, by, X, Y, m: X),
    5: (lambda bx, by, X, Y, m: by <= bx < Y < X, lambda bx, by, X, Y, m: X - Y + 2 * bx),
    6: (lambda bx, by, X, Y, m: by <= bx == Y < X, lambda bx, by, X, Y, m: X),
    7: (lambda bx, by, X, Y, m: m == Y == X, lambda bx, by, X, Y, m: Y),
    8: (lambda bx, by, X, Y, m: m < Y == X, lambda bx, by, X, Y, m: 2 * m),
    9: (lambda bx, by, X, Y, m: bx <= X < by <= Y, lambda bx, by, X, Y, m: by),
    10: (lambda bx, by, X, Y, m: by <= Y < bx <= X, lambda bx, by, X, Y, m: X - Y + bx),
}


def facts(x: Configuration, y: Configuration) -> tuple[int, int, int, int, int]:
    return x.b, y.b, x.group, y.group, max(x.b, y.b)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_table_is_the_formula(row: int) -> None:
    condition, extra = ROWS[row]
    pairs = [(x, y) for x, y in product(SIZES, SIZES) if condition(*facts(x, y))]
    assert pairs
    assert all(extra_in_flight(x, y) == extra(*facts(x, y)) for x, y in pairs)


def test_the_rows_cover_every_case() -> None:
    for x, y in product(SIZES, SIZES):
        assert any(condition(*facts(x, y)) for condition, _ in ROWS.values())


def test_figure_5_mixed_sizes_hold_10_samples_equal_ones_12() -> None:
    """Micro-batches of 1, 2 and 4 along a row of three stages, against 4 everywhere."""

    def first_of(sizes: tuple[int, ...]) -> int:
        held = required_in_flight(Configuration(sizes[-1]), (), 64)
        for own, after in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
            held = required_in_flight(Configuration(own), [(Configuration(after), held)], 64)
        return held

    assert first_of((1, 2, 4)) == 10
    assert first_of((4, 4, 4)) == 12


def test_figure_2_a_graph_of_two_branches_is_half_as_deep() -> None:
    """Two branches of two stages: the first stages hold 2 micro-batches; in a row of four stages the first holds 4."""
    one = Configuration(1)
    last = required_in_flight(one, (), 64)
    branch = required_in_flight(one, [(one, last)], 64)
    held = last
    for _ in range(3):
        held = required_in_flight(one, [(one, held)], 64)
    assert (branch, held) == (2, 4)


def test_the_larger_need_of_two_successors_counts() -> None:
    one, four = Configuration(1), Configuration(4)
    assert required_in_flight(one, [(one, 3), (four, 4)], 64) == 8


def test_needs_are_whole_micro_batches_and_never_more_than_the_mini_batch() -> None:
    assert required_in_flight(Configuration(4), [(Configuration(2), 4)], 64) == 12
    assert required_in_flight(Configuration(4), [(Configuration(4), 64)], 64) == 64


def test_a_detour_never_asks_for_less_than_the_direct_way() -> None:
    """So arcs that skip stages need no attention: the stages between them ask for as much."""
    few = [Configuration(b, k) for b, k in product((1, 2, 4, 8), (1, 2, 4))]
    for x, y, z in product(few, few, few):
        direct = required_in_flight(x, [(z, z.group)], 1024)
        between = required_in_flight(y, [(z, z.group)], 1024)
        assert required_in_flight(x, [(y, between)], 1024) >= direct
