"""Plans of every kind through one simulator: the same pipeline takes the same time, whoever planned it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from problems.graph_pipelines_with_plans import chain_plan, chain_problem, random_graph_problem, random_plan
from problems.profiles import ROW
from problems.stagings import random_staging
from problems.three_stages import (
    BATCHES,
    CLOSED,
    DELAY,
    STAGES,
    as_pattern,
    as_placement,
    as_stage_graph,
    as_stages,
)

import pipeplan
from pipeplan import Device, InputError, PatternPlan, PlacementPlan, UsageError, load_packaged, simulate
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import evaluate_leveled
from pipeplan.instances.timeline.model import StageRun, Task


@pytest.mark.parametrize("make", [as_stage_graph, as_stages, as_placement, as_pattern])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "planned"])
def test_the_same_pipeline_takes_the_same_time(make: Any, schedule: str) -> None:
    problem, plan = make()
    given = {"micro_batches": BATCHES} if problem.kind in ("placement", "chain") else {}
    reference = simulate(*as_stage_graph(), schedule=schedule)
    simulation = pipeplan.simulate(problem, plan, schedule=schedule, **given)
    assert simulation.iteration == pytest.approx(reference.iteration)
    assert simulation.iteration >= CLOSED - 1e-9
    assert simulation.depth == STAGES
    assert [stage.peak_in_flight for stage in simulation.stages] == [s.peak_in_flight for s in reference.stages]
    assert [stage.warm_up for stage in simulation.stages] == [s.warm_up for s in reference.stages]


def test_gpipe_hides_all_delays_but_the_way_in_and_out() -> None:
    assert simulate(*as_stage_graph(), schedule="gpipe").iteration == CLOSED


def test_without_a_backward_pass_a_split_runs_forward_only() -> None:
    simulation = simulate(*as_placement(training=False), micro_batches=BATCHES)
    assert simulation.iteration == pytest.approx(BATCHES + STAGES - 1 + (STAGES - 1) * DELAY)
    assert {task.kind for stage in simulation.stages for task in stage.tasks} == {"forward"}


def test_memory_of_a_stage_graph_is_what_the_referee_counts() -> None:
    for seed in range(40):
        problem = random_graph_problem(seed)
        plan = random_plan(problem, seed)
        runs = simulate(problem, plan).stages
        costs = evaluate_stage_graph(problem, plan).stages
        for stage, done, cost in zip(plan.stages, runs, costs, strict=True):
            assert done.peak_in_flight == stage.in_flight
            assert done.memory_bytes == pytest.approx(cost.memory_bytes)


def test_memory_of_a_chain_is_weights_and_kept_inputs() -> None:
    assert [s.memory_bytes for s in simulate(*as_pattern(), micro_batches=BATCHES).stages] == [24, 23, 22]


@pytest.mark.parametrize("seed", range(20))
def test_memory_over_time_rises_to_its_peak_and_falls_back(seed: int) -> None:
    """Every micro-batch comes and goes; the most is what the simulator reports."""
    problem = random_graph_problem(seed)
    for stage in simulate(problem, random_plan(problem, seed)).stages:
        curves = [stage.memory_over_time(replica) for replica in range(stage.replicas)]
        assert max(held for curve in curves for _, held in curve) == pytest.approx(stage.memory_bytes)
        for curve in curves:
            assert curve[0] == (0.0, stage.fixed_bytes)
            assert curve[-1][1] == pytest.approx(stage.fixed_bytes)
            assert [time for time, _ in curve] == sorted(time for time, _ in curve)


def test_without_a_backward_pass_a_micro_batch_goes_when_its_forward_pass_ends() -> None:
    tasks = (Task("forward", 1, 0, 0.0, 1.0), Task("forward", 2, 0, 1.0, 2.0))
    run = StageRun("only", 1, 1, tasks, 2.0, 1, 12.0, 2, fixed_bytes=10.0, micro_batch_bytes=2.0)
    assert run.memory_over_time() == ((0.0, 10.0), (0.0, 12.0), (1.0, 10.0), (1.0, 12.0), (2.0, 10.0))


def test_replicas_of_a_stage_share_the_work_and_synchronise_once() -> None:
    """Three layers in one stage of two replicas: four rounds of nine each, then 4 (d - 1) / d of the weights."""
    problem, _ = as_stages(weight_bytes=5.0)
    plan = StagedPlan((PlannedStage((0, 1, 2), 2, 1, dict.fromkeys(range(3), "only")),))
    assert simulate(problem, plan).iteration == 4 * 9 + 4 / 2 * 15 * DELAY
    assert simulate(problem, plan, micro_batches=2).iteration == 9 + 30 * DELAY


# ---- schedules ---------------------------------------------------------------------------------------------


def test_the_plans_own_k_and_plain_1f1b() -> None:
    problem = chain_problem(2, 16)
    plan = StageGraphPlan((GraphStage((0,), 1, 1, 2, 4), GraphStage((1,), 1, 1, 2, 2)), ((0, 1),))

    def last_stage(schedule: str) -> list[str]:
        return [task.kind[0] for task in simulate(problem, plan, schedule=schedule).stages[1].tasks[:6]]

    assert last_stage("planned") == list("ffbbff")
    assert last_stage("1f1b") == list("ffbfbf")
    assert last_stage("gpipe") == list("ffffff")


@pytest.mark.parametrize("kind", ["placement", "chain", "staging"])
def test_what_a_profile_became_is_simulated_whatever_way_its_backward_edges_point(kind: str) -> None:
    """Two equal stages of 2 + 4 ms each: a micro-batch every 6 ms, after the first one's way through the other."""
    problem = pipeplan.lower(ROW, kind=kind, devices=2, memory_bytes=math.inf, bandwidth=1e6).problem
    plan = pipeplan.solve(problem).plan
    assert plan is not None
    assert simulate(problem, plan, micro_batches=8).iteration == pytest.approx(8 * 6 + 6, rel=0.01)


