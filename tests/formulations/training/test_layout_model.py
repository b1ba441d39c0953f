"""The mixed-integer program of layouts has the bound of the dynamic program, which shares no code with it, or more."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pipeplan.formulations.training.layout import Choice, Row, layout_model, layout_of
from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends import solve
from pipeplan.planners.backends.compiler import compile_pyomo
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.training.inner import Pipeline, Units, Word, bound_alone, intervals_of

CLOSE = 1e-6
PLENTY = 1000


def random_case(seed: int) -> tuple[Row, Pipeline]:
    """The same row for both: whole numbers of seconds, two words, and a memory that binds."""
    draw = random.Random(seed)
    count = draw.randint(2, 8)
    stages = draw.randint(1, min(4, count))
    batches = draw.choice((1, 2, 4, 9))
    forward = [draw.randint(1, 6) for _ in range(count)]
    backward = [2 * seconds for seconds in forward]
    static = [draw.randint(1, 4) for _ in range(count)]
    stash = [draw.randint(1, 5) for _ in range(count)]
    delays = tuple(float(draw.choice((0, 1, 3))) for _ in range(stages - 1))
    memory = draw.choice((PLENTY, draw.randint(8, 50)))
    choices = []
    for k in range(stages):
        own, flight = [], min(batches, stages - k)
        for i in range(count):
            for j in range(i + 1, count + 1):
                work, fixed = sum(forward[i:j]) + sum(backward[i:j]), sum(static[i:j])
                if fixed + flight * sum(stash[i:j]) <= memory:
                    own.append(Choice(i, j, work))
                elif fixed + flight * (j - i) <= memory:
                    own.append(Choice(i, j, work + sum(forward[i:j])))
        choices.append(tuple(own))
    row = Row(count, batches, tuple(choices), delays)
    ones = np.ones(count)
    words = (Word(0 * ones, np.array(stash, float)), Word(np.array(forward, float), ones))
    units = Units(
        *(np.array(column, float) for column in (forward, backward, static, [0.0] * count)),
        words,
        [True] * count,
        np.zeros((2, count + 1, count + 1)),
    )
    return row, Pipeline(intervals_of(units), stages, batches, float(memory), delays, alike=False)


def least(row: Row, solver: str) -> float | None:
    answer = solve(solver, compile_pyomo(layout_model(row)), SolveOptions(threads=1))
    if answer.stop == Stop.INFEASIBLE:
        return None
    assert answer.stop in (Stop.PROVEN, Stop.COMPLETED)
    assert sum(layout_of(row, answer.values)) == row.units
    return answer.objective


def compare(seed: int, solver: str) -> bool:
    """Is there a layout? The dynamic program adds the least backward passes before a border, whatever layout they are
    of: with memory that decides what is computed again its bound may be lower."""
    row, pipeline = random_case(seed)
    value, found = bound_alone(pipeline), least(row, solver)
    if value == float("inf"):
        assert found is None, seed
    elif pipeline.memory_bytes == PLENTY:
        assert found == pytest.approx(value, rel=CLOSE), seed
    else:
        assert found is not None, seed
        assert value <= found * (1 + CLOSE), seed
    return value < float("inf")


@pytest.mark.at_once(1)
@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
def test_the_dynamic_program_is_no_higher_and_the_same_where_all_fits(solver: str) -> None:
    fit = [compare(seed, solver) for seed in range(6)]
    assert any(fit)


@pytest.mark.sweeps
@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize("start", range(10, 210, 20))
def test_the_dynamic_program_is_no_higher_and_the_same_where_all_fits_many_times(start: int, solver: str) -> None:
    for seed in range(start, start + 20):
        compare(seed, solver)
