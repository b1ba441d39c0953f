"""A plan on devices within devices as rows, one per stage of each level: what tables and pictures of it show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..leveled_plan import LeveledPlan, LeveledStage
from .levels import LeafCost, LevelCost, LeveledEvaluation


@dataclass(frozen=True, slots=True)
class LeveledRow:
    """A stage of some level with what it costs."""

    path: tuple[int, ...]
    """Its number on its own level, behind those of the stages that it is inside of."""
    stage: LeveledStage
    cost: LevelCost
    leaf: LeafCost | None
    """On level 1, where the layers are; None higher up."""
    share: float
    """Of all micro-batches, what reaches one copy of the stage around it."""

    @property
    def name(self) -> str:
        """As 0.1: stage 1 inside of stage 0."""
        return ".".join(map(str, self.path))

    @property
    def load(self) -> float:
        """Per micro-batch of the whole, so that rows of all levels can be compared."""
        return self.cost.load * self.share


def leveled_rows(plan: LeveledPlan, evaluation: LeveledEvaluation) -> Iterator[LeveledRow]:
    """Depth first: a stage, then what is inside of it."""
    return _rows(plan.stages, evaluation.stages, iter(evaluation.leaves), (), 1.0)


def _rows(
    stages: tuple[LeveledStage, ...],
    costs: tuple[LevelCost, ...],
    leaves: Iterator[LeafCost],
    above: tuple[int, ...],
    share: float,
) -> Iterator[LeveledRow]:
    for number, (stage, cost) in enumerate(zip(stages, costs, strict=True)):
        path = (*above, number)
        yield LeveledRow(path, stage, cost, next(leaves) if cost.level == 1 else None, share)
        yield from _rows(stage.children, cost.children, leaves, path, share / stage.data_parallel)
