"""The columns: stages that a plan of at most the cut-off may have, with what no such plan needs left out.

A column is a stage between two suffix sets with its degrees and a range of micro-batches carried into it (the sum
of the data-parallel degrees of all later stages); its cost is the least load at the upper end of that range. Ranges
end where the cost changes. What is left out, for a cut-off T:

- costs above T; of two columns of one stage the one that is worse in devices, replicas, range and cost;
- columns that leave too few devices or micro-batches for the layers before or after them: by their work / T,
  and by the shortest paths over the columns that are left, in devices and in degrees.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...instances.base.errors import TooLargeError
from ...instances.physics.tolerances import SAFETY
from .lattice import REMEDY, Lattice
from .stages import Stage, StageBook, last_true, positions

# Relative: costs that differ by less are one cost.
SAME = 1e-11
# The length of a path where there is none.
ENDLESS = 10**15
# The most columns of a model.
MAX_COLUMNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    inner: int
    """Index of the suffix set of all later stages."""
    outer: int
    members: int
    """The stage's layers as a bit mask."""
    t: int
    d: int
    low: int
    high: int
    """Sum of the later stages' degrees: the range for which `cost` is the least load."""
    cost: float
    kind: int = 0
    """Number of the type of its devices."""
    above: tuple[int, ...] = ()
    """Copies of the stages around it, from level 2 on; of each there are d copies on level 1."""

    @property
    def copies(self) -> int:
        """Number of copies on all levels together."""
        return self.d * math.prod(self.above)

    @property
    def devices(self) -> int:
        return self.t * self.copies


@dataclass(frozen=True)
class Candidates:
    lattice: Lattice
    columns: tuple[Column, ...]
    floor: float
    """Costs below it are raised to it: no plan is better."""


def find_candidates(book: StageBook, cutoff: float | None, floor: float) -> Candidates:
    """The columns of all plans that are as good as the cut-off. Where no column is left there is no such plan; the
    reverse need not hold."""
    search = _Search(book, cutoff, floor)
    columns = search.columns()
    return Candidates(search.lattice, tuple(_tightened(search, columns)), floor)


@dataclass(frozen=True, slots=True)
class _Need:
    """Least devices and degrees that layers need, however they are cut into stages."""

    devices: int
    degrees: int


