"""Every proof says for which plans it holds, and no plan from elsewhere is any part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from known_chains import figure_5
from problems.placements import random_placement
from problems.stagings import random_staging
from problems.trainings import random_training

from pipeplan import ChainProblem, Node, PatternPlan, PlacementPlan, PlacementProblem, solve
from pipeplan.formulations.family import PLACEMENTS
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.result import Found, Proof, Result, StartOutcome, Stop
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Operator, TimeCurve
from pipeplan.instances.physics.schedules import V_SHAPE
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.registry import PLANNERS
from pipeplan.planners.run import choose as choice
from pipeplan.planners.run import solve as solving
from pipeplan.planners.run.choose import choose
from pipeplan.planners.run.judge import NO_FAMILY, RECOMPUTED

ONE_BATCH, TWO_BATCHES = "patterns of one batch per period", "patterns of 2 batches per period"

CHAIN = ChainProblem(
    forward=(2, 2), backward=(2, 2), activations=(2, 1, 1, 0, 2), weights=(1, 2), gpus=2, memory_bytes=6.0,
    transfer_times=(1, 0, 1), duplex="half", weight_copies=1, memory_mode="inputs",
    name="6 with one batch per period, 5 with two",
)  # fmt: skip


@pytest.fixture(scope="module")
def flushed() -> PatternPlan:
    """The best of a few synchronous schedules: several batches per period, better than any pattern of one batch."""
    found = solve(CHAIN, planner="sync-1f1b")
    assert isinstance(found.plan, PatternPlan)
    assert found.objective == 5.5
    assert found.plan.batches_per_period > 2
    return found.plan


# ---- chains --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ilp-beaumont", "cp-beaumont", "exact-beaumont"])
def test_a_start_of_more_batches_is_kept_and_proves_nothing(method: str, flushed: PatternPlan) -> None:
    result = solve(CHAIN, formulation=method, warm_start=flushed)
    assert (result.stop, result.found, result.objective, result.verified) == (
        Stop.COMPLETED,
        Found.FEASIBLE,
        5.5,
        True,
    )
    assert (result.bound, result.gap, result.scope, result.proof) == (None, None, None, None)
    assert (result.warm_start.outcome, result.warm_start.value) == (StartOutcome.OUTSIDE, 5.5)
    own = result.in_scope
    assert (own.stop, own.found, own.objective, own.scope) == (Stop.PROVEN, Found.OPTIMAL, 6, ONE_BATCH)
    assert own.bound == pytest.approx(6, rel=1e-6)
    assert own.wider == "--formulation cp-beaumont --option batches-per-period=2"
    (message,) = [text for text in result.messages if "nothing is proven" in text]
    for words in (
        "5.5",
        f"has {flushed.batches_per_period} batches per period",
        ONE_BATCH,
        "optimum of these is 6",
    ):
        assert words in message
    assert f"--formulation cp-beaumont --option batches-per-period={flushed.batches_per_period} asks" in message


def test_two_batches_are_better_and_two_times_one_is_two(flushed: PatternPlan) -> None:
    """A pattern of one batch, run twice, is one of two: such a start is part of the proof."""
    one = solve(CHAIN, formulation="exact-beaumont")
    two = solve(CHAIN, formulation="cp-beaumont", options={"batches_per_period": 2}, warm_start=one.plan)
    assert (two.stop, two.objective, two.scope) == (Stop.PROVEN, 5, TWO_BATCHES)
    assert two.warm_start.outcome == StartOutcome.ACCEPTED
    # The optimum of two batches beats the start of more: there is nothing to say of the start.
    better = solve(CHAIN, formulation="cp-beaumont", options={"batches_per_period": 2}, warm_start=flushed)
    assert (better.stop, better.objective, better.warm_start.outcome) == (Stop.PROVEN, 5, StartOutcome.OUTSIDE)
    assert not better.messages


def test_without_a_memory_limit_no_number_of_batches_helps(flushed: PatternPlan) -> None:
    free = CHAIN.replace(memory_bytes=None)
    result = solve(free, formulation="ilp-beaumont", warm_start=flushed)
    assert (result.stop, result.scope, result.wider) == (Stop.PROVEN, "all periodic patterns", None)
    assert result.warm_start.outcome == StartOutcome.ACCEPTED


def test_a_given_allocation_is_named() -> None:
    result = solve(CHAIN, formulation="cp-beaumont", options={"allocation": "0,0"})
    assert result.scope == f"{ONE_BATCH} of the given allocation"
    assert "no --option allocation" in result.wider


def test_the_printed_program_proves_nothing_about_the_problem() -> None:
    family = choose(CHAIN, "ilp-beaumont", None, "auto", {"variant": "printed"}).family(CHAIN)
    assert "not those of the problem" in family.scope


# ---- graph pipelines -----------------------------------------------------------------------------------


def _row(count: int, devices: int, mini_batch: int = 4) -> GraphPipelineProblem:
    """Operators in a row that are much faster per sample for two samples than for one."""
    curve = TimeCurve((1.0, 2.0, 4.0), (1.0, 1.2, 1.6))
    operators = tuple(Operator(v, curve, curve, 1.0, 1.0, 0.0) for v in range(count))
    edges = tuple((v, v + 1) for v in range(count - 1))
    return GraphPipelineProblem(
        operators, edges, devices=devices, mini_batch=mini_batch, memory_bytes=None, name="row"
    )


ROW = _row(3, 3)


def _plan(problem: GraphPipelineProblem, *sizes: int) -> StageGraphPlan:
    """One operator a stage, each with its own micro-batch and as many samples in flight as there are."""
    stages = [GraphStage((v,), 1, size, 1, problem.mini_batch) for v, size in enumerate(sizes)]
    return StageGraphPlan(tuple(stages), tuple((v, v + 1) for v in range(len(sizes) - 1)))


def test_a_start_of_another_micro_batch_is_kept_and_proves_nothing() -> None:
    result = solve(ROW, formulation="cp-graphpipe", options={"micro_batch": 1}, warm_start=_plan(ROW, 4, 4, 4))
    own = result.in_scope
    assert (own.stop, own.scope) == (
        Stop.PROVEN,
        "stage graphs of stages of the decomposition, micro-batches of 1 sample",
    )
    assert "without --micro-batch" in (own.wider or "")
    assert (result.stop, result.found, result.bound) == (Stop.COMPLETED, Found.FEASIBLE, None)
    assert "--micro-batch 4 asks for such plans" in result.messages[0]


@pytest.mark.parametrize(("start", "options", "why"), [
    (_plan(ROW, 4, 2, 4), {}, "micro-batches of several sizes"),
    (_plan(ROW, 4, 2, 4), {"mixed_micro_batches": True}, None),
    (_plan(ROW, 4, 4, 4), {"micro_batch": 4}, None),
    (_plan(ROW, 4, 4, 4), {}, None),
    (_plan(ROW, 4, 4, 4), {"degrees": "none"}, None),
    (_plan(ROW, 4, 4, 4), {"micro_batch": 2}, "micro-batches of 4 samples"),
])  # fmt: skip
def test_which_stage_graphs_are_outside(start: StageGraphPlan, options: dict[str, Any], why: str | None) -> None:
    assert _why(ROW, start, options) == why


def test_stages_degrees_and_groups_that_the_options_leave_out_are_outside() -> None:
    problem = _row(2, 3, mini_batch=6).replace(memory_bytes=1000.0)
    edges = problem.replace(edges=())  # two branches side by side
    three = StageGraphPlan((GraphStage((0, 1), 3, 3, 1, 6),), ())
    asked = {"micro_batch": 3, "degrees": "pow2"}
    assert _why(problem, three, asked) == "a stage on 3 devices"
    assert _why(problem, three, {"micro_batch": 3}) is None
    assert _why(problem, three, {}) == "micro-batches of 3 samples"
    assert _why(edges, three, {"micro_batch": 3}) is None
    many = _row(2, 2, mini_batch=8).replace(memory_bytes=1000.0)
    grouped = StageGraphPlan((GraphStage((0,), 1, 1, 4, 8), GraphStage((1,), 1, 8, 1, 8)), ((0, 1),))
    assert _why(many, grouped, {"mixed_micro_batches": True}) == "k = 4"
    assert _why(many, grouped, {"mixed_micro_batches": True, "k": 4}) is None
    uniform = replace(grouped, stages=tuple(replace(stage, micro_batch=8, k=4) for stage in grouped.stages))
    assert _why(many, uniform, {}) is None, "with one size k = 1 is as good as any k"


def test_a_stage_across_branches_is_none_of_the_decomposition() -> None:
    """0 -> {1 -> 2, 3 -> 4} -> 5: the middle of one branch with the start of the other."""
    curve = TimeCurve((1.0,), (1.0,))
    arcs = ((0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5))
    operators = tuple(Operator(v, curve, curve, 1.0, 1.0, 0.0) for v in range(6))
    problem = GraphPipelineProblem(operators, arcs, devices=4, mini_batch=1, memory_bytes=None)
    stages = tuple(GraphStage(nodes, 1, 1, 1, 1) for nodes in ((0,), (1, 3), (2, 4), (5,)))
    plan = StageGraphPlan(stages, ((0, 1), (1, 2), (2, 3)))
    assert _why(problem, plan, {}) == "a stage that is none of the decomposition"
    assert _why(problem, plan, {"family": "convex"}) is None


def _why(problem: GraphPipelineProblem, plan: StageGraphPlan, options: dict[str, Any]) -> str | None:
    family = choose(problem, "cp-graphpipe", None, "auto", options).family(problem)
    reason = family.outside(plan)
    return None if reason is None else reason.why


# ---- placements and stagings ---------------------------------------------------------------------------


def test_a_start_that_is_not_contiguous_is_kept_apart_where_contiguity_is_a_rule() -> None:
    nodes = tuple(Node(i, accelerator_time=float(i), cpu_time=10.0) for i in (1, 2, 3))
    problem = PlacementProblem(nodes, ((1, 2), (2, 3)), 2, 0)
    around = PlacementPlan.from_assignment(problem, {1: 0, 2: 1, 3: 0})
    for asked in ({"formulation": "ip-tarnawski"}, {"planner": "dp"}):
        result = solve(problem, warm_start=around, **asked)  # type: ignore[arg-type]
        assert (result.warm_start.outcome, result.stop) == (StartOutcome.OUTSIDE, Stop.PROVEN)


# ---- every method --------------------------------------------------------------------------------------

SMALL = {
    "placement": random_placement(5),
    "chain": figure_5().problem,
    "staging": random_staging(0),
    "graph-pipeline": ROW,
    "schedule": divided_pipeline(equal_stages(2, 1, 1, 1), 4, 8),
    "training": random_training(1, devices=2),
}
SHAPED = {
    "interleaved-1f1b": divided_pipeline(equal_stages(4, 1, 1, 1), 4, 20, virtual=2),
    "zb-v": divided_pipeline(equal_stages(4, 1, 1, 1), 4, 20, virtual=2, layout=V_SHAPE),
    "dualpipe-v": divided_pipeline(equal_stages(4, 1, 1, 1), 4, 20, virtual=2, layout=V_SHAPE),
}
"""For methods that plan one shape alone."""


@pytest.mark.parametrize("entry", [*FORMULATIONS.values(), *PLANNERS.values()], ids=lambda entry: entry.name)
def test_every_bound_and_every_proof_has_a_scope(entry: Any) -> None:
    if entry.name in ("exact", "expert", "latency-expert"):
        pytest.skip("needs a formulation, or a split from a file")
    kind = {"formulation": entry.name} if entry.name in FORMULATIONS else {"planner": entry.name}
    result = solve(SHAPED.get(entry.name, SMALL[entry.problem_kind]), **kind)
    assert NO_FAMILY not in result.messages
    assert (result.scope is not None) == (result.bound is not None or result.stop == Stop.INFEASIBLE)
    assert (result.proof is not None) == (result.stop in (Stop.PROVEN, Stop.INFEASIBLE))
    if result.proof is not None:
        assert result.proof.checks
    if entry.exact:
        assert result.scope is not None


def test_a_bound_of_who_knows_what_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that does not say for which plans its bound holds proves nothing."""
    problem = SMALL["placement"]
    nameless = replace(PLANNERS["dp"], scope=None)
    monkeypatch.setattr(choice, "PLANNERS", {**PLANNERS, "dp": nameless})
    result = solve(problem, planner="dp")
    assert (result.bound, result.scope, result.proof) == (None, None, None)
    assert result.found == Found.FEASIBLE
    assert NO_FAMILY in result.messages


