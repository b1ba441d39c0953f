"""What the values of a model's order variables say: who comes first on each GPU and link.

Positions alone say nothing where activities without a duration share an instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from ...instances.chain.problem import ChainProblem
from .draft import Activity, Folded, is_activity, link_of, tasks_by_gpu
from .instants import Relations, timeless_pairs

# Is the variable of a family for two activities 1? Families: w and wc (tasks, transfers: the first one comes
# first), ended and far (see `instants`).
Holds = Callable[[str, Activity, Activity], bool]

# The most shifts before a transfer, and the most after it.
MOST_SHIFTS = 2


def orders_of(
    problem: ChainProblem,
    allocation: Sequence[int],
    positions: Mapping[Activity, Fraction],
    timeless: frozenset[Activity],
    holds: Holds,
) -> list[list[Activity]]:
    """The users of each resource, sorted by how many others come before them."""
    users: dict[tuple[int, ...], list[Activity]] = {}
    for activity in positions:
        if activity.is_transfer:
            if problem.edge_times[activity.number - 1]:
                users.setdefault(link_of(problem, allocation, activity.number), []).append(activity)
        elif activity not in timeless:
            users.setdefault((allocation[problem.layer_of[activity.number - 1]],), []).append(activity)
    return [_sorted(group, positions, holds) for group in users.values()]


def _sorted(group: Sequence[Activity], positions: Mapping[Activity, Fraction], holds: Holds) -> list[Activity]:
    before = dict.fromkeys(group, 0)
    for a, b in combinations(sorted(group, key=_place), 2):
        before[b if holds("wc" if a.is_transfer else "w", a, b) else a] += 1
    return sorted(group, key=lambda activity: (before[activity], positions[activity]))


def _place(activity: Activity) -> tuple[int, int]:
    """Models name pairs of tasks batch by batch, pairs of transfers edge by edge."""
    return (activity.number, activity.row) if activity.is_transfer else (activity.row, activity.number)


def relations_of(
    problem: ChainProblem,
    allocation: Sequence[int],
    activities: Iterable[Activity],
    timeless: frozenset[Activity],
    holds: Holds,
) -> Relations[Activity]:
    """What the variables, by `holds`, say about the order of tasks that take no time."""
    pairs = tuple(timeless_pairs(tasks_by_gpu(problem, allocation, activities), timeless))

    def holding(
        family: str, candidates: Iterable[tuple[Activity, Activity]]
    ) -> frozenset[tuple[Activity, Activity]]:
        return frozenset(pair for pair in candidates if holds(family, *pair))

    both = [*pairs, *((z, x) for x, z in pairs)]
    return Relations(timeless, holding("w", both), holding("ended", pairs), holding("far", pairs), pairs)


def shifts_at(problem: ChainProblem, folded: Folded, row: int, edge: int) -> dict[str, int] | None:
    """Shifts before (v) and after (u) the transfer of an edge; None for more than the models know."""
    sent, read = folded.laps[Activity(row, edge)], folded.laps[Activity(row, edge + 1)]
    staged = is_activity(problem, edge)
    moved = folded.laps.get(Activity(row, edge, is_transfer=True), sent) if staged else sent
    shifts = {"v": moved - sent, "u": read - moved} if staged else {"u": read - moved}
    return shifts if all(0 <= number <= MOST_SHIFTS for number in shifts.values()) else None
