"""Plans of every kind become schedule problems: the same blocks, whoever planned, with the times of the simulator."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from problems.chains import random_chain
from problems.graph_pipelines_with_plans import chain_problem, random_graph_problem, random_plan
from problems.stagings import random_staging
from problems.three_stages import BATCHES, DELAY, STAGES, as_pattern, as_placement, as_stage_graph, as_stages

from pipeplan import ChainProblem, PatternPlan, SchedulePlan, ScheduleProblem, evaluate, solve
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.registry import Plan, Problem
from pipeplan.instances.schedule.order import own_schedule
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.instances.simulate import lower_to_schedule, simulate
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, DeviceType, StagingProblem
from pipeplan.instances.timeline.engine import run
from pipeplan.instances.timeline.model import Simulation
from pipeplan.studies.stage_schedule import schedule_study

ALL = pytest.mark.parametrize("make", [as_stage_graph, as_stages, as_placement, as_pattern])


def computed(simulation: Simulation) -> float:
    """The end of the last pass: the synchronisation of weights behind it is no block."""
    return max(
        task.end for stage in simulation.stages for task in stage.tasks if task.kind in ("forward", "backward")
    )


def in_own_order(
    problem: Problem, plan: Plan, micro_batches: int
) -> tuple[ScheduleProblem, SchedulePlan, Simulation]:
    """What a plan's own schedule is, as blocks, and as it is simulated."""
    lowered = lower_to_schedule(problem, plan, micro_batches=micro_batches)
    assert lowered.own is not None
    pipeline = lowered.own(micro_batches)
    starts = own_schedule(lowered.problem, pipeline)
    assert isinstance(starts, SchedulePlan)
    return lowered.problem, starts, run(pipeline)


# ---- by hand -------------------------------------------------------------------------------------------


@ALL
def test_the_same_stages_are_the_same_blocks_whoever_planned_them(make: Any) -> None:
    problem = lower_to_schedule(*make(), micro_batches=BATCHES).problem
    assert [(block.id, block.kind, block.time, block.stage) for block in problem.blocks] == [
        row for i in range(STAGES) for row in ((f"F{i}", "F", 1, i), (f"B{i}", "B", 2, i))
    ]
    assert {(edge.source, edge.target): edge.lag for edge in problem.edges} == {
        **{(f"F{i}", f"B{i}"): 0 for i in range(STAGES)},
        **{(f"F{i}", f"F{i + 1}"): DELAY for i in range(STAGES - 1)},
        **{(f"B{i + 1}", f"B{i}"): DELAY for i in range(STAGES - 1)},
    }


@ALL
def test_without_micro_batches_there_is_the_steady_state_alone(make: Any) -> None:
    assert lower_to_schedule(*make()).problem.micro_batches is None


def test_a_divided_backward_pass_is_two_blocks_that_share_its_time_and_its_activations() -> None:
    problem, plan = as_stages(memory_per_batch=10.0, memory_fixed=100.0)
    lowered = lower_to_schedule(problem, plan, split_backward=0.25, weight_stash=0.4).problem
    assert [(b.id, b.time, dict(b.memory)) for b in lowered.blocks[:3]] == [
        ("F0", 1, {"d0": 10}),
        ("I0", 0.5, {"d0": -6}),
        ("W0", 1.5, {"d0": -4}),
    ]
    assert [device.standing for device in lowered.devices] == [100] * STAGES
    assert ("I1", "I0") in {(edge.source, edge.target) for edge in lowered.edges}
    assert ("F0", "I0") in {(edge.source, edge.target) for edge in lowered.edges}


def test_each_stage_may_divide_its_backward_pass_in_its_own_way() -> None:
    lowered = lower_to_schedule(*as_stages(), split_backward=(0.25, 0.5, 1)).problem
    assert [block.time for block in lowered.blocks if block.kind == "I"] == [0.5, 1, 2]
    assert [block.time for block in lowered.blocks if block.kind == "W"] == [1.5, 1, 0]


