"""The inner problem under 1F1B: where to cut a row of units, given what is computed again.

Plain arrays, which know nothing of models: whoever has times and bytes of units makes them. What is minimised is the
makespan of the simulated schedule. `pipeline_kernel` has the bounds and the search; this module speaks to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled

Array = np.ndarray[Any, np.dtype[np.float64]]

# The most sets of last stages that one search looks at.
MOST_NODES = 20_000
# Plain Python looks at so many intervals of all stages in a tenth of a second.
BRIEF_INTERVALS = 50_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sums over intervals of units, [first, behind the last]."""

    forward_seconds: Array
    backward_seconds: Array
    """Seconds of the backward pass; infinite where a stage may not have this word."""
    fixed_bytes: Array
    stash_bytes: Array
    tail_seconds: Array

    @property
    def units(self) -> int:
        return int(self.forward_seconds.shape[0]) - 1


@dataclass(frozen=True)
class Pipeline:
    """Stages for a row of units under 1F1B, one chunk on each rank."""

    intervals: Intervals
    stages: int
    micro_batches: int
    memory_bytes: float
    delays: tuple[float, ...]
    """Seconds of a message between each two stages that follow each other."""

    @cached_property
    def flights(self) -> Any:
        """Micro-batches of which each stage keeps the stash at once."""
        return np.minimum(self.micro_batches, self.stages - np.arange(self.stages)).astype(np.float64)

    @cached_property
    def down(self) -> Any:
        """Seconds of messages from the first stage to each stage."""
        return np.concatenate(([0.0], np.cumsum(self.delays[: self.stages - 1])))


@dataclass(frozen=True, slots=True)
class Best:
    """What is known of an inner problem. None: no layout is known, or none below the cut-off was looked for."""

    value: float | None
    bound: float
    """No layout is faster; infinite where none fits."""
    layout: tuple[int, ...] = ()
    nodes: int = 0


def is_long(units: int, stages: int) -> bool:
    """Is a row too long for plain Python?"""
    return units**2 * stages > BRIEF_INTERVALS


def solve(
    pipeline: Pipeline, cutoff: float = float("inf"), tolerance: float = 1e-12, most_nodes: int = MOST_NODES
) -> Best:
    """The best layout.

    Parameters
    ----------
    pipeline : Pipeline
        What is to be cut.
    cutoff : float
        Only what is faster is looked for.
    tolerance : float
        The relative gap that is good enough.
    most_nodes : int
        The most nodes of the search; 0: a first layout and its bound; negative: only bounds.
    """
    intervals = pipeline.intervals
    if pipeline.stages > intervals.units:
        return Best(None, float("inf"))
    from . import pipeline_kernel

    brief = not is_long(intervals.units, pipeline.stages)
    value, bound, layout, nodes = compiled(pipeline_kernel, "plan_row", meanwhile=brief)(
        pipeline.stages,
        pipeline.micro_batches,
        tuple(getattr(intervals, entry.name) for entry in fields(intervals)),
        pipeline.down,
        pipeline.flights,
        float(pipeline.memory_bytes),
        float(cutoff),
        float(tolerance),
        most_nodes,
    )
    if value == float("inf"):
        return Best(None, float(bound), nodes=int(nodes))
    return Best(float(value), float(bound), tuple(int(count) for count in layout), int(nodes))