class _Search:
    """Stages from the last layers to the first, so that what reaches a suffix set is known when it is left."""

    def __init__(self, book: StageBook, cutoff: float | None, floor: float) -> None:
        problem = book.problem
        self.book = book
        self.cutoff = cutoff
        self.floor = floor
        self.devices = problem.devices
        self.batches = book.most
        self.lattice = book.lattice

    def need(self, members: int) -> _Need:
        if not members:
            return _Need(0, 0)
        if self.cutoff is None:
            return _Need(1, 1)
        layers, most, counts = positions(members), self.devices + 1, []
        for values in (self.book.least_work, self.book.least_time):
            work = math.fsum(values[v] for v in layers)
            too_much = work > self.cutoff * most
            counts.append(most if too_much else max(1, math.ceil(work / self.cutoff - SAFETY)) if work else 1)
        return _Need(*counts)

    def columns(self) -> list[Column]:
        sets = self.lattice.sets
        rest = [self.need(self.book.everything ^ members) for members in sets]
        reached: list[_Need | None] = [_Need(0, 0), *([None] * (len(sets) - 1))]
        all_columns = []
        for inner, outers in enumerate(self.lattice.stages_from):
            before = reached[inner]
            if before is None:
                continue
            for outer in outers:
                columns = self._of_stage(inner, outer, before, rest[outer])
                for column in columns:
                    least = reached[outer] or _Need(ENDLESS, ENDLESS)
                    reached[outer] = _Need(
                        min(least.devices, before.devices + column.devices),
                        min(least.degrees, before.degrees + column.copies),
                    )
                all_columns += columns
            if len(all_columns) > MAX_COLUMNS:
                raise TooLargeError("layers", f"can form stages in more than {MAX_COLUMNS} ways", REMEDY)
        return all_columns

    def _of_stage(self, inner: int, outer: int, before: _Need, rest: _Need) -> list[Column]:
        """The columns of one stage; `before`: what later stages need at least, `rest`: what earlier ones do."""
        members = self.lattice.sets[outer] ^ self.lattice.sets[inner]
        columns = []
        for (kind, t), above in itertools.product(self.book.sorts(members), self.book.above):
            outside = math.prod(above)
            for d in self.book.replicas(t, kind):
                copies = d * outside
                stage = self.book.stage(members, t, kind, copies)
                if before.devices + t * copies + rest.devices > self.devices:
                    break
                high = min(self.devices - t * copies - rest.devices, self.batches - copies - rest.degrees)
                high = min(high, 0) if not inner else high
                if high < before.degrees:
                    continue
                if self.cutoff is not None and stage.least_load(d) > self.cutoff * outside * (1 + SAFETY):
                    continue
                for low, end, cost in self._ranges(stage, d, outside, before.degrees, high):
                    columns.append(Column(inner, outer, members, t, d, low, end, cost, kind, above))
        return undominated(columns)

    def _ranges(self, stage: Stage, d: int, outside: int, low: int, high: int) -> Iterator[tuple[int, int, float]]:
        """Ranges of the carried sum with their cost, from `high` down to `low`; `outside`: copies of what is around."""
        copies = d * outside
        least, most = (-(-(carried + copies) // copies) for carried in (low, high))
        y = stage.most_in_flight(d, least, most, None if self.cutoff is None else self.cutoff * outside)
        while y is not None:
            start, cost = self._start_and_cost(stage, d, outside, least, y)
            yield max(low, copies * (start - 2) + 1 if start > 1 else 0), min(high, copies * (y - 1)), cost
            y = start - 1 if start > least else None

    def _start_and_cost(self, stage: Stage, d: int, outside: int, least: int, y: int) -> tuple[int, float]:
        """The smallest number in flight that costs as much as y; below the floor all cost the same."""
        if stage.keeps_to(self.floor * outside, d, y):
            return least, self.floor
        load = stage.load(d, y)
        assert load is not None, "what fits below a target fits without one"
        below = load * (1 - SAME)
        if not stage.keeps_to(below, d, least):
            return least, load / outside
        return last_true(least, y - 1, lambda in_flight: stage.keeps_to(below, d, in_flight)) + 1, load / outside


def undominated(columns: Iterable[Column]) -> list[Column]:
    """Columns of one stage without those that another column can always stand in for, on as few devices in as few
    copies."""
    kept: dict[tuple[int, tuple[int, ...]], list[Column]] = defaultdict(list)
    for column in sorted(columns, key=lambda c: (c.cost, c.devices, c.copies, -c.high, c.t)):
        alike = kept[column.kind, column.above]
        if not any(
            other.devices <= column.devices and other.copies <= column.copies and other.high >= column.high
            for other in alike
        ):
            alike.append(column)
    return [column for alike in kept.values() for column in alike]


# ---- windows over the columns that are left ------------------------------------------------------------


def _tightened(search: _Search, columns: list[Column]) -> list[Column]:
    """The columns that are on short paths from both ends, sought anew until nothing changes."""
    while True:
        left = list(_within_windows(search, columns))
        by_stage = defaultdict(list)
        for column in left:
            by_stage[column.inner, column.outer].append(column)
        left = [column for group in by_stage.values() for column in undominated(group)]
        if len(left) == len(columns):
            return left
        columns = left


def _within_windows(search: _Search, columns: list[Column]) -> Iterator[Column]:
    """Columns on some path that is short enough, with the sums that can be carried into them."""
    count = len(search.lattice.sets)
    devices, batches = search.devices, search.batches
    of_devices = _Shortest(columns, [column.devices for column in columns], count)
    of_degrees = _Shortest(columns, [column.copies for column in columns], count)
    # Paths that are short in devices and others that are short in degrees do not make one that is short in both.
    of_both = _Shortest(columns, [batches * column.devices + devices * column.copies for column in columns], count)
    for a, column in enumerate(columns):
        low = max(column.low, of_degrees.after[column.inner])
        high = min(
            column.high,
            devices - column.devices - of_devices.before[column.outer],
            batches - column.copies - of_degrees.before[column.outer],
        )
        short = of_devices.through(a) <= devices and of_both.through(a) <= 2 * batches * devices
        if short and low <= high:
            yield replace(column, low=low, high=high)


class _Shortest:
    """Lengths of shortest paths: from the end of the network to each suffix set, and on to its beginning."""

    def __init__(self, columns: list[Column], sizes: list[int], count: int) -> None:
        self.columns = columns
        self.sizes = sizes
        self.after = [0, *([ENDLESS] * (count - 1))]
        self.before = [*([ENDLESS] * (count - 1)), 0]
        for a in sorted(range(len(columns)), key=lambda a: columns[a].inner):
            column = columns[a]
            self.after[column.outer] = min(self.after[column.outer], self.after[column.inner] + sizes[a])
        for a in sorted(range(len(columns)), key=lambda a: -columns[a].outer):
            column = columns[a]
            self.before[column.inner] = min(self.before[column.inner], self.before[column.outer] + sizes[a])

    def through(self, a: int) -> int:
        column = self.columns[a]
        return self.after[column.inner] + self.sizes[a] + self.before[column.outer]
