"""The program on numbers that trouble arithmetic: memory to the last digit, forbidding amounts, other units."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled

from pipeplan.formulations.contract import BuiltModel
from pipeplan.formulations.piper import FORMULATION
from pipeplan.formulations.piper.columns import LARGEST_LOAD, load_unit
from pipeplan.formulations.piper.formulation import column_bound
from pipeplan.formulations.piper.knapsack import Option, enclosure, select
from pipeplan.formulations.piper.stages import StageBook
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve

LIMITS = SolveOptions(threads=1)
UNITS = ((-9, 0), (9, 9), (0, -9), (-6, 6))


@pytest.mark.sweeps
@pytest.mark.parametrize("start", range(6))
def test_columns_in_all_units(start: int) -> None:
    for seed in range(start, 48, 6):
        semantics = ("paper", "reference")[seed % 2]
        problem, start_from = (
            in_fifteen_digits(nasty("staging", seed, most_layers=3)),
            "none" if seed % 3 else "auto",
        )
        best = best_stages(problem, semantics)
        for time, memory in ((0, 0), UNITS[seed % 4]):
            result = solve(
                scaled(problem, time, memory),
                formulation="mip-piper",
                solver="cp-sat",
                options={"semantics": semantics},
                limits=LIMITS,
                warm_start=start_from,  # type: ignore[arg-type]
            )
            if best is None:
                assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), (seed, result.messages)
            else:
                assert result.stop == Stop.PROVEN, (seed, result.messages)
                assert result.objective == pytest.approx(best[0] * 10.0**time, rel=1e-6, abs=0), seed


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_without_a_solver_is_none_too_high_in_any_unit(seed: int) -> None:
    problem = in_fifteen_digits(nasty("staging", seed))
    best = best_stages(problem)
    bounds = []
    for time, memory in ((0, 0), *UNITS):
        book = StageBook(scaled(problem, time, memory), "paper")
        bounds.append(column_bound(book) / 10.0**time)
        if best is not None:
            limit = best[0] * 10.0**time
            assert bounds[-1] <= best[0] * (1 + 1e-9)
            assert book.near_stages.possible(limit), "a plan is within it"
            kept = book.near_stages.within(limit)
            edges = {(kept.sets[i], kept.sets[j]) for i, ends in enumerate(kept.stages_from) for j in ends}
            assert edges >= set(suffixes(problem, best[1]))
    assert bounds == pytest.approx([bounds[0]] * len(bounds), rel=1e-6, abs=0)


def suffixes(problem: StagingProblem, plan: StagedPlan) -> Iterator[tuple[int, int]]:
    """What is left behind each stage, and before it."""
    members = [sum(1 << problem.index[v] for v in stage.nodes) for stage in plan.stages]
    for i in range(len(members)):
        yield sum(members[i + 1 :]), sum(members[i:])


def test_loads_are_counted_in_a_unit_that_keeps_their_numbers_small() -> None:
    assert load_unit(3.0, 4.0) == 3.0
    assert load_unit(3.0, 3.0 * LARGEST_LOAD) == 3.0 * LARGEST_LOAD
    assert load_unit(0.0, 7.0) == 7.0
    assert load_unit(0.0, 0.0) == 1.0
    layers = tuple(Layer(v, {1: (Configuration("x", 1e16), Configuration("y", 2.5))}) for v in range(3))
    problem = StagingProblem(layers, (Edge(0, 1, 1e12),), 2, 1.0, 2, memory_bytes=1.0)
    model = FORMULATION.build(problem, {"semantics": "paper"}, native=False)
    assert isinstance(model, BuiltModel)
    matrix = compile_pyomo(model.model)
    assert abs(matrix.coefficients).max() <= 4 * LARGEST_LOAD


# ---- the knapsack ------------------------------------------------------------------------------------------


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
        costs = [
            sum(option.cost for option in chosen)
            for chosen in itertools.product(*layers)
            if sum(option.memory for option in chosen) <= limit
        ]
        found, bounds = select(layers, limit), enclosure(layers, limit)
        assert (found is None) == (bounds is None) == (not costs)
        if found is not None and bounds is not None:
            assert found.cost == pytest.approx(min(costs), rel=1e-12), seed
            assert bounds[0] <= min(costs) * (1 + 1e-12) <= bounds[1] * (1 + 1e-11), seed
