"""A slow judge of schedules: a clock ticks through them, device by device. It shares no code with the referee."""

from __future__ import annotations

import math
from fractions import Fraction

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan
from pipeplan.instances.schedule.problem import ScheduleProblem

Copy = tuple[int, int]
"""(micro-batch, block)."""


def is_valid(problem: ScheduleProblem, plan: AnySchedule) -> bool:
    if set(plan.starts) != {block.id for block in problem.blocks}:
        return False
    if isinstance(plan, PeriodicSchedulePlan):
        if plan.period <= 0 or min(plan.starts.values()) < 0:
            return False
        latest = max(plan.starts[block.id] + as_written(block.time) for block in problem.blocks)
        # Longer than it takes until everything repeats, so that it has repeated for a while.
        batches = 2 * int(latest / plan.period) + 4 + max((edge.offset for edge in problem.edges), default=0)
        starts = {name: [start + n * plan.period for n in range(batches)] for name, start in plan.starts.items()}
    else:
        if problem.micro_batches is None:
            return False
        batches = problem.micro_batches
        starts = {name: list(times) for name, times in plan.starts.items()}
        if any(len(times) != batches or min(times) < 0 for times in starts.values()):
            return False
    return _in_order(problem, starts, batches) and all(
        _Clock(problem, starts, batches, device.name).runs() for device in problem.devices
    )


def _in_order(problem: ScheduleProblem, starts: dict[str, list[Fraction]], batches: int) -> bool:
    length = {block.id: as_written(block.time) for block in problem.blocks}
    return all(
        starts[edge.target][n + edge.offset] >= starts[edge.source][n] + length[edge.source] + as_written(edge.lag)
        for edge in problem.edges
        for n in range(batches - edge.offset)
    )


class _Clock:
    """Of one device."""

    def __init__(
        self, problem: ScheduleProblem, starts: dict[str, list[Fraction]], batches: int, device: str
    ) -> None:
        (place,) = (entry for entry in problem.devices if entry.name == device)
        blocks = [b for b, block in enumerate(problem.blocks) if device in block.devices]
        times = [as_written(block.time) for block in problem.blocks]
        moments = [start for b in blocks for start in starts[problem.blocks[b].id]] + times
        self.ticks = math.lcm(*(moment.denominator for moment in moments))
        self.length = {b: int(times[b] * self.ticks) for b in blocks}
        self.start = {
            (n, b): int(starts[problem.blocks[b].id][n] * self.ticks) for b in blocks for n in range(batches)
        }
        self.change = {b: as_written(problem.blocks[b].memory.get(device, 0)) for b in blocks}
        self.workspace = {b: as_written(problem.blocks[b].workspace.get(device, 0)) for b in blocks}
        self.limit = None if place.memory is None else as_written(place.memory)
        self.held = as_written(place.standing)
        self.rank = {(n, b): (n, _depth(problem, b), b) for n, b in self.start}

    def runs(self) -> bool:
        at: dict[int, list[Copy]] = {}
        for copy, start in self.start.items():
            at.setdefault(start, []).append(copy)
        running: Copy | None = None
        moments = set(at) | {start + self.length[copy[1]] for copy, start in self.start.items()}
        for now in sorted(moments):  # nothing happens at the other ticks
            if running is not None and self.start[running] + self.length[running[1]] == now:
                if not self._gives(running[1]):
                    return False
                running = None
            here = sorted(at.get(now, []), key=self.rank.__getitem__)
            for copy in here:
                if not self.length[copy[1]] and (running or not self._takes(copy[1]) or not self._gives(copy[1])):
                    return False
            for copy in here:
                if self.length[copy[1]]:
                    if running is not None or not self._takes(copy[1]):
                        return False
                    running = copy
        return True

    def _takes(self, b: int) -> bool:
        self.held += max(self.change[b], Fraction(0))
        return self.limit is None or self.held + self.workspace[b] <= self.limit

    def _gives(self, b: int) -> bool:
        self.held += min(self.change[b], Fraction(0))
        return self.held >= 0


def _depth(problem: ScheduleProblem, b: int) -> int:
    """The most edges without offset that lead to block b, one after the other."""
    name = problem.blocks[b].id
    index = {block.id: i for i, block in enumerate(problem.blocks)}
    before = [index[edge.source] for edge in problem.edges if edge.target == name and not edge.offset]
    return max((1 + _depth(problem, i) for i in before), default=0)
