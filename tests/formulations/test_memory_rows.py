"""Memory in models: rows for solvers in floats are relaxed, and what they let through is cut off, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from problems.nasty import nasty

from pipeplan import Node, PlacementPlan, PlacementProblem, SolveOptions, Stop
from pipeplan.formulations.contract import BuiltModel, ExtraRow, NativeModel, Refuted
from pipeplan.formulations.native import with_rows
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.backends import solve

THROUGHPUT = {"non_contiguous": False, "variant": "strong", "objective": "max-load"}
LATENCY = {"subgraphs_per_device": 1, "variant": "strong", "objective": "latency"}
MODELS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "stages": ("ip-tarnawski", THROUGHPUT, False),
    "stages, native": ("ip-tarnawski", THROUGHPUT, True),
    "devices": ("ip-tarnawski", {**THROUGHPUT, "non_contiguous": True}, False),
    "devices, native": ("ip-tarnawski", {**THROUGHPUT, "non_contiguous": True}, True),
    "plain": ("ip-tarnawski", {**THROUGHPUT, "variant": "plain"}, False),
    "latency, native": ("ip-tarnawski-latency", LATENCY, True),
    "latency, two pieces": ("ip-tarnawski-latency", {**LATENCY, "subgraphs_per_device": 2}, True),
    "latency, plain": ("ip-tarnawski-latency", {**LATENCY, "variant": "plain"}, False),
}

SEEDS = range(25)


def small_problem(seed: int) -> PlacementProblem:
    """All plans of it are tried."""
    problem: PlacementProblem = nasty("placement", seed, most_nodes=4, most_accelerators=3)
    return problem


OVER_BY_17_BYTES = PlacementProblem(
    nodes=(
        Node("a", 1.0, 9.0, size_bytes=8589934592, transfer_time=5.0),
        Node("b", 1.0, 9.0, size_bytes=8589934609),
    ),
    edges=(("a", "b"),),
    accelerators=2,
    cpus=0,
    memory_bytes=17179869184,
)


def built(problem: PlacementProblem, model: str) -> BuiltModel | Refuted:
    name, options, native = MODELS[model]
    answer: BuiltModel | Refuted = FORMULATIONS[name].load().build(problem, options, native=native)
    return answer


def all_plans(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    devices = range(problem.accelerators + problem.cpus)
    for choice in itertools.product(devices, repeat=len(problem.nodes)):
        yield PlacementPlan.from_assignment(
            problem, {node.id: d for node, d in zip(problem.nodes, choice, strict=True)}
        )


def keeps(row: ExtraRow, values: Mapping[str, float]) -> bool:
    total = sum(factor * values.get(name, 0.0) for name, factor in row.coefficients.items())
    return row.lower <= total <= row.upper


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_that_exceeds_a_memory_is_cut_off_and_no_valid_plan_is(seed: int, model: str) -> None:
    problem = small_problem(seed)
    answer = built(problem, model)
    if isinstance(answer, Refuted):
        return
    assert answer.exclude is not None
    names = _column_names(answer)
    valid, rows = [], []
    for plan in all_plans(problem):
        rules = {violation.rule for violation in verify(problem, plan)}
        values = answer.encode(plan) if rules <= {"memory"} else None
        if values is None or (names is not None and not {name for name, value in values.items() if value} <= names):
            continue  # the model cannot say it
        found = answer.exclude(plan)
        if rules:
            assert any(not keeps(row, values) for row in found), "the plan is not cut off"
        else:
            assert not found, "there is nothing to cut off"
            valid.append(values)
        rows += found
    for row in rows:
        assert all(keeps(row, values) for values in valid), "a valid plan is lost"
        assert names is None or set(row.coefficients) <= names


def _column_names(answer: BuiltModel) -> set[str] | None:
    if isinstance(answer.model, NativeModel):
        return None
    import pyomo.environ as pyo

    return {variable.name for variable in answer.model.component_data_objects(pyo.Var)}


def test_the_nasty_problems_exceed_memories() -> None:
    problems = [small_problem(seed) for seed in SEEDS]
    assert sum(any(v.rule == "memory" for plan in all_plans(p) for v in verify(p, plan)) for p in problems) > 5


@pytest.mark.parametrize("model", ["stages, native", "devices, native", "latency, native"])
def test_rows_reach_a_native_model(model: str) -> None:
    """A row that forbids all makes the model infeasible: it is obeyed."""
    answer = built(OVER_BY_17_BYTES, model)
    assert isinstance(answer, BuiltModel)
    native = answer.model

    def status(model: NativeModel) -> Stop:
        return solve("cp-sat", model, SolveOptions(threads=1)).stop

    assert status(native) == Stop.PROVEN
    harmless = ExtraRow({"x[0,0]": 1.0, "x[1,0]": 1.0}, -float("inf"), 2.0)
    nowhere = ExtraRow({"x[0,0]": 1.0, "x[0,1]": 1.0}, -float("inf"), 0.0)
    assert status(with_rows(native, [harmless])) == Stop.PROVEN
    assert status(with_rows(with_rows(native, [harmless]), [nowhere])) == Stop.INFEASIBLE
