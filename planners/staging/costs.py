"""What stages of a staging problem cost and hold, as the dynamic programs count it.

Written from the definition, as are models and referee, so nothing of theirs may be imported: first what links carry,
then memory in whole numbers, then the loads of stages, computed when they are asked for.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...instances.base.amounts import MOST_EXACT, as_written, whole_amounts
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import Configuration, Layer, StagingProblem

# Each edge is crossed twice: by its activation, and later by the gradient.
TRIPS = 2.0

# A scatter or a gather counts each byte twice: it leaves one device and enters another.
ROUND = 2.0


def sync_seconds(problem: StagingProblem, replicas: int, samples: int, bandwidth: float) -> float:
    """Time to synchronize a byte of weights, per micro-batch and times the replicas.

    Once in `samples` micro-batches gradients are scattered and then weights gathered. With ZeRO 2 gradients are
    scattered in every micro-batch; with ZeRO 3 weights are also gathered twice in each, and not in the end.
    """
    at_updates = {2: 1, 3: 0}.get(problem.zero, 2)
    in_passes = {2: 1, 3: 3}.get(problem.zero, 0)
    sent = ROUND * at_updates * (replicas - 1) / samples / bandwidth
    return sent + ROUND * in_passes * (replicas - 1) / replicas / bandwidth if in_passes else sent


def upper_load(problem: StagingProblem, inside: int, copies: int, bandwidth: float) -> float:
    """Time per micro-batch on the links above level 1, for a stage of these layers (as bits) in so many copies."""
    crossing = sum(
        edge.bytes
        for (u, v), edge in zip(problem.arcs, problem.edges, strict=True)
        if (inside >> u & 1) != (inside >> v & 1)
    )
    if copies == 1:
        return TRIPS * crossing / bandwidth
    weights = sum(_whole(layer) for v, layer in enumerate(problem.layers) if inside >> v & 1)
    rounds = 3 if problem.zero == 3 else 2
    return (TRIPS * crossing + ROUND * rounds * weights * (copies - 1) / copies) / (copies * bandwidth)


def _whole(layer: Layer) -> float:
    """Bytes of the layer's weights: the most of a configuration on the fewest devices, times these devices."""
    fewest = min(t for t, ways in layer.configurations.items() if ways)
    return fewest * max(way.weight_bytes for way in layer.configurations[fewest])


# ---- Memory in whole numbers --------------------------------------------------------------------------------------
# Memory of a staging problem in whole numbers, so that loops may add and compare it without slack: see `amounts`.


ROUNDED_MEMORY = "memory has more digits than are counted: bounds are for a hair more of it, plans for a hair less"

# What is held for each micro-batch in flight, and what is held besides, in the whole units of `StagingMemory`.
Bytes = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StagingMemory:
    """`exact`: a stage fits just where the whole numbers say so. Otherwise all that fits in truth fits here, too."""

    ways: tuple[Mapping[int, tuple[Bytes, ...]], ...]
    """By layer (its position) and degree, in the order of the layer's configurations."""
    limits: tuple[int | None, ...]
    """Memory of a device of each type; None: no limit."""
    exact: bool
    hair: int
    """Upper bound on what rounding has taken off the memory of any stage."""
    divided: tuple[Mapping[int, tuple[Mapping[int, int], ...]], ...] = ()
    """Like `ways`, but by number of copies: the part that each copy of a stage holds of what they divide (ZeRO); empty:
    nothing is divided."""
    gathered: Mapping[int, int] = field(default_factory=dict)
    """By degree, what a device needs besides where copies divide their weights (ZeRO 3)."""

    def held(self, v: int, t: int, copies: int) -> tuple[Bytes, ...]:
        """Bytes of each configuration of layer `v` with degree `t`, in their order, in a stage with so many
        copies."""
        ways = self.ways[v].get(t, ())
        if not self.divided:
            return ways
        parts = self.divided[v].get(t, ())
        return tuple((each, fixed + part[copies]) for (each, fixed), part in zip(ways, parts, strict=True))

    def limit(self, kind: int, t: int, copies: int) -> int | None:
        """What layers may take of a device; None: there is no limit."""
        limit = self.limits[kind]
        return limit if limit is None or copies == 1 else limit - self.gathered.get(t, 0)

    def inside(self) -> StagingMemory:
        """The memory with limits that are smaller by the hair: what fits into this one fits in truth."""
        limits = tuple(None if limit is None else limit - self.hair for limit in self.limits)
        return self if self.exact else replace(self, limits=limits)


