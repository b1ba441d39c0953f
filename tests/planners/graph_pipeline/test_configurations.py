"""Samples in flight: the paper's table of ten rows, its figure 5, and the formula that replaces the table."""

from __future__ import annotations

from itertools import product

from oracles.graph_pipeline import more_in_flight

from pipeplan.planners.graph_pipeline.configurations import Configuration, extra_in_flight, required_in_flight

SIZES = [Configuration(b, k) for b, k in product((1, 2, 3, 4, 5, 8, 12, 16), range(1, 9))]


def test_the_formula_is_the_published_table() -> None:
    for x, y in product(SIZES, SIZES):
        assert extra_in_flight(x, y) == more_in_flight(x.b, x.k, y.b, y.k)


def test_figure_5_mixed_sizes_hold_10_samples_equal_ones_12() -> None:
    """Micro-batches of 1, 2 and 4 along a row of three stages, against 4 everywhere."""

    def first_of(sizes: tuple[int, ...]) -> int:
        held = required_in_flight(Configuration(sizes[-1]), (), 64)
        for own, after in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
            held = required_in_flight(Configuration(own), [(Configuration(after), held)], 64)
        return held

    assert first_of((1, 2, 4)) == 10
    assert first_of((4, 4, 4)) == 12


def test_the_larger_need_of_two_successors_counts() -> None:
    one, four = Configuration(1), Configuration(4)
    assert required_in_flight(one, [(one, 3), (four, 4)], 64) == 8


def test_needs_are_whole_micro_batches_and_never_more_than_the_mini_batch() -> None:
    assert required_in_flight(Configuration(4), [(Configuration(2), 4)], 64) == 12
    assert required_in_flight(Configuration(4), [(Configuration(4), 64)], 64) == 64
