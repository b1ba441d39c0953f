"""The CP-SAT model of stage graphs whose stages have schedules of their own.

Beside the literals and heights of the uniform model: literal z[v,b,k], the schedule of v's stage; integer w[v,b], the
micro-batches in flight of v's stage if its size is b, so that i[v], the sum of b w[v,b], is whole micro-batches. Along
every arc that is cut, i falls by what the two schedules ask for. Needs are not cut at the mini-batch: above a stage
that reaches it every stage does, and a column with room for the whole mini-batch has room for any need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..native import NativeBuilt
from .cp_model import StageModel
from .schedules import Schedule, extra

BUILDER = f"{__name__}:build"


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker. Columns are (members, devices, micro-batch, time in steps, k, most in flight)."""
    return MixedStageModel(data).build()


class MixedStageModel(StageModel):
    """The uniform model with other rows for sizes, heights and memory."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.batch = data["mini_batch"]
        self.schedules: list[Schedule] = sorted({(column[2], column[4]) for column in self.columns})
        largest = max(b for b, _ in self.schedules)
        rise = max(extra(x, y) for x in self.schedules for y in self.schedules) + largest
        self.limit = self.batch + min(self.devices, self.count) * rise
        """No stage needs more samples in flight."""

    def one_size(self) -> None:
        """No rows, since each stage has its own micro-batch size."""

    def heights(self) -> None:
        """Heights serve only to forbid circles of stages; what must be in flight is counted in samples."""
        cuts = {arc: self._cut(*arc) for arc in self.arcs}
        for (u, v), cut in cuts.items():
            self.model.add(self.h[u] >= self.h[v] + 1).only_enforce_if(cut)
        limited = any(column[5] < self.batch for column in self.columns)
        samples = self._samples() if limited else []
        if limited:
            self._falling(cuts, samples)
        self.equal_within_stages(*([self.h, samples] if limited else [self.h]))

    def _cut(self, u: int, v: int) -> Any:
        """Literal: u and v are in different stages."""
        cut = self.flag()
        self.model.add_exactly_one([cut, *(self.x[n] for n in self.of[u] if self.columns[n][0] >> v & 1)])
        return cut

    def _samples(self) -> list[Any]:
        """i[v]: whole micro-batches of the stage's size, within the memory of its column."""
        rows = []
        for v in range(self.count):
            parts = []
            for b in sorted({self.columns[n][2] for n in self.of[v]}):
                own = [(self.columns[n], self.x[n]) for n in self.of[v] if self.columns[n][2] == b]
                part = self.integer(f"w[{v},{b}]", 0, self.limit // b)
                self.model.add(part >= sum(column[4] * x for column, x in own))
                self.model.add(part <= sum(self._room(column) // b * x for column, x in own))
                parts.append(b * part)
            samples = self.model.new_int_var(1, self.limit, "")
            self.model.add(samples == sum(parts))
            rows.append(samples)
        return rows

    def _room(self, column: tuple[int, ...]) -> int:
        return self.limit if column[5] >= self.batch else column[5]

    def _falling(self, cuts: Mapping[tuple[int, int], Any], samples: list[Any]) -> None:
        """Along every arc that is cut, samples fall by what the schedules of its two stages ask for."""
        chosen = [self._schedules_of(v) for v in range(self.count)]
        for (u, v), cut in cuts.items():
            for schedule, literal in chosen[u].items():
                more = sum(extra(schedule, lower) * other for lower, other in chosen[v].items())
                self.model.add(samples[u] >= samples[v] + more).only_enforce_if([cut, literal])

    def _schedules_of(self, v: int) -> dict[Schedule, Any]:
        """The literals z[v,b,k], which say the schedule of each operator's stage."""
        columns: dict[Schedule, list[Any]] = {}
        for n in self.of[v]:
            columns.setdefault((self.columns[n][2], self.columns[n][4]), []).append(self.x[n])
        return {schedule: self.any_of(literals) for schedule, literals in sorted(columns.items())}