def test_half_of_the_activations_stay_for_the_weights_where_nothing_is_said() -> None:
    """The convention of zero-bubble schedules: +2, -1, -1."""
    lowered = lower_to_schedule(*as_stages(memory_per_batch=2.0), split_backward=0.5).problem
    assert [block.memory["d0"] for block in lowered.blocks[:3]] == [2, -1, -1]


def test_activations_that_are_computed_again_take_the_forward_pass_again_and_memory_only_meanwhile() -> None:
    problem, plan = as_stages(memory_per_batch=10.0)
    blocks = lower_to_schedule(problem, plan, recompute=True).problem.blocks
    read = 1.0  # of the stage before, by its one edge
    assert [(b.id, b.time, dict(b.memory), dict(b.workspace)) for b in blocks[2:4]] == [
        ("F1", 1, {"d1": read}, {}),
        ("B1", 3, {"d1": -read}, {"d1": 10 - read}),
    ]


def test_what_is_computed_again_stays_as_far_as_the_weights_need_it() -> None:
    """F keeps 1 of 10; I takes 10 in all and leaves 5 behind, which is 4 more than there was; W gives 5 back."""
    problem, plan = as_stages(memory_per_batch=10.0)
    blocks = lower_to_schedule(problem, plan, recompute=True, split_backward=0.5).problem.blocks
    rows = [(b.id, b.time, dict(b.memory), dict(b.workspace)) for b in blocks if b.stage == 1]
    assert rows == [("F1", 1, {"d1": 1}, {}), ("I1", 2, {"d1": 4}, {"d1": 5}), ("W1", 1, {"d1": -5}, {})]


# ---- chunks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [as_stages, as_pattern])
@pytest.mark.parametrize(
    ("options", "places"), [({"virtual": 2}, [0, 1, 2, 0, 1, 2]), ({"shape": "v"}, [0, 1, 2, 2, 1, 0])]
)
def test_chunks_go_around_the_devices_or_there_and_back(make: Any, options: Any, places: list[int]) -> None:
    problem = lower_to_schedule(*make(2 * STAGES), micro_batches=BATCHES, **options).problem
    assert len(problem.devices) == STAGES
    forward = [block for block in problem.blocks if block.kind == "F"]
    assert [problem.device_index[block.devices[0]] for block in forward] == places
    assert [block.time for block in forward] == [0.5] * 6
    lags = {(edge.source, edge.target): edge.lag for edge in problem.edges}
    assert lags["F2", "F3"] == (0 if "shape" in options else DELAY)
    assert lags["F0", "F1"] == DELAY


def test_chunks_hold_on_each_device_what_their_layers_hold() -> None:
    problem, plan = as_stages(2 * STAGES, memory_fixed=7.0)
    assert [d.standing for d in lower_to_schedule(problem, plan, virtual=2).problem.devices] == [14] * STAGES


def test_chunks_of_a_stage_graph_and_of_no_placement() -> None:
    problem = chain_problem(4, BATCHES)
    plan = StageGraphPlan((GraphStage((0, 1), 1, 1, 1, 2), GraphStage((2, 3), 1, 1, 1, 1)), ((0, 1),))
    assert [b.devices for b in lower_to_schedule(problem, plan, virtual=2).problem.blocks if b.kind == "F"] == [
        ("d0",), ("d1",), ("d0",), ("d1",)
    ]  # fmt: skip
    with pytest.raises(UsageError, match="Placements are not cut into chunks"):
        lower_to_schedule(*as_placement(), virtual=2)


@pytest.mark.parametrize("make", [as_stage_graph, as_stages, as_pattern])
def test_stages_with_fewer_layers_than_chunks_are_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="too few for 2 chunks"):
        lower_to_schedule(*make(), virtual=2)


