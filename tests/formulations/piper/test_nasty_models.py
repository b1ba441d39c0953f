"""Both models on numbers that trouble arithmetic: memory to the last digit, forbidding amounts, other units."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled

from pipeplan.formulations.contract import BuiltModel, ExtraRow, Refuted
from pipeplan.formulations.piper import FORMULATION
from pipeplan.formulations.piper.compact import LARGEST_LOAD, load_unit
from pipeplan.formulations.piper.formulation import column_bound
from pipeplan.formulations.piper.knapsack import Option, enclosure, select
from pipeplan.formulations.piper.stages import StageBook
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.instances.staging.referee.stages import evaluate_stages, verify_stages
from pipeplan.planners.backends import solve as run
from pipeplan.planners.backends.compiler import compile_pyomo
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


# ---- the compact model -------------------------------------------------------------------------------------


def built(problem: StagingProblem) -> BuiltModel | Refuted:
    return FORMULATION.build(problem, {"variant": "compact", "semantics": "paper"}, native=False)


def add(model: Any, rows: list[ExtraRow]) -> None:
    import pyomo.environ as pyo

    names = {variable.name: variable for variable in model.component_data_objects(pyo.Var)}
    for row in rows:
        body = sum(coefficient * names[name] for name, coefficient in row.coefficients.items())
        if row.coefficients:
            model.extra.add(body <= row.upper)


def solved_with_exclusions(problem: StagingProblem, solver: str) -> tuple[float | None, int]:
    """The optimum, and how many plans were refused on the way; None: the model says that there is none."""
    import pyomo.environ as pyo

    model = built(problem)
    if isinstance(model, Refuted):
        return None, 0
    assert model.exclude is not None
    model.model.extra = pyo.ConstraintList()
    for refused in itertools.count():
        matrix = compile_pyomo(model.model, grids=model.grids, grid_loss=model.grid_loss)
        outcome = run(solver, matrix, LIMITS)
        if outcome.values is None:
            assert outcome.stop == Stop.INFEASIBLE, outcome.message
            return None, refused
        plan = model.decode(outcome.values)
        if not verify_stages(problem, plan):
            return evaluate_stages(problem, plan).time_per_micro_batch, refused
        rows = list(model.exclude(plan))
        assert rows, "a refused plan is cut off"
        add(model.model, rows)
    raise AssertionError("there are only so many plans")


def hair_problem(seed: int) -> StagingProblem:
    """Amounts that differ in the tenth digit, and a memory that some choice meets exactly."""
    rng = random.Random(seed)
    layers = []
    for v in range(rng.randint(1, 3)):
        ways = (
            Configuration(f"way {i}", round(rng.uniform(1, 5), 2), memory_fixed=1000.0 + rng.randint(0, 9) / 10**7)
            for i in range(2)
        )
        layers.append(Layer(v, {1: tuple(ways)}))
    problem = StagingProblem(tuple(layers), (), rng.randint(1, 2), 1.0, 2)
    chosen = [rng.choice(layer.configurations[1]).memory_bytes(1) for layer in layers]
    return problem.replace(memory_bytes=float(sum(chosen[: rng.randint(1, len(chosen))])))


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
def test_refused_plans_are_cut_off_until_the_optimum_is_left(solver: str) -> None:
    """Float solvers cannot tell such amounts apart; the referee does, and the model asks again."""
    refusals = 0
    for seed in range(20):
        problem = hair_problem(seed)
        best = best_stages(problem)
        value, refused = solved_with_exclusions(problem, solver)
        assert value == (None if best is None else pytest.approx(best[0], rel=1e-6)), seed
        refusals += refused
    assert refusals >= 3, "else this shows little"


@pytest.mark.parametrize("seed", range(20))
def test_rows_against_refused_plans_keep_every_valid_one(seed: int) -> None:
    problem = hair_problem(seed)
    model = built(problem)
    if isinstance(model, Refuted):
        return
    assert model.exclude is not None
    plans = list(every_plan(problem))
    rows = [row for plan in plans if verify_stages(problem, plan) for row in model.exclude(plan)]
    for plan in plans:
        values = model.encode(plan)
        if not verify_stages(problem, plan):
            assert values is not None
            assert all(keeps(row, values) for row in rows)
        elif values is not None:
            assert not all(keeps(row, values) for row in model.exclude(plan))


def keeps(row: ExtraRow, values: Any) -> bool:
    return row.lower <= sum(a * values[name] for name, a in row.coefficients.items()) <= row.upper


def every_plan(problem: StagingProblem) -> Iterator[StagedPlan]:
    """Of layers without edges in their order: all cuts, all ways, one or two replicas; within devices."""
    ids = [layer.id for layer in problem.layers]
    for names in itertools.product(("way 0", "way 1"), repeat=len(ids)):
        for cut in (None, *range(1, len(ids))):
            parts = [ids] if cut is None else [ids[:cut], ids[cut:]]
            for degrees in itertools.product((1, 2), repeat=len(parts)):
                chosen = dict(zip(ids, names, strict=True))
                stages = tuple(
                    PlannedStage(tuple(part), d, 1, {v: chosen[v] for v in part})
                    for part, d in zip(parts, degrees, strict=True)
                )
                if sum(degrees) <= min(problem.devices, problem.micro_batches):
                    yield StagedPlan(stages)


def test_loads_are_counted_in_a_unit_that_keeps_their_numbers_small() -> None:
    assert load_unit(3.0, 4.0) == 3.0
    assert load_unit(3.0, 3.0 * LARGEST_LOAD) == 3.0 * LARGEST_LOAD
    assert load_unit(0.0, 7.0) == 7.0
    assert load_unit(0.0, 0.0) == 1.0
    layers = tuple(Layer(v, {1: (Configuration("x", 1e16), Configuration("y", 2.5))}) for v in range(3))
    problem = StagingProblem(layers, (Edge(0, 1, 1e12),), 2, 1.0, 2, memory_bytes=1.0)
    for variant in ("columns", "compact"):
        model = FORMULATION.build(problem, {"variant": variant, "semantics": "paper"}, native=False)
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
