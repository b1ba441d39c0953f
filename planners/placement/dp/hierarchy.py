"""Devices within devices: the dense program, level by level.

A device of level l holds a stage that is itself a chain of stages on its devices of level l - 1. With h(i, j) the
best value of the stage from ideal i to ideal j inside a parent of level l, a device of level l + 1 that holds it on
r replicas has the load

    max( f c(i, j) / r + sync(r),  h(i, j) / r )

where f is the level's factor on transfers: what happens inside is shared among the replicas, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....instances.placement.cluster import Level
from .dense import Chain, Pairs, Stage


@dataclass(frozen=True)
class Nested:
    """A stage and, above the lowest level, the stages inside it."""

    stage: Stage
    inner: tuple[Nested, ...]


def transitions(levels: Sequence[Level], cpus: int) -> int:
    """How often the program goes over all pairs of ideals, for each ideal to start from."""
    return sum(level.devices * (level.devices + 1) // 2 for level in levels) * (cpus + 1)


class Hierarchy:
    """The tables of all levels for one lattice. The first kind of the model are the accelerators."""

    def __init__(self, pairs: Pairs, levels: Sequence[Level], tick: Callable[[], None] = lambda: None) -> None:
        import numpy as np

        self.pairs, self.levels, self.tick = pairs, levels, tick
        self.kinds = pairs.lattice.model.kinds
        self.cut: Any = np.maximum(sum(pairs.cut), 0.0)
        self.inside: list[Any] = []
        """inside[l - 1]: h of level l, for all levels below the highest."""
        for number in range(len(levels) - 1):
            self.inside.append(self._within(number))

    def solve(self) -> tuple[float, list[Nested]] | None:
        """Stages from the last to the first; None where nothing fits."""
        top = len(self.levels) - 1
        last = self.pairs.lattice.count - 1
        accelerators = self._on_accelerators()
        kinds = [kind for kind in range(len(self.kinds)) if kind != 0 or not accelerators]
        counts = [self.levels[top].devices] * accelerators + [self.kinds[kind].count for kind in kinds]
        replicas = [self._replicas(top)] * accelerators + [range(1, 2)] * len(kinds)
        plain = {kind: self.pairs.load(kind, 1) for kind in kinds}
        cached = {r: self.load(top, r) for r in self._replicas(top)} if accelerators else {}

        def loads(kind: int, devices: int) -> Any:
            return cached[devices] if accelerators and kind == 0 else plain[kinds[kind - accelerators]]

        chain = Chain(loads, counts, replicas, last + 1, tick=self.tick)
        value = chain.value(last)
        if not math.isfinite(value):
            return None
        return value, [
            self._opened(stage, top) if accelerators and stage.kind == 0 else Nested(stage, ())
            for stage in chain.stages(last)
        ]

    def _on_accelerators(self) -> int:
        return 1 if self.kinds[0].pays else 0

    def load(self, number: int, replicas: int) -> Any:
        """Load of a stage on devices of level `number` + 1, all that is inside it included."""
        import numpy as np

        level = self.levels[number]
        own = level.transfer_factor * self.cut
        if number == 0:
            own = own + self.pairs.work(0, 0)
        own = own / replicas
        if replicas > 1:
            assert level.sync_bandwidth is not None, "only asked for where replicas can be synchronised"
            own = own + self.pairs.sync(replicas, level.sync_bandwidth)
        if number == 0:
            return np.where(self.pairs.possible(0), own, np.inf)
        return np.maximum(own, self.inside[number - 1] / replicas)

    def _replicas(self, number: int) -> range:
        level = self.levels[number]
        return range(1, (level.devices if level.sync_bandwidth is not None else 1) + 1)

    def _chain(self, number: int, source: int, table: dict[int, Any]) -> Chain:
        return Chain(
            lambda kind, devices: table[devices],
            [self.levels[number].devices],
            [self._replicas(number)],
            self.pairs.lattice.count,
            source,
        )

    def _within(self, number: int) -> Any:
        """h: from each ideal, the best chain of stages on the devices of one parent."""
        import numpy as np

        table = {r: self.load(number, r) for r in self._replicas(number)}
        count = self.pairs.lattice.count
        best = np.full((count, count), np.inf)
        for source in range(count):
            best[source] = self._chain(number, source, table).values()
            best[source, source] = np.inf
            self.tick()
        return best

    def _opened(self, stage: Stage, number: int) -> Nested:
        """The stage with what is inside it."""
        if number == 0:
            return Nested(stage, ())
        table = {r: self.load(number - 1, r) for r in self._replicas(number - 1)}
        inner = self._chain(number - 1, stage.smaller, table).stages(stage.larger)
        return Nested(stage, tuple(self._opened(part, number - 1) for part in inner))
