"""Seconds of collectives on the levels of a cluster, for many groups of ranks at once.

A group is every `stride`-th rank, `count` of them. So in one unit of each level (in one node, say) lies some number of
its ranks. A ring uses the links of all ranks that lie there, and the slowest level decides; an exchange of all with all
waits for the level on which each rank sends the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...instances.training.problem import Level

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Groups:
    """What collectives of each group cost: seconds per byte, and seconds once."""

    ring: Array
    """Seconds for each byte that is gathered, or added up and scattered, in a ring."""
    exchange: Array
    """Seconds for each byte that every rank has for all the others and for itself."""
    latency: Array
    """Seconds once, however few bytes are sent."""


class Cluster:
    """The levels of links among ranks; `share` of each bandwidth is what collectives reach."""

    def __init__(self, levels: Sequence[Level], share: float) -> None:
        self.levels, self.share = tuple(levels), share
        self.sizes = [1]
        for level in self.levels:
            self.sizes.append(self.sizes[-1] * level.count)

    def groups(self, stride: Any, count: Any) -> Groups:
        """Costs of the collectives of many groups at once, given as arrays of strides and counts; a rank alone
        sends nothing."""
        import numpy as np

        stride, count = np.broadcast_arrays(np.asarray(stride), np.asarray(count))
        filled = [np.ones_like(count)]
        filled += [np.minimum(count, np.maximum(1, size // stride)) for size in self.sizes[1:-1]]
        filled.append(count)
        rate = np.full(count.shape, np.inf)
        slowest, latency = np.zeros(count.shape), np.zeros(count.shape)
        for i, level in enumerate(self.levels):
            below, above = filled[i], filled[i + 1]
            crosses = below < above
            rate = np.where(crosses, np.minimum(rate, below * level.bandwidth), rate)
            sent = (1 - below / count) / (self.share * level.bandwidth)
            slowest = np.where(crosses, np.maximum(slowest, sent), slowest)
            latency = latency + np.where(crosses, (above / below - 1) * level.latency_seconds, 0)
        return Groups((count - 1) / count / (self.share * rate), slowest, latency)

    def message(self, source: int, target: int) -> tuple[float, float]:
        """Seconds per byte and seconds once of a message from one rank to another."""
        if source == target:
            return 0.0, 0.0
        for level, size in zip(self.levels, self.sizes[1:], strict=True):
            if source // size == target // size:
                return 1 / (self.share * level.bandwidth), level.latency_seconds
        raise AssertionError("all ranks are in the cluster")
