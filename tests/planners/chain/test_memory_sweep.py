"""The sweep decides exactly which limits some allocation keeps, or says that it cannot tell."""

from __future__ import annotations

import pytest
from oracles.chain import least_memory
from problems.chains import random_chain

from pipeplan.formulations.beaumont.least_memory import payload, sizes_of
from pipeplan.instances.chain import generators as recipe
from pipeplan.planners.chain import smallest_memory
from pipeplan.planners.chain.smallest_memory import sweep
from pipeplan.planners.options import SolveOptions


@pytest.mark.parametrize("seed", range(40))
def test_it_fits_from_the_least_memory_on(seed: int) -> None:
    problem = random_chain(seed)
    data = payload(sizes_of(problem), min(problem.gpus, problem.layers), ())
    least = int(least_memory(problem))
    unit = least // next(limit for limit in range(1, least + 1) if sweep(data, limit).fits)
    for limit in range(1, 2 * least // unit):
        answer = sweep(data, limit)
        assert answer.fits is (limit * unit >= least)
        if answer.allocation is not None:
            assert len(set(answer.allocation)) <= problem.gpus
            needed = smallest_memory.memory_of(problem, answer.allocation).memory_bytes
            assert least <= needed <= limit * unit


def test_too_many_states_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = recipe.resnet_like(18, 4)
    data = payload(sizes_of(problem), 4, ())
    assert sweep(data, 1000).fits
    assert sweep(data, 1000, over=lambda: True).fits is None
    monkeypatch.setattr(smallest_memory, "MOST_STATES", 3)
    assert sweep(data, 1000).fits is None
    assert sweep(data, 500).fits is False


@pytest.mark.parametrize("layers", [6, 8])
def test_the_solver_takes_over_where_the_sweep_cannot_tell(monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    """CP-SAT and the sweep share no code, and find the same."""
    problem = recipe.resnet_like(layers, 3).replace(memory_mode="inputs")
    swept = smallest_memory.smallest_memory(problem)
    monkeypatch.setattr(smallest_memory, "MOST_STATES", 0)
    solved = smallest_memory.smallest_memory(problem, SolveOptions(threads=1))
    assert swept.proven
    assert solved.proven
    assert swept.memory_bytes == solved.memory_bytes