# ---- what is refused ---------------------------------------------------------------------------------------


def test_who_says_how_many_micro_batches() -> None:
    with pytest.raises(UsageError, match="itself says"):
        simulate(*as_stage_graph(), micro_batches=4)
    with pytest.raises(InputError, match="is missing"):
        simulate(*as_placement())
    with pytest.raises(InputError, match="is 0; give a whole number from 1"):
        simulate(*as_placement(), micro_batches=0)


def test_too_many_passes_are_not_told_one_by_one() -> None:
    with pytest.raises(UsageError, match="2400000 passes; at most 2000000"):
        simulate(chain_problem(3, 400_000), chain_plan(3, 1, 400_000))
    problem, plan = as_stages()
    with pytest.raises(UsageError, match="at most 2000000"):
        simulate(problem.replace(micro_batches=1_000_000), plan)


def test_what_is_no_pipeline_is_refused() -> None:
    problem, plan = as_stages()
    with pytest.raises(UsageError, match=r"cannot be simulated\. Stage \d needs the result of stage \d"):
        simulate(problem, StagedPlan(plan.stages[::-1]))
    chain, pattern = as_pattern()
    back = PatternPlan(pattern.period, (0, 1, 0), pattern.starts, pattern.transfers)
    with pytest.raises(UsageError, match="do not follow each other"):
        simulate(chain, back, micro_batches=2)
    split, _ = as_placement()
    there = (Device("a", "accelerator", ("f0", "b0", "f2", "b2")), Device("b", "accelerator", ("f1", "b1")))
    with pytest.raises(UsageError, match="no chain of stages"):
        simulate(split, PlacementPlan(there), micro_batches=2)


def test_a_plan_without_enough_memory_can_still_be_watched() -> None:
    problem, plan = as_stage_graph()
    assert simulate(problem.replace(memory_bytes=1.0), plan).peak_memory_bytes > 1  # type: ignore[union-attr]


def test_the_json_of_a_simulation_may_leave_its_tasks_out() -> None:
    assert "tasks" not in simulate(*as_stage_graph()).to_json(tasks=False)["stages"][0]


# ---- Plans on devices within devices in the simulator: small ones by hand, one level against the flat network.


FORWARD, BACKWARD = 8 / 3, 16 / 3


def tiny() -> StagingProblem:
    """Two servers of two devices; a layer takes 8; the tensor takes 2 inside a server and 20 between servers."""
    return load_packaged("tiny-levels")


def leaf(layer: str, copies: int = 1, tensor: int = 1) -> LeveledStage:
    return LeveledStage((layer,), copies, tensor, {layer: "vanilla"})


def cut_between_servers() -> LeveledPlan:
    return LeveledPlan(tuple(LeveledStage((name,), 1, children=(leaf(name),)) for name in "ab"))


def copied_servers() -> LeveledPlan:
    return LeveledPlan((LeveledStage(("a", "b"), 2, children=(leaf("a"), leaf("b"))),))


def one_layer(**way: Any) -> StagingProblem:
    layer = Layer("a", {1: (Configuration("vanilla", 8.0, **way),)})
    return StagingProblem((layer,), (), 4, 10.0, 4, levels=(StagingLevel(2, 10.0), StagingLevel(2, 1.0)))


# ---- by hand -------------------------------------------------------------------------------------------


def test_copies_on_servers_take_turns() -> None:
    """Each server runs two micro-batches. Stage b runs the first one from 14/3 to 38/3 and the second one until 62/3;
    its gradient is at stage a 2 s later, which takes 16/3."""
    found = simulate(tiny(), copied_servers())
    assert found.iteration == pytest.approx(62 / 3 + 2 + 16 / 3)
    assert [(stage.name, stage.devices, stage.replicas) for stage in found.stages] == [
        ("stage 0.0", 2, 2),
        ("stage 0.1", 2, 2),
    ]
    assert [task.micro_batch for task in found.stages[0].tasks if task.replica == 0] == [1, 3, 1, 3]


