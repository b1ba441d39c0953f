"""List schedules: valid wherever one micro-batch fits, never ended by devices that wait for each other's memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from known_pipelines import shape
from oracles.schedule import least_makespan, least_period, least_span, tiny_problem
from problems.schedule_tables import list_schedule
from problems.schedules import random_schedule
from recipes.other_kinds import measured_even, measured_uneven

from pipeplan import Block, BlockEdge, ScheduleDevice, ScheduleProblem, UsageError, solve
from pipeplan.instances.physics.schedules import V_SHAPE
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.schedule.list_schedule import better_and_better, one_by_one, periodic_list_schedule
from pipeplan.planners.schedule.listing import as_plan, in_whole_numbers, listed, order_alone, rules, why_none
from pipeplan.planners.schedule.named import rule_schedules


def value_of(problem: ScheduleProblem, plan: Any, objective: str) -> Any:
    """Of a plan that there is."""
    assert plan is not None
    value = evaluate_schedule(problem, plan).objective(objective)
    assert value is not None
    return value


@pytest.mark.parametrize("seeds", range(25))
def test_no_rule_ever_gets_stuck_where_one_micro_batch_fits(seeds: int) -> None:
    """Forwards and backwards; the referee accepts what there is."""
    for seed in range(20 * seeds, 20 * seeds + 20):
        problem = random_schedule(2 + seed % 3, 4 + seed % 9, 2 + seed % 5, seed)
        whole = in_whole_numbers(problem)
        alone = order_alone(whole)
        plan = list_schedule(problem, most_runs=500)
        if isinstance(alone, bool):
            assert not alone, "so few blocks are searched to the end"
            assert plan is None
            continue
        assert plan is not None
        assert not verify_schedule(problem, plan)
        batches = problem.micro_batches or 0
        for rule in list(rules(whole))[::4]:
            starts = listed(whole, rule, alone, batches)
            assert starts is not None
            assert not verify_schedule(problem, as_plan(whole, starts))
        backwards = whole.mirrored()
        for rule in list(rules(backwards))[::4]:
            assert listed(backwards, rule, alone[::-1], batches) is not None


@pytest.mark.parametrize("seed", range(200))
def test_a_schedule_is_found_exactly_where_there_is_one_and_is_no_better_than_the_best(seed: int) -> None:
    problem = tiny_problem(seed, micro_batches=2 + seed % 2)
    for objective, least in (("makespan", least_makespan(problem)), ("span", least_span(problem))):
        plan = list_schedule(problem, objective, most_runs=500)
        assert (plan is None) == (least is None)
        if least is not None:
            assert value_of(problem, plan, objective) >= least


def two_ways(memory: float) -> ScheduleProblem:
    """Each of two devices runs the first stage of one way and the second of the other: whoever begins too many
    micro-batches has no memory left to go on with any."""
    blocks, edges = [], []
    for way, (first, second) in (("a", ("d0", "d1")), ("b", ("d1", "d0"))):
        blocks += [
            Block(f"F{way}0", "F", (first,), 1, None, {first: 1}),
            Block(f"F{way}1", "F", (second,), 1, None, {second: 1}),
            Block(f"B{way}1", "B", (second,), 1, None, {second: -1}),
            Block(f"B{way}0", "B", (first,), 1, None, {first: -1}),
        ]
        row = [f"F{way}0", f"F{way}1", f"B{way}1", f"B{way}0"]
        edges += [BlockEdge(*pair) for pair in pairwise(row)]
    devices = (ScheduleDevice("d0", memory), ScheduleDevice("d1", memory))
    return ScheduleProblem(devices, tuple(blocks), tuple(edges), 6)


@pytest.mark.sweeps
def test_devices_do_not_wait_for_each_others_memory() -> None:
    """With room for one, two micro-batches that each hold what the other needs would wait for ever."""
    for memory in (1, 2, 3):
        problem = two_ways(memory)
        plan = list_schedule(problem)
        assert plan is not None
        assert not verify_schedule(problem, plan)


def test_what_does_not_fit_is_told() -> None:
    problem = divided_pipeline(equal_stages(4, 5, 6, 4), 12, 1)
    assert list_schedule(problem) is None
    assert why_none(problem) == "not even one micro-batch alone fits the memory, in any order of its blocks"
    assert solve(problem, planner="list-schedule").plan is None


def test_what_is_left_behind_must_fit_for_all_micro_batches() -> None:
    block = Block("a", "X", ("d0",), 1, None, {"d0": 2})
    problem = ScheduleProblem((ScheduleDevice("d0", 7),), (block,), (), 3, leaks=True)
    assert list_schedule(problem) is not None
    more = problem.replace(micro_batches=4)
    assert list_schedule(more) is None
    assert why_none(more) == "what the micro-batches leave behind does not fit the memory"


@pytest.mark.parametrize("memory", [8, 14, None])
def test_no_list_schedule_is_worse_than_a_named_one_that_fits(memory: float | None) -> None:
    for objective in ("makespan", "span"):
        problem = divided_pipeline(equal_stages(4, 3, 4, 2), 9, memory, lag=1)
        named = [value_of(problem, plan, objective) for _, plan in rule_schedules(problem)]
        assert len(named) == {8: 2, 14: 3, None: 4}[memory]
        assert value_of(problem, list_schedule(problem, objective, most_runs=1), objective) <= min(named)


KNOWN = [(4, 12, 8, 201), (4, 12, 10, 193), (4, 12, 12, 188), (4, 12, 14, 183), (4, 12, 16, 181), (4, 6, 10, 103)]
"""Devices, micro-batches and memory of pipelines with times 5, 6 and 4, and their least span."""


@pytest.mark.at_once(1)
@pytest.mark.parametrize(("p", "m", "memory", "least"), KNOWN)
def test_published_pipelines_within_two_percent_of_their_optimum(p: int, m: int, memory: float, least: int) -> None:
    problem = divided_pipeline(equal_stages(p, 5, 6, 4), m, memory)
    assert least <= value_of(problem, list_schedule(problem, "span"), "span") <= 1.02 * least


@pytest.mark.sweeps
def test_measured_pipelines() -> None:
    """The uneven one meets its bound of work, and so is optimal; the even one is 1 % above it."""
    uneven, even = measured_uneven(), measured_even()
    assert value_of(uneven, list_schedule(uneven, "span"), "span") == max(uneven.loads) * 32
    assert value_of(even, list_schedule(even, "span"), "span") <= float(max(even.loads)) * 32 * 1.01


def test_the_first_plan_of_many_blocks_is_good() -> None:
    problem = divided_pipeline(equal_stages(16, 5, 6, 4), 64, 40)
    assert value_of(problem, next(better_and_better(problem, "span")), "span") <= 64 * 15 * 1.15


def test_many_micro_batches_in_little_memory_begin_with_a_rule_that_keeps_the_devices_busy() -> None:
    """No named schedule fits, and the first rules, which put any number of micro-batches under way, take 35 % more than
    the work."""
    problem = divided_pipeline(equal_stages(16, 5, 6, 4), 200, 16, virtual=2, layout=V_SHAPE)
    most = 200 * float(max(problem.loads)) * 1.2
    assert value_of(problem, next(better_and_better(problem)), "makespan") <= most


@pytest.mark.parametrize("planner", ["exact-schedule", "list-schedule"])
def test_a_span_of_no_given_micro_batches_is_refused(planner: str) -> None:
    with pytest.raises(UsageError, match="--objective span counts given micro-batches"):
        solve("v-shape-4", planner=planner, options={"objective": "span"})


# ---- First schedules of the steady state: valid wherever one micro-batch fits, and often of the least period.


@pytest.mark.parametrize("seeds", range(25))
def test_a_schedule_is_found_wherever_one_micro_batch_fits(seeds: int) -> None:
    for seed in range(20 * seeds, 20 * seeds + 20):
        problem = random_schedule(2 + seed % 3, 4 + seed % 9, None, seed)
        plan = periodic_list_schedule(problem)
        assert (plan is None) == isinstance(order_alone(in_whole_numbers(problem)), bool)
        if plan is not None:
            assert not verify_schedule(problem, plan)
            assert plan.period >= max(problem.loads)


@pytest.mark.parametrize("seed", range(200))
def test_no_period_is_shorter_than_the_least(seed: int) -> None:
    problem = tiny_problem(seed)
    least, plan = least_period(problem), periodic_list_schedule(problem)
    assert (plan is None) == (least is None)
    if plan is not None and least is not None:
        assert plan.period >= least


@pytest.mark.parametrize(
    ("name", "devices", "most"),
    [("v", 4, 1), ("v", 8, 1), ("x", 4, 1), ("x", 8, 1), ("k", 4, 1.5), ("m", 4, 1.5), ("nn", 4, 1.5)],
)
def test_chains_are_busy_without_a_break_and_blocks_on_all_devices_cost_little(
    name: str, devices: int, most: float
) -> None:
    problem = shape(name, devices)
    plan = periodic_list_schedule(problem)
    assert max(problem.loads) <= plan.period <= max(problem.loads) * most


def test_one_after_the_other_waits_for_what_the_next_one_needs() -> None:
    """A lag from one micro-batch to the next makes the period longer than all work."""
    blocks = (Block("a", "X", ("d0",), 2), Block("b", "X", ("d0",), 1))
    problem = ScheduleProblem((ScheduleDevice("d0"),), blocks, (BlockEdge("b", "a", 10, 2), BlockEdge("a", "b")))
    whole = in_whole_numbers(problem)
    period, starts = one_by_one(whole, (0, 1))
    assert (period, starts) == (7, [0, 2])
    plan = periodic_list_schedule(problem)
    assert plan.period == 7


def test_the_planner_answers_for_the_period() -> None:
    for problem in (divided_pipeline(equal_stages(4, 5, 6, 4), m, 16) for m in (None, 12)):
        result = solve(problem, planner="list-schedule", options={"objective": "period"})
        assert result.objective == 15
