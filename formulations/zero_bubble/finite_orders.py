"""Schedules as orders: which run of which block follows which on every device.

Orders decide the memory of a device, because its blocks do not overlap and change its memory alone. They decide the
best times, too: makespan and span of given orders are longest paths. So a search needs to find orders only, and times
follow from them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from ...instances.base.graph import adjacency, topological_order
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..timetable import Wait
from ..timetable import tightest as shortest_period
from .finite_problem import SPAN, FiniteProblem, Node

# The runs of each device that has any blocks, in their order.
Sequences = tuple[tuple[Node, ...], ...]

# Parts of a step. Blocks without time that share a device and an instant follow an order of the referee's own;
# where another one is meant, one of these parts lies between them.
FINE = 10**9


def in_order(plan: SchedulePlan) -> SchedulePlan:
    """The same schedule, in which every block runs its micro-batches in order.

    Micro-batches are alike, so a device does the same work at the same times whatever its runs are called: with the
    starts of each block sorted nothing overlaps that did not before, and nothing else is taken or given back at any
    time. Edges hold, too. Let j wait for i with offset o. The n + 1 smallest starts of j belong to n + 1 micro-batches,
    of which at least n + 1 - o have a number of at least o; so many runs of i have ended, with the lag after them,
    before the n-th start of j (counted from 0), and so has the one of number n - o. First starts and last ends are the
    same, hence all values. (Blocks without time at one instant of one device may change places in the referee's order;
    `tightest` keeps them apart where that matters.)
    """
    return SchedulePlan({block: tuple(sorted(starts)) for block, starts in plan.starts.items()})


def sequences_of(problem: ScheduleProblem, plan: SchedulePlan) -> Sequences:
    """The runs of each device in their order; at one instant as the referee orders them."""
    return tuple(
        tuple(
            (b, n)
            for *_, n, _, b in sorted(
                (start, problem.times[b] > 0, n, problem.depths[b], b)
                for b in blocks
                for n, start in enumerate(plan.starts[problem.blocks[b].id])
            )
        )
        for blocks in problem.on_device
        if blocks
    )


class Timing:
    """The best times of given orders."""

    def __init__(self, finite: FiniteProblem, sequences: Sequences) -> None:
        self.finite = finite
        self.sequences = sequences
        apart = [pair for d, row in enumerate(sequences) for pair in self._apart(d, row)]
        self.fine = FINE if apart else 1
        waits = [
            ((b, n), (arc.target, n + arc.offset), arc.wait * self.fine)
            for b, arcs in enumerate(finite.leaving)
            for n in range(finite.batches)
            for arc in arcs
            if n + arc.offset < finite.batches
        ]
        waits += [(u, v, finite.times[u[0]] * self.fine) for row in sequences for u, v in pairwise(row)]
        waits += [(u, v, 1) for u, v in apart]
        nodes = [(b, n) for b in range(len(finite.times)) for n in range(finite.batches)]
        self.after: dict[Node, list[tuple[Node, int]]] = {node: [] for node in nodes}
        for first, second, wait in waits:
            self.after[first].append((second, wait))
        at = {node: i for i, node in enumerate(nodes)}
        order = topological_order(adjacency(len(nodes), ((at[u], at[v]) for u in nodes for v, _ in self.after[u])))
        self.order = None if order is None else [nodes[i] for i in order]
        """All runs in an order in which every wait leads forward; None: the devices wait for each other."""

    def _apart(self, d: int, row: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
        """Neighbours without time that touch the device's memory, against the referee's order at one instant."""
        finite, touched = self.finite, self.finite.memories[d].changes
        before: Node | None = None
        for b, n in row:
            if finite.times[b]:
                before = None
            elif b in touched:
                if before is not None and self._key((b, n)) < self._key(before):
                    yield before, (b, n)
                before = b, n

    def _key(self, node: Node) -> tuple[int, int, int]:
        b, n = node
        return n, self.finite.problem.depths[b], b

    def follow(self, starts: dict[Node, int], parts: int = 1) -> dict[Node, int]:
        """Earliest starts of all that follows from these runs, none before its given one, in `parts` of a step."""
        assert self.order is not None
        earliest = dict(starts)
        for node in self.order:
            start = earliest.get(node)
            if start is not None:
                for second, wait in self.after[node]:
                    if earliest.get(second, -1) < start + wait * parts:
                        earliest[second] = start + wait * parts
        return earliest

    def spans(self) -> list[list[int | None]]:
        """The longest path from the first start of each device to the last end of each; None: there is no path."""
        lasts = [row[-1] for row in self.sequences]
        rows: list[list[int | None]] = []
        for row in self.sequences:
            distances = self.follow({row[0]: 0})
            rows.append(
                [
                    distances[b, n] + self.fine * self.finite.times[b] if (b, n) in distances else None
                    for b, n in lasts
                ]
            )
        return rows


def tightest(finite: FiniteProblem, sequences: Sequences, objective: str) -> SchedulePlan | None:
    """The plan of least makespan or span with these orders; None: the devices would wait for each other.

    No device's span exceeds T where starts exist with: the first start of e is at least the first start of d, plus the
    path from there to the last end of e, minus T. So the least T is that of waits which span a period each. It may be a
    fraction although all times are whole.
    """
    timing = Timing(finite, sequences)
    if timing.order is None:
        return None
    first, parts = dict.fromkeys(timing.after, 0), 1
    if objective == SPAN:
        paths = [
            (d, e, path) for d, row in enumerate(timing.spans()) for e, path in enumerate(row) if path is not None
        ]
        least = max(path for d, e, path in paths if d == e)
        table = shortest_period(len(sequences), [Wait(d, e, Fraction(p), 1) for d, e, p in paths], Fraction(least))
        assert table is not None, "every wait spans a period"
        first, parts = {}, table.period.denominator
        for row, start in zip(sequences, table.starts, strict=True):  # one run may be the first on several devices
            first[row[0]] = max(first.get(row[0], 0), int(start * parts))
    starts = timing.follow(first, parts)
    origin, unit = min(starts.values()), Fraction(1, parts) / (finite.steps * timing.fine)
    return SchedulePlan(
        {
            block.id: tuple((starts[b, n] - origin) * unit for n in range(finite.batches))
            for b, block in enumerate(finite.problem.blocks)
        }
    )
