"""How a schedule problem is asked for its least memory: by the order in which one micro-batch alone can run.

Micro-batches one after the other are a schedule, however slow, and it holds what one of them holds in its order. So the
least memory is at most that of the best order of one micro-batch.

Nor is it less where no set of blocks that comes before the others gives back more than it took (`never_below`): take
any schedule and forget all micro-batches but one. Whenever a block of it starts on a device, all other blocks that have
run there have ended, since a device runs one at a time; of each micro-batch those that have ended are such a set, so
that it holds nothing less than nothing there. Without the others the device holds no more, and what is left is an order
of one micro-batch. Times, lags and offsets play no part.

Where changes do not sum to 0, or a block gives back what another one takes later, several micro-batches may help each
other, and only what one block needs is a proven bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from ...instances.amounts import Amount, as_written, common_unit, in_digits
from ...instances.clock import now
from ...instances.errors import show
from ...instances.least_memory import SmallestMemory
from ...instances.schedule.each_device import held, holders, with_memory
from ...instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ...instances.schedule.rules import PERIOD, rules_of
from ..options import SolveOptions
from .ask import accepted
from .search import Answer, Floor, Questions, Search, Watch
from .too_little import would_do

MOST_STATES = 5_000
"""Of one question: what one micro-batch may have run so far."""
NOTHING = Fraction(0)


def least_memory(
    problem: ScheduleProblem, options: Mapping[str, Any], limits: SolveOptions, watch: Watch
) -> SmallestMemory:
    """The same on every device that holds anything; links hold nothing."""
    asked = partial(_asked, problem, _Alone(problem), options)
    questions = Questions(
        unit=_unit(problem),
        floor=_floor(problem),
        held=partial(held, problem, options=options),
        first=asked,
        rounds=(asked,),
        counted=problem.memory_unit or "units",
    )
    return Search(questions, limits, watch).run()


def explain(
    problem: ScheduleProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """What a single block asks for and does not get, else how much memory is enough."""
    small = [
        f"block {show(block)} alone needs {in_digits(needed)} of {show(device.name)}, whose memory is "
        f"{in_digits(device.memory)}"
        for device, (needed, block) in zip(problem.devices, _by_block(problem), strict=True)
        if device.memory is not None and needed > as_written(device.memory)
    ]
    return (*small[:1], *(would_do(problem, options, limits) if proven else ()))


def _unit(problem: ScheduleProblem) -> Fraction:
    """Whatever a device holds is a sum of these."""
    amounts = [as_written(device.standing) for device in problem.devices]
    for block in problem.blocks:
        amounts += [as_written(amount) for amount in (*block.memory.values(), *block.workspace.values())]
    return common_unit(amounts) or Fraction(1)


def _by_block(problem: ScheduleProblem) -> list[tuple[Fraction, str]]:
    """Of each device, what its most demanding block takes and works with, and which one that is.

    When it starts the device holds that beside something that is not below nothing.
    """
    found: list[tuple[Fraction, str]] = []
    for device, blocks in zip(problem.devices, problem.on_device, strict=True):
        needs = [(_needs(problem, b, device.name), problem.blocks[b].id) for b in blocks]
        found.append(max(needs, key=lambda need: need[0], default=(NOTHING, "")))
    return found


def _needs(problem: ScheduleProblem, b: int, device: str) -> Fraction:
    block = problem.blocks[b]
    return max(as_written(block.memory.get(device, 0)), NOTHING) + as_written(block.workspace.get(device, 0))


def _floor(problem: ScheduleProblem) -> Floor:
    """What stands on a device is there before anything runs; what a block takes and works with is there, too."""
    holding = holders(problem)
    floors = [Floor(NOTHING, "what a memory is")]
    for device, (needed, block) in zip(problem.devices, _by_block(problem), strict=True):
        if device.name in holding:
            floors.append(Floor(as_written(device.standing), f"what stands on {show(device.name)}"))
            floors.append(Floor(needed, f"block {show(block)} alone"))
    return max(floors, key=lambda floor: floor.amount)


def never_below(problem: ScheduleProblem) -> bool:
    """Does every set of blocks of one micro-batch that can come before the others hold nothing less than nothing?

    Shown by dividing what each block gives back among blocks that come before it in any order: what they took is in
    every such set in which it is given back. The latest ones first; that this fails shows nothing.
    """
    before = _ancestors(problem)
    for device in problem.devices:
        left: dict[int, Fraction] = {}
        for b in problem.order:
            change = as_written(problem.blocks[b].memory.get(device.name, 0))
            if change > 0:
                left[b] = change
            for taker in sorted(left, key=problem.order.index, reverse=True):
                if change < 0 and before[b] >> taker & 1:
                    part = min(left[taker], -change)
                    left[taker], change = left[taker] - part, change + part
            if change < 0:
                return False
    return True


def _ancestors(problem: ScheduleProblem) -> list[int]:
    """Of each block, those that come before it in the same micro-batch, as bits."""
    found = [0] * len(problem.blocks)
    direct: list[list[int]] = [[] for _ in problem.blocks]
    for (source, target), edge in zip(problem.ends, problem.edges, strict=True):
        if not edge.offset:
            direct[target].append(source)
    for b in problem.order:
        for source in direct[b]:
            found[b] |= found[source] | 1 << source
    return found


_State = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Which blocks have run, as bits; what is held; in which order they ran."""


