"""All sets of groups that one accelerator may hold, as paths of a small graph.

Groups are decided one after the other, in or out. What has to be remembered on the way is, for each net that has pins
on both sides of the place reached, whether all of its pins so far are in, none, or some: then it is cut, and paid. Two
histories that agree in this are one state. Graphs of neural networks are long and thin, so a good order of the groups
leaves some dozens or hundreds of states at each place, however many sets there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ....formulations.tarnawski.groups import GroupProblem

MOST_STATES = 400_000
"""Graphs that are wider are left to other methods."""

_OUT, _IN, _CUT = range(3)

Tick = Callable[[], None]
"""It may raise, where the time is over."""

_State = tuple[int, ...]
"""Of each open net."""


@dataclass(frozen=True)
class SetGraph:
    """States in the order of their places; each has one successor without the next group and one with it, or -1."""

    order: Any
    """Groups, as they are decided."""
    first: Any
    """Of each place, its first state; at the end the number of all."""
    without: Any
    within: Any
    cut_without: Any
    """The nets that this decision cuts, in whole steps."""
    cut_within: Any

    @property
    def states(self) -> int:
        return len(self.without)


def idle() -> None:
    """A tick of those who have all the time."""


def set_graph(groups: GroupProblem, net_costs: Sequence[int], tick: Tick = idle) -> SetGraph | None:
    """By the best of a few orders; None where all of them need too many states. `tick` is called between two steps."""
    found: SetGraph | None = None
    for order in (narrow_order(groups, tick), listed_order(groups)):
        graph = _expanded(groups, net_costs, order, tick, MOST_STATES if found is None else found.states)
        found = graph or found
    return found


def listed_order(groups: GroupProblem) -> list[int]:
    """As the nodes stand in the file."""
    return sorted(range(groups.count), key=lambda g: min(groups.members[g]))


def narrow_order(groups: GroupProblem, tick: Tick = idle) -> list[int]:
    """Next is always the group that leaves the fewest groups with open nets, and the fewest open nets."""
    nets = [net.pins for net in groups.nets]
    left = [len(pins) for pins in nets]
    open_nets = [len(own) for own in groups.nets_of]
    done = [False] * groups.count
    touched = [0] * groups.count
    order: list[int] = []
    near: set[int] = set()

    def growth(g: int) -> tuple[int, int, int, int]:
        closing = [e for e in groups.nets_of[g] if left[e] == 1]
        opening = sum(left[e] == len(nets[e]) > 1 for e in groups.nets_of[g])
        freed: dict[int, int] = {}
        for e in closing:
            for h in nets[e]:
                if done[h]:
                    freed[h] = freed.get(h, 0) + 1
        stays = any(left[e] > 1 for e in groups.nets_of[g])
        gone = sum(count == open_nets[h] for h, count in freed.items())
        return stays - gone, opening - len(closing), -touched[g], g

    rest = iter(range(groups.count))
    while len(order) < groups.count:
        tick()
        g = min(near, key=growth) if near else next(g for g in rest if not done[g])
        near.discard(g)
        done[g] = True
        order.append(g)
        for e in groups.nets_of[g]:
            left[e] -= 1
            for h in nets[e]:
                if not left[e]:
                    open_nets[h] -= 1
                if not done[h]:
                    near.add(h)
                    touched[h] = len(order)
    return order


def _expanded(
    groups: GroupProblem, net_costs: Sequence[int], order: Sequence[int], tick: Tick, most_states: int
) -> SetGraph | None:
    import numpy as np

    left = [len(net.pins) for net in groups.nets]
    open_nets: list[int] = []
    current: Iterable[_State] = [()]
    first, total = [0], 1
    successors: tuple[list[int], list[int]] = ([], [])
    cuts: tuple[list[int], list[int]] = ([], [])
    for g in order:
        tick()
        place = {e: i for i, e in enumerate(open_nets)}
        met = groups.nets_of[g]
        after = [e for e in (*open_nets, *(e for e in met if e not in place)) if e not in met or left[e] > 1]
        reached: dict[_State, int] = {}
        for state in current:
            for chosen in (_OUT, _IN):
                cost, marks = 0, dict(zip(open_nets, state, strict=True))
                for e in met:
                    before = marks.get(e, chosen)
                    if before not in (chosen, _CUT):
                        cost += net_costs[e]
                        before = _CUT
                    marks[e] = before
                number = reached.setdefault(tuple(marks[e] for e in after), len(reached))
                successors[chosen].append(total + number)
                cuts[chosen].append(cost)
        for e in met:
            left[e] -= 1
        current, open_nets = reached, after
        first.append(total)
        total += len(reached)
        if total > most_states:
            return None
    for chosen in (_OUT, _IN):  # the last state leads nowhere
        successors[chosen].append(-1)
        cuts[chosen].append(0)
    return SetGraph(
        np.array(order),
        np.array([*first, total]),
        *(np.array(column) for column in (*successors, *cuts)),
    )
