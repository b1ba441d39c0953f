"""Column generation over the sets that one accelerator can hold: is a cut-off refuted, or do sets make up everything?

At a cut-off T the question is: are there so many sets of load at most T that, with the CPUs, they make up everything?
Sets may be taken in part (`master`), and new ones are found by the prices of the groups (`pricing`). If k accelerators
and all CPUs cannot even earn the prices of all groups, there is no plan of value T or less: for if there were one, its
devices would earn them. That holds for any prices, so it is checked in whole numbers, and each round may end by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ....formulations.tarnawski.groups import GroupProblem
from .graph import Tick
from .master import Mixture, best_mixture
from .pricing import PRICE_STEPS, DeviceSet, Pricer, Quick, whole_prices

STEADY = 0.85
"""How far prices stay with those that have proven the most so far: raw ones jump."""
MOST_SETS, KEPT_SETS = 1_500, 700
"""Where a linear program has more sets than the first of these, so many are kept."""
CLEARLY = 1e-7
"""Relative: a set that earns no more than this above its rent is no better than those at hand."""


@dataclass
class _Proof:
    """The prices that come closest to a refutation, and by how much they fail or succeed, in steps of price."""

    surplus: int | None = None
    prices: Any = None

    @property
    def refutes(self) -> bool:
        return self.surplus is not None and self.surplus > 0

    def take(self, surplus: int, prices: Any) -> None:
        if self.surplus is None or surplus > self.surplus:
            self.surplus, self.prices = surplus, prices


@dataclass
class Columns:
    """All sets found so far, for all cut-offs."""

    groups: GroupProblem
    pricer: Pricer
    tick: Tick
    sets: list[DeviceSet] = field(default_factory=list)
    rounds: int = 0
    _known: set[frozenset[int]] = field(default_factory=set)
    _steady: Any = None

    def __post_init__(self) -> None:
        work = self.pricer.work
        self._steady = whole_prices(work / max(1, work.max()))

    def mixture(self, limit: int, taken: Any, devices: int, patience: int | None = None) -> Mixture | None:
        """What sets of load at most `limit` can do for the groups not `taken`; None: nothing, the limit is refuted.

        With `patience` the rounds end after so many, and what is missing then may still be found; not so where the
        mixture is final.
        """
        proof, whole_problem = _Proof(prices=self._steady), not taken.any()
        while True:
            self.tick()
            self.rounds += 1
            usable = [each for each in self.sets if each.load <= limit and not taken[each.members].any()]
            cpu_room = self.groups.cpus * limit
            mixed = best_mixture(usable, devices, self.pricer.cpu, cpu_room, limit, taken)
            if mixed.is_whole:
                return mixed
            self._forget(mixed)
            grown = self._grow(mixed, limit, taken, devices, proof)
            if whole_problem:
                self._steady = proof.prices
            if proof.refutes:
                return None
            patience = None if patience is None else patience - 1
            if not grown:
                return replace(mixed, is_final=True)
            if patience == 0:
                return mixed

    def _forget(self, mixed: Mixture) -> None:
        """Of the sets that the mixture does without, all but those that come closest to their rent."""
        if len(mixed.sets) <= MOST_SETS:
            return
        worth = [float(mixed.prices[each.members].sum()) for each in mixed.sets]
        order = sorted(range(len(worth)), key=lambda i: (mixed.shares[i] <= 0, -worth[i]))
        gone = {mixed.sets[i].groups for i in order[KEPT_SETS:] if mixed.shares[i] <= 0}
        self.sets = [each for each in self.sets if each.groups not in gone]
        self._known -= gone

    def _grow(self, mixed: Mixture, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """New sets, by steady prices or, where these find none, by the mixture's own; `proof` takes what they prove."""
        raw = whole_prices(mixed.prices)
        tries = [(raw, int(mixed.rent * PRICE_STEPS * (1 + CLEARLY)))]
        if proof.prices is not None:
            smooth = (STEADY * proof.prices + (1 - STEADY) * raw).astype(raw.dtype)
            smooth[taken] = 0
            tries.insert(0, (smooth, 0))
        asked = (self._price(prices, floor, limit, taken, devices, proof) for prices, floor in tries)
        return any(grown or proof.refutes for grown in asked)

    def _price(self, prices: Any, floor: int, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """Are there new sets that earn more than `floor` at these prices?"""
        quick = self.pricer.quick(prices, limit, taken)
        left = int(prices.sum()) - self.pricer.cpus_earn(prices, limit, taken)
        proof.take(left - devices * quick.most, prices)
        grown = self._add(quick.sets)
        grown = self._add(self._beside(quick, prices, limit, taken)) or grown
        if proof.refutes:
            return grown
        floor = max([floor, *(int(prices[each.members].sum()) for each in quick.sets)])
        offer = self.pricer.search(quick, limit, floor, self._known)
        proof.take(left - devices * offer.most, prices)
        return self._add(offer.sets) or grown

    def _beside(self, quick: Quick, prices: Any, limit: int, taken: Any) -> Iterator[DeviceSet]:
        """Sets that leave out each other's groups, as the devices of a plan do."""
        away = taken.copy()
        for _ in range(self.groups.accelerators - 1):
            if not quick.sets:
                return
            best = max(quick.sets, key=lambda each: int(prices[each.members].sum()))
            away[best.members] = True
            quick = self.pricer.quick(prices, limit, away)
            yield from quick.sets

    def _add(self, sets: Iterable[DeviceSet]) -> bool:
        new = [each for each in sets if each.groups not in self._known]
        self.sets += new
        self._known.update(each.groups for each in new)
        return bool(new)