def test_chunks_need_stages_on_devices_that_are_alike() -> None:
    problem, plan = as_stages()
    wide = replace(plan, stages=(replace(plan.stages[0], data_parallel=2), *plan.stages[1:]))
    with pytest.raises(UsageError, match="chunks cannot change places"):
        lower_to_schedule(problem.replace(devices=4), wide, virtual=2)


# ---- what each kind has of its own ---------------------------------------------------------------------


def test_a_gpu_that_holds_layers_apart_has_a_pass_for_each_run() -> None:
    lowered = lower_to_schedule(*as_pattern(3, (0, 1, 0)), micro_batches=2).problem
    assert [(block.id, block.devices) for block in lowered.blocks] == [
        (f"{kind}{i}", (f"gpu {gpu}",)) for i, gpu in enumerate((0, 1, 0)) for kind in "FB"
    ]


def test_memory_of_a_chain_is_that_of_its_mode() -> None:
    """Layer 2 is alone on GPU 1: three copies of 7, four slots of 1 for what crosses, and what tasks read and write."""
    problem, plan = as_pattern()
    lowered = lower_to_schedule(problem, plan).problem
    assert lowered.devices[1].standing == 3 * 7 + 4
    assert [(dict(b.memory), dict(b.workspace)) for b in lowered.blocks[2:4]] == [
        ({"gpu 1": 1}, {"gpu 1": 1}),
        ({"gpu 1": -1}, {"gpu 1": 2}),
    ]
    inputs = lower_to_schedule(problem.replace(memory_mode="inputs"), plan).problem
    assert (inputs.devices[1].standing, dict(inputs.blocks[2].workspace)) == (21, {})
    weights = lower_to_schedule(problem.replace(memory_mode="weights"), plan).problem
    assert dict(weights.blocks[2].memory) == {}


def test_replicas_are_one_device_that_is_so_much_faster() -> None:
    problem, plan = as_stages(memory_per_batch=10.0, weight_bytes=1.0)
    two = replace(plan, stages=(replace(plan.stages[0], data_parallel=2), *plan.stages[1:]))
    lowered = lower_to_schedule(problem.replace(devices=4), two)
    assert [(b.time, dict(b.memory)) for b in lowered.problem.blocks[:2]] == [(0.5, {"d0": 5}), (1, {"d0": -5})]
    assert any("replicas" in note for note in lowered.notes)
    assert any("synchronisation" in note for note in lowered.notes)


def test_equally_many_replicas_form_pipelines_of_which_the_schedule_is_one() -> None:
    """Each of two replicas holds as many whole micro-batches as the plan says, and runs half of them."""
    problem, plan = as_stages(memory_per_batch=10.0)
    two = replace(plan, stages=tuple(replace(stage, data_parallel=2) for stage in plan.stages))
    problem = problem.replace(devices=6, micro_batches=12)
    lowered = lower_to_schedule(problem, two, micro_batches=11)
    assert [(b.time, dict(b.memory)) for b in lowered.problem.blocks[:2]] == [(1, {"d0": 10}), (2, {"d0": -10})]
    assert (lowered.pipelines, lowered.problem.micro_batches) == (2, 6)
    study = schedule_study(problem, two, micro_batches=12)
    iteration = simulate(problem, two, micro_batches=12)
    assert study.own is not None
    assert (study.own.value, study.own.peak) == (iteration.iteration, 30)
    assert schedule_study(problem, two).own == schedule_study(problem, plan).own


def test_faster_devices_take_less_time_here_and_in_the_simulator() -> None:
    problem, plan = as_stages()
    kinds = (DeviceType("slow", 2), DeviceType("fast", 1, 2.0))
    typed = replace(
        plan,
        stages=tuple(replace(s, device_type=k) for s, k in zip(plan.stages, ("slow", "fast", "slow"), strict=True)),
    )
    problem = problem.replace(device_types=kinds)
    assert [b.time for b in lower_to_schedule(problem, typed).problem.blocks] == [1, 2, 0.5, 1, 1, 2]
    assert simulate(problem, typed, micro_batches=1).stages[1].tasks[0].end == pytest.approx(1 + DELAY + 0.5)


