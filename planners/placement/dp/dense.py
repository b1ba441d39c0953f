"""The program on a small lattice: the load of every stage in one table, then device after device.

Nothing is pruned, so this is exact for every problem that the model can say: several kinds, replicas, forward and
backward loads apart. `hierarchy` builds on it for devices within devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

from .lattice import Lattice
from .model import Kind

LoadsOf = Callable[[int, int], Any]
"""(kind, replicas) -> load[smaller, larger], infinite where there is no such stage."""


@dataclass(frozen=True)
class Stage:
    """A stage between two ideals on `devices` devices of a kind (more than one: replicas)."""

    kind: int
    devices: int
    smaller: int
    larger: int


@dataclass(frozen=True)
class Pairs:
    """Work, transfers and memory of the stages between all pairs of ideals."""

    lattice: Lattice

    @cached_property
    def nested(self) -> Any:
        """nested[i, j]: ideal i is a proper part of ideal j."""
        import numpy as np

        bits, count = self.lattice.bits, self.lattice.count
        inside = np.ones((count, count), dtype=bool)
        for word in range(bits.shape[1]):
            inside &= (bits[:, None, word] & ~bits[None, :, word]) == 0
        np.fill_diagonal(inside, False)
        return inside

    @cached_property
    def cut(self) -> tuple[Any, ...]:
        """cut[part][i, j]: transfers of the stage j without i, by the formula of `lattice`."""
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

    @cached_property
    def weight(self) -> Any:
        return self._difference(self.lattice.model.weights)

    def possible(self, kind: int) -> Any:
        """Nested, supported, and within the memory."""
        device = self.lattice.model.kinds[kind]
        allowed = self.nested.copy()
        if not all(device.supported):
            allowed &= self._difference([float(not ok) for ok in device.supported]) < 0.5
        if math.isfinite(device.capacity):
            allowed &= self._difference(self.lattice.model.sizes) <= device.capacity
            self._ask_true_sizes(device, allowed)
        return allowed

    def _ask_true_sizes(self, device: Kind, allowed: Any) -> None:
        """Where sizes had to be rounded down: the stages that rounding may have let through."""
        import numpy as np

        model = self.lattice.model
        if model.true_sizes is None or device.true_capacity is None:
            return
        lost = 1 + sum(map(len, model.members))  # less than one for each node, and for the memory
        near = allowed & (self._difference(model.sizes) > device.capacity - lost)
        for i, j in np.argwhere(near):
            allowed[i, j] = self._true_prefix[j] - self._true_prefix[i] <= device.true_capacity

    @cached_property
    def _true_prefix(self) -> list[int]:
        lattice, sizes = self.lattice, self.lattice.model.true_sizes or ()
        return [sum(sizes[g] for g in lattice.groups_between(0, j)) for j in range(lattice.count)]

    def load(self, kind: int, replicas: int, part: int | None = None) -> Any:
        """Load per device of a stage; synchronisation counts as backward. None: all parts together."""
        import numpy as np

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
        return 4.0 * (replicas - 1) / replicas * self.weight / (replicas * bandwidth)

    def _difference(self, values: Sequence[float]) -> Any:
        prefix = self.lattice.prefix(values)
        return prefix[None, :] - prefix[:, None]


def replicas_of(lattice: Lattice, kind: int) -> range:
    """How many devices of a kind a stage may take."""
    model = lattice.model
    device = model.kinds[kind]
    return range(1, (device.count if model.sync_bandwidth is not None and device.pays else 1) + 1)


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
        import numpy as np

        self.loads, self.counts, self.replicas = loads, counts, replicas
        start = np.full(ideals, np.inf)
        start[source] = 0.0
        self.best: dict[tuple[int, ...], Any] = {(0,) * len(counts): start}
        for used in product(*(range(count + 1) for count in counts)):
            if any(used):
                self.best[used] = self._with(used, ideals)
                tick()

    def _with(self, used: tuple[int, ...], ideals: int) -> Any:
        import numpy as np

        value = np.full(ideals, np.inf)
        for before, kind, devices in self._steps(used):
            reached = np.flatnonzero(np.isfinite(self.best[before]))
            if len(reached):
                loads = self.loads(kind, devices)[reached]
                np.minimum(value, np.maximum(self.best[before][reached, None], loads).min(axis=0), out=value)
        return value

    def _steps(self, used: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int, int]]:
        for kind, count in enumerate(used):
            for devices in self.replicas[kind]:
                if devices <= count:
                    yield (*used[:kind], count - devices, *used[kind + 1 :]), kind, devices

    def value(self, target: int) -> float:
        return min(float(best[target]) for best in self.best.values())

    def values(self) -> Any:
        """The best value for every target."""
        import numpy as np

        return np.minimum.reduce(list(self.best.values()))

    def stages(self, target: int) -> list[Stage]:
        """The stages behind the best value of a target, last to first."""
        used = min(self.best, key=lambda used: float(self.best[used][target]))
        found = []
        while any(used):
            before, stage = min(self._explanations(used, target), key=lambda option: option[0])[1:]
            found.append(stage)
            used, target = before, stage.smaller
        return found

    def _explanations(self, used: tuple[int, ...], target: int) -> Iterator[tuple[float, tuple[int, ...], Stage]]:
        import numpy as np

        for before, kind, devices in self._steps(used):
            values = np.maximum(self.best[before], self.loads(kind, devices)[:, target])
            source = int(np.argmin(values))
            yield float(values[source]), before, Stage(kind, devices, source, target)


def flat(pairs: Pairs, tick: Callable[[], None] = lambda: None) -> tuple[float, list[Stage]] | None:
    """The optimum for max-load on one level; None where nothing fits."""
    return _solve(pairs, lambda kind, devices: pairs.load(kind, devices), tick)


def _solve(pairs: Pairs, loads: LoadsOf, tick: Callable[[], None]) -> tuple[float, list[Stage]] | None:
    lattice = pairs.lattice
    kinds = range(len(lattice.model.kinds))
    replicas = [replicas_of(lattice, kind) for kind in kinds]
    counts = [kind.count for kind in lattice.model.kinds]
    chain = Chain(cache(loads), counts, replicas, lattice.count, tick=tick)
    value = chain.value(lattice.count - 1)
    return (value, chain.stages(lattice.count - 1)) if math.isfinite(value) else None


def gpipe(
    pairs: Pairs, tick: Callable[[], None] = lambda: None, found: Callable[[float, list[Stage]], None] | None = None
) -> tuple[float, list[Stage]] | None:
    """The optimum for max FW + max BW: along the front of the two.

    With F the limit on the forward load and b(F) the least backward load under it, the best sum is the least of
    f + b over the front's points. From one point we go on with F just below its f; when the least forward load of
    all plus b no longer beats the best sum, no later point can.
    """
    import numpy as np

    forward = cache(lambda kind, devices: pairs.load(kind, devices, 0))
    backward = cache(lambda kind, devices: pairs.load(kind, devices, 1))

    def under(value: LoadsOf, other: LoadsOf, limit: float) -> tuple[float, list[Stage]] | None:
        return _solve(pairs, lambda k, r: np.where(other(k, r) <= limit, value(k, r), np.inf), tick)

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
