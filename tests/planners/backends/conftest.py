"""Models for every backend: small ones with known answers, and hard ones that nobody finishes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pipeplan.planners.backends import Backend, MatrixModel, all_backends, client, from_rows, solve
from pipeplan.planners.options import SolveOptions

INF = float("inf")


INSTALLED = [name for name, entry in all_backends().items() if entry.available()]
"""Tests of other backends are no tests here: a page of them would hide what is skipped for a reason."""


@pytest.fixture(params=INSTALLED)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn whose solver is installed."""
    return all_backends()[request.param]


@pytest.fixture
def loaded(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The same, in a process that has its solver already: a limit of a second may be over before that elsewhere. It is
    waited for, however slow it is."""
    monkeypatch.setattr(client, "LOADING_GRACE_S", math.inf)
    monkeypatch.setattr(client, "LEAST_GRACE_S", math.inf)
    solve(backend.name, from_rows([], [], [], [], []), SolveOptions(threads=1))
    return backend


def split(rows: int, slack: bool, columns: int = 40) -> MatrixModel:
    """A market split: choose half of everything in each row at once.

    With slack any choice is feasible and the deviation is minimised: easy to start, hopeless to finish. Without
    slack there is hardly a solution, and no solver finds out in less than many minutes.
    """
    numbers = np.random.default_rng(7).integers(0, 100, (rows, columns))
    half = numbers.sum(axis=1) // 2
    deviations = 2 * rows if slack else 0
    table = []
    for i in range(rows):
        entries = {j: float(numbers[i, j]) for j in range(columns)}
        if slack:
            entries |= {columns + 2 * i: 1.0, columns + 2 * i + 1: -1.0}
        table.append((entries, float(half[i]), float(half[i])))
    return from_rows(
        [0.0] * columns + [1.0] * deviations,
        table,
        [0.0] * (columns + deviations),
        [1.0] * columns + [1e4] * deviations,
        [True] * columns + [False] * deviations,
    )


@pytest.fixture
def hard() -> MatrixModel:
    """Solutions at once, a proof never."""
    return split(5, slack=True)


@pytest.fixture
def hopeless() -> MatrixModel:
    """No solution at all, and 2**40 choices to find that out."""
    return split(6, slack=False)


@pytest.fixture
def knapsack() -> MatrixModel:
    """Minimise 10 - value of a knapsack; the best is items 1 and 2 with value 7, so the optimum is 3."""
    return from_rows(
        [-4.0, -3.0, -4.0, -5.0], [({0: 2.0, 1: 3.0, 2: 1.0, 3: 4.0}, -INF, 4.0), ({0: 1.0, 2: 1.0}, -INF, 1.0)],
        [0.0] * 4, [1.0] * 4, [True] * 4, ["first", "item[1]", "item[2]", "big"], offset=10.0,
    )  # fmt: skip


@pytest.fixture
def mixed() -> MatrixModel:
    """Two choices of times on one machine, and the makespan, a continuous column; the optimum is 2.5."""
    times = [(1.5, 2.0), (2.0, 1.5), (1.0, 2.5)]
    names = [f"x[{i},{k}]" for i, k in itertools.product(range(3), range(2))] + ["T"]
    once = [({2 * i: 1.0, 2 * i + 1: 1.0}, 1.0, 1.0) for i in range(3)]
    loads = [({**{2 * i + k: times[i][k] for i in range(3)}, 6: -1.0}, -INF, 0.0) for k in range(2)]
    return from_rows([0.0] * 6 + [1.0], once + loads, [0.0] * 7, [1.0] * 6 + [INF], [True] * 6 + [False], names)
