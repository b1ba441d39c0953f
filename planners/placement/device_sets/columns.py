"""Column generation over the sets that one accelerator can hold: is a cut-off refuted, or do sets make up everything?

At a cut-off T the question is: can as many sets of load at most T as there are accelerators, with the CPUs, make up
everything? Sets may be taken in part (`best_mixture`); new ones come from the prices of the groups (`pricing`). If k
accelerators and all CPUs cannot even earn the prices of all groups, there is no plan of value T or less: for if there
were one, its devices would earn them. That holds for any prices, so it is checked in whole numbers, and each round may
end by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....formulations.tarnawski.groups import GroupProblem
from .pricing import PRICE_STEPS, DeviceSet, Pricer, Tick, whole_prices

# Share of the prices that have proven the most so far in the next ones: prices of the mixture alone jump.
STEADY = 0.85
# A missing group costs its work and its part of its transfers, in units of the mean, so that prices stay near to what
# groups are worth. But it costs at least this, even where it takes no time.
LEAST_WEIGHT = 0.05
# Relative: a set that earns no more than this above its rent is no better than those at hand.
CLEARLY = 1e-7


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
    _weights: Any = None
    """What it costs to miss each group: the more, the more work and transfers it has."""

    def __post_init__(self) -> None:
        work = self.pricer.work
        weights = work + self.pricer.transfers
        self._weights = np.maximum(weights / max(1.0, weights.mean()), LEAST_WEIGHT)
        self._steady = whole_prices(work / max(1, work.max()))

    def mixture(self, limit: int, taken: Any, devices: int, patience: int | None = None) -> Mixture | None:
        """What sets of load at most `limit` can do for the groups not `taken`; None: the limit is refuted.

        With `patience` the rounds end after this number of them. Sets that would help may be missing then, unless the
        mixture is final.
        """
        proof, whole_problem = _Proof(prices=self._steady), not taken.any()
        if whole_problem and self.refutes(limit):
            return None
        while True:
            self.tick()
            self.rounds += 1
            usable = [each for each in self.sets if each.load <= limit and not taken[each.members].any()]
            cpu_room = self.groups.cpus * limit
            mixed = best_mixture(usable, devices, self.pricer.cpu, cpu_room, limit, taken, self._weights)
            if mixed.is_whole:
                return mixed
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

    def refutes(self, limit: int) -> bool:
        """Do the prices that have proven the most so far refute the limit at once?"""
        proof = _Proof()
        self._price(self._steady, 0, limit, self.pricer.nothing, self.groups.accelerators, proof)
        return proof.refutes

    def _grow(self, mixed: Mixture, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """Add sets by steady prices or else by the mixture's own; True: some are new, or `proof` refutes the limit."""
        raw = whole_prices(mixed.prices)
        tries = [(raw, int(mixed.rent * PRICE_STEPS * (1 + CLEARLY)))]
        if proof.prices is not None:
            smooth = (STEADY * proof.prices + (1 - STEADY) * raw).astype(raw.dtype)
            smooth[taken] = 0
            tries.insert(0, (smooth, 0))
        asked = (self._price(prices, floor, limit, taken, devices, proof) for prices, floor in tries)
        return any(grown or proof.refutes for grown in asked)

    def _price(self, prices: Any, floor: int, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """Add sets, by search those that earn more than `floor`, and tell `proof` of the prices; True: some are new."""
        quick = self.pricer.quick(prices, limit, taken)
        left = int(prices.sum()) - self.pricer.cpus_earn(prices, limit, taken)
        proof.take(left - devices * quick.most, prices)
        grown = self._add(quick.sets)
        if proof.refutes:
            return grown
        floor = max([floor, *(int(prices[each.members].sum()) for each in quick.sets)])
        offer = self.pricer.search(quick, limit, floor, self._known)
        proof.take(left - devices * offer.most, prices)
        return self._add(offer.sets) or grown

    def _add(self, sets: Iterable[DeviceSet]) -> bool:
        """Add sets to those at hand; True: some are new."""
        new = [each for each in sets if each.groups not in self._known]
        self.sets += new
        self._known.update(each.groups for each in new)
        return bool(new)


# Do some of the sets found so far, with the CPUs, make up the whole problem? A linear program, and prices of groups.
# Sets may be taken in part, at most as many as there are accelerators; the CPUs share their time. What no set covers,
# or several do, costs the weight of each group. Prices, the duals of the groups, say what a new set should hold. They
# are floats, so every proof by them is made in whole numbers, for which any prices will do.

# Share that rounding may leave out where the sets make up everything.
COVERED = 1e-7


@dataclass(frozen=True, slots=True)
class Mixture:
    """The best cover of all groups by sets in part: which shares are taken, what is missing, and the prices."""

    sets: Sequence[DeviceSet]
    missing: float
    """The weight of groups that are missing, and of what is covered twice."""
    prices: Any
    """The price of each group."""
    rent: float
    """The price of an accelerator: a set helps where the prices of its groups add up to more."""
    shares: Any
    """The share in which each set is taken."""
    is_final: bool = False
    """Is there no set that would help?"""

    @property
    def is_whole(self) -> bool:
        return self.missing <= COVERED


def best_mixture(
    sets: Sequence[DeviceSet], devices: int, cpu: Any, cpu_room: int, limit: int, taken: Any, weights: Any
) -> Mixture:
    """Solve the program. `taken`: groups placed already, in none of the sets; `weights`: what a missing group costs."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    count = len(cpu)
    rest = np.flatnonzero(~taken)
    if not len(rest):
        return Mixture(sets, 0.0, np.zeros(count), 0.0, np.zeros(len(sets)))
    row_of = np.full(count, -1)
    row_of[rest] = np.arange(len(rest))
    slow = rest[cpu[rest] <= limit] if cpu_room > 0 else rest[:0]
    devices_row, cpu_row = len(rest), len(rest) + 1
    unit = max(1, limit)
    ones, numbers = np.ones(len(rest)), np.arange(len(rest))
    columns = [np.append(row_of[each.members], devices_row) for each in sets]
    on_cpu = np.stack([row_of[slow], np.full(len(slow), cpu_row)], axis=1).ravel()
    cpu_times = np.stack([np.ones(len(slow)), cpu[slow] / unit], axis=1).ravel()
    rows = np.concatenate([*columns, on_cpu, numbers, numbers])
    entries = np.concatenate([np.ones(sum(map(len, columns))), cpu_times, ones, -ones])
    lengths = [*map(len, columns), *([2] * len(slow)), *([1] * (2 * len(rest)))]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    matrix: Any = csc_array((entries, rows, starts), shape=(len(rest) + 2, len(lengths))).tocsr()
    costs = np.concatenate([np.zeros(len(sets) + len(slow)), weights[rest], weights[rest]])
    solved: Any = linprog(
        costs,
        A_ub=matrix[devices_row:],
        b_ub=np.array([devices, cpu_room / unit]),
        A_eq=matrix[:devices_row],
        b_eq=np.ones(len(rest)),
        method="highs",
    )
    if solved.x is None:
        raise RuntimeError(f"the mixture of sets was not found: {solved.message}")
    duals = np.zeros(count)
    duals[rest] = solved.eqlin.marginals
    rent = -float(solved.ineqlin.marginals[0])
    return Mixture(sets, float(solved.fun), duals, rent, solved.x[: len(sets)])
