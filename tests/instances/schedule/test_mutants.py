"""Valid schedules, changed at random: the referee refuses what a clock that ticks through them refuses, and no more."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from oracles.schedule import UnsettledError, least_makespan, least_period, least_periodic, least_span, tiny_problem
from oracles.schedule_clock import is_valid

from pipeplan.instances.schedule.generators import random_schedule
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule

MUTANTS_A_SEED = 250
"""5,000 in 20 seeds."""


def by_hand(problem: ScheduleProblem, chosen: random.Random) -> SchedulePlan | None:
    """Blocks in a random order, each as early as its devices and its edges let it start after those before."""
    assert problem.micro_batches is not None
    count, free = len(problem.blocks), dict.fromkeys((device.name for device in problem.devices), Fraction(0))
    starts: dict[tuple[int, int], Fraction] = {}
    left = {(n, b) for n in range(problem.micro_batches) for b in range(count)}
    while left:
        ready = [copy for copy in sorted(left) if not any(source in left for source, _ in _waits(problem, *copy))]
        near = [copy for copy in ready if copy[0] <= ready[0][0] + 1]  # or memory would hardly ever do
        n, b = chosen.choice(near)
        names = problem.blocks[b].devices
        begin = max(
            [free[name] for name in names]
            + [starts[source] + problem.times[source[1]] + lag for source, lag in _waits(problem, n, b)]
        )
        starts[n, b] = begin
        for name in names:
            free[name] = begin + problem.times[b]
        left.remove((n, b))
    return SchedulePlan(
        {
            block.id: tuple(starts[n, b] for n in range(problem.micro_batches))
            for b, block in enumerate(problem.blocks)
        }
    )


def _waits(problem: ScheduleProblem, n: int, b: int) -> list[tuple[tuple[int, int], Fraction]]:
    return [
        ((n - edge.offset, source), lag)
        for edge, (source, target), lag in zip(problem.edges, problem.ends, problem.lags, strict=True)
        if target == b and n >= edge.offset
    ]


def valid_schedules(seed: int) -> list[tuple[ScheduleProblem, AnySchedule]]:
    chosen = random.Random(seed)
    found: list[tuple[ScheduleProblem, AnySchedule]] = []
    while len(found) < 6:
        number = chosen.randrange(10**6)
        problem = random_schedule(chosen.randint(1, 3), chosen.randint(3, 7), chosen.randint(2, 4), number)
        finite = next(
            (plan for plan in (by_hand(problem, chosen) for _ in range(8)) if is_valid(problem, plan)), None
        )
        if finite is not None:
            found.append((problem, finite))
        tiny = tiny_problem(number)
        periodic = least_periodic(tiny)
        if periodic is not None:
            found.append((tiny, periodic))
    return found


# ---- changes -------------------------------------------------------------------------------------------

Mutation = Callable[[AnySchedule, random.Random], AnySchedule]


def _rows(plan: AnySchedule) -> dict[str, list[Fraction]]:
    return {name: [times] if isinstance(times, Fraction) else list(times) for name, times in plan.starts.items()}


def _with_rows(plan: AnySchedule, rows: dict[str, list[Fraction]]) -> AnySchedule:
    if isinstance(plan, PeriodicSchedulePlan):
        return PeriodicSchedulePlan(plan.period, {name: row[0] for name, row in rows.items()})
    return SchedulePlan({name: tuple(row) for name, row in rows.items()})


SHIFTS = tuple(Fraction(a, b) for a in (-4, -3, -2, -1, 1, 2, 3, 4, 9) for b in (1, 2, 3))


def shift_one(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    row = rows[chosen.choice(sorted(rows))]
    row[chosen.randrange(len(row))] += chosen.choice(SHIFTS)
    return _with_rows(plan, rows)


def shift_block(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows, shift = _rows(plan), chosen.choice(SHIFTS)
    name = chosen.choice(sorted(rows))
    return _with_rows(plan, rows | {name: [start + shift for start in rows[name]]})


def shift_all(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    shift = chosen.choice(SHIFTS)
    return _with_rows(plan, {name: [start + shift for start in row] for name, row in _rows(plan).items()})


def swap_blocks(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    one, other = chosen.choices(sorted(rows), k=2)
    return _with_rows(plan, rows | {one: rows[other], other: rows[one]})


def swap_micro_batches(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    row = rows[chosen.choice(sorted(rows))]
    a, b = chosen.randrange(len(row)), chosen.randrange(len(row))
    row[a], row[b] = row[b], row[a]
    return _with_rows(plan, rows)


def same_instant(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    """One block starts when another does."""
    rows = _rows(plan)
    one, other = chosen.choice(sorted(rows)), chosen.choice(sorted(rows))
    rows[one][chosen.randrange(len(rows[one]))] = chosen.choice(rows[other])
    return _with_rows(plan, rows)


def drop_block(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    del rows[chosen.choice(sorted(rows))]
    return _with_rows(plan, rows)


def drop_start(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    row = rows[chosen.choice(sorted(rows))]
    if len(row) > 1:
        row.pop(chosen.randrange(len(row)))
    return _with_rows(plan, rows)


def add_block(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    rows = _rows(plan)
    return _with_rows(plan, rows | {"nobody": list(rows[chosen.choice(sorted(rows))])})


def change_period(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    if not isinstance(plan, PeriodicSchedulePlan):
        return shift_one(plan, chosen)
    return PeriodicSchedulePlan(plan.period + chosen.choice(SHIFTS), plan.starts)


def another_period(plan: AnySchedule, chosen: random.Random) -> AnySchedule:
    """One block runs a period earlier or later, which no other block of its device minds."""
    if not isinstance(plan, PeriodicSchedulePlan):
        return shift_block(plan, chosen)
    name = chosen.choice(sorted(plan.starts))
    return replace(plan, starts={**plan.starts, name: plan.starts[name] + chosen.choice((-1, 1, 2)) * plan.period})


MUTATIONS: tuple[Mutation, ...] = (
    shift_one, shift_block, shift_all, swap_blocks, swap_micro_batches, same_instant,
    drop_block, drop_start, add_block, change_period, another_period,
)  # fmt: skip


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
                plan = chosen.choice(MUTATIONS)(plan, chosen)
            except IndexError:  # nothing is left that could be changed
                break
        valid = is_valid(problem, plan)
        assert (verify_schedule(problem, plan) == ()) == valid, (problem.name, plan)
        verdicts[valid] += 1
    assert min(verdicts[True], verdicts[False]) > MUTANTS_A_SEED // 20  # of both there are many


# ---- what more memory and less work do -------------------------------------------------------------------


def no_worse(better: Fraction | None, worse: Fraction | None) -> bool:
    return worse is None or (better is not None and better <= worse)


@pytest.mark.parametrize("seed", range(40))
def test_more_memory_is_never_worse(seed: int) -> None:
    problem = tiny_problem(seed, 2)
    more = problem.replace(
        devices=tuple(
            device if device.memory is None else replace(device, memory=device.memory + 1)
            for device in problem.devices
        )
    )
    compare(more, problem)


@pytest.mark.parametrize("seed", range(40))
def test_shorter_times_and_lags_are_never_worse(seed: int) -> None:
    """Orders stay what they are, and so does memory; a block that takes any time keeps some, lest it come first at an
    instant."""
    problem = tiny_problem(seed, 2)
    shorter = problem.replace(
        blocks=tuple(replace(block, time=block.time / 2) for block in problem.blocks),
        edges=tuple(replace(edge, lag=max(edge.lag - 1, 0)) for edge in problem.edges),
    )
    compare(shorter, problem)


@pytest.mark.parametrize("seed", range(40))
def test_fewer_edges_are_never_worse(seed: int) -> None:
    """Only where no two blocks without time share a device, since edges say which of them comes first."""
    problem = tiny_problem(seed, 2)
    problem = problem.replace(blocks=tuple(replace(block, time=max(block.time, 1)) for block in problem.blocks))
    compare(problem.replace(edges=problem.edges[1:]), problem)


def compare(better: ScheduleProblem, worse: ScheduleProblem) -> None:
    for least in (least_period, least_makespan, least_span):
        try:
            assert no_worse(least(better), least(worse)), least.__name__
        except UnsettledError:  # of either there are only better and better values
            continue
