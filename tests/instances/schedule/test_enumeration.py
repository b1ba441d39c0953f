"""The enumerators that solvers are held against, held against cases by hand and against every start there could be."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from oracles.schedule import UnsettledError, least_makespan, least_period, least_periodic, least_span, tiny_problem
from oracles.schedule_clock import is_valid
from problems.schedules import in_random_order, random_schedule

from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule


def problem(
    blocks: list[Block],
    edges: list[BlockEdge] | None = None,
    micro_batches: int | None = 2,
    memory: float | None = None,
) -> ScheduleProblem:
    names = sorted({name for block in blocks for name in block.devices})
    devices = tuple(ScheduleDevice(name, memory) for name in names)
    return ScheduleProblem(devices, tuple(blocks), tuple(edges or ()), micro_batches)


def block(name: str, device: str, time: float, change: float = 0, workspace: float = 0) -> Block:
    held = {device: workspace} if workspace else {}
    return Block(name, "X", tuple(device.split("+")), time, None, {device: change} if change else {}, held)


# ---- by hand -------------------------------------------------------------------------------------------


def test_two_stages_with_divided_backward_passes() -> None:
    """d0 runs F F I W I W without a gap only from the second I on: F0 F1 come first, and I waits for d1."""
    pipeline = divided_pipeline(equal_stages(2, 1, 1, 1), 2, 4)
    assert (least_makespan(pipeline), least_span(pipeline), least_period(pipeline)) == (7, 7, 3)


def test_a_period_may_be_a_fraction_though_all_times_are_whole() -> None:
    """A lag of 5 there and back around two micro-batches: 5 / 2."""
    turn = problem([block("a", "d", 1), block("b", "e", 1)], [BlockEdge("a", "b", 3), BlockEdge("b", "a", 0, 2)])
    assert least_period(turn) == Fraction(5, 2)


def test_the_digits_of_times_do_not_matter() -> None:
    """Decimals of seven digits, whose sums are all different, are no more work than whole numbers."""
    case = problem(
        [block("a", "d", 0.1234567, 1), block("b", "e", 0.7654321), block("c", "d", 0.0000003, -1)],
        [BlockEdge("a", "b", 0.0123457), BlockEdge("b", "c", 0.7000001)],
        micro_batches=3,
        memory=2,
    )
    round_trip = Fraction(16012349, 10**7)
    assert least_period(case) == round_trip / 2
    assert least_makespan(case) == least_span(case) == 2 * round_trip


def test_what_lies_too_many_periods_apart_is_not_enumerated() -> None:
    """Blocks that may run 10^9 periods ahead of each other, for what a device stands on, or for a lag."""
    standing = problem([block("a", "d", 1, 1), block("b", "d", 1, -1)], memory=10**9)
    with pytest.raises(UnsettledError):
        least_period(standing.replace(devices=(ScheduleDevice("d", 10**9, 10**9),)))
    distant = problem([block("a", "d", 1), block("b", "d", 1)], [BlockEdge("a", "b", 10**9)])
    with pytest.raises(UnsettledError):
        least_period(distant)


def test_blocks_without_time_that_would_need_another_order_have_no_least_makespan() -> None:
    """At one instant `a` comes before `b`, which would have to give first: an instant later is early enough."""
    instants = problem([block("a", "d", 0, 1), block("b", "d", 0, -1), block("c", "e", 1)], micro_batches=1)
    instants = instants.replace(devices=(ScheduleDevice("d", 1, 1), ScheduleDevice("e")))
    assert least_makespan(instants) == 1  # c takes as long in any case
    with pytest.raises(UnsettledError):
        least_makespan(instants.replace(blocks=(*instants.blocks[:2], block("c", "e", 0))))


# ---- against every start -------------------------------------------------------------------------------


def every_start(case: ScheduleProblem, latest: int) -> tuple[int | None, int | None]:
    """Least makespan and span over all starts on the grid, as the slow judge has them."""
    count, batches = len(case.blocks), case.micro_batches or 1
    makespan, span = None, None
    for starts in itertools.product(range(latest), repeat=count * batches):
        rows = [starts[b * batches : (b + 1) * batches] for b in range(count)]
        plan = SchedulePlan({b.id: tuple(map(Fraction, row)) for b, row in zip(case.blocks, rows, strict=True)})
        if not is_valid(case, plan):
            continue
        ends = [[start + int(time) for start in row] for row, time in zip(rows, case.times, strict=True)]
        whole = max(map(max, ends)) - min(map(min, rows))
        longest = max(
            max(max(ends[b]) for b in blocks) - min(min(rows[b]) for b in blocks)
            for blocks in case.on_device
            if blocks
        )
        makespan = whole if makespan is None else min(makespan, whole)
        span = longest if span is None else min(span, longest)
    return makespan, span


def short(seed: int, batches: int) -> ScheduleProblem:
    """Of two blocks with times of at most 1, so that all starts can be tried."""
    for attempt in itertools.count(seed * 100):
        case = tiny_problem(attempt, batches)
        blocks = tuple(replace(b, time=min(b.time, 1)) for b in case.blocks)
        edges = tuple(replace(edge, lag=min(edge.lag, 1)) for edge in case.edges)
        found = case.replace(blocks=blocks, edges=edges)
        try:
            least_makespan(found), least_span(found)
        except UnsettledError:
            continue
        if len(blocks) * batches <= 4 and any(found.times):
            return found
    raise AssertionError


@pytest.mark.parametrize("seed", range(20))
def test_least_makespan_and_span_are_those_of_all_starts(seed: int) -> None:
    case = short(seed, 2)
    makespan, span = every_start(case, 7)
    assert least_makespan(case) == makespan
    found = least_span(case)
    assert found == span or (span is not None and found is not None and found.denominator == 2 and found < span)


@pytest.mark.parametrize("seed", range(40))
def test_least_period_is_reached_and_no_shorter_one_is_found_among_all_starts(seed: int) -> None:
    case = next(found for found in map(tiny_problem, range(seed * 50, seed * 50 + 50)) if len(found.blocks) <= 3)
    plan = least_periodic(case)
    if plan is not None:
        assert is_valid(case, plan)
        assert verify_schedule(case, plan) == ()
    shorter = (plan.period if plan else sum(case.times) + sum(case.lags) + 1) - Fraction(1, 2)
    if shorter <= 0:
        return
    halves = [Fraction(n, 2) for n in range(int(2 * shorter) + 6)]
    for starts in itertools.product(halves, repeat=len(case.blocks)):
        if min(starts):  # the same, later
            continue
        candidate = PeriodicSchedulePlan(shorter, dict(zip((b.id for b in case.blocks), starts, strict=True)))
        assert not is_valid(case, candidate)


@pytest.mark.parametrize("seed", range(40))
def test_micro_batches_in_their_order_are_as_good_as_in_any(seed: int) -> None:
    """An edge from each block to itself, one micro-batch later, keeps the order and costs nothing."""
    case = tiny_problem(seed, 2 + seed % 2)
    ordered = case.replace(edges=(*case.edges, *(BlockEdge(b.id, b.id, 0, 1) for b in case.blocks)))
    assert least_makespan(ordered) == least_makespan(case)
    assert least_span(ordered) == least_span(case)


# ---- Valid schedules, changed at random: the referee refuses what a clock that ticks through them refuses, and no
# more.


MUTANTS_A_SEED = 250
"""5,000 in 20 seeds."""


def valid_schedules(seed: int) -> list[tuple[ScheduleProblem, AnySchedule]]:
    chosen = random.Random(seed)
    found: list[tuple[ScheduleProblem, AnySchedule]] = []
    while len(found) < 6:
        number = chosen.randrange(10**6)
        problem = random_schedule(chosen.randint(1, 3), chosen.randint(3, 7), chosen.randint(2, 4), number)
        finite = next(
            (plan for plan in (in_random_order(problem, chosen) for _ in range(8)) if is_valid(problem, plan)), None
        )
        if finite is not None:
            found.append((problem, finite))
        tiny = tiny_problem(number)
        periodic = least_periodic(tiny)
        if periodic is not None:
            found.append((tiny, periodic))
    return found


# ---- changes -------------------------------------------------------------------------------------------

SHIFTS = tuple(Fraction(a, b) for a in (-4, -3, -2, -1, 1, 2, 3, 4, 9) for b in (1, 2, 3))
CHANGES = (
    *("shift one", "shift a block", "shift all", "swap blocks", "swap micro-batches", "same instant"),
    *("drop a block", "drop a start", "add a block", "change the period", "another period"),
)


def changed(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    """The plan with one change; an IndexError where nothing is left that could be changed."""
    period = plan.period if isinstance(plan, PeriodicSchedulePlan) else None
    rows = {name: [times] if isinstance(times, Fraction) else list(times) for name, times in plan.starts.items()}
    name, other = chosen.choice(sorted(rows)), chosen.choice(sorted(rows))
    row, shift = rows[name], chosen.choice(SHIFTS)
    n, m = chosen.randrange(len(row)), chosen.randrange(len(row))
    match chosen.choice(CHANGES):
        case "shift a block":
            rows[name] = [start + shift for start in row]
        case "shift all":
            rows = {each: [start + shift for start in starts] for each, starts in rows.items()}
        case "swap blocks":
            rows[name], rows[other] = rows[other], row
        case "swap micro-batches":
            row[n], row[m] = row[m], row[n]
        case "same instant":  # as another block
            row[n] = chosen.choice(rows[other])
        case "drop a block":
            del rows[name]
        case "drop a start" if len(row) > 1:
            row.pop(n)
        case "add a block":
            rows["nobody"] = list(row)
        case "change the period" if period is not None:
            period += shift
        case "another period" if period is not None:  # no other block of its device minds
            row[n] += chosen.choice((-1, 1, 2)) * period
        case _:
            row[n] += shift
    if period is None:
        return SchedulePlan({each: tuple(starts) for each, starts in rows.items()})
    return PeriodicSchedulePlan(period, {each: starts[0] for each, starts in rows.items()})


# ---- both judges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_mutants_are_refused_or_valid_by_both_judges(seed: int) -> None:
    chosen, schedules, verdicts = random.Random(seed), valid_schedules(seed), Counter[bool]()
    for problem, plan in schedules:
        assert verify_schedule(problem, plan) == ()
    for number in range(MUTANTS_A_SEED):
        problem, plan = schedules[number % len(schedules)]
        for _ in range(chosen.choice((1, 1, 2))):
            try:
                plan = changed(plan, chosen)
            except IndexError:
                break
        valid = is_valid(problem, plan)
        assert (verify_schedule(problem, plan) == ()) == valid, (problem.name, plan)
        verdicts[valid] += 1
    assert min(verdicts[True], verdicts[False]) > MUTANTS_A_SEED // 20  # of both there are many
