"""The least period, makespan and span of tiny schedule problems, by going over everything that could matter.

Nothing is shared with the solvers or with the referee: what a device holds follows from the order in which it runs its
blocks, since they never overlap; so orders are enumerated, and times follow from them as longest paths. All numbers are
whole multiples of a grid, however fine, and none of them is searched for.

Two blocks without time at one instant run by micro-batch, topological position and order in the file. Where memory
asks for another order, the first has to come earlier by anything above nothing, and where that costs time there may be
no least value at all: `UnsettledError` is raised then, and `tiny_problem` makes no such problem.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import le

from problems.schedules import Ingredients, random_schedule

from pipeplan import PeriodicSchedulePlan, ScheduleProblem
from pipeplan.instances.base.amounts import as_written

HAIR = 1
"""The least time above nothing, where `STEP` is one step of the grid: more than all hairs together."""
STEP = 1024
NEVER = -1
"""How long something waits for a beginning that it need not wait for."""
FURTHEST = 30
"""Periods that two blocks may be apart, at most, in problems that are enumerated."""


class UnsettledError(Exception):
    """There is no least value, only better and better ones; or the numbers lie too close together to find it."""


# ---- what one device holds -----------------------------------------------------------------------------


class _Device:
    """Judges the order in which a device runs its blocks."""

    def __init__(self, problem: ScheduleProblem, d: int) -> None:
        device = problem.devices[d]
        self.blocks = [b for b, block in enumerate(problem.blocks) if device.name in block.devices]
        self.limit = None if device.memory is None else as_written(device.memory)
        self.standing = as_written(device.standing)
        self.change = {b: as_written(problem.blocks[b].memory.get(device.name, 0)) for b in self.blocks}
        self.workspace = {b: as_written(problem.blocks[b].workspace.get(device.name, 0)) for b in self.blocks}

    def after(self, b: int, held: Fraction) -> Fraction | None:
        """What it holds after block b has run; None where that breaks a rule."""
        full = held + max(self.change[b], Fraction(0))
        if self.limit is not None and full + self.workspace[b] > self.limit:
            return None
        left = held + self.change[b]
        return None if left < 0 else left

    def can_run(self, row: Sequence[int]) -> bool:
        held: Fraction | None = self.standing
        for b in row:
            held = self.after(b, held)
            if held is None:
                return False
        return True


def _devices(problem: ScheduleProblem) -> list[_Device]:
    return [_Device(problem, d) for d in range(len(problem.devices))]


# ---- finite schedules ----------------------------------------------------------------------------------


class _Finite:
    """Every copy of every block is placed after those before it on its devices; what is worse in all respects goes.

    Earliest times are the largest of what several beginnings ask for: a column of a state says how long after one of
    them each device is free and each copy may start.
    """

    def __init__(self, problem: ScheduleProblem, grid: int) -> None:
        assert problem.micro_batches is not None
        self.problem, count = problem, len(problem.blocks)
        times = [int(time * grid) * STEP for time in problem.times]
        lags = [int(lag * grid) * STEP for lag in problem.lags]
        self.copies = [(n, b) for n in range(problem.micro_batches) for b in range(count)]
        self.length = [times[b] for _, b in self.copies]
        order = sorted(self.copies, key=lambda copy: (copy[0], problem.depths[copy[1]], copy[1]))
        self.rank = [1 + order.index(copy) for copy in self.copies]
        self.ranks = 1 + len(self.copies)
        self.before: list[int] = [0] * len(self.copies)
        self.following: list[list[tuple[int, int]]] = [[] for _ in self.copies]
        for (i, j), edge, lag in zip(problem.ends, problem.edges, lags, strict=True):
            for n in range(problem.micro_batches - edge.offset):
                source, target = n * count + i, (n + edge.offset) * count + j
                self.before[target] |= 1 << source
                self.following[source].append((target, lag))
        index = {device.name: d for d, device in enumerate(problem.devices)}
        self.on = [[index[name] for name in problem.blocks[b].devices] for _, b in self.copies]
        self.devices = _devices(problem)

    def held(self, mask: int, d: int) -> Fraction:
        """By device d when those copies have run, in whatever order."""
        device = self.devices[d]
        return device.standing + sum(
            (device.change[b] for c, (_, b) in enumerate(self.copies) if mask >> c & 1 and d in self.on[c]),
            Fraction(0),
        )

    def may_run(self, mask: int) -> list[int]:
        """Copies that can come next on all their devices."""
        held = [self.held(mask, d) for d in range(len(self.devices))]
        return [
            c
            for c, (_, b) in enumerate(self.copies)
            if not mask >> c & 1
            and self.before[c] & ~mask == 0
            and all(self.devices[d].after(b, held[d]) is not None for d in self.on[c])
        ]

    def best_ends(self, beginnings: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
        """The last ends of all devices that none are better than, after each of the beginnings: device d may run from
        `beginning[d]` on."""
        start = tuple(
            (*(max(free * self.ranks, NEVER) for free in frees), *(NEVER,) * len(self.copies))
            for frees in beginnings
        )
        layer: dict[int, list[_State]] = {0: [start]}
        for _ in self.copies:
            following: dict[int, list[_State]] = {}
            for mask, states in layer.items():
                for c in self.may_run(mask):
                    front = following.setdefault(mask | 1 << c, [])
                    for state in states:
                        _keep(front, tuple(self._placed(mask, column, c) for column in state))
            layer = following
        last = layer.get((1 << len(self.copies)) - 1, [])
        return [
            [tuple(free // self.ranks for free in column[: len(self.devices)]) for column in state]
            for state in last
        ]

    def _placed(self, mask: int, column: tuple[int, ...], c: int) -> tuple[int, ...]:
        """What is free when, and ready when, once c has run as early as it can.

        A device is free at a moment times `ranks`, plus the rank of what it has just run there without time.
        """
        count, length = len(self.devices), self.length[c]
        start, changed = column[count + c], list(column)
        for d in self.on[c]:
            moment, last = divmod(column[d], self.ranks)
            start = max(start, moment + HAIR if moment >= 0 and not length and last > self.rank[c] else moment)
        changed[count + c] = NEVER
        if start < 0:
            return tuple(changed)
        for d in self.on[c]:
            changed[d] = (start + length) * self.ranks + (0 if length else self.rank[c])
        for target, lag in self.following[c]:
            changed[count + target] = max(changed[count + target], start + length + lag)
        for other, on in enumerate(self.on):  # what says nothing must not look different
            if not mask >> other & 1 and other != c:
                changed[count + other] = max(changed[count + other], *(changed[d] // self.ranks for d in on))
        return tuple(changed)


_State = tuple[tuple[int, ...], ...]


def _keep(front: list[_State], state: _State) -> None:
    if any(_no_worse(other, state) for other in front):
        return
    front[:] = [other for other in front if not _no_worse(state, other)]
    front.append(state)


def _no_worse(one: _State, other: _State) -> bool:
    return all(all(map(le, ours, theirs)) for ours, theirs in zip(one, other, strict=True))


def _grid(problem: ScheduleProblem) -> int:
    return math.lcm(*(number.denominator for number in (*problem.times, *problem.lags)))


def _settled(value: int, grid: int) -> Fraction:
    whole, hairs = divmod(value, STEP)
    if hairs:
        raise UnsettledError
    return Fraction(whole, grid)


def least_makespan(problem: ScheduleProblem) -> Fraction | None:
    """From the first start to the last end; None: no schedule obeys the rules.

    Whatever the orders are, everything may start as early as they allow, and the first start is 0.
    """
    grid = _grid(problem)
    ends = _Finite(problem, grid).best_ends([(0,) * len(problem.devices)])
    return _settled(min(max(column) for (column,) in ends), grid) if ends else None


def least_span(problem: ScheduleProblem) -> Fraction | None:
    """The longest time over devices from first start to last end; None: no schedule obeys the rules.

    A device may wait before its first start. With given orders, device e ends at the earliest so and so long after
    device d begins; all devices keep a span if and only if no cycle of such times is longer than as many spans.
    """
    grid, count = _grid(problem), len(problem.devices)
    shares = math.lcm(*range(1, count + 1))
    alone = [tuple(0 if d == begun else NEVER for d in range(count)) for begun in range(count)]
    spans = [_largest_mean(ends) for ends in _Finite(problem, grid).best_ends(alone)]
    return _settled(int(min(spans) * shares), grid * shares) if spans else None


def _largest_mean(times: list[tuple[int, ...]]) -> Fraction:
    """Over the cycles of the positions, of the times from each to the next."""
    cycles = [cycle for n in range(1, len(times) + 1) for cycle in itertools.permutations(range(len(times)), n)]
    lengths = [[times[a][b] for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)] for cycle in cycles]
    return max(Fraction(sum(length), len(length)) for length in lengths if NEVER not in length)


# ---- periodic schedules --------------------------------------------------------------------------------


class _Periodic:
    """Of every two blocks i and j of a device: the k for which i of micro-batch n comes between j of n + k - 1 and
    j of n + k. These numbers say in which order each device runs everything; the rest is longest paths."""

    def __init__(self, problem: ScheduleProblem) -> None:
        self.problem, self.grid = problem, _grid(problem)
        self.times = [int(time * self.grid) for time in problem.times]
        self.lags = [int(lag * self.grid) for lag in problem.lags]
        self.devices = [device for device in _devices(problem) if device.blocks]
        self.pairs: list[tuple[int, int]] = []
        self.complete: list[list[_Device]] = []
        """Devices of which everything is known with that pair."""
        for device in self.devices:
            fresh = [pair for pair in itertools.combinations(device.blocks, 2) if pair not in self.pairs]
            self.pairs += fresh
            self.complete += [[] for _ in fresh]
        for device in self.devices:
            needed = [self.pairs.index(pair) for pair in itertools.combinations(device.blocks, 2)]
            if needed:
                self.complete[max(needed)].append(device)
        self.most = sum(self.times) + sum(self.lags)
        self.load = max(sum(self.times[b] for b in device.blocks) for device in self.devices)
        self.furthest = self._furthest()

    def _furthest(self) -> int:
        """How many periods two blocks may be apart in what is enumerated.

        Where nothing starts for longer than a period and what an edge asks for, all that comes later may come a
        period earlier, unless what comes before is ahead by so much because of what a device holds. Where two devices
        ask for that at once, this is no theorem: a method would have to find what is left out.
        """
        apart = sum(
            max(
                (self.times[i] + lag for (i, _), lag in zip(self.problem.ends, self.lags, strict=True) if i == b),
                default=0,
            )
            for b in range(len(self.times))
        )
        ahead = max(map(_periods_ahead, self.devices))
        furthest = len(self.times) + apart // max(self.load, 1) + ahead
        if furthest > FURTHEST:
            raise UnsettledError
        return furthest

    def arcs(self, choice: Sequence[int]) -> Iterator[tuple[int, int, int, int, int]]:
        """(i, j, length, k, strict): j of micro-batch n + k starts no sooner than `length` after i of n."""
        for (i, j), edge, lag in zip(self.problem.ends, self.problem.edges, self.lags, strict=True):
            yield i, j, self.times[i] + lag, edge.offset, 0
        for device in self.devices:
            for b in device.blocks:
                yield b, b, self.times[b], 1, 0
        for (i, j), k in zip(self.pairs, choice, strict=False):
            yield from self.pair_arcs(i, j, k)

    def pair_arcs(self, i: int, j: int, k: int) -> tuple[tuple[int, int, int, int, int], ...]:
        first = (i, j, self.times[i], k, self._against(i, j, k))
        return first, (j, i, self.times[j], 1 - k, self._against(j, i, 1 - k))

    def _against(self, i: int, j: int, k: int) -> int:
        """Would i of micro-batch n come after j of n + k at one instant?"""
        if self.times[i] or self.times[j]:
            return 0
        depths = self.problem.depths
        return int((0, depths[i], i) > (k, depths[j], j))

    def row(self, device: _Device, k: dict[tuple[int, int], int]) -> list[int]:
        """In which order the device runs everything of so many micro-batches that each state is shown."""
        count = 3 + max((abs(number) for number in k.values()), default=0) * 2
        rank = {}
        for b in device.blocks:
            for n in range(count):
                # How many copies of others come before this one.
                rank[n, b] = (
                    sum(
                        min(max(n + (k[b, other] if (b, other) in k else 1 - k[other, b]), 0), count)
                        for other in device.blocks
                        if other != b
                    )
                    + n
                )
        return [b for _, b in sorted(rank, key=rank.__getitem__)]

    def better(self, best: tuple[Fraction, bool]) -> list[int] | None:
        """Numbers of all pairs with a shorter period than that; or with one as short that is reached."""
        (period, reached), count = best, len(self.times)
        unit = 10**6

        def weight(length: int, k: int, strict: int) -> int:
            over = length * period.denominator - k * period.numerator
            return (over * unit + (k if reached else 0)) * unit + strict

        def added(
            paths: list[list[int | None]], arc: tuple[int, int, int, int, int]
        ) -> list[list[int | None]] | None:
            i, j, length, k, strict = arc
            cost = weight(length, k, strict)
            back = paths[j][i]
            if back is not None and back + cost > 0:
                return None
            paths = [list(row) for row in paths]
            to, fro = [row[i] for row in paths], list(paths[j])
            for a in range(count):
                if to[a] is not None:
                    for b in range(count):
                        if fro[b] is not None and (paths[a][b] is None or to[a] + cost + fro[b] > paths[a][b]):
                            paths[a][b] = to[a] + cost + fro[b]
            return paths

        def descend(position: int, paths: list[list[int | None]], choice: list[int]) -> list[int] | None:
            if position == len(self.pairs):
                return choice
            i, j = self.pairs[position]
            for k in sorted(range(-self.furthest, self.furthest + 1), key=lambda k: (abs(k), k)):
                deeper: list[list[int | None]] | None = paths
                for arc in self.pair_arcs(i, j, k):
                    deeper = None if deeper is None else added(deeper, arc)
                if deeper is None:
                    continue
                chosen = dict(zip(self.pairs, [*choice, k], strict=False))
                if all(
                    device.can_run(self.row(device, _own(chosen, device))) for device in self.complete[position]
                ):
                    found = descend(position + 1, deeper, [*choice, k])
                    if found is not None:
                        return found
            return None

        paths: list[list[int | None]] | None = [[0 if a == b else None for b in range(count)] for a in range(count)]
        for arc in self.arcs(()):
            paths = None if paths is None else added(paths, arc)
        if paths is None or not all(
            device.can_run(device.blocks * 3) for device in self.devices if len(device.blocks) == 1
        ):
            return None
        return descend(0, paths, [])

    def period_of(self, choice: Sequence[int]) -> tuple[Fraction, bool, list[int]]:
        """The least period with these orders, whether it is reached, and starts in steps over its denominator."""
        period = Fraction(0)
        while isinstance(cycle := self._positive_cycle(choice, period, 0), tuple):
            length, k = cycle
            assert k > 0, "such orders are no orders"
            period = Fraction(length, k)
        starts = self._positive_cycle(choice, period, HAIR)
        return (period, True, starts) if isinstance(starts, list) else (period, False, [])

    def _positive_cycle(self, choice: Sequence[int], period: Fraction, hair: int) -> tuple[int, int] | list[int]:
        """(length, k) of a cycle that is too long for the period, or the earliest starts where there is none."""
        arcs = [
            (i, j, length, k, ((length * period.denominator - k * period.numerator) * STEP + strict * hair))
            for i, j, length, k, strict in self.arcs(choice)
        ]
        starts, by = [0] * len(self.times), [None] * len(self.times)
        for _ in range(len(self.times) + 1):
            moved = None
            for arc in arcs:
                if starts[arc[0]] + arc[4] > starts[arc[1]]:
                    starts[arc[1]], by[arc[1]], moved = starts[arc[0]] + arc[4], arc, arc[1]
            if moved is None:
                return starts
        for _ in self.times:  # walk back until we are on the cycle for certain
            moved = by[moved][0]
        at, length, k = moved, 0, 0
        while True:
            arc = by[at]
            at, length, k = arc[0], length + arc[2], k + arc[3]
            if at == moved:
                return length, k


def _periods_ahead(device: _Device) -> int:
    """How many periods it can matter that some of its blocks come before all others.

    Where they give back, as long as there is something that the device stands on. Where they take, until the others,
    which may give before they take, find enough in any order.
    """
    changes = [change for change in device.change.values() if change]
    some = itertools.chain.from_iterable(itertools.combinations(changes, n) for n in range(len(changes)))
    least = min((abs(total) for total in map(sum, some) if total), default=None)
    takes = sum(change for change in changes if change > 0)
    return 0 if least is None else math.ceil(max(device.standing, takes) / least)


def _own(chosen: dict[tuple[int, int], int], device: _Device) -> dict[tuple[int, int], int]:
    return {pair: k for pair, k in chosen.items() if pair[0] in device.blocks and pair[1] in device.blocks}


def least_periodic(problem: ScheduleProblem) -> PeriodicSchedulePlan | None:
    """A schedule with the least period; None: no schedule obeys the rules.

    With given orders the least period is the largest of (times + lags) / micro-batches over the cycles of what waits
    for what, so that no period ever has to be longer than all times and lags together.
    """
    search = _Periodic(problem)
    found, best = None, (Fraction(search.most + 1), False)
    while best != (search.load, True) and (choice := search.better(best)) is not None:
        period, reached, found = search.period_of(choice)
        best = period, reached
    if found is None:
        return None
    period, reached = best
    if not reached:
        raise UnsettledError
    unit = STEP * period.denominator * search.grid
    return PeriodicSchedulePlan(
        period / search.grid,
        {block.id: Fraction(start, unit) for block, start in zip(problem.blocks, found, strict=True)},
    )


def least_period(problem: ScheduleProblem) -> Fraction | None:
    """Over all periodic schedules; None: no schedule obeys the rules."""
    plan = least_periodic(problem)
    return None if plan is None else plan.period


# ---- tiny problems -------------------------------------------------------------------------------------


def tiny_problem(seed: int, micro_batches: int | None = None, devices: int = 2) -> ScheduleProblem:
    """A random problem of two to four blocks with an optimum, as everything random may have it: several devices a
    block, offsets, lags, workspace, blocks without time; half of the limits are as tight as one block asks for.

    One in some has no schedule.
    """
    chosen = random.Random(seed)
    for attempt in itertools.count():
        blocks = chosen.choice((2, 3, 3, 4, 4))
        made = random_schedule(devices, blocks, micro_batches, 1000 * seed + attempt, Ingredients())
        problem = _with_limits(made, chosen)
        if sum(problem.loads) and is_settled(problem):
            return problem
    raise AssertionError


def _with_limits(problem: ScheduleProblem, chosen: random.Random) -> ScheduleProblem:
    devices = []
    for device in problem.devices:
        least = max(
            (
                max(block.memory.get(device.name, 0), 0) + block.workspace.get(device.name, 0)
                for block in problem.blocks
            ),
            default=0,
        )
        standing = chosen.choice((0, 0, 0, 1))
        room = chosen.choice((0, 0, 0, 1, None))
        devices.append(replace(device, memory=None if room is None else standing + least + room, standing=standing))
    return problem.replace(devices=tuple(devices))


def is_settled(problem: ScheduleProblem) -> bool:
    """Has it least values, each found by enumeration?"""
    try:
        least_period(problem)
        if problem.micro_batches is not None:
            least_makespan(problem)
            least_span(problem)
    except UnsettledError:
        return False
    return True
