"""Translations between paths within paths and trees of stages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from ...instances.staging.plan import LeveledPlan, LeveledStage
from ..contract import Values
from .candidates import Candidates, Column
from .flush import Counts
from .nested import Arcs, Part, size_of
from .paths import Asked, PathTranslator, planned_stage
from .stages import StageBook


class _Known(NamedTuple):
    """A stage with the index of the suffix set of all later stages."""

    inner: int
    stage: LeveledStage


class TreeTranslator:
    """Values of the model with levels <-> plans."""

    def __init__(
        self, book: StageBook, candidates: Candidates, arcs: Arcs, unit: float, counts: Counts = ()
    ) -> None:
        self.book, self.candidates, self.arcs, self.unit = book, candidates, arcs, unit
        self.paths = PathTranslator(book, candidates, unit, counts)
        self.number = {(arc.level, arc.inner, arc.outer, arc.within): e for e, arc in enumerate(arcs)}

    def decode(self, values: Values) -> LeveledPlan:
        """Level by level; on each the last stage comes first."""
        parts = [_Known(column.inner, self._leaf(column, carried)) for column, carried in self.paths.used(values)]
        for level in range(1, len(self.book.problem.levels)):
            chosen = [
                arc for e, arc in enumerate(self.arcs) if arc.level == level and values.get(f"u[{e}]", 0.0) > 0.5
            ]
            joined = []
            for arc in sorted(chosen, key=lambda arc: arc.inner):
                inside = [part.stage for part in parts if arc.inner <= part.inner < arc.outer][::-1]
                nodes = tuple(node for stage in inside for node in stage.nodes)
                joined.append(_Known(arc.inner, LeveledStage(nodes, arc.d, children=tuple(inside))))
            parts = joined
        return LeveledPlan(tuple(part.stage for part in reversed(parts)))

    def _leaf(self, column: Column, carried: int) -> LeveledStage:
        stage = planned_stage(self.book, column, carried)
        return LeveledStage(stage.nodes, stage.data_parallel, stage.tensor_parallel, stage.configurations)

    def encode(self, plan: LeveledPlan) -> Values | None:
        """The plan as values of the model's variables; None where one of its stages is no column and no arc."""
        top = len(self.book.problem.levels) - 1
        leaves = [
            Asked(leaf.nodes, leaf.data_parallel, leaf.tensor_parallel, above=above)
            for leaf, above, level in _stages(plan.stages, (), top)
            if level == 0
        ]
        values = self.paths.path_values(leaves)
        if values is None:
            return None
        values |= {f"u[{e}]": 0.0 for e in range(len(self.arcs))}
        ends = dict.fromkeys(range(1, top + 1), 0)
        for stage, above, level in reversed(list(_stages(plan.stages, (), top))):
            if level == 0:
                continue
            outer = self.paths.after(ends[level], stage.nodes)
            e = self.number.get((level, ends[level], -1 if outer is None else outer, (stage.data_parallel, *above)))
            if e is None or outer is None:
                return None
            values[f"u[{e}]"] = 1.0
            values["T"] = max(values["T"], self.arcs[e].cost / self.unit)
            ends[level] = outer
        return self.paths.with_flush({**values, **self._carried(values)})

    def _carried(self, values: Values) -> Values:
        """Devices that are taken behind each stage in its stage of the next level."""
        carried: dict[str, float] = {}
        leaves: list[tuple[str, int, Part]] = [
            (f"x[{a}]", a, column) for a, column in enumerate(self.candidates.columns)
        ]
        levels = [leaves] + [
            [(f"u[{e}]", e, arc) for e, arc in enumerate(self.arcs) if arc.level == level]
            for level in range(1, len(self.book.problem.levels))
        ]
        for level, (here, around) in enumerate(itertools.pairwise(levels)):
            starts = {part.inner for name, _, part in around if values[name] > 0.5}
            taken = 0
            for name, number, part in sorted(here, key=lambda entry: entry[2].inner):
                chosen = values[name] > 0.5
                taken = 0 if chosen and part.inner in starts else taken
                if part.inner:
                    carried[f"k[{level},{number}]"] = float(taken) if chosen else 0.0
                taken += size_of(part) if chosen else 0
        return carried


def _stages(
    stages: tuple[LeveledStage, ...], above: tuple[int, ...], level: int
) -> Iterator[tuple[LeveledStage, tuple[int, ...], int]]:
    """All stages of a tree in execution order, each with the copies above it, nearest first, and its level."""
    for stage in stages:
        yield stage, above, level
        yield from _stages(stage.children, (stage.data_parallel, *above), level - 1)
