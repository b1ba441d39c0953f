"""The least load of an accelerator that must hold some groups and must not hold others, as a minimum cut.

Choose S: load(S) = work(S) + sum of the costs of nets that S holds in part. Groups in S are on the source's side.
A group costs its work when it is in S (an arc to the sink). A net costs C when some pin is in S and some is
not: two auxiliary vertices `first` and `second` with first -> second of capacity C, pin -> first and second -> pin
unlimited: if a pin is in S, so is `first`; if `second` is in S, so is every pin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .groups import GroupProblem

UNITS = 2**29
"""The whole of all costs in integer steps: capacities of the flow code are 32-bit."""


class CutNetwork:
    """Built once per problem; each question changes a few capacities."""

    def __init__(self, groups: GroupProblem) -> None:
        import numpy as np
        from scipy.sparse import csr_array

        self.groups = groups
        total = math.fsum(groups.total_times) + math.fsum(net.cost for net in groups.nets)
        self.scale = UNITS / total if total else 1.0
        self.unlimited = UNITS + 1
        n, m = groups.count, len(groups.nets)
        self.source, self.sink = n + 2 * m, n + 2 * m + 1
        arcs: list[tuple[int, int, int]] = []
        for g in range(n):
            arcs.append((self.source, g, 0))
            arcs.append((g, self.sink, math.floor(groups.total_times[g] * self.scale)))
        for e, net in enumerate(groups.nets):
            first, second = n + 2 * e, n + 2 * e + 1
            arcs.append((first, second, math.floor(net.cost * self.scale)))
            for g in net.pins:
                arcs.append((g, first, self.unlimited))
                arcs.append((second, g, self.unlimited))
        tails, heads, capacities = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
        # Capacities are shifted by one while the pattern is made, so that no arc of capacity 0 is dropped.
        size = self.sink + 1
        pattern = csr_array((np.arange(1, len(arcs) + 1, dtype=np.int32), (tails, heads)), shape=(size, size))
        pattern.sort_indices()
        order = pattern.data - 1
        self.place = np.empty(len(arcs), dtype=np.int64)
        self.place[order] = np.arange(len(arcs))
        self.capacity: Any = pattern
        self.capacity.data = capacities[order]

    def least_load(self, inside: Sequence[int], outside: Iterable[int]) -> tuple[float, frozenset[int]]:
        """min load(S) over S that holds all of `inside` and none of `outside`, rounded down; with one such S."""
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        graph = self.capacity.copy()
        for g in inside:
            graph.data[self.place[2 * g]] = self.unlimited
        for g in outside:
            graph.data[self.place[2 * g + 1]] = self.unlimited
        result = maximum_flow(graph, self.source, self.sink)
        residual = graph - result.flow
        residual.data[residual.data < 0] = 0
        residual.eliminate_zeros()
        reached = breadth_first_order(residual, self.source, return_predecessors=False)
        chosen = frozenset(int(g) for g in reached if g < self.groups.count)
        return result.flow_value / self.scale, chosen
