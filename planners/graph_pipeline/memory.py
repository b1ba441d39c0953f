"""Memory of a graph pipeline in whole numbers, so that loops may add and compare it without slack: see `amounts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...instances.base.amounts import as_written, whole_amounts
from ...instances.graph_pipeline.problem import GraphPipelineProblem

# Sums stay below this, so that 64 bits hold them.
MOST = 2**62


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """A stage on d devices with i samples in flight fits where d x fixed + i x stashes <= limits[d], in a unit of ours.

    `exact`: it fits by the true sizes if and only if it fits here. Otherwise all that fits by them fits here, too.
    """

    fixed: tuple[int, ...]
    """What each device holds of each operator's weights."""
    stashes: tuple[int, ...]
    """What all devices of a stage hold of each operator for a sample in flight."""
    limits: Mapping[int, int]
    """Memory of all devices of a stage less their workspace, by their number; below 0: nothing fits."""
    exact: bool
    hair: int
    """More than rounding has taken off what any stage holds."""

    def inside(self) -> GraphMemory:
        """The memory less `hair`: what fits into this one fits by the true sizes."""
        if self.exact:
            return self
        return replace(self, limits={d: limit - self.hair for d, limit in self.limits.items()})


def whole_graph_memory(problem: GraphPipelineProblem, degrees: Iterable[int], most: int = MOST) -> GraphMemory:
    """The memory for stages with these numbers of devices; what any of them holds stays below `most`."""
    degrees, count = tuple(degrees), len(problem.operators)
    nothing = (0,) * count
    if problem.memory_bytes is None:
        return GraphMemory(nothing, nothing, dict.fromkeys(degrees, 0), True, 0)
    room = as_written(problem.memory_bytes) - as_written(problem.workspace_bytes)
    if room < 0:
        return GraphMemory(nothing, nothing, dict.fromkeys(degrees, -1), True, 0)
    copies = as_written(problem.weight_copies)
    amounts = [copies * as_written(x.weight_bytes) for x in problem.operators]
    amounts += [as_written(x.stash_bytes) for x in problem.operators]
    repeated = max(*degrees, problem.mini_batch)
    whole = whole_amounts(amounts, [d * room for d in degrees], most, repeated)
    limits = {d: limit for d, limit in zip(degrees, whole.limits, strict=True) if limit is not None}
    return GraphMemory(whole.amounts[:count], whole.amounts[count:], limits, whole.exact, 2 * count * repeated)
