"""Translations between paths through the suffix sets, or paths within paths, and staged plans, or trees of stages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...instances.base.checks import NodeId
from ...instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from ..contract import Values
from .candidates import Candidates, Column
from .columns import Arcs, Counts, Part, flush_values, size_of
from .stages import StageBook


def planned_stage(book: StageBook, column: Column, carried: int) -> PlannedStage:
    """The stage of a column with its best configurations; `carried`: copies of all later stages."""
    layers, d, t = book.problem.layers, column.d, column.t
    stage = book.stage(column.members, t, column.kind, column.copies)
    chosen = stage.configurations(d, -(-(carried + column.copies) // column.copies))
    order = [v for v in book.problem.topological_order if column.members >> v & 1]
    names = {layers[v].id: chosen[v] for v in order}
    kind = book.problem.device_types[column.kind].name if book.problem.device_types else None
    return PlannedStage(tuple(names), d, t, names, kind)


class Asked(NamedTuple):
    """A stage of a plan that a column is sought for."""

    nodes: tuple[NodeId, ...]
    d: int
    t: int
    kind: int = 0
    above: tuple[int, ...] = ()


class PathTranslator:
    """Values of the columns' model <-> plans."""

    def __init__(self, book: StageBook, candidates: Candidates, unit: float, counts: Counts = ()) -> None:
        self.book, self.candidates, self.unit, self.counts = book, candidates, unit, counts
        self._kinds: list[str | None] = [kind.name for kind in book.problem.device_types] or [None]
        self.index = {members: i for i, members in enumerate(candidates.lattice.sets)}
        self.by_ends: dict[tuple[int, int], list[int]] = {}
        for a, column in enumerate(candidates.columns):
            self.by_ends.setdefault((column.inner, column.outer), []).append(a)

    def decode(self, values: Values) -> StagedPlan:
        stages = [planned_stage(self.book, column, carried) for column, carried in self.used(values)]
        return StagedPlan(tuple(reversed(stages)))

    def used(self, values: Values) -> Iterator[tuple[Column, int]]:
        """The columns of the path, the last stage first, with the copies behind each."""
        columns = self.candidates.columns
        used = {c.inner: c for a, c in enumerate(columns) if values.get(f"x[{a}]", 0.0) > 0.5}
        end, carried = 0, 0
        while end in used:
            column = used[end]
            yield column, carried
            carried += column.copies
            end = column.outer

    def encode(self, plan: StagedPlan) -> Values | None:
        """Stages that the columns leave out are replaced by columns that are no worse; None where there is none."""
        if any(stage.device_type not in self._kinds for stage in plan.stages):
            return None
        asked = [
            Asked(stage.nodes, stage.data_parallel, stage.tensor_parallel, self._kinds.index(stage.device_type))
            for stage in plan.stages
        ]
        values = self.path_values(asked)
        return None if values is None else self.with_flush(values)

    def with_flush(self, values: dict[str, float]) -> dict[str, float] | None:
        """The values with those of the flush, where there is one; None for a number of slots that is left out."""
        copies = [c.copies for a, c in enumerate(self.candidates.columns) if values[f"x[{a}]"]]
        flushed = flush_values(self.counts, copies, values["T"])
        return None if flushed is None else values | flushed

    def path_values(self, stages: Sequence[Asked]) -> dict[str, float] | None:
        """x, g and T of stages in execution order."""
        values = {f"x[{a}]": 0.0 for a in range(len(self.candidates.columns))}
        values |= {f"g[{a}]": 0.0 for a, column in enumerate(self.candidates.columns) if column.inner}
        end, carried, largest = 0, 0, self.candidates.floor
        for stage in reversed(stages):
            outer = self.after(end, stage.nodes)
            a = None if outer is None else self._stand_in(end, outer, carried, stage)
            if a is None or outer is None:
                return None
            column = self.candidates.columns[a]
            values[f"x[{a}]"] = 1.0
            if end:
                values[f"g[{a}]"] = float(carried)
            largest = max(largest, column.cost)
            carried += column.copies
            end = outer
        if end != len(self.candidates.lattice.sets) - 1:
            return None
        return {**values, "T": largest / self.unit}

    def after(self, end: int, nodes: Iterable[NodeId]) -> int | None:
        """The index of the suffix set that adds these layers to the one at `end`; None: there is none."""
        position = self.book.problem.index
        members = self.candidates.lattice.sets[end]
        for node_id in nodes:
            if node_id not in position:
                return None
            members |= 1 << position[node_id]
        return self.index.get(members)

    def _stand_in(self, inner: int, outer: int, carried: int, stage: Asked) -> int | None:
        """The cheapest column that uses no more devices and degrees than the stage does."""
        columns = self.candidates.columns

        def serves(column: Column) -> bool:
            alike = (column.kind, column.above) == (stage.kind, stage.above)
            fits = column.d <= stage.d and column.t * column.d <= stage.t * stage.d
            return alike and fits and column.low <= carried <= column.high

        able = [a for a in self.by_ends.get((inner, outer), ()) if serves(columns[a])]
        return min(able, key=lambda a: columns[a].cost, default=None)


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
        levels: list[list[tuple[str, int, Part]]] = [[] for _ in self.book.problem.levels]
        levels[0] = [(f"x[{a}]", a, column) for a, column in enumerate(self.candidates.columns)]
        for e, arc in enumerate(self.arcs):
            levels[arc.level].append((f"u[{e}]", e, arc))
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
