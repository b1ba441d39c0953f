"""The earliest schedule in which each device runs its blocks in a given order, or why there is none."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import merge

from ..base.errors import InputError, show
from ..timeline.model import Pipeline, Stage
from .plan import SchedulePlan
from .problem import ScheduleProblem, whole_times

# A block, by its position in the problem, of a micro-batch.
Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Runs that wait for each other, so that none of them ever starts."""

    waiting: tuple[Run, ...]
    """Each stands first among what is left on one of its devices, and cannot start before the next one has run; the
    last one waits for the first. One alone waits for a run that stands behind it."""
    missed: tuple[Run, ...]
    """For each run in `waiting`, the run that it waits for: the next one itself, or one that stands behind that on a
    device."""

    def sentence(self, problem: ScheduleProblem) -> str:
        """The deadlock in words, with the blocks and devices that wait for each other."""

        def named(run: Run) -> str:
            return f"{show(problem.blocks[run[0]].id)} of micro-batch {run[1]}"

        def placed(run: Run) -> str:
            return f"{named(run)} on {show(problem.blocks[run[0]].devices[0])}"

        first = self.waiting[0]
        if len(self.waiting) == 1:
            return f"Block {placed(first)} waits for block {named(self.missed[0])}, which stands behind it there."
        if len(self.waiting) == 2:
            return f"Blocks {placed(first)} and {placed(self.waiting[1])} wait for each other."
        chain = ", which waits for ".join(placed(run) for run in (*self.waiting[1:], first))
        return f"Block {placed(first)} waits for {chain}."


def earliest_starts(
    problem: ScheduleProblem, order_by_device: Mapping[str, Sequence[Run]]
) -> SchedulePlan | Deadlock:
    """Every block starts as soon as its device's order and its edges let it.

    A device without an order (a link, say) runs what is ready first, earlier micro-batches first.

    Parameters
    ----------
    problem : ScheduleProblem
        Of finitely many micro-batches.
    order_by_device : mapping
        The runs of each device by its name; a block on several devices stands in the order of each that has one.

    Returns
    -------
    SchedulePlan or Deadlock
        Memory is not looked at; the referee judges it.

    Raises
    ------
    InputError
        An order lacks a run of its device, has one twice, or has one that does not belong there.
    """
    assert problem.micro_batches is not None, "there is an order of finitely many runs only"
    work = _Work(problem, order_by_device)
    starts = work.run()
    if starts is None:
        return work.deadlock()
    return SchedulePlan(
        {
            block.id: tuple(Fraction(start, work.steps) for start in row)
            for block, row in zip(problem.blocks, starts, strict=True)
        }
    )


