"""Seconds of collectives on the levels of a cluster, for many groups of ranks at once.

A group is every `stride`-th rank, `count` of them. Of a level it fills `inside` ranks with one link of the level below.
Rings use the links of all ranks that they have there, so that the slowest level decides; an exchange of all with all
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
    """What a group's collectives cost: seconds for each byte, and once."""

    ring: Array
    """For each byte of the whole that is gathered, or added up and scattered."""
    exchange: Array
    """For each byte that every rank has for others and for itself."""
    latency: Array


class Cluster:
    def __init__(self, levels: Sequence[Level], share: float) -> None:
        self.levels, self.share = tuple(levels), share
        self.sizes = [1]
        for level in self.levels:
            self.sizes.append(self.sizes[-1] * level.count)

    def groups(self, stride: Any, count: Any) -> Groups:
        """Of arrays of strides and counts; a rank alone sends nothing."""
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
        """Seconds for each byte, and once, from one rank to another."""
        if source == target:
            return 0.0, 0.0
        for level, size in zip(self.levels, self.sizes[1:], strict=True):
            if source // size == target // size:
                return 1 / (self.share * level.bandwidth), level.latency_seconds
        raise AssertionError("all ranks are in the cluster")
