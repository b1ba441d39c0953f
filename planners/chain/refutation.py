"""Why an allocation fits no period below the cut-off, in as few words as possible: the fewer, the more it excludes.

First each GPU alone (the others may run as they like), then pairs of GPUs. What is refuted is cut down to a core:
layers, neighbours and cuts are left out one after the other as long as the rest is still refuted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from ...formulations.beaumont.fixed_allocation import Known
from ...formulations.beaumont.integer_chain import IntegerChain
from .allocation import least_period
from .schedule import fit, slack_between
from .solver import Solver

CHECK_LIMIT_S = 10.0
"""A part that takes longer is not worth refuting: the whole is asked instead."""


@dataclass
class Refuter:
    """Answers "does this part fit that period?" and remembers; may be shared by threads."""

    chain: IntegerChain
    solver: Solver
    longest_refuted: dict[Known, int] = field(default_factory=dict)
    shortest_fit: dict[Known, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refutes(self, known: Known, period: int) -> bool:
        """Is it proven that what is known fits no period up to this one?"""
        with self._lock:
            if period <= self.longest_refuted.get(known, 0):
                return True
            shortest = self.shortest_fit.get(known)
            if shortest is not None and period >= shortest:
                return False
        slack = slack_between(self.chain, min(period, least_period(self.chain)) - 1, period)
        answer = fit(self.chain, known, period, self.solver, CHECK_LIMIT_S, slack)
        with self._lock:
            if answer.fits is False:
                self.longest_refuted[known] = max(period, self.longest_refuted.get(known, 0))
            elif answer.fits:
                self.shortest_fit[known] = min(period, self.shortest_fit.get(known, period))
        return answer.fits is False

    def cores(self, allocation: Sequence[int], period: int, gpus: int) -> list[Known]:
        """A core for each set of so many GPUs that cannot fit the period, whatever the others do."""
        groups = Known.whole(allocation).groups
        if gpus >= len(groups):
            return []
        found = (self._core(allocation, chosen, period) for chosen in combinations(groups, gpus))
        return [core for core in found if core is not None]

    def _core(self, allocation: Sequence[int], groups: tuple[frozenset[int], ...], period: int) -> Known | None:
        known = Known(groups, tuple(self._apart(groups, g) for g in range(len(groups))))
        if self.refutes(known, period):
            return self._shrink(known, period)
        cuts = self._other_cuts(allocation, frozenset().union(*groups))
        if cuts and self.refutes(replace(known, cuts=cuts), period):
            return self._shrink(replace(known, cuts=cuts), period)
        return None

    def _apart(self, groups: Sequence[frozenset[int]], g: int) -> frozenset[int]:
        """The neighbours of a group that are in none: what is sent across these borders, is."""
        inside = frozenset().union(*groups)
        neighbours = {n for layer in groups[g] for n in (layer - 1, layer + 1) if 0 <= n < self.chain.layers}
        return frozenset(neighbours - inside)

    def _other_cuts(self, allocation: Sequence[int], inside: frozenset[int]) -> frozenset[int]:
        """Cut borders between two layers of other GPUs where something is sent."""
        return frozenset(
            b
            for b in range(1, self.chain.layers)
            if not {b - 1, b} & inside and allocation[b - 1] != allocation[b] and self.chain.border_transfer(b)
        )

    def _shrink(self, known: Known, period: int) -> Known:
        """Leave out what is not needed, one thing after the other; large cores first lose layers."""
        removed = True
        while removed:
            removed = False
            for smaller in _smaller(known):
                if self.refutes(smaller, period):
                    known, removed = smaller, True
                    break
        return known


def _smaller(known: Known) -> Iterator[Known]:
    """The same without one fact."""
    for cut in sorted(known.cuts):
        yield replace(known, cuts=known.cuts - {cut})
    for g, group in enumerate(known.groups):
        for layer in sorted(group):
            if len(group) > 1:
                yield _without_layer(known, g, layer)
    for g, apart in enumerate(known.apart):
        for layer in sorted(apart):
            others = tuple(a - {layer} if h == g else a for h, a in enumerate(known.apart))
            yield replace(known, apart=others)


def _without_layer(known: Known, g: int, layer: int) -> Known:
    """A layer of which nothing is known any more; nor is anything of neighbours that only it had."""
    groups = tuple(group - {layer} if h == g else group for h, group in enumerate(known.groups))
    near = {n for member in groups[g] for n in (member - 1, member + 1)}
    apart = tuple(a & near if h == g else a for h, a in enumerate(known.apart))
    return replace(known, groups=groups, apart=apart)
