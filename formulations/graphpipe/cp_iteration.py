"""The CP-SAT model of the shortest iteration, built in a worker from plain data; what it minimises bounds iterations.

Integer F[v]: the time before the first forward pass of v's stage: one forward pass of each stage on the longest way to
it, and the transfers between them. G[v]: the same for the backward passes that follow its last one. Between the two the
stage runs all its passes, one after the other, so that an iteration takes no less than

    F + passes + G    and    F + passes + synchronisation.

That holds for 1F1B, for every kFkB and for any samples in flight. A plan may take longer, where its passes wait for
each other in between: the referee says how long it takes, and the optimum of this model is a bound for all plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..native import NativeBuilt
from .cp_model import StageModel

BUILDER = f"{__name__}:build"


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return IterationModel(data).build()


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
