"""What no period falls below: cycles of waits and memory, and a clock that stands still while
all devices run one block."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from known_pipelines import shape
from oracles.schedule import least_period, least_periodic, tiny_problem

from pipeplan import Block, BlockEdge, ScheduleDevice, ScheduleProblem, Stop, solve
from pipeplan.formulations.zero_bubble.period_bounds import (
    cycle_bound,
    device_bound,
    exact_bound,
    load_bound,
    standstill_of,
    stashes_of,
)
from pipeplan.instances.schedule.referee import verify_schedule


def training(memory: float | None, *, workspace: float = 0, lag: float = 0) -> ScheduleProblem:
    """Two stages, on a device each; d0 holds the one stash from F0 to the end of B0."""
    devices = (ScheduleDevice("d0", memory), ScheduleDevice("d1"))
    blocks = (
        Block("F0", "F", ("d0",), 1, memory={"d0": 2}, workspace={"d0": workspace} if workspace else {}),
        Block("F1", "F", ("d1",), 3),
        Block("B1", "B", ("d1",), 3),
        Block("B0", "B", ("d0",), 2, memory={"d0": -2}),
    )
    edges = (BlockEdge("F0", "F1", lag), BlockEdge("F1", "B1"), BlockEdge("B1", "B0", lag))
    return ScheduleProblem(devices, blocks, edges)


def test_a_cycle_of_waits_bounds_the_period() -> None:
    """F0 of the next but one micro-batch waits for B0: 1 + 3 + 3 + 2 and two lags of 2 for two periods."""
    problem = training(None, lag=2)
    looped = problem.replace(edges=(*problem.edges, BlockEdge("B0", "F0", 0, 2)))
    assert cycle_bound(looped) == Fraction(13, 2)
    assert least_period(looped) == Fraction(13, 2)
    assert cycle_bound(problem) == 0, "there is no cycle"


def test_memory_bounds_the_period_by_the_area_that_a_stash_fills() -> None:
    """The stash of 2 stays for 9; at a limit of 5 there is room for 5/2 of them on average, but for two at a time."""
    (stash,) = stashes_of(training(5), 0) or ()
    assert (stash.amount, stash.residence) == (2, 9)
    assert device_bound(training(4), 0) == Fraction(9, 2)
    assert device_bound(training(5), 0) == Fraction(9, 2), "sharper than 18 / 5: copies are whole"
    assert device_bound(training(3), 0) == 9 == least_period(training(3))
    assert device_bound(training(None), 0) is None


def together_problem(seed: int) -> ScheduleProblem:
    """A tiny problem without lags in which all devices run one or two more blocks together."""
    chosen, tiny = random.Random(seed), tiny_problem(seed)
    blocks = [replace(block, time=max(block.time, 1)) for block in tiny.blocks]
    edges = [replace(edge, lag=0) for edge in tiny.edges]
    used = tuple(sorted({name for block in blocks for name in block.devices}))
    for n in range(chosen.randint(1, 2)):
        place = chosen.randint(0, len(tiny.order))
        edges += [BlockEdge(blocks[a].id, f"all{n}") for a in tiny.order[:place] if chosen.random() < 0.5]
        edges += [BlockEdge(f"all{n}", blocks[b].id) for b in tiny.order[place:] if chosen.random() < 0.5]
        blocks.append(Block(f"all{n}", "X", used, chosen.randint(1, 3)))
    return tiny.replace(blocks=tuple(blocks), edges=tuple(edges))


@pytest.mark.parametrize(
    "seed", [*range(1, 12), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(12, 30))]
)
def test_the_shortest_period_is_that_of_enumeration(seed: int) -> None:
    problem = together_problem(seed)
    least = least_period(problem)
    result = solve(problem, formulation="cp-periodic", warm_start="none")
    if least is None:
        assert result.stop == Stop.INFEASIBLE
        return
    assert result.stop == Stop.PROVEN
    assert result.plan.period == least  # type: ignore[union-attr]
    assert load_bound(problem) <= exact_bound(problem) <= least


# To enumerate the plans of problem 25 takes more than ten minutes.
@pytest.mark.parametrize(
    "seed", [*range(1, 12), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(12, 30) if n != 25)]
)
def test_plans_are_the_same_by_either_clock(seed: int) -> None:
    problem = together_problem(seed)
    still, plan = standstill_of(problem), least_periodic(problem)
    if plan is None or not still.together:
        return
    compressed = still.compressed(plan)
    assert compressed.period == plan.period - still.time
    assert not verify_schedule(still.moving, compressed)
    expanded = still.expanded(compressed)
    assert expanded.period == plan.period
    assert not verify_schedule(problem, expanded)


def test_most_problems_of_these_tests_have_a_standstill() -> None:
    assert sum(bool(standstill_of(together_problem(seed)).together) for seed in range(30)) >= 20


def test_waiting_costs_memory_while_the_clock_goes_alone() -> None:
    """Two chains on eight devices, memory 8: each micro-batch holds a unit for 72 of 6 + 9 time units that go, so that
    P - 9 >= 72 / 8; by the usual clock the same law says less than the work of a device."""
    assert exact_bound(shape("nn", 8, 8)) == 18
    assert load_bound(shape("nn", 8, 8)) == 15


def test_the_clock_goes_on_where_something_else_would_notice() -> None:
    problem = shape("m", 3, 3)
    assert standstill_of(problem).time == 6
    first = standstill_of(problem).together[0]

    def changed(**fields: object) -> ScheduleProblem:
        return problem.replace(
            blocks=tuple(
                replace(block, **fields) if b == first else block for b, block in enumerate(problem.blocks)
            )
        )

    slow = tuple(replace(edge, lag=1) if n == 0 else edge for n, edge in enumerate(problem.edges))
    for other in (problem.replace(edges=slow), changed(time=0), changed(time=10_000), shape("v", 3)):
        assert standstill_of(other).together == ()
        assert standstill_of(other).moving is other
        assert standstill_of(other).time == 0
    assert first not in standstill_of(changed(workspace={"d0": 1})).together