def whole_memory(problem: StagingProblem, in_flight: int, most: int = MOST_EXACT) -> StagingMemory:
    """The memory in whole numbers. What a stage holds with up to so many micro-batches in flight, even one with all
    layers, stays below `most`."""
    limits = [kind.memory_bytes for kind in problem.types]
    finite = [limit for limit in limits if limit is not None]
    if not finite:
        nothing = tuple(
            {t: ((0, 0),) * len(ways) for t, ways in layer.configurations.items()} for layer in problem.layers
        )
        return StagingMemory(nothing, (None,) * len(limits), True, 0)
    every = [way for layer in problem.layers for ways in layer.configurations.values() for way in ways]
    parts = _parts({way.memory_divided for way in every}, problem)
    gathered = _gathered(problem)
    amounts = sorted(
        {amount for way in every for amount in (way.memory_per_batch, way.memory_fixed)}.union(
            *(of.values() for of in parts.values()), gathered.values()
        )
    )
    # What is above all limits is cut, so that "forbidden" written as a huge number costs no digits.
    ceiling = max(finite)
    worst = sum(_worst(layer.configurations, in_flight, ceiling) for layer in problem.layers)
    copies = len(problem.layers) * (in_flight + 1) + (len(problem.layers) + 1) * bool(problem.zero)
    total = copies * sum(Fraction(min(amount, ceiling)) for amount in amounts)
    # `whole_amounts` bounds `total`, whose share `worst` is what can come together; half of it, for rounding.
    room = int(most * total / worst / 2) if worst else most
    whole = whole_amounts(amounts, finite, room, copies)
    unit_of = dict(zip(amounts, whole.amounts, strict=True))
    units = {amount: {n: unit_of[part] for n, part in of.items()} for amount, of in parts.items()}
    bounds = iter(whole.limits)
    return StagingMemory(
        tuple(
            {
                t: tuple((unit_of[way.memory_per_batch], unit_of[way.memory_fixed]) for way in ways)
                for t, ways in layer.configurations.items()
            }
            for layer in problem.layers
        ),
        tuple(None if limit is None else _cut(next(bounds), most) for limit in limits),
        whole.exact,
        copies,
        tuple(
            {t: tuple(units[way.memory_divided] for way in ways) for t, ways in layer.configurations.items()}
            for layer in problem.layers
            if problem.zero
        ),
        {t: unit_of[amount] for t, amount in gathered.items()},
    )


