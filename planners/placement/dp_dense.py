"""The program on a small lattice: the load of every stage in one table, then device after device.

Nothing is pruned, so this is exact for every problem that the model can state: several kinds, replicas, forward and
backward loads apart. `Hierarchy` builds on it for devices within devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from ...instances.placement.problem import Level
from .ideals import Lattice, replicas_of

# (kind, replicas) -> load[smaller, larger], infinite where there is no such stage.
LoadsOf = Callable[[int, int], Any]


@dataclass(frozen=True)
class Stage:
    """A stage between two ideals on `devices` devices of a kind (more than one: replicas)."""

    kind: int
    devices: int
    smaller: int
    larger: int
    inner: tuple[Stage, ...] = ()
    """The stages inside it, from the last to the first: those of the level below, where there are several levels."""


@dataclass(frozen=True)
class Pairs:
    """Work, transfers and memory of the stages between all pairs of ideals."""

    lattice: Lattice

    @cached_property
    def nested(self) -> Any:
        """nested[i, j]: ideal i is a proper part of ideal j."""
        bits, count = self.lattice.bits, self.lattice.count
        inside = np.ones((count, count), dtype=bool)
        for word in range(bits.shape[1]):
            inside &= (bits[:, None, word] & ~bits[None, :, word]) == 0
        np.fill_diagonal(inside, False)
        return inside

    @cached_property
    def cut(self) -> tuple[Any, ...]:
        """cut[part][i, j]: transfers of the stage j without i, by the formula of `ideals`."""
        cuts = [here[:, None] + here[None, :] for here in self.lattice.cut]
        for row in self.lattice.rows:
            inside = row.inside
            opened = (inside > 0) & (inside < row.pins)
            equal = inside[:, None] == inside[None, :]
            both = opened[:, None] & opened[None, :]
            block = slice(row.start, row.end)
            cuts[row.part][block, block] -= row.cost * (both * (1.0 + equal))
        return tuple(cuts)

    def work(self, kind: int, part: int) -> Any:
        return self._difference(self.lattice.model.kinds[kind].times[part])

    def possible(self, kind: int) -> Any:
        """possible[i, j]: is j without i a stage that a device of the kind supports and has the memory for?"""
        device = self.lattice.model.kinds[kind]
        allowed = self.nested.copy()
        if not all(device.supported):
            allowed &= self._difference([float(not ok) for ok in device.supported]) < 0.5
        if math.isfinite(device.capacity):
            sizes = self._difference(self.lattice.model.sizes)
            allowed &= sizes <= device.capacity
            if self.lattice.model.true_sizes is not None and device.true_capacity is not None:
                # Sizes had to be rounded down: exclude stages that exceed the memory by their true sizes. What they
                # lost is less than one for each node, and for the memory.
                lost = 1 + sum(map(len, self.lattice.model.members))
                for i, j in np.argwhere(allowed & (sizes > device.capacity - lost)):
                    allowed[i, j] = self._true_prefix[j] - self._true_prefix[i] <= device.true_capacity
        return allowed

    @cached_property
    def _true_prefix(self) -> list[int]:
        lattice, sizes = self.lattice, self.lattice.model.true_sizes or ()
        return [sum(sizes[g] for g in lattice.groups_between(0, j)) for j in range(lattice.count)]

    def load(self, kind: int, replicas: int, part: int | None = None) -> Any:
        """Load of each device of a stage in one part, or None: in all; synchronisation counts as backward."""
        model = self.lattice.model
        device = model.kinds[kind]
        parts = range(model.parts) if part is None else (part,)
        total = np.zeros((self.lattice.count, self.lattice.count))
        for q in parts:
            total += self.work(kind, q)
            if device.pays:
                total += np.maximum(self.cut[q], 0.0)
        total /= replicas
        if replicas > 1 and (part is None or part == model.parts - 1):
            assert model.sync_bandwidth is not None, "only asked for where replicas can be synchronised"
            total += self.sync(replicas, model.sync_bandwidth)
        return np.where(self.possible(kind), total, np.inf)

    def sync(self, replicas: int, bandwidth: float) -> Any:
        """Time per sample that replicas take to agree on their weights."""
        weights = self._difference(self.lattice.model.weights)
        return 4.0 * (replicas - 1) / replicas * weights / (replicas * bandwidth)

    def _difference(self, values: Sequence[float]) -> Any:
        prefix = self.lattice.prefix(values)
        return prefix[None, :] - prefix[:, None]


class Chain:
    """The best chain of stages from one ideal to all others, for each way to use the devices."""

    def __init__(
        self,
        loads: LoadsOf,
        counts: Sequence[int],
        replicas: Sequence[Sequence[int]],
        ideals: int,
        source: int = 0,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.loads, self.counts, self.replicas = loads, counts, replicas
        start = np.full(ideals, np.inf)
        start[source] = 0.0
        self.best: dict[tuple[int, ...], Any] = {(0,) * len(counts): start}
        for used in product(*(range(count + 1) for count in counts)):
            if any(used):
                self.best[used] = self._with(used, ideals)
                tick()

    def _with(self, used: tuple[int, ...], ideals: int) -> Any:
        """The best value for every target with exactly these numbers of devices."""
        value = np.full(ideals, np.inf)
        for before, kind, devices in self._steps(used):
            reached = np.flatnonzero(np.isfinite(self.best[before]))
            if len(reached):
                loads = self.loads(kind, devices)[reached]
                np.minimum(value, np.maximum(self.best[before][reached, None], loads).min(axis=0), out=value)
        return value

    def _steps(self, used: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """For each last stage of a chain: the devices used before it, its kind, and its number of devices."""
        for kind, count in enumerate(used):
            for devices in self.replicas[kind]:
                if devices <= count:
                    yield (*used[:kind], count - devices, *used[kind + 1 :]), kind, devices

    def value(self, target: int) -> float:
        return min(float(best[target]) for best in self.best.values())

    def values(self) -> Any:
        """The best value for every target."""
        return np.minimum.reduce(list(self.best.values()))

    def stages(self, target: int) -> list[Stage]:
        """The stages behind the best value of a target, last to first."""
        used = min(self.best, key=lambda used: float(self.best[used][target]))
        stages = []
        while any(used):
            least = math.inf
            for before, kind, devices in self._steps(used):
                values = np.maximum(self.best[before], self.loads(kind, devices)[:, target])
                source = int(np.argmin(values))
                if values[source] < least:
                    least, stage, rest = float(values[source]), Stage(kind, devices, source, target), before
            stages.append(stage)
            used, target = rest, stage.smaller
        return stages


def flat(pairs: Pairs, tick: Callable[[], None], loads: LoadsOf | None = None) -> tuple[float, list[Stage]] | None:
    """The optimum for max-load on one level, with other loads than the pairs' own if there are such; None where
    nothing fits."""
    lattice, model = pairs.lattice, pairs.lattice.model
    replicas = [range(1, replicas_of(model, kind) + 1) for kind in model.kinds]
    counts = [kind.count for kind in model.kinds]
    chain = Chain(cache(loads or pairs.load), counts, replicas, lattice.count, tick=tick)
    value = chain.value(lattice.count - 1)
    return (value, chain.stages(lattice.count - 1)) if math.isfinite(value) else None


def gpipe(
    pairs: Pairs, tick: Callable[[], None] = lambda: None, found: Callable[[float, list[Stage]], None] | None = None
) -> tuple[float, list[Stage]] | None:
    """The optimum for max FW + max BW, along the front of the two; `found` is told every better plan.

    A point of the front is the least backward load b under a limit F on the forward load, and the least forward load f
    with that b. The optimum is the least f + b. From one point we go on with F just below its f; when the least forward
    load of all plus b no longer beats the best sum, no later point can.
    """
    forward = cache(lambda kind, devices: pairs.load(kind, devices, 0))
    backward = cache(lambda kind, devices: pairs.load(kind, devices, 1))

    def under(value: LoadsOf, other: LoadsOf, limit: float) -> tuple[float, list[Stage]] | None:
        return flat(pairs, tick, lambda k, r: np.where(other(k, r) <= limit, value(k, r), np.inf))

    least = under(forward, forward, math.inf)
    if least is None:
        return None
    best: tuple[float, list[Stage]] | None = None
    limit = math.inf
    while (point := under(backward, forward, limit)) is not None:
        if best is not None and least[0] + point[0] >= best[0]:
            break
        answer = under(forward, backward, point[0] * (1 + 1e-15))
        assert answer is not None, "the plan that gave the limit keeps it"
        if best is None or answer[0] + point[0] < best[0]:
            best = (answer[0] + point[0], answer[1])
            if found is not None:
                found(*best)
        limit = answer[0] * (1 - 1e-12)
        if limit <= 0 or answer[0] <= least[0]:
            break
    return best


# ---- Devices within devices: the dense program, level by level ---------------------------------------------
# A device of level l holds a stage that is itself a chain of stages on its devices of level l - 1. With h(i, j) the
# best value of the stage from ideal i to ideal j inside a parent of level l, a device of level l + 1 that holds it on
# r replicas has the load
#
#     max( f c(i, j) / r + sync(r),  h(i, j) / r )
#
# where c(i, j) are the transfers of the stage and f is the level's factor on them. Replicas share what is inside,
# too.


def transitions(levels: Sequence[Level], cpus: int) -> int:
    """How often the program goes over all pairs of ideals, for each ideal from which a chain starts."""
    return sum(level.devices * (level.devices + 1) // 2 for level in levels) * (cpus + 1)


class Hierarchy:
    """The tables of all levels for one lattice. The first kind of the model are the accelerators."""

    def __init__(self, pairs: Pairs, levels: Sequence[Level], tick: Callable[[], None] = lambda: None) -> None:
        self.pairs, self.levels, self.tick = pairs, levels, tick
        self.kinds = pairs.lattice.model.kinds
        self.cut: Any = np.maximum(sum(pairs.cut), 0.0)
        self.inside: list[Any] = []
        """inside[l - 1]: h of level l, for all levels below the highest."""
        for number in range(len(levels) - 1):
            self.inside.append(self._within(number))

    def solve(self) -> tuple[float, list[Stage]] | None:
        """Stages from the last to the first; None where nothing fits."""
        top = len(self.levels) - 1
        last = self.pairs.lattice.count - 1
        accelerators = int(self.kinds[0].pays)  # kinds that are accelerators: none where there are CPUs alone
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
            self._opened(stage, top) if accelerators and stage.kind == 0 else stage for stage in chain.stages(last)
        ]

    def load(self, number: int, replicas: int) -> Any:
        """Load of a stage on devices of level `number` + 1, all that is inside it included."""
        level = self.levels[number]
        load = level.transfer_factor * self.cut
        if number == 0:
            load = load + self.pairs.work(0, 0)
        load = load / replicas
        if replicas > 1:
            assert level.sync_bandwidth is not None, "only asked for where replicas can be synchronised"
            load = load + self.pairs.sync(replicas, level.sync_bandwidth)
        if number == 0:
            return np.where(self.pairs.possible(0), load, np.inf)
        return np.maximum(load, self.inside[number - 1] / replicas)

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
        table = {r: self.load(number, r) for r in self._replicas(number)}
        count = self.pairs.lattice.count
        best = np.full((count, count), np.inf)
        for source in range(count):
            best[source] = self._chain(number, source, table).values()
            best[source, source] = np.inf
            self.tick()
        return best

    def _opened(self, stage: Stage, number: int) -> Stage:
        """The stage with the stages inside it."""
        if number == 0:
            return stage
        table = {r: self.load(number - 1, r) for r in self._replicas(number - 1)}
        inner = self._chain(number - 1, stage.smaller, table).stages(stage.larger)
        return replace(stage, inner=tuple(self._opened(part, number - 1) for part in inner))
