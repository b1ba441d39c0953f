"""The program on a small lattice: the load of every stage in one table, then device after device.

Nothing is pruned, so this is exact for every problem that the model can state: several kinds, forward and backward
loads apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from .ideals import Lattice

# kind -> load[smaller, larger], infinite where there is no such stage.
LoadsOf = Callable[[int], Any]


@dataclass(frozen=True)
class Stage:
    """A stage between two ideals on a device of a kind."""

    kind: int
    smaller: int
    larger: int


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

    def load(self, kind: int, part: int | None = None) -> Any:
        """Load of the device of a stage in one part, or None: in all."""
        device = self.lattice.model.kinds[kind]
        total = np.zeros((self.lattice.count, self.lattice.count))
        for q in range(self.lattice.model.parts) if part is None else (part,):
            total += self.work(kind, q)
            if device.pays:
                total += np.maximum(self.cut[q], 0.0)
        return np.where(self.possible(kind), total, np.inf)

    def _difference(self, values: Sequence[float]) -> Any:
        prefix = self.lattice.prefix(values)
        return prefix[None, :] - prefix[:, None]


class Chain:
    """The best chain of stages from the empty ideal to all others, for each way to use the devices."""

    def __init__(
        self, loads: LoadsOf, counts: Sequence[int], ideals: int, tick: Callable[[], None] = lambda: None
    ) -> None:
        self.loads = loads
        start = np.full(ideals, np.inf)
        start[0] = 0.0
        self.best: dict[tuple[int, ...], Any] = {(0,) * len(counts): start}
        for used in product(*(range(count + 1) for count in counts)):
            if any(used):
                self.best[used] = self._with(used, ideals)
                tick()

    def _with(self, used: tuple[int, ...], ideals: int) -> Any:
        """The best value for every target with exactly these numbers of devices."""
        value = np.full(ideals, np.inf)
        for before, kind in self._steps(used):
            reached = np.flatnonzero(np.isfinite(self.best[before]))
            if len(reached):
                loads = self.loads(kind)[reached]
                np.minimum(value, np.maximum(self.best[before][reached, None], loads).min(axis=0), out=value)
        return value

    def _steps(self, used: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
        """For each last stage of a chain: the devices used before it, and its kind."""
        for kind, count in enumerate(used):
            if count:
                yield (*used[:kind], count - 1, *used[kind + 1 :]), kind

    def value(self, target: int) -> float:
        return min(float(best[target]) for best in self.best.values())

    def stages(self, target: int) -> list[Stage]:
        """The stages behind the best value of a target, last to first."""
        used = min(self.best, key=lambda used: float(self.best[used][target]))
        stages = []
        while any(used):
            least = math.inf
            for before, kind in self._steps(used):
                values = np.maximum(self.best[before], self.loads(kind)[:, target])
                source = int(np.argmin(values))
                if values[source] < least:
                    least, stage, rest = float(values[source]), Stage(kind, source, target), before
            stages.append(stage)
            used, target = rest, stage.smaller
        return stages


def flat(pairs: Pairs, tick: Callable[[], None], loads: LoadsOf | None = None) -> tuple[float, list[Stage]] | None:
    """The optimum for max-load on one level, with other loads than the pairs' own if there are such; None where
    nothing fits."""
    lattice, model = pairs.lattice, pairs.lattice.model
    chain = Chain(cache(loads or pairs.load), [kind.count for kind in model.kinds], lattice.count, tick)
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
    forward = cache(lambda kind: pairs.load(kind, 0))
    backward = cache(lambda kind: pairs.load(kind, 1))

    def under(value: LoadsOf, other: LoadsOf, limit: float) -> tuple[float, list[Stage]] | None:
        return flat(pairs, tick, lambda kind: np.where(other(kind) <= limit, value(kind), np.inf))

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