def test_smaller_micro_batches_run_in_a_row() -> None:
    """The second stage takes two samples at once, the first one by one."""
    problem = chain_problem(2, 4)
    stages = (GraphStage((0,), 1, 1, 1, 4), GraphStage((1,), 1, 2, 1, 2))
    lowered = lower_to_schedule(problem, StageGraphPlan(stages, ((0, 1),)), micro_batches=2).problem
    assert [block.id for block in lowered.blocks] == ["F0.0", "B0.0", "F0.1", "B0.1", "F1.0", "B1.0"]
    edges = {(edge.source, edge.target) for edge in lowered.edges}
    assert {("F0.0", "F0.1"), ("F0.1", "F1.0"), ("B1.0", "B0.0"), ("B1.0", "B0.1")} <= edges
    assert ("F0.0", "F1.0") not in edges


def test_sizes_that_do_not_divide_are_refused() -> None:
    problem = chain_problem(2, 6)
    stages = (GraphStage((0,), 1, 2, 1, 6), GraphStage((1,), 1, 3, 1, 3))
    with pytest.raises(UsageError, match="Micro-batches of 2 samples do not divide those of 3"):
        lower_to_schedule(problem, StageGraphPlan(stages, ((0, 1),)), micro_batches=1)


def test_times_of_many_digits_are_rounded_and_said_to_be() -> None:
    problem, plan = as_stages()
    odd = problem.replace(
        layers=tuple(replace(x, configurations={1: (Configuration("only", 1.0),)}) for x in problem.layers)
    )
    lowered = lower_to_schedule(odd, plan)
    assert [block.time for block in lowered.problem.blocks[:2]] == [0.333333, 0.666667]
    assert "times are rounded to 0.000001 s" in lowered.notes
    assert not any("rounded" in note for note in lower_to_schedule(problem, plan).notes)


