"""Better orders by annealing: between the planner and the compiled loop of `anneal_kernel`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...formulations.zero_bubble.finite_orders import Sequences
from ...formulations.zero_bubble.finite_problem import SPAN, FiniteProblem
from ...instances.base.clock import now
from ...instances.base.compiled import compiled
from . import anneal_kernel

# Seconds that a round takes about, before the clock is looked at again: the first round, and the longest.
ROUND_S = 1.0
LONGEST_ROUND_S = 4.0
# Number of steps by which the speed is measured.
TRIED = 500
# Rises in energy that are accepted now and then at the beginning and at the end of a round, in mean times of a block.
HOT, COLD = 0.03, 0.001
# Longest schedule, in steps of time: the loop counts in machine words.
MOST_STEPS = 2**40


class Annealer:
    """Rounds of annealing, each from the orders that it is given."""

    def __init__(self, finite: FiniteProblem, objective: str, seed: int) -> None:
        self.finite = finite
        self.tables = tables(finite, objective)
        self.random = _array([2 * seed + 1], "uint64")
        self.mean = max(1.0, sum(finite.times) / len(finite.times))
        self.speed: float | None = None
        """Steps in a second."""
        self.seconds = ROUND_S

    @classmethod
    def of(cls, finite: FiniteProblem, objective: str, seed: int) -> Annealer | None:
        """An annealer; None where the loop is not made for the problem: blocks on several devices, or too many
        steps."""
        several = any(len(block.devices) > 1 for block in finite.problem.blocks)
        return None if several or finite.longest > MOST_STEPS else cls(finite, objective, seed)

    def improve(self, sequences: Sequences, target: float, seconds: float | None = None) -> Sequences | None:
        """One round of at most so many seconds: better orders, or None. It ends early at the target, in steps."""
        loop = compiled(anneal_kernel, "anneal")
        state = self._state(sequences)
        if self.speed is None:
            self.load(sequences)
            started = now()
            before = loop(self.tables, state, TRIED, self.mean * COLD, self.mean * COLD, int(target))
            self.speed = TRIED / max(now() - started, 1e-6)
            state = self._state(sequences)
        before = loop(self.tables, self._state(sequences), 0, 1.0, 1.0, 0)
        if before < 0:
            return None
        most = self.seconds if seconds is None else min(seconds, self.seconds)
        steps = max(1, int(most * self.speed))
        best = loop(self.tables, state, steps, self.mean * HOT, self.mean * COLD, int(target))
        if best >= before:
            self.seconds = min(LONGEST_ROUND_S, 1.5 * self.seconds)
            return None
        return self._sequences(state)

    def load(self, sequences: Sequences) -> None:
        """Load the loop, or compile it."""
        compiled(anneal_kernel, "anneal")(self.tables, self._state(sequences), 0, 1.0, 1.0, 0)

    def _state(self, sequences: Sequences) -> anneal_kernel.State:
        m = self.finite.batches
        row = [b * m + n for device in sequences for b, n in device]
        return anneal_kernel.State(
            random=self.random,
            row=_array(row),
            place=np.zeros(len(row), np.int64),
            start=np.zeros(len(row), np.int64),
            latest=np.zeros(len(row), np.int64),
            queue=np.zeros(len(row), np.int64),
            open=np.zeros(len(row), np.int64),
            values=np.zeros(len(sequences), np.int64),
            path=np.zeros(len(row), np.int64),
            best=np.zeros(len(row), np.int64),
        )

    def _sequences(self, state: anneal_kernel.State) -> Sequences:
        row, m = state.best.tolist(), self.finite.batches
        first = self.tables.first.tolist()
        return tuple(tuple(divmod(run, m) for run in row[start:end]) for start, end in pairwise(first))


def tables(finite: FiniteProblem, objective: str) -> anneal_kernel.Tables:
    """The problem as the compiled loop reads it."""
    m, count = finite.batches, len(finite.times)
    device = {b: d for d, blocks in enumerate(finite.on_device) for b in blocks}
    edges = [
        (arc.source * m + n, arc.target * m + n + arc.offset, arc.wait)
        for arc in finite.arcs
        for n in range(m - arc.offset)
    ]
    after, before = _rows(edges, count * m), _rows([(j, i, wait) for i, j, wait in edges], count * m)
    memories = [finite.memories[device[b]] for b in range(count)]
    sizes = [len(blocks) * m for blocks in finite.on_device]
    return anneal_kernel.Tables(
        times=_each([*finite.times], m),
        device=_each([device[b] for b in range(count)], m),
        block=_each(range(count), m),
        batch=_array([n for _ in range(count) for n in range(m)]),
        after=after[0],
        waiting=after[1],
        waits=after[2],
        before=before[0],
        awaited=before[1],
        delays=before[2],
        offsets=_offsets(finite),
        changes=_each([memory.changes.get(b, 0) for b, memory in enumerate(memories)], m),
        needed=_each([memory.needed(b) for b, memory in enumerate(memories)], m),
        room=_array([anneal_kernel.NEVER if memory.room is None else memory.room for memory in finite.memories]),
        standing=_array([memory.standing for memory in finite.memories]),
        first=_array([0, *accumulate(sizes)]),
        span=objective == SPAN,
    )


def _offsets(finite: FiniteProblem) -> Any:
    """`Tables.offsets`: only blocks of one device have any."""
    table = np.full((len(finite.times),) * 2, anneal_kernel.NEVER, dtype=np.int64)
    for blocks in finite.on_device:
        for i in blocks:
            offsets = finite.offsets_from(i)
            for k in blocks:
                if k in offsets:
                    table[i, k] = offsets[k]
    return table


def _rows(edges: Sequence[tuple[int, int, int]], count: int) -> tuple[Any, Any, Any]:
    """Edges (first end, other end, number) by their first ends: where each one's begin, the other ends, the numbers."""
    ordered = sorted(edges)
    sizes = [0] * count
    for i, _, _ in ordered:
        sizes[i] += 1
    return _array([0, *accumulate(sizes)]), _array([j for _, j, _ in ordered]), _array([w for *_, w in ordered])


def _each(values: Sequence[int], times: int) -> Any:
    return _array([value for value in values for _ in range(times)])


def _array(values: Sequence[int], kind: str = "int64") -> Any:
    return np.array(values, dtype=kind)
