"""Memory of given micro-batches as rows on orders: nothing else of a schedule matters to it.

A device's blocks do not overlap, and change its memory alone. So it holds most while a block runs that takes some or
has a workspace, and then it holds what all runs before that one have taken and not given back. "Before" is in the
order in which the referee counts: ends before starts, and blocks without time in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .finite_problem import DeviceMemory, FiniteProblem, Node, Windows


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A row of the model: the sum of the coefficients of pairs whose first run comes before the second is at
    most `most`."""

    terms: tuple[tuple[Node, Node, int], ...]
    most: int


def memory_rows(finite: FiniteProblem, windows: Windows) -> Iterator[MemoryRow]:
    """The rows of memory of all devices that some order can break which edges and windows leave open."""
    for blocks, memory in zip(finite.on_device, finite.memories, strict=True):
        for k in blocks:
            for u in range(finite.batches):
                if memory.room is not None and memory.needed(k):
                    yield from _at_most(finite, windows, memory, (k, u))
                if memory.changes.get(k, 0) < 0:
                    yield from _at_least(finite, windows, memory, (k, u))


def _at_most(finite: FiniteProblem, windows: Windows, memory: DeviceMemory, run: Node) -> Iterator[MemoryRow]:
    """A row by which the device holds no more than its room while the run is on; none where no order breaks it."""
    assert memory.room is not None
    terms, before = _before(finite, windows, memory, run)
    most = memory.room - before - memory.needed(run[0])
    if sum(change for *_, change in terms if change > 0) > most:
        yield MemoryRow(tuple(terms), most)


def _at_least(finite: FiniteProblem, windows: Windows, memory: DeviceMemory, run: Node) -> Iterator[MemoryRow]:
    """A row by which a device has never given back more than was there, once this run is over."""
    terms, before = _before(finite, windows, memory, run)
    most = memory.standing + before + memory.changes[run[0]]
    if sum(-change for *_, change in terms if change < 0) > most:
        yield MemoryRow(tuple((first, second, -change) for first, second, change in terms), most)


def _before(
    finite: FiniteProblem, windows: Windows, memory: DeviceMemory, run: Node
) -> tuple[list[tuple[Node, Node, int]], int]:
    """Terms (first run, this run, change of memory) for runs that may come before this one, and the sum of the
    changes of those that must."""
    terms, certain = [], 0
    for i, change in memory.changes.items():
        for n in range(finite.batches):
            if (i, n) == run:
                continue
            precedes = must_precede(finite, windows, (i, n), run)
            if precedes is None:
                terms.append(((i, n), run, change))
            elif precedes:
                certain += change
    return terms, certain


def must_precede(finite: FiniteProblem, windows: Windows, first: Node, second: Node) -> bool | None:
    """Must the first run precede the second, by edges or since the other order fits no windows? None: it is open."""
    precedes = finite.comes_before(first, second)
    if precedes is None:
        if _too_late(finite, windows, second, first):
            return True
        if _too_late(finite, windows, first, second):
            return False
    return precedes


def _too_late(finite: FiniteProblem, windows: Windows, first: Node, second: Node) -> bool:
    """Would the second run start after its latest start, if the first run came before it?"""
    (i, n), (k, u) = first, second
    return windows.early[i][n] + finite.times[i] > windows.late[k][u]
