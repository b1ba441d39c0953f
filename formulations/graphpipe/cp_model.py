"""The CP-SAT model of stage graphs, built in a worker from plain data.

Literal x[c]: column c is a stage. Integer h[v]: stages on the longest way from v's stage to the end, that stage
included; along every arc that is cut it falls, so the graph of stages has no circle. Literal b[s]: s is the micro-batch
size of all stages. The objective is the time of the slowest column, in whole steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..native import NativeBuilder, NativeBuilt

BUILDER = f"{__name__}:build"


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return StageModel(data).build()


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