def test_the_evidence_of_an_infeasible_problem_is_named() -> None:
    result = solve(SMALL["chain"].replace(memory_bytes=1.0), planner="exact-beaumont")
    assert result.stop == Stop.INFEASIBLE
    assert result.scope == ONE_BATCH
    assert result.proof is not None
    told = result.to_json()["proof"]
    assert told["by"]["method"] == "exact-beaumont"
    assert told["by"]["backend"] == "cp-sat"
    assert told["scope"] == ONE_BATCH


def test_what_a_method_checked_is_told_with_its_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*facts: Any) -> Any:
        backend = {"name": "abacus", "version": "7"}
        return replace(before(*facts), backend=backend, checks=("the beads were counted",))

    before = solving._run
    monkeypatch.setattr(solving, "_run", run)
    result = solve(SMALL["placement"], planner="dp")
    assert result.proof == Proof("dp", "abacus", "7", PLACEMENTS["chain"], ("the beads were counted", RECOMPUTED))


def test_results_of_before_have_neither_scope_nor_proof() -> None:
    told = solve(SMALL["placement"], planner="dp").to_json()
    for key in ("scope", "wider", "proof"):
        del told[key]
    old = result_from_json(told)
    assert isinstance(old, Result)
    assert (old.scope, old.proof, old.stop) == (None, None, Stop.PROVEN)
