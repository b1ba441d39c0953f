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
        self.after: dict[Node, list[tuple[Node, int]]] = {
            (b, n): [] for b in range(len(finite.times)) for n in range(finite.batches)
        }
        for b, n in self.after:
            for arc in finite.leaving[b]:
                if n + arc.offset < finite.batches:
                    self._wait((b, n), (arc.target, n + arc.offset), arc.wait * self.fine)
        for row in sequences:
            for first, second in pairwise(row):
                self._wait(first, second, finite.times[first[0]] * self.fine)
        for first, second in apart:
            self._wait(first, second, 1)
        self.order = self._order()

    def _wait(self, first: Node, second: Node, wait: int) -> None:
        self.after[first].append((second, wait))

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

    def _order(self) -> list[Node] | None:
        """All runs in an order in which every wait leads forward; None: the devices wait for each other."""
        nodes = list(self.after)
        at = {node: i for i, node in enumerate(nodes)}
        waits = ((at[first], at[second]) for first, after in self.after.items() for second, _ in after)
        order = topological_order(adjacency(len(nodes), waits))
        return None if order is None else [nodes[i] for i in order]

    def follow(self, starts: dict[Node, int]) -> dict[Node, int]:
        """Earliest starts of all that follows from these runs, which start no earlier than given."""
        assert self.order is not None
        earliest = dict(starts)
        for node in self.order:
            start = earliest.get(node)
            if start is not None:
                for second, wait in self.after[node]:
                    if earliest.get(second, -1) < start + wait:
                        earliest[second] = start + wait
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
    """The plan of least makespan or span with these orders; None: the devices would wait for each other."""
    timing = Timing(finite, sequences)
    if timing.order is None:
        return None
    if objective != SPAN:
        starts, unit = timing.follow(dict.fromkeys(timing.after, 0)), Fraction(1)
    else:
        spans = timing.spans()
        value = _least_span(spans)
        firsts = _first_starts(spans, value)
        scaled: dict[Node, int] = {}
        for row, first in zip(sequences, firsts, strict=True):  # one run may be the first on several devices
            scaled[row[0]] = max(scaled.get(row[0], 0), int(first * value.denominator))
        starts, unit = _scaled(timing, scaled, value.denominator), Fraction(1, value.denominator)
    least = min(starts.values())
    unit = unit / (finite.steps * timing.fine)
    return SchedulePlan(
        {
            block.id: tuple((starts[b, n] - least) * unit for n in range(finite.batches))
            for b, block in enumerate(finite.problem.blocks)
        }
    )


def _scaled(timing: Timing, starts: dict[Node, int], factor: int) -> dict[Node, int]:
    """Earliest starts of all runs from these first ones on, with `factor` parts to a step."""
    assert timing.order is not None
    earliest = dict(starts)
    for node in timing.order:
        for second, wait in timing.after[node]:
            later = earliest[node] + wait * factor
            if earliest.get(second, -1) < later:
                earliest[second] = later
    return earliest


def _least_span(spans: Sequence[Sequence[int | None]]) -> Fraction:
    """No device's span exceeds T where starts exist with: the first start of e is at least the first start of d, plus
    the path from there to the last end of e, minus T. Such starts exist if no cycle of these waits has a positive sum:
    T is the largest mean of a cycle. It may be a fraction although all times are whole.

    From a mean that is too small a positive cycle leads to a larger one, until there is none.
    """
    value = Fraction(max((row[d] or 0 for d, row in enumerate(spans)), default=0))
    while True:
        cycle = _positive_cycle(spans, value)
        if cycle is None:
            return value
        total = 0
        for d, e in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            path = spans[d][e]
            assert path is not None
            total += path
        value = Fraction(total, len(cycle))


def _positive_cycle(spans: Sequence[Sequence[int | None]], value: Fraction) -> list[int] | None:
    firsts, before, changed = _relaxed(spans, value)
    if changed is None:
        return None
    at = changed
    for _ in firsts:
        at = before[at]
    cycle = [at]
    while before[cycle[-1]] != at:
        cycle.append(before[cycle[-1]])
    return cycle[::-1]


def _first_starts(spans: Sequence[Sequence[int | None]], value: Fraction) -> list[Fraction]:
    firsts, _, changed = _relaxed(spans, value)
    assert changed is None, "no cycle is positive"
    return [Fraction(first, value.denominator) for first in firsts]


def _relaxed(spans: Sequence[Sequence[int | None]], value: Fraction) -> tuple[list[int], list[int], int | None]:
    """First starts in parts of a step, the device that raised each one last, and a device that still changed in the
    end; None: none did."""
    scale, limit = value.denominator, value.numerator
    firsts, before = [0] * len(spans), list(range(len(spans)))
    changed: int | None = None
    for _ in range(len(spans) + 1):
        changed = None
        for d, row in enumerate(spans):
            for e, path in enumerate(row):
                if path is not None and firsts[d] + path * scale - limit > firsts[e]:
                    firsts[e], before[e], changed = firsts[d] + path * scale - limit, d, e
        if changed is None:
            break
    return firsts, before, changed
