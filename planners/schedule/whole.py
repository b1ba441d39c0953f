"""A schedule problem in whole numbers, as the rules work on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from ...instances.base.amounts import as_written
from ...instances.schedule.problem import ScheduleProblem, whole_times


@dataclass(frozen=True)
class WholeProblem:
    """Times and lags in steps, memory in parts; blocks and devices by their positions."""

    problem: ScheduleProblem
    steps: int
    """Steps in one time unit, such that all times are whole numbers of steps."""
    times: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    """The devices of each block."""
    before: tuple[tuple[tuple[int, int, int], ...], ...]
    """What each block waits for: (block, offset, lag)."""
    after: tuple[tuple[tuple[int, int, int], ...], ...]
    """What waits for each block: (block, offset, lag)."""
    room: tuple[int | None, ...]
    """Memory of each device above what always stands there; None: no limit."""
    standing: tuple[int, ...]
    """What always stands on each device: the changes on it may go so far below 0."""
    uses: tuple[tuple[tuple[int, int, int], ...], ...]
    """What each block does to devices: (device, what it adds at most while it runs, what it changes), where that is not
    0."""
    backwards: bool = False
    """Does time run backwards?"""

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of blocks such that every edge without offset leads forward."""
        return self.problem.order[::-1] if self.backwards else self.problem.order

    @cached_property
    def orders(self) -> tuple[tuple[int, int], ...]:
        """Keys by which blocks that take no time follow each other at one instant: topological position, then order in
        the file; the micro-batch comes before both."""
        sign = -1 if self.backwards else 1
        return tuple((sign * depth, sign * b) for b, depth in enumerate(self.problem.depths))

    @cached_property
    def gives_first(self) -> tuple[bool, ...]:
        """May a device come to have given back more than it ever held, in some order of a micro-batch's blocks?"""
        least = list(self.standing)
        for rows in self.uses:
            for d, _, change in rows:
                least[d] += min(change, 0)
        return tuple(amount < 0 for amount in least)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """The longest path from the start of each block to the end of its micro-batch."""
        tails = list(self.times)
        for b in reversed(self.order):
            follow = (lag + tails[j] for j, offset, lag in self.after[b] if not offset)
            tails[b] = self.times[b] + max(follow, default=0)
        return tuple(tails)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The longest path to the start of each block within its micro-batch."""
        heads = [0] * len(self.times)
        for b in self.order:
            heads[b] = max((heads[i] + self.times[i] + lag for i, o, lag in self.before[b] if not o), default=0)
        return tuple(heads)

    @cached_property
    def load(self) -> int:
        """Load of the busiest device in one micro-batch."""
        return int(max(self.problem.loads) * self.steps)

    def mirrored(self) -> WholeProblem:
        """The problem as time runs backwards, and micro-batches from the last one on: what was given back is taken.

        Whoever waited is waited for, and a device holds the same between the same two blocks.
        """
        uses = tuple(
            tuple((d, peak - max(change, 0) + max(-change, 0), -change) for d, peak, change in rows)
            for rows in self.uses
        )
        return replace(self, before=self.after, after=self.before, uses=uses, backwards=not self.backwards)


def in_whole_numbers(problem: ScheduleProblem) -> WholeProblem:
    steps, times, lags = whole_times(problem)
    index = problem.device_index
    before: list[list[tuple[int, int, int]]] = [[] for _ in problem.blocks]
    after: list[list[tuple[int, int, int]]] = [[] for _ in problem.blocks]
    for (i, j), edge, lag in zip(problem.ends, problem.edges, lags, strict=True):
        before[j].append((i, edge.offset, lag))
        after[i].append((j, edge.offset, lag))
    amounts = [as_written(value) for block in problem.blocks for value in (*block.memory.values(),)]
    amounts += [as_written(value) for block in problem.blocks for value in block.workspace.values()]
    for device in problem.devices:
        amounts += [as_written(value) for value in (device.standing, device.memory) if value is not None]
    parts = math.lcm(*(amount.denominator for amount in amounts))

    def whole(value: float) -> int:
        return int(as_written(value) * parts)

    uses = []
    for block in problem.blocks:
        rows = []
        for name in sorted({*block.memory, *block.workspace}, key=index.__getitem__):
            change, work = whole(block.memory.get(name, 0)), whole(block.workspace.get(name, 0))
            if change or work:
                rows.append((index[name], max(change, 0) + work, change))
        uses.append(tuple(rows))
    return WholeProblem(
        problem,
        steps,
        times,
        tuple(tuple(index[name] for name in block.devices) for block in problem.blocks),
        tuple(map(tuple, before)),
        tuple(map(tuple, after)),
        tuple(None if d.memory is None else whole(d.memory) - whole(d.standing) for d in problem.devices),
        tuple(whole(d.standing) for d in problem.devices),
        tuple(uses),
    )
