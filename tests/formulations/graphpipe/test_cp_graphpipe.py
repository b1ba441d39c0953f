"""cp-graphpipe against the dynamic program and against all plans of tiny problems."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracles.graph_pipeline import best_time, convex_sets, tree_sets
from problems.graph_pipelines import random_graph_pipeline
from problems.nasty import in_fifteen_digits, nasty, scaled

from pipeplan.formulations.graphpipe.columns import find_columns
from pipeplan.formulations.graphpipe.formulation import FORMULATION
from pipeplan.formulations.graphpipe.stage_sets import stage_sets
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Operator, TimeCurve
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.search import Search
from pipeplan.planners.run.solve import solve
from pipeplan.studies.export import export_model


def exact(problem: GraphPipelineProblem, b: int, family: str, start: str = "none") -> Any:
    options = {"micro_batch": b, "family": family}
    return solve(problem, formulation="cp-graphpipe", options=options, warm_start=start)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_its_families_are_the_definitions(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=8, series_parallel=rng.random() < 0.5)

    def bits(family: set[frozenset[int]]) -> list[int]:
        return sorted(sum(1 << v for v in members) for members in family)

    assert list(stage_sets(problem, "convex")) == bits(convex_sets(problem))
    assert list(stage_sets(problem, "series-parallel")) == bits(tree_sets(problem))


@pytest.mark.parametrize("seed", range(100))
def test_it_agrees_with_the_dynamic_program_on_series_parallel_graphs(seed: int) -> None:
    rng = random.Random(1000 + seed)
    problem = random_graph_pipeline(
        rng, most_operators=10, most_devices=6, tight=rng.choice([None, 0.1, 0.25, 0.5])
    )
    b = rng.choice([1, 2, 4, 8])
    answer = Search(problem, menu(problem, [b])).best()
    result = exact(problem, b, "series-parallel")
    if answer is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.found == Found.OPTIMAL
        assert result.objective == pytest.approx(answer.value, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_over_all_convex_sets_it_finds_the_best_of_all_plans(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=6, series_parallel=False, tight=rng.choice([None, 0.3]))
    b = rng.choice([1, 2, 4])
    result, expected = exact(problem, b, "convex"), best_time(problem, b, convex_sets(problem))
    if expected is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.found == Found.OPTIMAL
        assert result.objective == pytest.approx(expected, rel=1e-6)


def crossing_problem() -> GraphPipelineProblem:
    """Two branches of two operators, short-long and long-short: their starts fit one stage, their ends another."""

    def operator(name: str, time: float) -> Operator:
        return Operator(name, TimeCurve((1.0,), (time,)), TimeCurve((1.0,), (time,)))

    operators = (operator("a1", 2), operator("a2", 3), operator("b1", 3), operator("b2", 2))
    return GraphPipelineProblem(operators, (("a1", "a2"), ("b1", "b2")), mini_batch=4, devices=3)


def test_the_price_of_the_decomposition() -> None:
    """Two long operators alone and both short ones together: no set of the tree, but convex."""
    problem = crossing_problem()
    restricted, free = exact(problem, 1, "series-parallel"), exact(problem, 1, "convex")
    assert (restricted.objective, free.objective) == (pytest.approx(10.0), pytest.approx(8.0))


def test_the_planner_gives_it_a_start() -> None:
    result = exact(crossing_problem(), 1, "series-parallel", start="auto")
    assert str(result.warm_start.outcome) == "accepted"
    assert result.found == Found.OPTIMAL


def test_times_are_rounded_down_by_less_than_a_step() -> None:
    """So a bound of the model is one for the true times, and close to it."""
    problem = random_graph_pipeline(random.Random(5), most_operators=6)
    built: Any = FORMULATION.build(problem, {"family": "series-parallel", "micro_batch": 2}, native=True)
    columns = find_columns(problem, stage_sets(problem, "series-parallel"), [2], None)
    data = built.model.payload
    assert len(columns) == len(data["columns"]) > 0
    for column, (*_, steps, _) in zip(columns, data["columns"], strict=True):
        assert 0 <= column.time * data["scale"] - steps < 1 + 1e-6


def test_a_model_for_cp_sat_alone_is_not_exported_whatever_the_solver(tmp_path: Path) -> None:
    """Nor is a solver named that would change that."""
    problem = random_graph_pipeline(random.Random(1))
    for solver in ("auto", "cp-sat"):
        with pytest.raises(UsageError) as caught:
            export_model(problem, str(tmp_path / "model.mps"), formulation="cp-graphpipe", solver=solver)
        assert str(caught.value) == (
            "cp-graphpipe is a model for CP-SAT alone, which no .mps or .lp file can hold; drop --export-model."
        )
    with pytest.raises(UsageError, match="choose --solver cp-sat"):
        solve(problem, formulation="cp-graphpipe", solver="highs")


@pytest.mark.parametrize("seeds", range(4))
def test_nasty_numbers_in_all_units(seeds: int) -> None:
    for seed in range(seeds, 60, 4):
        problem = in_fifteen_digits(nasty("graph-pipeline", seed, most_operators=4))
        b = random.Random(seed).choice([size for size in (1, 2, 4, 8) if problem.mini_batch % size == 0])
        for family, sets in (("series-parallel", tree_sets(problem)), ("convex", convex_sets(problem))):
            best = best_time(problem, b, sets)
            for time, memory in ((0, 0), ((-9, 0), (9, 9), (0, -9), (-6, 6))[seed % 4]):
                result = exact(scaled(problem, time, memory), b, family, "none" if seed % 2 else "auto")
                if best is None:
                    assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), seed
                else:
                    assert result.stop == Stop.PROVEN, (seed, result.messages)
                    assert result.objective == pytest.approx(best * 10.0**time, rel=1e-6, abs=0), seed
