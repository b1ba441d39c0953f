"""From paths through the suffix sets to staged plans, and back."""

from __future__ import annotations

from ...instances.staging.plan import PlannedStage, StagedPlan
from ..contract import Values
from .candidates import Candidates, Column
from .stages import StageBook


def planned_stage(book: StageBook, members: int, t: int, d: int, in_flight: int) -> PlannedStage:
    """The stage with the configurations that are best with so many micro-batches in flight."""
    layers = book.problem.layers
    chosen = book.stage(members, t).configurations(d, in_flight)
    order = [v for v in book.problem.topological_order if members >> v & 1]
    return PlannedStage(tuple(layers[v].id for v in order), d, t, {layers[v].id: chosen[v] for v in order})


class PathTranslator:
    """Values of the columns' model <-> plans."""

    def __init__(self, book: StageBook, candidates: Candidates, unit: float) -> None:
        self.book = book
        self.candidates = candidates
        self.unit = unit
        self.index = {members: i for i, members in enumerate(candidates.lattice.sets)}
        self.by_ends: dict[tuple[int, int], list[int]] = {}
        for a, column in enumerate(candidates.columns):
            self.by_ends.setdefault((column.inner, column.outer), []).append(a)

    def decode(self, values: Values) -> StagedPlan:
        columns = self.candidates.columns
        used = {c.inner: c for a, c in enumerate(columns) if values.get(f"x[{a}]", 0.0) > 0.5}
        end, carried, stages = 0, 0, []
        while end in used:
            column = used[end]
            carried += column.d
            stages.append(planned_stage(self.book, column.members, column.t, column.d, -(-carried // column.d)))
            end = column.outer
        return StagedPlan(tuple(reversed(stages)))

    def encode(self, plan: StagedPlan) -> Values | None:
        """Stages that the columns leave out are replaced by columns that are no worse; None where there is none."""
        values = {f"x[{a}]": 0.0 for a in range(len(self.candidates.columns))}
        values |= {f"g[{a}]": 0.0 for a, column in enumerate(self.candidates.columns) if column.inner}
        end, carried, largest = 0, 0, self.candidates.floor
        for stage in reversed(plan.stages):
            outer = self._after(end, stage)
            a = None if outer is None else self._stand_in(end, outer, carried, stage)
            if a is None or outer is None:
                return None
            column = self.candidates.columns[a]
            values[f"x[{a}]"] = 1.0
            if end:
                values[f"g[{a}]"] = float(carried)
            largest = max(largest, column.cost)
            carried += column.d
            end = outer
        if end != len(self.candidates.lattice.sets) - 1:
            return None
        return {**values, "T": largest / self.unit}

    def _after(self, end: int, stage: PlannedStage) -> int | None:
        """The suffix set that begins with this stage."""
        position = self.book.problem.index
        members = self.candidates.lattice.sets[end]
        for node_id in stage.nodes:
            if node_id not in position:
                return None
            members |= 1 << position[node_id]
        return self.index.get(members)

    def _stand_in(self, inner: int, outer: int, carried: int, stage: PlannedStage) -> int | None:
        """The cheapest column that uses no more devices and degrees than the stage does."""
        columns = self.candidates.columns
        exact = self.book.problem.exact_batches

        def serves(column: Column) -> bool:
            fits = column.d == stage.data_parallel if exact else column.d <= stage.data_parallel
            devices = stage.data_parallel * stage.tensor_parallel
            return fits and column.devices <= devices and column.low <= carried <= column.high

        able = [a for a in self.by_ends.get((inner, outer), ()) if serves(columns[a])]
        return min(able, key=lambda a: columns[a].cost, default=None)