def _parts(amounts: set[float], problem: StagingProblem) -> dict[float, dict[int, Fraction]]:
    """What each of so many copies holds of an amount that they divide: equal parts in whole bytes."""
    if not problem.zero:
        return {}
    parts: dict[float, dict[int, Fraction]] = {}
    for amount, whole in ((amount, as_written(amount)) for amount in amounts):
        parts[amount] = {n: min(whole, Fraction(-(-whole // n))) for n in range(2, problem.devices + 1)}
        parts[amount][1] = whole
    return parts


def _gathered(problem: StagingProblem) -> dict[int, Fraction]:
    """By degree, three times the weights of the largest layer, where weights are divided: its own, the next
    ones and a gradient."""
    if problem.zero != 3:
        return {}
    weights = [
        (t, way.weight_bytes)
        for layer in problem.layers
        for t, ways in layer.configurations.items()
        for way in ways
    ]
    return {t: 3 * as_written(max(size for degree, size in weights if degree == t)) for t, _ in weights}


def _worst(configurations: Mapping[int, tuple[Configuration, ...]], in_flight: int, ceiling: float) -> Fraction:
    """The most that a layer can hold; larger amounts than the ceiling count as much."""
    return max(
        Fraction(min(way.memory_per_batch, ceiling)) * in_flight
        + Fraction(min(way.memory_fixed, ceiling))
        + Fraction(min(way.memory_divided, ceiling))
        for ways in configurations.values()
        for way in ways
    )


def _cut(limit: int | None, most: int) -> int:
    """The limit, or `most`, which no sum reaches: a larger number might not be exact as a float."""
    assert limit is not None, "only finite limits were given"
    return min(limit, most)


# ---- What a stage between two downsets costs ----------------------------------------------------------------------
# What a stage between two downsets costs on devices of a type, by micro-batches in flight; computed when asked for.


class Shape(NamedTuple):
    """What a stage consists of: its layers (as bits), its type of devices, and its tensor-parallel degree."""

    inside: int
    kind: int
    tensor_parallel: int
    above: int = 1
    """Copies of what is around it, which divide with its replicas what they hold alike (ZeRO)."""


class _Row(NamedTuple):
    """A layer's configurations and their times, transfers included."""

    ways: tuple[Configuration, ...]
    times: tuple[float, ...]


class _Span(NamedTuple):
    """Largest numbers of micro-batches in flight for which a stage has memory in its fastest configurations, and in
    any."""

    free_until: int
    fits_until: int
    cost: float
    """Time of the fastest ways, without the synchronization of weights."""
    weights: float


class StageCosts:
    """Loads of stages: knapsacks over their layers' configurations, each solved once."""

    def __init__(self, problem: StagingProblem, semantics: str, memory: StagingMemory) -> None:
        self.problem, self.semantics, self.memory = problem, semantics, memory
        self.most = min(problem.devices, problem.micro_batches)
        """The largest sum of degrees."""
        self._near: list[list[tuple[int, int]]] = [[] for _ in problem.layers]
        for number, (u, v) in enumerate(problem.arcs):
            self._near[u].append((number, v))
            self._near[v].append((number, u))
        self._of = cache(self._rows)
        self._held = cache(self._bytes)
        self._solved = cache(self._solve)
        self.floor = cache(self._floor)
        self.load = cache(self._load)
        self._span_of = cache(self._span)
        weights = (
            {way.weight_bytes for way in ways} for layer in problem.layers for ways in layer.configurations.values()
        )
        self._uniform = not problem.zero and all(len(sizes) < 2 for sizes in weights)
        """Do configurations of a layer and degree have the same weights, and hold the same in any number of replicas?
        Then the choice is the same for every d."""

    def possible(self, shape: Shape) -> bool:
        """Is there a configuration of the degree for each layer?"""
        return self._of(shape) is not None

    def _floor(self, shape: Shape) -> float:
        """No load on d replicas is below a d-th of this: the fastest configurations, and no weights."""
        rows = self._of(shape)
        return math.inf if rows is None else sum(min(row.times) for row in rows)

    def _load(self, shape: Shape, d: int, in_flight: int) -> float | None:
        """Time per micro-batch; None where nothing fits into the memory."""
        choice = self._choice(shape, d, in_flight)
        rows = self._of(shape)
        if choice is None or rows is None:
            return None
        total = sum(row.times[x] for row, x in zip(rows, choice.ways, strict=True))
        weights = sum(row.ways[x].weight_bytes for row, x in zip(rows, choice.ways, strict=True))
        return (total + self._sync(d) * weights) / d

    def ways(self, shape: Shape, d: int, in_flight: int) -> dict[int | str, str]:
        """The configurations behind the load, by layer."""
        choice, rows = self._choice(shape, d, in_flight), self._of(shape)
        assert choice is not None, "a stage of a plan has a load"
        assert rows is not None, "a stage of a plan has ways"
        pairs = zip(self.ids(shape.inside), rows, choice.ways, strict=True)
        return {v: row.ways[x].id for v, row, x in pairs}

    def ids(self, inside: int) -> list[int | str]:
        """Names of the layers, in topological order."""
        return [self.problem.layers[v].id for v in self._positions(inside)]

    def most_in_flight(self, shape: Shape, d: int, limit: float, most: int | None = None) -> int:
        """The most micro-batches in flight with which the load is within the limit; 0: there are none.

        Loads grow with them: less memory leaves less choice. `most`: the caller needs no higher answer.
        """
        high = -(-self.most // d) if most is None else most
        if self.floor(shape) * (1 - SAFETY) > limit * d:
            return 0
        span = self._span_of(shape, 1 if self._uniform else d)
        if span.free_until and (span.cost + self._sync(d) * span.weights) / d > limit * (1 + SAFETY):
            return 0  # not even the fastest ways of all
        low, high = min(span.free_until, high), min(span.fits_until, high)
        if low and not self._within(shape, d, low, limit):
            return 0
        if high <= low or self._within(shape, d, high, limit):
            return high
        between = range(low + 1, high)
        return low + bisect_left(between, True, key=lambda number: not self._within(shape, d, number, limit))

    def _span(self, shape: Shape, d: int) -> _Span:
        """The span of a stage, from what single ways hold, without a knapsack."""
        rows, limit, held = self._of(shape), self._limit(shape, d), self._held(shape, d)
        if rows is None:
            return _Span(0, 0, math.inf, 0.0)
        sync = self._sync(d)
        free = [
            min(range(len(row.ways)), key=lambda x: (row.times[x] + sync * row.ways[x].weight_bytes, of[x]))
            for row, of in zip(rows, held, strict=True)
        ]
        chosen = list(zip(rows, free, strict=True))
        cost, weights = sum(row.times[x] for row, x in chosen), sum(row.ways[x].weight_bytes for row, x in chosen)
        if limit is None:
            return _Span(self.most, self.most, cost, weights)
        each, fixed = (sum(of[x][part] for of, x in zip(held, free, strict=True)) for part in (0, 1))
        until = (limit - fixed) // each if each else self.most * (fixed <= limit)
        numbers = range(1, self.most + 1)
        fit = bisect_right(
            numbers, limit, key=lambda number: sum(min(a * number + b for a, b in of) for of in held)
        )
        return _Span(max(0, min(until, self.most)), fit, cost, weights)

    def _within(self, shape: Shape, d: int, in_flight: int, limit: float) -> bool:
        load = self.load(shape, d, in_flight)
        return load is not None and load <= limit

    def _sync(self, d: int) -> float:
        """Time per byte of weights, times d."""
        samples = d if self.semantics == "paper" else self.problem.micro_batches
        return sync_seconds(self.problem, d, samples, self.problem.bandwidth)

    def _limit(self, shape: Shape, d: int) -> int | None:
        """What the layers of the stage may take of a device."""
        return self.memory.limit(shape.kind, shape.tensor_parallel, d * shape.above)

    def _bytes(self, shape: Shape, d: int) -> list[tuple[Bytes, ...]]:
        """What the configurations of each layer hold with d replicas."""
        return [self.memory.held(v, shape.tensor_parallel, d * shape.above) for v in self._positions(shape.inside)]

    def _choice(self, shape: Shape, d: int, in_flight: int) -> Choice | None:
        return self._solved(shape, 1 if self._uniform else d, in_flight)

    def _solve(self, shape: Shape, d: int, in_flight: int) -> Choice | None:
        rows = self._of(shape)
        if rows is None:
            return None
        sync = self._sync(d)
        costs = [
            [time + sync * way.weight_bytes for way, time in zip(row.ways, row.times, strict=True)] for row in rows
        ]
        memories = [[each * in_flight + fixed for each, fixed in of] for of in self._held(shape, d)]
        return choose(costs, memories, self._limit(shape, d))

    def _rows(self, shape: Shape) -> list[_Row] | None:
        speed = self.problem.types[shape.kind].speed
        rows = []
        for v in self._positions(shape.inside):
            ways = tuple(self.problem.layers[v].configurations.get(shape.tensor_parallel, ()))
            times = tuple(way.time / speed + self._crossing(way, v, shape.inside) for way in ways)
            rows.append(_Row(ways, times))
        return rows if all(row.ways for row in rows) else None

    def _crossing(self, way: Configuration, v: int, inside: int) -> float:
        """Time of the tensors between layer v and layers outside the stage."""
        moved = 0.0
        for number, u in self._near[v]:
            if not inside >> u & 1:
                edge = self.problem.edges[number]
                comes = self.problem.arcs[number][1] == v
                sides = (way.gather_in, edge.source) if comes else (way.gather_out, edge.target)
                moved += edge.bytes + sides[0].get(sides[1], 0.0)
        return TRIPS * moved / self.problem.bandwidth

    def _positions(self, inside: int) -> list[int]:
        return [v for v in self.problem.topological_order if inside >> v & 1]


# ---- One way to run for each layer of a stage: least cost within a memory, exactly -------------------------
# A multiple-choice knapsack, solved by merging the layers' choices one by one and keeping what no other choice beats
# in both cost and memory. A Lagrangian bound (memory at the price that the linear relaxation sets) drops what cannot
# come below a greedy solution.

# Relative: choices whose costs differ by less are the same choice to us (equal layers in another order).
EQUAL = 1e-12


class Choice(NamedTuple):
    """Total cost, and for each layer the position of its way."""

    cost: float
    ways: tuple[int, ...]


def choose(costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int | None) -> Choice | None:
    """The cheapest choice whose memories, in whole units, sum to at most `limit`; None where no choice fits."""
    fastest = [
        min(range(len(row)), key=lambda x: (row[x], sizes[x])) for row, sizes in zip(costs, memories, strict=True)
    ]
    if limit is None or sum(sizes[x] for sizes, x in zip(memories, fastest, strict=True)) <= limit:
        return Choice(sum(row[x] for row, x in zip(costs, fastest, strict=True)), tuple(fastest))
    if sum(min(sizes) for sizes in memories) > limit:
        return None
    price, ways = _greedy(costs, memories, limit, fastest)
    greedy = Choice(sum(row[x] for row, x in zip(costs, ways, strict=True)), tuple(ways))
    return _merge(costs, memories, limit, price, greedy)


def _greedy(
    costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int, fastest: Sequence[int]
) -> tuple[float, list[int]]:
    """Steps along the lower hulls of the layers, the cheapest saving first, until all fits: last price and choice."""
    steps = sorted(
        (step for v, first in enumerate(fastest) for step in _hull(costs[v], memories[v], v, first)),
        key=lambda step: step[0],
    )
    ways, price = list(fastest), 0.0
    used = sum(sizes[x] for sizes, x in zip(memories, ways, strict=True))
    for price, v, way in steps:  # noqa: B007 - the price of the last step is wanted
        used += memories[v][way] - memories[v][ways[v]]
        ways[v] = way
        if used <= limit:
            break
    return price, ways


def _hull(costs: Sequence[float], memories: Sequence[int], v: int, first: int) -> list[tuple[float, int, int]]:
    """Steps (cost per byte saved, layer, way) along the lower hull; their prices rise."""
    steps: list[tuple[float, int, int]] = []
    now = first
    while True:
        smaller = [x for x in range(len(costs)) if memories[x] < memories[now]]
        if not smaller:
            return steps
        best = min(smaller, key=lambda x: ((costs[x] - costs[now]) / (memories[now] - memories[x]), memories[x]))
        steps.append(((costs[best] - costs[now]) / (memories[now] - memories[best]), v, best))
        now = best


def _merge(
    costs: Sequence[Sequence[float]], memories: Sequence[Sequence[int]], limit: int, price: float, greedy: Choice
) -> Choice:
    # What the layers still to come cost at least, memory priced; and the least memory they need. Whole numbers add up
    # exactly as floats; prices may make sums far larger than the costs that are compared, and their rounding with them.
    priced = [min(c + price * m for c, m in zip(*row, strict=True)) for row in zip(costs, memories, strict=True)]
    ahead = np.append(np.cumsum(priced[::-1])[::-1], 0.0)
    need = np.append(np.cumsum([min(sizes) for sizes in memories][::-1])[::-1], 0.0)
    most = greedy.cost + EQUAL * (greedy.cost + ahead[0] + price * limit)
    cost, memory = np.zeros(1), np.zeros(1)
    history: list[tuple[Any, Any]] = []
    for v, (row, sizes) in enumerate(zip(costs, memories, strict=True)):
        total = (cost[:, None] + np.asarray(row)).ravel()
        held = (memory[:, None] + np.asarray(sizes)).ravel()
        bound = total + ahead[v + 1] - price * (limit - held)
        keep = (held + need[v + 1] <= limit) & (bound <= most)
        kept = np.flatnonzero(keep)
        # What costs less than everything that needs no more memory, by memory.
        order = kept[np.lexsort((total[kept], held[kept]))]
        least = np.minimum.accumulate(np.append(np.inf, total[order][:-1]))
        kept = order[total[order] < least * (1 - EQUAL)]
        history.append((kept // len(row), kept % len(row)))
        cost, memory = total[kept], held[kept]
    fitting = np.flatnonzero(memory <= limit)
    if not len(fitting):
        return greedy
    at = int(fitting[np.argmin(cost[fitting])])
    if cost[at] >= greedy.cost:
        return greedy
    least_cost, ways = float(cost[at]), list[int]()
    for parents, chosen in reversed(history):
        ways.append(int(chosen[at]))
        at = int(parents[at])
    return Choice(least_cost, tuple(reversed(ways)))
