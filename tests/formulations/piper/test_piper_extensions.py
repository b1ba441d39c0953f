"""`mip-piper` beyond the paper: flushes, types of devices and levels, against all plans of tiny problems."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging, with_zero

import pipeplan
from pipeplan import DeviceType, InputError, StagingLevel, StagingProblem, Stop, load_packaged
from pipeplan.formulations.contract import BuiltModel, Refuted
from pipeplan.formulations.piper import candidates
from pipeplan.formulations.piper.formulation import FORMULATION
from pipeplan.instances.staging.referee import rules_of
from pipeplan.planners.backends import solve as solve_matrix
from pipeplan.planners.backends.model import compile_pyomo

LIMITS = pipeplan.SolveOptions(threads=1)
SOLVERS = ("cp-sat", "highs")
SHAPES = ((2, 2), (3, 2), (2, 1, 2), (1, 3), (4,), (2, 2, 2))
FEW, MANY = range(4), range(4, 60)
sweep = [*FEW, *(pytest.param(seed, marks=pytest.mark.sweeps) for seed in MANY)]

Case = tuple[StagingProblem, Mapping[str, Any]]
"""A problem, and what is asked."""


def typed(problem: StagingProblem, seed: int) -> StagingProblem:
    """On devices of two types (every third time three), of which one may be faster and another have more memory."""
    rng, memory = random.Random(700 + seed), problem.memory_bytes
    kinds = tuple(
        DeviceType(
            f"type {i}",
            rng.choice((1, 2)),
            rng.choice((0.5, 1.0, 2.0)),
            None if memory is None else round(memory * rng.choice((0.6, 1.0, 1.5))),
        )
        for i in range(3 if seed % 3 == 2 else 2)
    )
    return problem.replace(devices=sum(kind.devices for kind in kinds), memory_bytes=None, device_types=kinds)


def nested(problem: StagingProblem, seed: int) -> StagingProblem:
    """On one of a few small clusters, the links of higher levels mostly slower."""
    rng, shape, levels = random.Random(900 + seed), SHAPES[seed % len(SHAPES)], list[StagingLevel]()
    bandwidth = problem.bandwidth
    for devices in shape:
        levels.append(StagingLevel(devices, bandwidth))
        bandwidth *= rng.choice((0.1, 0.4, 1.0))
    return problem.replace(devices=math.prod(shape), levels=tuple(levels), micro_batches=rng.choice((2, 3, 4, 9)))


def tiny(seed: int, **changes: Any) -> StagingProblem:
    return random_staging(seed, layers=(2, 3)).replace(**changes)


def flat_cases(seed: int) -> Iterator[Case]:
    """Flushes and types, each alone and together; without replicas; ZeRO."""
    semantics, zero = ("paper", "reference")[seed % 2], 1 + seed % 3
    usual, flush = {"semantics": semantics}, {"semantics": semantics, "objective": "flush"}
    yield tiny(seed), usual
    yield tiny(seed), flush
    yield typed(tiny(seed), seed), usual
    yield typed(tiny(seed), seed), flush
    yield tiny(seed, replication=False), usual
    yield typed(tiny(seed, replication=False), seed), flush
    yield with_zero(tiny(seed), zero), usual
    yield typed(with_zero(tiny(seed), zero), seed), usual


def leveled_cases(seed: int) -> Iterator[Case]:
    """For throughput and with flushes; without replicas; ZeRO."""
    several, alone = (tiny(seed, replication=copied) for copied in (True, False))
    for problem in (several, alone):
        yield nested(problem, seed), {}
        yield nested(problem, seed), {"objective": "flush"}
    yield nested(with_zero(several, 1 + seed % 3), seed), {}


def least(problem: StagingProblem, asked: Mapping[str, Any]) -> tuple[float, Any] | None:
    """By looking at every plan."""
    if problem.levels:
        return best_leveled(problem, asked.get("objective") == "flush")
    return best_stages(problem, asked["semantics"], asked.get("objective") == "flush")


def check(problem: StagingProblem, asked: Mapping[str, Any], best: tuple[float, Any] | None, **method: Any) -> None:
    result = pipeplan.solve(problem, **method, limits=LIMITS)
    if best is None:
        assert (result.stop, result.plan, result.bound) == (Stop.INFEASIBLE, None, None), result.messages
    else:
        assert (result.stop, result.verified) == (Stop.PROVEN, True), result.messages
        assert result.objective == pytest.approx(best[0], rel=1e-6)
        assert result.bound == pytest.approx(best[0], rel=1e-6)
        assert result.bound <= best[0] * (1 + 1e-9)


@pytest.mark.parametrize("seed", sweep)
def test_no_plan_is_better(seed: int) -> None:
    """The model by its own means, the dynamic program and a look at every plan say the same."""
    for cases in (flat_cases(seed), leveled_cases(seed)):
        for number, (problem, asked) in enumerate(cases):
            best, solver = least(problem, asked), SOLVERS[(seed + number) % 2]
            own = {"formulation": "mip-piper", "solver": solver, "warm_start": "none"}
            check(problem, asked, best, **own, options=asked)
            check(problem, asked, best, planner="dp-piper", options=asked)


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(12, 100))])
def test_a_start_obeys_every_row(seed: int) -> None:
    """Of the best plan the model knows the value; what it reads from the variables again is the plan."""
    for problem, asked in (*flat_cases(seed), *leveled_cases(seed)):
        best = least(problem, asked)
        if best is None:
            continue
        built = FORMULATION.build(problem, {"semantics": "paper", **asked}, native=False)
        assert isinstance(built, BuiltModel)
        values = built.encode(best[1])
        assert values is not None
        assert objective(built.model, values) == pytest.approx(best[0], rel=1e-6)
        rules = rules_of(problem, asked)
        again = built.decode(values)
        assert not rules.violations(problem, again)
        assert rules.value(problem, again) == pytest.approx(best[0], rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_off_keeps_the_best_plan_and_nothing_above_it(seed: int) -> None:
    """At the optimum the model has a solution; just below it, it has none."""
    problem, options = random_staging(seed, layers=(2, 4)), {"semantics": "paper"}
    best = best_stages(problem)
    if best is None:
        return

    def answer(cutoff: float) -> Any:
        built = FORMULATION.build(problem, options, native=False, cutoff=cutoff)
        if isinstance(built, Refuted):
            return built, None
        return built, solve_matrix("highs", compile_pyomo(built.model, grids=built.grids), LIMITS)

    model, outcome = answer(best[0])
    assert rules_of(problem, options).value(problem, model.decode(outcome.values)) == pytest.approx(
        best[0], rel=1e-6
    )
    model, outcome = answer(best[0] * (1 - 1e-4))
    assert isinstance(model, Refuted) or outcome.stop == Stop.INFEASIBLE


def objective(model: Any, values: Mapping[str, float]) -> float:
    """With each variable set; every row is kept."""
    import pyomo.environ as pyo

    for variable in model.component_data_objects(pyo.Var):
        variable.set_value(values[variable.name], skip_validation=True)
        assert variable.lb is None or variable.value >= variable.lb - 1e-9
        assert variable.ub is None or variable.value <= variable.ub + 1e-9
    for row in model.component_data_objects(pyo.Constraint, active=True):
        body, lower, upper = pyo.value(row.body), pyo.value(row.lower), pyo.value(row.upper)
        assert lower is None or body >= lower - 1e-9, row.name
        assert upper is None or body <= upper + 1e-9, row.name
    return float(pyo.value(model.objective))


def test_the_rows_of_each_extension_have_their_numbers() -> None:
    """As the documentation names them: 10 to 12 for flushes, 13 to 18 for levels."""
    import pyomo.environ as pyo

    def numbers(problem: StagingProblem, **asked: Any) -> set[int]:
        options = {"semantics": "paper", **asked}
        built = FORMULATION.build(problem, options, native=False)
        assert isinstance(built, BuiltModel)
        names = [block.name for block in built.model.component_objects(pyo.Constraint)]
        assert all(name.startswith(("eq_", "cut_")) for name in names)
        return {int(name.split("_")[1]) for name in names if name.startswith("eq_")}

    plain = {1, 2, 3, 4, 5, 6}
    flat = load_packaged("tiny-stages")
    assert numbers(flat, objective="flush") == plain | {10, 11, 12}
    levels = load_packaged("tiny-levels")
    assert numbers(levels) == plain | {13, 14, 15, 16, 17, 18}
    assert numbers(levels, objective="flush") == plain | set(range(10, 19))


def test_too_many_columns_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of copies above a stage makes columns."""
    problem = load_packaged("tiny-levels").replace(replication=False)
    monkeypatch.setattr(candidates, "MAX_COLUMNS", 0)
    with pytest.raises(InputError, match=r"more than 0 ways; coarsen .* --planner dp-piper"):
        pipeplan.solve(problem, formulation="mip-piper", limits=LIMITS, warm_start="none")


def test_what_levels_leave_undefined_is_refused() -> None:
    with pytest.raises(InputError, match="option semantics is reference and the problem has levels"):
        pipeplan.solve(load_packaged("tiny-levels"), formulation="mip-piper", options={"semantics": "reference"})
