"""Samples in flight: the paper's table of ten rows, and the formula that replaces it."""

from __future__ import annotations

from itertools import product

from oracles.graph_pipeline import more_in_flight

from pipeplan.planners.graph_pipeline.configurations import Configuration, extra_in_flight

SIZES = [Configuration(b, k) for b, k in product((1, 2, 3, 4, 5, 8, 12, 16), range(1, 9))]


def test_the_formula_is_the_published_table() -> None:
    for x, y in product(SIZES, SIZES):
        assert extra_in_flight(x, y) == more_in_flight(x.b, x.k, y.b, y.k)