class _Alone:
    """One micro-batch on devices that run nothing else; of leaks, the first and the last one. All in whole units."""

    def __init__(self, problem: ScheduleProblem) -> None:
        self.problem, self.unit = problem, _unit(problem)
        holding = [device for device in problem.devices if device.name in holders(problem)]
        index = {device.name: i for i, device in enumerate(holding)}
        self.touched = [[index[name] for name in block.devices if name in index] for block in problem.blocks]
        names = [device.name for device in holding]
        self.changes = [[self._whole(block.memory.get(name, 0)) for name in names] for block in problem.blocks]
        self.needs = [[self._whole(_needs(problem, b, name)) for name in names] for b in range(len(problem.blocks))]
        sums = [sum(column) for column in zip(*self.changes, strict=True)]
        later = (problem.micro_batches or 1) - 1
        standing = [self._whole(device.standing) for device in holding]
        self.start = [stands + max(later * total, 0) for stands, total in zip(standing, sums, strict=True)]
        self.spare = [max(-later * total, 0) for total in sums]
        """Given back by earlier micro-batches for good, at the start of the last one."""
        self.exact = not any(sums) and never_below(problem)
        self.before = [0] * len(problem.blocks)
        for (source, target), edge in zip(problem.ends, problem.edges, strict=True):
            if not edge.offset:
                self.before[target] |= 1 << source

    def _whole(self, amount: Amount) -> int:
        return int(as_written(amount) / self.unit)

    def order(self, memory: Fraction | None, seconds: float | None) -> Sequence[int] | bool | None:
        """Blocks in an order that fits into so much; None: there is none, False: nobody knows.

        Depth first, each set of blocks once, since what is held depends on the set alone. A block that takes nothing
        anywhere runs as soon as it can: earlier it leaves no less room to what follows, while nothing can fall below
        nothing.
        """
        most = math.inf if memory is None else math.floor(memory / self.unit)
        seen: set[int] = set()
        stack: list[_State] = [(0, tuple(self.start), ())]
        everything, end = (1 << len(self.before)) - 1, math.inf if seconds is None else now() + seconds
        while stack:
            done, held, row = stack.pop()
            if done == everything:
                return row
            if done in seen:
                continue
            if len(seen) >= MOST_STATES or now() > end:
                return False
            seen.add(done)
            stack += self._next(done, held, row, most)
        return None

    def _next(self, done: int, held: tuple[int, ...], row: tuple[int, ...], most: float) -> list[_State]:
        found = []
        for b in self.problem.order:
            touched, changes, needs = self.touched[b], self.changes[b], self.needs[b]
            if done >> b & 1 or self.before[b] & ~done or any(held[d] + needs[d] > most for d in touched):
                continue
            if any(held[d] + changes[d] < self.spare[d] for d in touched):
                continue
            step = (done | 1 << b, tuple(a + c for a, c in zip(held, changes, strict=True)), (*row, b))
            if self.exact and all(changes[d] <= 0 for d in touched):
                return [step]
            found.append((sum(changes), step))
        found.sort(key=lambda entry: entry[0], reverse=True)  # what takes least is tried first
        return [step for _, step in found]


def _asked(
    problem: ScheduleProblem,
    alone: _Alone,
    options: Mapping[str, Any],
    memory: float | None,
    limits: SolveOptions,
) -> Answer:
    """Without a limit, the order that comes up first."""
    order = alone.order(None if memory is None else as_written(memory), limits.time_limit_s)
    if order is False:
        return Answer()
    if order is None:
        return Answer(none=alone.exact, none_of_mine=not alone.exact)
    assert not isinstance(order, bool)
    plan = accepted(with_memory(problem, memory), in_a_row(problem, order, options), options)
    return Answer(plan)


def in_a_row(problem: ScheduleProblem, order: Sequence[int], options: Mapping[str, Any]) -> AnySchedule:
    """Micro-batches one after the other, block by block in that order.

    A block without time keeps the next one waiting all the same, so that the order is one of time.
    """
    waits: list[list[tuple[int, int, Fraction]]] = [[] for _ in problem.blocks]
    for (source, target), edge, lag in zip(problem.ends, problem.edges, problem.lags, strict=True):
        waits[target].append((source, edge.offset, lag))
    starts, free = [NOTHING] * len(problem.blocks), NOTHING
    for b in order:
        ready = [starts[i] + problem.times[i] + lag for i, offset, lag in waits[b] if not offset]
        starts[b] = max([free, *ready])
        free = starts[b] + (problem.times[b] or 1)
    period = free
    for b, edges in enumerate(waits):
        for i, offset, lag in edges:
            if offset:
                period = max(period, (starts[i] + problem.times[i] + lag - starts[b]) / offset)
    names = [block.id for block in problem.blocks]
    if rules_of(problem, options).objective == PERIOD:
        return PeriodicSchedulePlan(period, dict(zip(names, starts, strict=True)))
    batches = range(problem.micro_batches or 1)
    return SchedulePlan(
        {name: tuple(start + n * period for n in batches) for name, start in zip(names, starts, strict=True)}
    )
