"""Do some of the sets found so far, with the CPUs, make up the whole problem? A linear program, and prices of groups.

Sets may be taken in part, at most as many as there are accelerators; the CPUs share their time. What no set covers, or
several do, costs 1 for each group. Prices, the duals of the groups, say what a new set should hold; they are floats,
and whoever proves something by them does so again in whole numbers, for which any prices will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .pricing import DeviceSet

COVERED = 1e-7
"""What may be missing by rounding where the sets make up everything."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The best that the sets can do."""

    sets: Sequence[DeviceSet]
    missing: float
    """Groups, counted with what is covered twice."""
    prices: Any
    """Of each group."""
    rent: float
    """A set pays where its groups' prices are worth more."""
    shares: Any
    """Of each set."""
    is_final: bool = False
    """Is there no set that would help?"""

    @property
    def is_whole(self) -> bool:
        return self.missing <= COVERED


def best_mixture(
    sets: Sequence[DeviceSet], devices: int, cpu: Any, cpu_room: int, limit: int, taken: Any
) -> Mixture:
    """`taken`: groups that are placed already, and in none of the sets."""
    import numpy as np
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
    costs = np.concatenate([np.zeros(len(sets) + len(slow)), ones, ones])
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
