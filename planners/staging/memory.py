"""Memory of a staging problem in whole numbers, so that loops may add and compare it without slack: see `amounts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ...instances.base.amounts import MOST_EXACT, as_written, whole_amounts
from ...instances.staging.problem import Configuration, StagingProblem

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
    return {amount: {n: _part(as_written(amount), n) for n in range(1, problem.devices + 1)} for amount in amounts}


def _part(amount: Fraction, copies: int) -> Fraction:
    return amount if copies == 1 else min(amount, Fraction(-(-amount // copies)))


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
