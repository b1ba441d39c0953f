"""Tasks that take no time: they need no GPU and hold nothing themselves, so they may happen while another task runs.

Memory is counted over half-open intervals. At an instant everything that ends there is gone and everything that
begins there is alive, in whatever order it is written down; so a kept input whose forward and backward task fall into
one instant is never there. The paper's rows know an order of tasks instead, in which each task has its turn. They hold
for tasks with a duration; where one of two tasks of a GPU takes none, the models say this about positions in the
period (z takes no time, x takes some, all ends lie in [0, T]):

    order[z, x] or order[x, z]    z is not after the start of x, or the other way round; for two tasks without a
                                  duration both may hold: they share the instant
    ended[x, z]                   z is not before the end of x either; if not, z may happen while x runs
    far[x, z]                     z is not before the next start of x, a period later (x began in the period before)

Each holds only where the times allow it, none has to hold where two times are equal. That is enough: what is counted
while x runs or z happens is what is alive there according to these, and as the order of beginnings is transitive,
the last of those that share an instant sees everything that is alive there. Nor is it too much, since equal times may
always be read in the way in which the least is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations
from typing import Generic, TypeVar

from ...instances.base.amounts import Amount

Task = TypeVar("Task", bound=Hashable)


@dataclass(frozen=True)
class Relations(Generic[Task]):
    """What a solution says about pairs of tasks on one GPU of which at least one takes no time."""

    timeless: frozenset[Task] = frozenset()
    order: frozenset[tuple[Task, Task]] = frozenset()
    ended: frozenset[tuple[Task, Task]] = frozenset()
    far: frozenset[tuple[Task, Task]] = frozenset()
    pairs: tuple[tuple[Task, Task], ...] = field(default=())
    """The pairs themselves; the second one takes no time."""

    def concern(self, before: Task, after: Task) -> bool:
        """Does one of the two take no time?"""
        return before in self.timeless or after in self.timeless

    def shift(self, before: Task, after: Task) -> int:
        """Periods by which a task of a GPU lags behind the one before it in its batch, where one takes no time."""
        done = self.order if before in self.timeless else self.ended
        return 1 - ((before, after) in done) + ((after, before) in self.far)

    def waits(self, duration: Callable[[Task], Fraction]) -> Iterator[tuple[Task, Task, Fraction, int]]:
        """(before, after, least, periods): start(after) - start(before) >= least - periods * T.

        As long as these hold, no more is alive than in the solution, wherever the times are moved to.
        """
        none = Fraction(0)
        for x, z in self.pairs:
            if (z, x) in self.order:
                yield z, x, none, 0
            if (x, z) in self.order:
                yield x, z, none, 0
            if x in self.timeless:
                yield x, z, none, 1
                yield z, x, none, 1
                continue
            yield x, z, duration(x), 0 if (x, z) in self.ended else 1
            if (x, z) in self.far:
                yield x, z, none, -1
                yield z, x, none, 2
            else:
                yield z, x, none, 1


def timeless_pairs(gpus: Iterable[Iterable[Task]], timeless: frozenset[Task]) -> Iterator[tuple[Task, Task]]:
    """All pairs on each GPU of which one takes no time; that one comes second."""
    for tasks in gpus:
        for a, b in combinations(tasks, 2):
            if b in timeless:
                yield a, b
            elif a in timeless:
                yield b, a


def relations_at(
    gpus: Iterable[Iterable[Task]],
    timeless: frozenset[Task],
    positions: Mapping[Task, Amount],
    duration: Callable[[Task], Amount],
    period: Amount,
) -> Relations[Task]:
    """The relations that hold for tasks at these positions in the period; all tasks end in [0, T]."""
    pairs = tuple(timeless_pairs(gpus, timeless))
    order, ended, far = set(), set(), set()
    for x, z in pairs:
        if positions[z] <= positions[x]:
            order.add((z, x))
        if positions[x] < positions[z] or (x in timeless and positions[x] == positions[z]):
            order.add((x, z))
        if x not in timeless and positions[z] >= positions[x] + duration(x):
            ended.add((x, z))
        if x not in timeless and positions[z] > positions[x] + period:
            far.add((x, z))
    return Relations(timeless, frozenset(order), frozenset(ended), frozenset(far), pairs)


def transitive(
    tasks: Iterable[Task], timeless: frozenset[Task], instant: frozenset[Task]
) -> Iterator[tuple[Task, Task, Task]]:
    """Triples (a, b, c) for which order[a, b] and order[b, c] must imply order[a, c], since their starts may be equal.

    `instant`: tasks without a duration in the model, where some that take time may have been rounded to none.
    """
    for triple in combinations(tasks, 3):
        without = sum(task in timeless for task in triple)
        if without >= 2 or (without and all(task in instant for task in triple)):
            yield from permutations(triple)