class _Work:
    """Starts runs in the order of time. A run is open that stands first in its devices' orders and waits for no other.

    Times are not negative, so whatever opens later starts no earlier than what has just been started.
    """

    def __init__(self, problem: ScheduleProblem, orders: Mapping[str, Sequence[Run]]) -> None:
        self.problem, self.batches = problem, problem.micro_batches or 0
        self.steps, self.times, self.lags = whole_times(problem)
        index = problem.device_index
        self.devices = [tuple(index[name] for name in block.devices) for block in problem.blocks]
        self.orders = {index[name]: tuple(runs) for name, runs in orders.items() if name in index}
        for name in orders:
            if name not in index:
                raise InputError("order", f"names {show(name)}, and no device is called so", "name the devices")
        for device, runs in self.orders.items():
            self._check(device, runs)
        self.reached = dict.fromkeys(self.orders, 0)
        self.before: list[list[tuple[int, int, int]]] = [[] for _ in problem.blocks]
        """For each block a list of what it waits for: (block, offset, lag)."""
        self.after: list[list[tuple[int, int]]] = [[] for _ in problem.blocks]
        for (i, j), edge, lag in zip(problem.ends, problem.edges, self.lags, strict=True):
            self.before[j].append((i, edge.offset, lag))
            self.after[i].append((j, edge.offset))
        self.waits = [
            [sum(offset <= n for _, offset, _ in rows) for n in range(self.batches)] for rows in self.before
        ]
        self.starts: list[list[int | None]] = [[None] * self.batches for _ in problem.blocks]

    def _check(self, device: int, runs: tuple[Run, ...]) -> None:
        problem = self.problem
        wanted = {(b, n) for b in problem.on_device[device] for n in range(self.batches)}
        where = f"order of {show(problem.devices[device].name)}"
        for what, found in (
            ("lacks", wanted - set(runs)),
            ("has, though it does not run there,", set(runs) - wanted),
        ):
            if found:
                b, n = min(found)
                name = show(problem.blocks[b].id) if 0 <= b < len(problem.blocks) else f"number {b}"
                raise InputError(where, f"{what} block {name} of micro-batch {n}", "give each of its runs once")
        if len(runs) != len(wanted):
            twice = next(run for k, run in enumerate(runs) if run in runs[:k])
            name = show(problem.blocks[twice[0]].id)
            raise InputError(
                where, f"has block {name} of micro-batch {twice[1]} twice", "give each of its runs once"
            )

    def run(self) -> list[list[int]] | None:
        """Starts of all runs, or None where some runs never start."""
        depths, times = self.problem.depths, self.times
        free = [0] * len(self.problem.devices)
        open_runs: list[tuple[int, int, int, int, int]] = []

        def offer(b: int, n: int) -> None:
            if self.waits[b][n] or self.starts[b][n] is not None or not self._in_turn(b, n):
                return
            ready = max((self._end(i, n - o) + lag for i, o, lag in self.before[b] if o <= n), default=0)
            at = max(ready, *(free[d] for d in self.devices[b]))
            heapq.heappush(open_runs, (at, ready, n, depths[b], b))

        for b in range(len(times)):
            for n in range(self.batches):
                offer(b, n)
        left = len(times) * self.batches
        while open_runs:
            at, ready, n, depth, b = heapq.heappop(open_runs)
            if self.starts[b][n] is not None:
                continue
            possible = max(ready, *(free[d] for d in self.devices[b]))
            if possible > at:  # another run has taken a device meanwhile
                heapq.heappush(open_runs, (possible, ready, n, depth, b))
                continue
            self.starts[b][n] = at
            left -= 1
            for d in self.devices[b]:
                free[d] = at + times[b]
                if d in self.reached:
                    self.reached[d] += 1
            for j, offset in self.after[b]:
                if n + offset < self.batches:
                    self.waits[j][n + offset] -= 1
                    offer(j, n + offset)
            for d in self.devices[b]:
                if d in self.reached and self.reached[d] < len(self.orders[d]):
                    offer(*self.orders[d][self.reached[d]])
        return None if left else [[start for start in row if start is not None] for row in self.starts]

    def _end(self, b: int, n: int) -> int:
        start = self.starts[b][n]
        assert start is not None, "it has run"
        return start + self.times[b]

    def _first(self, device: int) -> Run | None:
        order = self.orders.get(device, ())
        return order[self.reached[device]] if device in self.reached and self.reached[device] < len(order) else None

    def _in_turn(self, b: int, n: int) -> bool:
        return all(d not in self.reached or self._first(d) == (b, n) for d in self.devices[b])

    def deadlock(self) -> Deadlock:
        """A circle of runs that wait for each other, sought from a run that never starts.

        Edges alone form no circle, so somewhere on the way a run waits for another one that stands first on its device.
        """
        at = next((b, n) for n in range(self.batches) for b in range(len(self.times)) if self.starts[b][n] is None)
        way = [at]
        place = {at: 0}
        while True:
            at = self._awaited(*at)
            if at in place:
                way = way[place[at] :]
                break
            place[at] = len(way)
            way.append(at)
        heads = [k for k, run in enumerate(way) if not self._by_edge(way[k - 1], run)]
        waiting = tuple(way[k] for k in heads)
        missed = tuple(way[(k - 1) % len(way)] for k in (*heads[1:], heads[0]))
        return Deadlock(waiting, missed)

    def _by_edge(self, run: Run, other: Run) -> bool:
        """Does the run wait for the other by an edge?"""
        return any((i, run[1] - o) == other for i, o, _ in self.before[run[0]])

    def _awaited(self, b: int, n: int) -> Run:
        """A run that never starts and that this one waits for: by an edge, or as the first one on a device."""
        for i, offset, _ in self.before[b]:
            if offset <= n and self.starts[i][n - offset] is None:
                return i, n - offset
        firsts = (self._first(d) for d in self.devices[b])
        return next(run for run in firsts if run is not None and run != (b, n))


# The schedule that a plan was made for: the passes of the simulator's stages, in their order, as blocks.


def own_schedule(lowered: ScheduleProblem, pipeline: Pipeline) -> SchedulePlan | Deadlock:
    """The schedule of a problem with a block for each pass of each stage, as early as the orders of the stages let it.

    Replicas are one device there, so that their orders are taken pass by pass in turn.
    """
    orders: dict[str, list[Run]] = {}
    for number, stage in enumerate(pipeline.stages):
        in_a_row = sum(block.stage == number and block.kind == "F" for block in lowered.blocks)
        device = next(block.devices[0] for block in lowered.blocks if block.stage == number)
        orders[device] = [_run(lowered, number, signed, in_a_row) for signed in _in_turn(stage)]
    return earliest_starts(lowered, orders)


def _in_turn(stage: Stage) -> Iterator[int]:
    """The passes of all replicas by the place in the replica's order, and then by replica."""
    placed = (((place, replica, j) for place, j in enumerate(order)) for replica, order in enumerate(stage.orders))
    return (j for _, _, j in merge(*placed))


def _run(lowered: ScheduleProblem, stage: int, signed: int, in_a_row: int) -> Run:
    """The block of a pass: +j is the forward pass of the stage's micro-batch j, -j its backward pass."""
    batch, turn = divmod(abs(signed) - 1, in_a_row)
    name = f"{'F' if signed > 0 else 'B'}{stage}"
    block = lowered.block_index.get(name)
    return (lowered.block_index[f"{name}.{turn}"] if block is None else block), batch