def test_tensors_cross_the_links_of_their_level() -> None:
    one = simulate(tiny(), cut_between_servers(), micro_batches=1)
    assert one.iteration == pytest.approx(FORWARD + 20 + 8 + 20 + BACKWARD)
    inside = simulate(tiny(), copied_servers(), micro_batches=1)
    assert inside.iteration == pytest.approx(FORWARD + 2 + 8 + 2 + BACKWARD)


def test_redistribution_stays_on_the_innermost_level() -> None:
    problem = tiny()
    ways = {"a": {"gather_out": {"b": 5.0}}, "b": {"gather_in": {"a": 10.0}}}
    layers = tuple(Layer(x, {1: (Configuration("vanilla", 8.0, **ways[x]),)}) for x in "ab")  # type: ignore[arg-type]
    found = simulate(problem.replace(layers=layers), cut_between_servers(), micro_batches=1)
    assert found.iteration == pytest.approx(FORWARD + 21.5 + 8 + 21.5 + BACKWARD)


def test_a_level_that_is_passed_over_costs_nothing() -> None:
    """Three levels, cut on the middle one: neither the slow links above nor the fast ones below are crossed."""
    levels = (StagingLevel(1, 1000.0), StagingLevel(2, 4.0), StagingLevel(2, 0.001))
    problem = tiny().replace(levels=levels)
    halves = tuple(LeveledStage((name,), 1, children=(leaf(name),)) for name in "ab")
    found = simulate(problem, LeveledPlan((LeveledStage(("a", "b"), 1, children=halves),)), micro_batches=1)
    assert found.iteration == pytest.approx(FORWARD + 5 + 8 + 5 + BACKWARD)
    assert [stage.name for stage in found.stages] == ["stage 0.0.0", "stage 0.1.0"]


def test_weights_are_synchronised_level_by_level() -> None:
    """Four copies run one micro-batch each; then 4 x 1/2 x 3 bytes inside the servers, and as many between them."""
    plan = LeveledPlan((LeveledStage(("a",), 2, children=(leaf("a", copies=2),)),))
    assert simulate(one_layer(weight_bytes=3.0), plan).iteration == pytest.approx(8 + 6 / 10 + 6 / 1)


# ---- against the flat network and the referee ----------------------------------------------------------


@pytest.mark.parametrize("schedule", ["planned", "gpipe"])
@pytest.mark.parametrize("seed", range(20))
def test_one_level_is_the_flat_network(seed: int, schedule: str) -> None:
    flat = random_staging(seed)
    plan = pipeplan.solve(flat).plan
    if plan is None:
        return
    assert isinstance(plan, StagedPlan)
    tree = LeveledPlan(
        tuple(LeveledStage(s.nodes, s.data_parallel, s.tensor_parallel, s.configurations) for s in plan.stages)
    )
    nested = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth),))
    found, expected = simulate(nested, tree, schedule=schedule), simulate(flat, plan, schedule=schedule)
    assert found.iteration == pytest.approx(expected.iteration)
    assert [stage.name for stage in found.stages] == [stage.name for stage in expected.stages]
    for one, other in zip(found.stages, expected.stages, strict=True):
        assert one.memory_bytes == pytest.approx(other.memory_bytes)
        assert [task.start for task in one.tasks] == pytest.approx([task.start for task in other.tasks])


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_what_the_referee_counts(seed: int) -> None:
    flat = random_staging(seed, layers=(2, 3))
    problem = flat.replace(devices=4, levels=(StagingLevel(2, flat.bandwidth), StagingLevel(2, flat.bandwidth / 4)))
    plan = pipeplan.solve(problem).plan
    if plan is None:
        return
    assert isinstance(plan, LeveledPlan)
    costs = evaluate_leveled(problem, plan).leaves
    runs = simulate(problem, plan, micro_batches=24).stages
    assert [run.memory_bytes for run in runs] == pytest.approx([cost.memory_bytes for cost in costs])
    assert [run.busy for run in runs] == pytest.approx(
        [
            24 * cost.compute * leaf.data_parallel / cost.copies
            for cost, leaf in zip(costs, plan.leaves(), strict=True)
        ]
    )


# ---- what is refused, and the command line -------------------------------------------------------------


def test_a_plan_that_ends_too_high_cannot_be_run() -> None:
    with pytest.raises(UsageError, match=r"cannot be simulated.*must be divided further"):
        simulate(tiny(), LeveledPlan((LeveledStage(("a", "b"), 1),)))