# ---- refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "words"), [
    ({"split_backward": 1.5}, "split_backward is 1.5; give a share from 0 to 1"),
    ({"split_backward": (0.5, 0.5)}, "split_backward has 2 shares for 3 stages"),
    ({"weight_stash": 0.5}, "give split_backward as well"),
    ({"split_backward": 0.5, "weight_stash": -1}, "weight_stash is -1"),
    ({"shape": "w"}, "shape is 'w'; give one of v"),
    ({"shape": "v", "virtual": 3}, "has two chunks on each device, not 3"),
    ({"micro_batches": 0}, "micro_batches is 0"),
    ({"virtual": 0}, "virtual is 0"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused_in_a_sentence(options: Any, words: str) -> None:
    with pytest.raises((InputError, UsageError), match=words.replace("(", r"\(")):
        lower_to_schedule(*as_stages(), **options)


def test_plans_without_backward_passes_or_of_other_problems_are_refused() -> None:
    with pytest.raises(UsageError, match="schedules are of training"):
        lower_to_schedule(*as_placement(training=False))
    devices = (Device("a", "accelerator", ("f0", "f2", "b0", "b2")), Device("b", "accelerator", ("f1", "b1")))
    with pytest.raises(UsageError, match="form no chain of stages"):
        lower_to_schedule(as_placement()[0], PlacementPlan(devices))
    with pytest.raises(UsageError, match="does not fit a staging problem"):
        lower_to_schedule(as_stages()[0], as_placement()[1])
    lowered = lower_to_schedule(*as_stages(), micro_batches=1)
    starts = SchedulePlan({block.id: (Fraction(0),) for block in lowered.problem.blocks})
    with pytest.raises(UsageError, match="has no stages to schedule"):
        lower_to_schedule(lowered.problem, starts)


# ---- against the simulator -----------------------------------------------------------------------------


def random_pattern(seed: int) -> tuple[ChainProblem, PatternPlan]:
    problem, rng = random_chain(seed), Random(seed)
    cuts = sorted(rng.randrange(problem.gpus) for _ in range(problem.layers))
    return problem.replace(memory_bytes=None), PatternPlan(
        1, tuple(cuts), ((0,) * problem.tasks,), (dict.fromkeys(range(1, problem.tasks), 0),)
    )


def random_stages(seed: int, copies: bool = False) -> tuple[StagingProblem, StagedPlan]:
    problem, rng = random_staging(seed).replace(memory_bytes=None, devices=20), Random(seed)
    order = [problem.ids[i] for i in problem.topological_order]
    cuts = sorted(rng.sample(range(1, len(order)), rng.randrange(len(order))))
    stages = []
    for a, b in pairwise([0, *cuts, len(order)]):
        nodes = tuple(order[a:b])
        degrees = set.intersection(*(set(problem.layers[problem.index[v]].configurations) for v in nodes))
        if not degrees:
            return random_stages(seed + 1000, copies)
        t = rng.choice(sorted(degrees))
        ways = {v: rng.choice(problem.layers[problem.index[v]].configurations[t]).id for v in nodes}
        stages.append(PlannedStage(nodes, rng.choice((1, 2)) if copies else 1, t, ways))
    return problem.replace(micro_batches=12), StagedPlan(tuple(stages))


def random_graph(seed: int) -> tuple[Problem, Plan]:
    problem = random_graph_problem(seed).replace(memory_bytes=None)
    return problem, random_plan(problem, seed)


@pytest.mark.parametrize("make", [random_pattern, random_stages, random_graph])
@pytest.mark.parametrize("seed", range(40))
def test_a_plan_in_its_own_order_takes_as_long_as_it_is_simulated_and_holds_what_it_was_judged_with(
    make: Any, seed: int
) -> None:
    """As much where enough micro-batches pass, and never more."""
    problem, plan = make(seed)
    count = 12
    if problem.kind == "graph-pipeline":  # in flight were counted for that many
        count = problem.mini_batch // max((stage.micro_batch for stage in plan.stages), default=1)
    lowered, starts, simulation = in_own_order(problem, plan, count)
    assert not [fault for fault in verify_schedule(lowered, starts) if fault.rule != "memory"]
    found = evaluate_schedule(lowered, starts)
    assert float(found.makespan or 0) == pytest.approx(computed(simulation), rel=1e-4)
    if problem.kind != "chain":
        peaks = [float(use.peak) for use in found.devices]
        assert peaks == pytest.approx([stage.memory_bytes for stage in evaluate(problem, plan).stages])


# ---- devices within devices ----------------------------------------------------------------------------


def uneven_levels() -> tuple[Any, Any]:
    """A row of layers on two servers of two devices, with an embedding and a head: no stage is like another."""
    names = ["embedding", *(f"block {i}" for i in range(10)), "head"]
    times = [1.0, *(4.0 for _ in range(10)), 6.0]
    nodes = tuple(ProfileNode(n, t, 2 * t, 10.0, parameters={n: 1.0}) for n, t in zip(names, times, strict=True))
    tensors = tuple(ProfileTensor(n, n, (m,), 1.0) for n, m in pairwise(names))
    problem = Profile(nodes, tensors).to_staging(levels=((2, 100.0), (2, 10.0)), memory_bytes=400.0, batch=8)
    result = solve(problem)
    assert result.plan is not None
    return problem, result.plan


def test_chunks_of_levels_pay_for_the_links_between_their_devices() -> None:
    """The way from the last device of the second server to the first one of the first server is the slow one."""
    problem, plan = uneven_levels()
    made = lower_to_schedule(problem, plan, micro_batches=4, virtual=2).problem
    lags = {(edge.source, edge.target): edge.lag for edge in made.edges}
    assert [lags[f"F{i}", f"F{i + 1}"] for i in range(7)] == pytest.approx([0.01, 0.1, 0.01, 0.1, 0.01, 0.1, 0.01])
    assert [len(block.devices) for block in made.blocks] == [1] * 16
