"""The order of tasks on a GPU in literals of CP-SAT, with what `instants` says of tasks that take no time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any, Generic

from ..native import NativeBuilder
from .instants import Task, transitive


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
