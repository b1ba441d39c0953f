"""The CP-SAT models of stage graphs, built in a worker from plain data.

Uniform. Literal x[c]: column c is a stage. Integer h[v]: stages on the longest way from v's stage to the end, that
stage included; along every arc that is cut it falls, so the graph of stages has no circle. Literal b[s]: s is the
micro-batch size of all stages. The objective is the time of the slowest column, in whole steps.

Mixed: stages have schedules of their own. Literal z[v,b,k], the schedule of v's stage; integer w[v,b], the
micro-batches in flight of v's stage if its size is b, so that i[v], the sum of b w[v,b], is whole micro-batches. Along
every arc that is cut, i falls by what the two schedules ask for. Needs are not cut at the mini-batch: above a stage
that reaches it every stage does, and a column with room for the whole mini-batch has room for any need.

Iterations: what is minimised bounds them. Integer F[v]: the time before the first forward pass of v's stage: one
forward pass of each stage on the longest way to it, and the transfers between them. G[v]: the same for the backward
passes that follow its last one. Between the two the stage runs all its passes, one after the other, so that an
iteration takes no less than F + passes + G, and F + passes + synchronisation. That holds for 1F1B, for every kFkB and
for any samples in flight. A plan may take longer, where its passes wait for each other in between: the referee says
how long it takes, and the optimum of this model is a bound for all plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..native import NativeBuilder, NativeBuilt
from .columns import Schedule, extra

BUILDER = f"{__name__}:build"


class StageModel(NativeBuilder):
    """One method per family of constraints."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.scale = data["scale"]
        self.count, self.devices = data["operators"], data["devices"]
        self.arcs = [tuple(arc) for arc in data["arcs"]]
        self.columns = [tuple(column) for column in data["columns"]]
        """(members, devices, micro-batch, time in steps, highest)."""
        self.floor = data["floor"]
        self.x = [self.flag(f"x[{n}]") for n in range(len(self.columns))]
        self.h = [self.integer(f"h[{v}]", 1, self.devices) for v in range(self.count)]
        self.of: list[list[int]] = [[] for _ in range(self.count)]
        for n, column in enumerate(self.columns):
            for v in range(self.count):
                if column[0] >> v & 1:
                    self.of[v].append(n)

    def build(self) -> NativeBuilt:
        for v in range(self.count):
            self.model.add_exactly_one(self.x[n] for n in self.of[v])
        self.model.add(sum(column[1] * x for column, x in zip(self.columns, self.x, strict=True)) == self.devices)
        self.one_size()
        self.heights()
        self.bottleneck()
        return NativeBuilt(self.model, self.variables, self.scale, 0.0, 1.0 / self.scale)

    def one_size(self) -> None:
        """All stages have the same micro-batch size."""
        sizes = sorted({column[2] for column in self.columns})
        if len(sizes) == 1:
            return
        chosen = {b: self.flag(f"b[{b}]") for b in sizes}
        self.model.add_exactly_one(chosen.values())
        for column, x in zip(self.columns, self.x, strict=True):
            self.model.add_implication(x, chosen[column[2]])

    def heights(self) -> None:
        """Equal within a stage, within the memory of its column, falling along arcs between stages."""
        for u, v in self.arcs:
            together = sum(self.x[n] for n in self.of[u] if self.columns[n][0] >> v & 1)
            self.model.add(self.h[u] >= self.h[v] + 1 - together)
        for v in range(self.count):
            self.model.add(self.h[v] <= sum(self.columns[n][4] * self.x[n] for n in self.of[v]))
        self.equal_within_stages(self.h)

    def equal_within_stages(self, *rows: list[Any]) -> None:
        """Operators of one stage have the same entry in each of the rows, which have an entry for every operator."""
        literals_of_set: dict[int, list[Any]] = {}
        for column, x in zip(self.columns, self.x, strict=True):
            literals_of_set.setdefault(column[0], []).append(x)
        for members, literals in literals_of_set.items():
            first, *others = [v for v in range(self.count) if members >> v & 1]
            if others:
                is_stage = self.any_of(literals)
                for v in others:
                    for row in rows:
                        self.model.add(row[v] == row[first]).only_enforce_if(is_stage)

    def any_of(self, literals: list[Any]) -> Any:
        """A literal that is true where one of these is; no two of them are ever true together."""
        if len(literals) == 1:
            return literals[0]
        either = self.flag()
        self.model.add(sum(literals) == either)
        return either

    def bottleneck(self) -> None:
        top = max((column[3] for column in self.columns), default=0)
        slowest = self.integer("T", min(self.floor, top), top)
        for v in range(self.count):
            self.model.add(slowest >= sum(self.columns[n][3] * self.x[n] for n in self.of[v]))
        self.model.minimize(slowest)


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
        self.mixed_heights()

    def mixed_heights(self) -> None:
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


class IterationModel(StageModel):
    """The model of stages in which the time of a column is that of all its passes in an iteration."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.top = data["top"]
        self.passes = data["passes"]
        """(forward, backward, synchronisation) of each column in steps, the first two for one micro-batch."""
        self.delays = [{(b, d): steps for b, d, steps in row} for row in data["delays"]]
        """Time of sending each operator's output, by micro-batch and devices of the stage at either end."""

    def bottleneck(self) -> None:
        self.longest_iteration()

    def longest_iteration(self) -> None:
        before, after = ([self.model.new_int_var(0, self.top, "") for _ in range(self.count)] for _ in "FG")
        for u, v in self.arcs:
            for row, backward in ((before, 0), (after, 1)):
                self.follow(row, u, v, backward)
        self.equal_within_stages(before, after)
        longest = self.integer("T", min(self.floor, self.top), self.top)
        for v in range(self.count):
            busy = before[v] + sum(self.columns[n][3] * self.x[n] for n in self.of[v])
            self.model.add(longest >= busy + after[v])
            self.model.add(longest >= busy + sum(self.passes[n][2] * self.x[n] for n in self.of[v]))
        work = sum(column[1] * column[3] * x for column, x in zip(self.columns, self.x, strict=True))
        self.model.add(self.devices * longest >= work)
        self.model.minimize(longest)

    def follow(self, row: list[Any], u: int, v: int, backward: int) -> None:
        """Where the arc from u to v is cut, a pass of u's stage and a transfer lie between their entries in the row.
        The links are as many as the smaller stage has devices: the transfer takes no less than with those of either."""
        left = [n for n in self.of[u] if not self.columns[n][0] >> v & 1]
        entered = [n for n in self.of[v] if not self.columns[n][0] >> u & 1]
        run = sum(self.passes[n][backward] * self.x[n] for n in left)
        for ends in (left, entered):
            sent = sum(self.delays[u][self.columns[n][2], self.columns[n][1]] * self.x[n] for n in ends)
            self.model.add(row[v] >= row[u] + run + sent)


# The model to build, by what the data say.
MODELS = {"uniform": StageModel, "mixed": MixedStageModel, "iteration": IterationModel}


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker. Columns are (members, devices, micro-batch, time in steps) and the greatest height; in the
    mixed model k and the most samples in flight instead of that."""
    return MODELS[data["model"]](data).build()
