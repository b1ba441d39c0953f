"""`equi` on devices within devices: each level has stages of equal size and equal degrees, the same everywhere.

The layers are cut into equal groups as on a flat network. A way to divide the cluster says for every level into how
many stages a device of the next level is cut, and how many copies each stage has; the groups are the stages of level 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...instances.staging.leveled_plan import LeveledPlan, LeveledStage
from ...instances.staging.problem import StagingLevel, StagingProblem
from .groupings import configured, groupings, usual_degrees


@dataclass(frozen=True, slots=True)
class Share:
    """What each device of the next level does with its devices of this one."""

    stages: int
    copies: int
    """Of each stage."""

    @property
    def devices(self) -> int:
        """With one device for each copy."""
        return self.stages * self.copies


def equal_trees(problem: StagingProblem, variant: str, tensor_parallel: bool) -> Iterator[LeveledPlan]:
    """Every grouping with every way to divide the levels alike, with and without recomputation everywhere."""
    most = problem.micro_batches if variant == "precise" else math.inf
    degrees = usual_degrees(problem, tensor_parallel)
    for groups in groupings(problem):
        for shares in _divisions(problem.levels, len(groups)):
            if not problem.replication and any(share.copies > 1 for share in shares):
                continue
            if len(groups) * math.prod(share.copies for share in shares) > most:
                continue
            for t in degrees:
                if shares[0].devices * t <= problem.levels[0].devices:
                    for again in (False, True):
                        chosen = configured(problem, groups, t, again)
                        if chosen is not None:
                            leaves = [LeveledStage(tuple(ways), shares[0].copies, t, ways) for ways in chosen]
                            yield LeveledPlan(_tree(leaves, shares))


def _divisions(levels: Sequence[StagingLevel], stages: int) -> Iterator[tuple[Share, ...]]:
    """For each level, the innermost first, how it is shared, so that there are so many stages of level 1."""
    if not levels:
        if stages == 1:
            yield ()
        return
    for here in range(1, min(stages, levels[0].devices) + 1):
        if stages % here == 0:
            for above in _divisions(levels[1:], stages // here):
                for copies in range(1, levels[0].devices // here + 1):
                    yield (Share(here, copies), *above)


def _tree(stages: Sequence[LeveledStage], shares: Sequence[Share]) -> tuple[LeveledStage, ...]:
    """From the stages of level 1 upwards: as many of them as a device divides into make a stage of the next level."""
    for inner, outer in pairwise(shares):
        parts = [tuple(stages[i : i + inner.stages]) for i in range(0, len(stages), inner.stages)]
        stages = [_around(part, outer.copies) for part in parts]
    return tuple(stages)


def _around(children: tuple[LeveledStage, ...], copies: int) -> LeveledStage:
    return LeveledStage(tuple(node_id for child in children for node_id in child.nodes), copies, children=children)
