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

`OrderBuilder` says this in literals of CP-SAT, for all models of schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any, Generic, TypeVar

from ...instances.base.amounts import Amount
from ..native import NativeBuilder

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


class OrderBuilder(NativeBuilder, Generic[Task]):
    """The literals and rows of orders, which the models of schedules share."""

    def __init__(self, timeless: frozenset[Task]) -> None:
        super().__init__()
        self.timeless = timeless
        self.before: dict[tuple[Task, Task], Any] = {}
        self.ended: dict[tuple[Task, Task], Any] = {}
        """Literals of pairs of a task that takes time and one that takes none: the second is not before the end of the
        first."""
        self.far: dict[tuple[Task, Task], Any] = {}
        """Literals of the same pairs: the second is not before the next start of the first either."""

    def pair_flag(self, family: str, a: Task, b: Task) -> Any:
        return self.flag()

    def order_with_timeless(self, a: Task, b: Task, start: Any, duration: int, period: Any, *shared: Any) -> None:
        """Literals and rows for two tasks of one GPU of which at least one takes no time: see `instants`.

        `duration`: of the other one. `shared`: a literal for "they are on one GPU", where that is not certain.
        """
        first, second = self.pair_flag("w", a, b), self.pair_flag("w", b, a)
        self.before[a, b], self.before[b, a] = first, second
        for (x, y), literal in (((a, b), first), ((b, a), second)):
            for condition in shared:
                self.model.add_implication(literal, condition)
            self.require(start[x] <= start[y], literal)
        self.model.add_bool_or([first, second, *(condition.negated() for condition in shared)])
        if a in self.timeless and b in self.timeless:
            return
        x, z = (a, b) if b in self.timeless else (b, a)
        self.model.add_bool_or([first.negated(), second.negated()])
        ended = self.ended[x, z] = self.pair_flag("ended", x, z)
        self.model.add_implication(ended, self.before[x, z])
        self.require(start[z] >= start[x] + duration, ended)
        far = self.far[x, z] = self.pair_flag("far", x, z)
        self.model.add_implication(far, ended)
        self.require(start[z] >= start[x] + period, far)
        self.require(start[z] <= start[x] + period, *shared, far.negated())

    def concerns(self, a: Task, b: Task) -> bool:
        """Does one of the two take no time?"""
        return a in self.timeless or b in self.timeless

    def begun(self, a: Task, at: Task) -> Any:
        """Starts of `a` up to that of `at`, less those in earlier periods: a literal where both take time."""
        if a == at:
            return 1
        if a in self.timeless:
            return self.before[a, at] - self.far.get((at, a), 0)
        return self.before[a, at] + self.far.get((a, at), 0)

    def done(self, a: Task, at: Task) -> Any:
        """Ends of `a` up to the start of `at`, less those in earlier periods."""
        if a in self.timeless:
            return self.begun(a, at)
        if at in self.timeless:
            return self.ended[a, at]
        return 0 if a == at else self.before[a, at]

    def next_shifts(self, a: Task, b: Task) -> list[Any]:
        """Shifts between two tasks in a row on one GPU: the order says them."""
        if not self.concerns(a, b):
            return [self.before[b, a]]
        done = self.before[a, b] if a in self.timeless else self.ended[a, b]
        far = self.far.get((b, a))
        return [done.negated()] if far is None else [done.negated(), far]

    def waits(self, a: Task, b: Task, at: Task) -> Any:
        """Does what `a` wrote wait for `b` while `at` runs? Yes where they come in this order around the period.

        On different GPUs none is before another.
        """
        waits, before = self.flag(), self.before
        for x, y in (((a, at), (at, b)), ((at, b), (b, a)), ((b, a), (a, at))):
            self.model.add_bool_or([before[x].negated(), before[y].negated(), waits])
        return waits

    def order_instants(self, tasks: Iterable[Task]) -> None:
        """Tasks without a duration may share an instant; their order must still be one."""
        before = self.before
        for x, y, z in combinations(tasks, 3):
            for a, b, c in ((x, y, z), (z, y, x)):
                pairs = (before[a, b], before[b, c], before[c, a])
                self.model.add_bool_or([literal.negated() for literal in pairs])

    def keep_order(self, tasks: Iterable[Task], instant: frozenset[Task]) -> None:
        """Beginnings are in an order, also where they share an instant; see `transitive`."""
        tasks, before = list(tasks), self.before
        for a, b, c in transitive(tasks, self.timeless, instant):
            self.model.add_bool_or([before[a, b].negated(), before[b, c].negated(), before[a, c]])
        timeless = [task for task in tasks if task in self.timeless]
        for x in tasks:
            for z, other in permutations(timeless if x not in self.timeless else [], 2):
                self.model.add_bool_or([self.far[x, z].negated(), before[z, other].negated(), self.far[x, other]])
                self.model.add_bool_or([self.far[x, z].negated(), before[other, x].negated()])
