"""The referee of schedules, rule by rule, on cases small enough to draw."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from oracles.schedule_clock import is_valid

from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule

# A forward pass of 2 on d that takes 1, work of 3 on e, and a backward pass of 1 on d that gives it back.
F = Block("F", "F", ("d",), 2, 0, {"d": 1})
X = Block("X", "X", ("e",), 3)
B = Block("B", "B", ("d",), 1, 0, {"d": -1})
THERE_AND_BACK = ScheduleProblem(
    (ScheduleDevice("d", 2), ScheduleDevice("e")), (F, X, B), (BlockEdge("F", "X"), BlockEdge("X", "B")), 2
)


def finite(**starts: list[Any]) -> SchedulePlan:
    return SchedulePlan({name: tuple(map(Fraction, row)) for name, row in starts.items()})


def periodic(period: Any, **starts: Any) -> PeriodicSchedulePlan:
    return PeriodicSchedulePlan(Fraction(period), {name: Fraction(start) for name, start in starts.items()})


def rules(problem: ScheduleProblem, plan: AnySchedule) -> set[str]:
    """The broken ones; the clock agrees whether there are any."""
    found = {violation.rule for violation in verify_schedule(problem, plan)}
    assert is_valid(problem, plan) == (not found)
    return found


def said(problem: ScheduleProblem, plan: AnySchedule) -> str:
    (violation,) = verify_schedule(problem, plan)
    return violation.message


def on_one(*blocks: Block, memory: float | None = None, standing: float = 0, batches: int = 1) -> ScheduleProblem:
    return ScheduleProblem((ScheduleDevice("d", memory, standing),), blocks, (), batches, leaks=True)


def block(name: str, time: float, change: float = 0, workspace: float = 0) -> Block:
    return Block(
        name, "X", ("d",), time, None, {"d": change} if change else {}, {"d": workspace} if workspace else {}
    )


# ---- shape ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "sentence"), [
    (finite(F=[0, 2], X=[2, 5]), "Block 'B' has no start."),
    (finite(F=[0, 2], X=[2, 5], B=[5, 8], C=[9, 9]), "There is no block 'C' in the problem"),
    (finite(F=[0, 2], X=[2, 5], B=[5]), "Block 'B' has 1 starts for 2 micro-batches."),
    (finite(F=[0, 2], X=[2, 5], B=[5, 8, 20]), "Block 'B' has 3 starts for 2 micro-batches."),
    (finite(F=[-1, 2], X=[2, 5], B=[5, 8]), "Block 'F' starts at -1, before 0."),
    (periodic(0, F=0, X=2, B=5), "The period is 0; it must be above 0."),
    (periodic(-3, F=0, X=2, B=5), "The period is -3; it must be above 0."),
    (periodic(3, F=-2, X=2, B=5), "Block 'F' starts at -2, before 0."),
    (periodic(Fraction(1, 10**9), F=0, X=2, B=5), "too many periods"),
])  # fmt: skip
def test_what_cannot_be_laid_out_is_said_at_once(plan: AnySchedule, sentence: str) -> None:
    assert sentence in said(THERE_AND_BACK, plan)


def test_without_micro_batches_only_a_periodic_schedule_solves_the_problem() -> None:
    steady = THERE_AND_BACK.replace(micro_batches=None)
    assert "only a periodic schedule" in said(steady, finite(F=[0], X=[2], B=[5]))
    assert rules(steady, periodic(3, F=0, X=2, B=5)) == set()


# ---- (a) precedence ------------------------------------------------------------------------------------


def test_a_start_before_devices_and_edges_allow_it_is_refused() -> None:
    early = finite(F=[0, 2], X=[2, "499/100"], B=[5, 8])
    assert rules(THERE_AND_BACK, early) == {"exclusive"}
    early = finite(F=[0, 2], X=[2, 5], B=[5, "799/100"])
    assert rules(THERE_AND_BACK, early) == {"precedence"}
    assert said(THERE_AND_BACK, early) == (
        "Block 'B' of micro-batch 1 starts at 7.99, 0.01 before block 'X' of micro-batch 1 has ended."
    )


def test_a_lag_counts_from_the_end() -> None:
    late = THERE_AND_BACK.replace(edges=(BlockEdge("F", "X", 0.5), BlockEdge("X", "B")))
    assert rules(late, finite(F=[0, 2], X=["5/2", "11/2"], B=["11/2", "17/2"])) == set()
    assert rules(late, finite(F=[0, 2], X=["9/4", "11/2"], B=["11/2", "17/2"])) == {"precedence"}
    assert "and a lag of 0.5" in said(late, finite(F=[0, 2], X=["9/4", "11/2"], B=["11/2", "17/2"]))


def test_an_offset_further_than_a_periodic_schedule_is_unrolled_counts_all_the_same() -> None:
    far = THERE_AND_BACK.replace(edges=(*THERE_AND_BACK.edges, BlockEdge("B", "F", 24, 10)), micro_batches=None)
    assert rules(far, periodic(3, F=0, X=2, B=5)) == set()  # 6 + 24 = 10 x 3
    far = THERE_AND_BACK.replace(edges=(*THERE_AND_BACK.edges, BlockEdge("B", "F", 24.5, 10)), micro_batches=None)
    assert rules(far, periodic(3, F=0, X=2, B=5)) == {"precedence"}


# ---- (b) one block at a time ---------------------------------------------------------------------------


def test_blocks_may_touch_and_not_overlap() -> None:
    pair = on_one(block("a", 2), block("b", 2))
    assert rules(pair, finite(a=[0], b=[2])) == set()
    assert rules(pair, finite(a=[2], b=[0])) == set()
    assert rules(pair, finite(a=[0], b=["19/10"])) == {"exclusive"}
    assert said(pair, finite(a=[0], b=["19/10"])) == (
        "On 'd' block 'b' of micro-batch 0 starts at 1.9, 0.1 before block 'a' of micro-batch 0 ends."
    )


# ---- (c) memory ----------------------------------------------------------------------------------------


def test_what_is_taken_is_held_until_it_is_given_back() -> None:
    assert rules(THERE_AND_BACK, finite(F=[0, 2], X=[2, 5], B=[5, 8])) == set()
    tight = THERE_AND_BACK.replace(devices=(ScheduleDevice("d", 1), ScheduleDevice("e")))
    assert rules(tight, finite(F=[0, 2], X=[2, 5], B=[5, 8])) == {"memory"}
    assert said(tight, finite(F=[0, 2], X=[2, 5], B=[5, 8])) == (
        "'d' holds 2 at 2, when block 'F' of micro-batch 1 starts: 1 more than its memory of 1."
    )


def test_amounts_and_times_are_told_in_the_units_of_the_problem() -> None:
    tight = THERE_AND_BACK.replace(devices=(ScheduleDevice("d", 1), ScheduleDevice("e")), time_unit="ms")
    late = finite(F=[0, 2], X=[2, 5], B=[5, 8])
    assert said(tight.replace(memory_unit="GiB"), late) == (
        "'d' holds 2 GiB at 2 ms, when block 'F' of micro-batch 1 starts: 1 more than its memory of 1 GiB."
    )
    large = tight.replace(
        devices=(ScheduleDevice("d", 2**30), ScheduleDevice("e")),
        blocks=tuple(
            replace(block, memory={d: x * 2**30 for d, x in block.memory.items()}) for block in tight.blocks
        ),
        memory_unit="bytes",
    )
    assert said(large, late).endswith("1073741824 more than its memory of 1073741824 bytes (2 of 1 GiB).")


def test_workspace_is_held_while_a_block_runs_and_only_then() -> None:
    free = on_one(block("a", 2, 1, workspace=2), block("b", 2, 1, workspace=1), memory=3)
    assert rules(free, finite(a=[0], b=[2])) == set()
    assert rules(free, finite(a=[2], b=[0])) == {"memory"}
    assert said(free, finite(a=[2], b=[0])).startswith("'d' holds 4 at 2, when block 'a' of micro-batch 0 starts")


def test_a_device_may_never_give_back_more_than_it_holds() -> None:
    below = on_one(block("a", 1, -1), block("b", 1, 1), memory=3, standing=0.75)
    assert rules(below, finite(a=[0], b=[1])) == {"memory"}
    assert said(below, finite(a=[0], b=[1])) == (
        "'d' has given back 0.25 more than it ever held at 1, when block 'a' of micro-batch 0 ends."
    )
    assert rules(below, finite(a=[1], b=[0])) == set()


def test_sums_are_those_of_the_decimals() -> None:
    """0.1 + 0.2 fits into 0.3, which floats deny."""
    tenths = on_one(block("a", 1, 0.1), block("b", 1, 0.2), memory=0.3)
    assert rules(tenths, finite(a=[0], b=[1])) == set()


# ---- (c) at one instant --------------------------------------------------------------------------------


def test_at_one_instant_ends_come_before_what_takes_no_time() -> None:
    """`a` ends at 2 and gives 1; `now` takes 1 at 2."""
    at_two = on_one(block("a", 2, -1), block("now", 0, 1), memory=1, standing=1)
    assert rules(at_two, finite(a=[0], now=[2])) == set()
    assert rules(at_two, finite(a=[0], now=[0])) == {"memory"}


def test_at_one_instant_what_takes_no_time_comes_before_starts() -> None:
    """`now` gives 1 at 2, and `a` takes 1 as it starts at 2."""
    at_two = on_one(block("a", 2, 1), block("now", 0, -1), memory=1, standing=1)
    assert rules(at_two, finite(a=[2], now=[2])) == set()
    assert rules(at_two, finite(a=[2], now=[4])) == {"memory"}


def test_at_one_instant_micro_batches_come_in_turn() -> None:
    """`take` of both micro-batches before any `give` would hold 2."""
    turns = on_one(block("take", 0, 1), block("give", 0, -1), memory=1, batches=2)
    assert rules(turns, finite(take=[0, 0], give=[0, 0])) == set()
    assert rules(turns, finite(take=[0, 0], give=[1, 1])) == {"memory"}


def test_at_one_instant_the_order_in_the_file_counts_last() -> None:
    file = on_one(block("take", 0, 1), block("give", 0, -1), memory=1)
    assert rules(file, finite(take=[0], give=[0])) == set()
    assert rules(file.replace(blocks=file.blocks[::-1]), finite(take=[0], give=[0])) == {"memory"}


# ---- (d) periodic --------------------------------------------------------------------------------------


def held_at_most(problem: ScheduleProblem, plan: AnySchedule) -> Fraction:
    return evaluate_schedule(problem, plan).devices[0].peak


def test_memory_of_the_steady_state_counts() -> None:
    """Two micro-batches are between F and B at a period of 3, and three at most where B waits for 5 more."""
    assert held_at_most(THERE_AND_BACK, periodic(3, F=0, X=2, B=5)) == 2
    assert rules(THERE_AND_BACK, periodic(3, F=0, X=2, B=8)) == {"memory"}
    assert held_at_most(THERE_AND_BACK, periodic(3, F=0, X=2, B=8)) == 3


def test_memory_while_it_drains_counts() -> None:
    """`give` comes two periods before `take`: when no `give` follows any more, the last two take on top of nothing."""
    ahead = on_one(block("give", 1, -1), block("take", 1, 1, workspace=1), memory=2, standing=2)
    ahead = ahead.replace(micro_batches=None, leaks=False)
    assert rules(ahead, periodic(2, give=0, take=3)) == {"memory"}  # the last take ends at 2, with a workspace of 1
    roomy = ahead.replace(devices=(ScheduleDevice("d", 3, 2),))
    assert rules(roomy, periodic(2, give=0, take=3)) == set()
    assert held_at_most(roomy, periodic(2, give=0, take=3)) == 3


def test_starts_and_period_may_be_fractions() -> None:
    third = THERE_AND_BACK.replace(edges=(*THERE_AND_BACK.edges, BlockEdge("B", "F", 3.5, 3)), micro_batches=None)
    assert rules(third, periodic("10/3", F="1/7", X="15/7", B="115/21")) == set()
    assert rules(third, periodic("16/5", F=0, X=2, B="26/5")) == {"precedence"}


# ---- what it costs -------------------------------------------------------------------------------------


def test_makespan_span_and_bubble_of_a_finite_schedule() -> None:
    found = evaluate_schedule(THERE_AND_BACK, finite(F=[1, 3], X=[3, 6], B=[6, 9]))
    assert (found.period, found.makespan, found.span, found.in_flight) == (None, 9, 9, 2)
    d, e = found.devices
    assert (d.busy, d.span, d.bubble, d.peak) == (6, 9, Fraction(1, 3), 2)
    assert (e.busy, e.span, e.bubble) == (6, 6, 0)


def test_the_span_is_that_of_the_device_that_takes_longest() -> None:
    pair = ScheduleProblem(
        (ScheduleDevice("d"), ScheduleDevice("e")), (replace(F, memory={}), X), (BlockEdge("F", "X"),), 1
    )
    found = evaluate_schedule(pair, finite(F=[0], X=[2]))
    assert (found.makespan, found.span) == (5, 3)


def test_period_of_a_periodic_schedule_and_makespan_where_there_is_an_end() -> None:
    plan = periodic(3, F=0, X=2, B=5)
    assert evaluate_schedule(THERE_AND_BACK, plan).to_json()["makespan"] == 9
    steady = evaluate_schedule(THERE_AND_BACK.replace(micro_batches=None), plan)
    assert (steady.period, steady.makespan, steady.span) == (3, None, None)
    assert steady.devices[0].bubble == 0
