"""The shortest period of tiny chains, by trying everything: shares no code with the models or the referee.

A pattern that fits a period fits every longer one, and the shortest period is a quotient: the time of a circle of
activities, each in it at most once, by a number of periods no larger than the number of activities. So these quotients
are tried, by halving. For one period: every allocation, and every start of every activity, each as early as its batch
allows (waiting longer than a period only costs memory), among the instants that matter: with orders and batches
settled, activities that start as early as they can start at a sum of durations, give or take whole periods.

Times and sizes are decimals as they are written, in whole parts of a common unit. Activities may take no time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.chain.problem import ChainProblem


def best_period(problem: ChainProblem, given: Sequence[int] | None = None) -> Fraction | None:
    """None where nothing fits the memory, however long the period; `given`: with this allocation alone."""
    tiny = _Tiny.of(problem)
    every = [tuple(given)] if given is not None else list(allocations(problem))
    fitting = [allocation for allocation in every if tiny.sequential_fits(allocation)]
    best: Fraction | None = None
    for allocation in fitting:
        periods = tiny.periods(allocation, best)
        first = bisect_left(periods, True, key=lambda period: tiny.fits(allocation, period))
        if first < len(periods):
            best = periods[first]
    return None if best is None else best * tiny.time_unit


def agrees(problem: ChainProblem, value: float | None) -> bool:
    """Is this the shortest period, which may be a fraction?"""
    best = best_period(problem)
    if best is None or value is None:
        return best is value
    return math.isclose(value, best, rel_tol=1e-9)


def allocations(problem: ChainProblem, held: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Up to the names of GPUs."""
    if len(held) == problem.layers:
        yield held
        return
    for gpu in range(min(problem.gpus, max(held, default=-1) + 2)):
        yield from allocations(problem, (*held, gpu))


def least_load(problem: ChainProblem, choices: Iterable[tuple[int, ...]] | None = None) -> Fraction | None:
    """The smallest load of the busiest GPU or link among allocations that fit with one batch at a time."""
    tiny = _Tiny.of(problem)
    fitting = filter(tiny.sequential_fits, allocations(problem) if choices is None else choices)
    best = min((max(tiny.loads(allocation)) for allocation in fitting), default=None)
    return None if best is None else best * tiny.time_unit


def least_memory(problem: ChainProblem) -> Fraction:
    """Of one batch at a time, with the best allocation: less is never enough."""
    tiny = _Tiny.of(problem)
    return min(map(tiny.sequential_peak, allocations(problem))) * tiny.size_unit


def _in_units(amounts: Iterable[Fraction]) -> Fraction:
    """The unit of which all are whole multiples."""
    known = [amount for amount in amounts if amount]
    common = math.lcm(*(amount.denominator for amount in known)) if known else 1
    return Fraction(math.gcd(*(int(amount * common) for amount in known)) or 1, common)


@dataclass(frozen=True)
class _Tiny:
    """A chain in whole numbers."""

    problem: ChainProblem
    durations: tuple[int, ...]
    transfers: tuple[int, ...]
    weights: tuple[int, ...]
    sizes: tuple[int, ...]
    limit: int | None
    time_unit: Fraction
    size_unit: Fraction

    @classmethod
    def of(cls, problem: ChainProblem) -> _Tiny:
        times = [as_written(time) for time in problem.durations]
        moves = [_transfer_time(problem, edge) for edge in range(1, problem.tasks)]
        copies = as_written(problem.weight_copies)
        weights = [copies * as_written(weight) for weight in problem.weights]
        kept = problem.memory_mode != "weights"
        sizes = [as_written(size) if kept else Fraction(0) for size in problem.activations]
        time_unit, size_unit = _in_units([*times, *moves]), _in_units([*weights, *sizes])
        limit = None if problem.memory_bytes is None else math.floor(as_written(problem.memory_bytes) / size_unit)
        return cls(
            problem, tuple(int(time / time_unit) for time in times), tuple(int(time / time_unit) for time in moves),
            tuple(int(weight / size_unit) for weight in weights), tuple(int(size / size_unit) for size in sizes),
            limit, time_unit, size_unit,
        )  # fmt: skip

    def cut(self, allocation: tuple[int, ...]) -> list[int]:
        """The edges that lead from GPU to GPU, as positions."""
        layer = self.problem.layer_of
        return [e for e in range(self.problem.tasks - 1) if allocation[layer[e]] != allocation[layer[e + 1]]]

    def periods(self, allocation: tuple[int, ...], below: Fraction | None) -> list[Fraction]:
        """All that may be the shortest one, in order: at least every load, and less than `below`."""
        lengths = [*self.durations, *(self.transfers[e] for e in self.cut(allocation))]
        least = max(1, *self.loads(allocation))
        sums = {0}
        for length in lengths:
            sums |= {total + length for total in sums}
        found = {Fraction(total, count) for total in sums for count in range(1, len(lengths) + 1)}
        return sorted(period for period in found if period >= least and (below is None or period < below))

    def loads(self, allocation: tuple[int, ...]) -> list[int]:
        """How long each GPU and each link is busy with one batch."""
        loads: dict[tuple[int, ...], int] = {}
        gpu = [allocation[layer] for layer in self.problem.layer_of]
        for task, duration in enumerate(self.durations):
            loads[gpu[task],] = loads.get((gpu[task],), 0) + duration
        for e in self.cut(allocation):
            link = self.link(gpu[e], gpu[e + 1])
            loads[link] = loads.get(link, 0) + self.transfers[e]
        return list(loads.values())

    def link(self, sender: int, receiver: int) -> tuple[int, int]:
        ends = (sender, receiver)
        return ends if self.problem.duplex == "full" else (min(ends), max(ends))

    def fits(self, allocation: tuple[int, ...], period: Fraction) -> bool:
        return _Search(self, allocation, period).fits()

    def sequential_peak(self, allocation: tuple[int, ...]) -> int:
        """One batch at a time, with a pause before the next one."""
        search, ready = _Search(self, allocation, Fraction(2 * sum(self.durations) + 2)), 0
        for task, duration in enumerate(self.durations):
            search.starts[task] = ready
            ready += duration
        return max(search.held(task) for task in search.starts)

    def sequential_fits(self, allocation: tuple[int, ...]) -> bool:
        return self.limit is None or self.sequential_peak(allocation) <= self.limit


def _transfer_time(problem: ChainProblem, edge: int) -> Fraction:
    if edge == problem.layers:
        return Fraction(0)
    if problem.transfer_times is not None:
        return as_written(problem.transfer_times[edge - 1])
    if problem.bandwidth is None:
        return Fraction(0)
    return as_written(problem.activations[edge]) / as_written(problem.bandwidth)


@dataclass
class _Search:
    """One allocation and one period, in whole ticks: as many for each unit as the period's denominator says."""

    tiny: _Tiny
    allocation: tuple[int, ...]
    exact_period: Fraction
    starts: dict[int, int] = field(default_factory=dict)
    busy: dict[tuple[int, ...], list[tuple[int, int]]] = field(default_factory=dict)
    """What of the period is taken, by resource: first instant and length."""

    def __post_init__(self) -> None:
        self.problem = self.tiny.problem
        ticks, self.period = self.exact_period.denominator, self.exact_period.numerator
        self.durations = [ticks * duration for duration in self.tiny.durations]
        self.transfers = [ticks * transfer for transfer in self.tiny.transfers]
        self.gpu = [self.allocation[layer] for layer in self.problem.layer_of]
        sums = {0}
        for length in (*self.durations, *(self.transfers[e] for e in self.tiny.cut(self.allocation))):
            sums |= {(total + length) % self.period for total in sums}
        self.instants = sorted(sums)
        cut = set(self.tiny.cut(self.allocation))
        moves = [self.transfers[e] if e in cut else 0 for e in range(len(self.transfers))]
        self.reach = [sum(self.durations[: t + 1]) + sum(moves[:t]) for t in range(len(self.durations))]
        """When each task ends that nothing delays."""

    # ---- time ------------------------------------------------------------------------------------------

    def fits(self) -> bool:
        return self._place_task(0, 0)

    def _instants_from(self, ready: int) -> Iterator[int]:
        """Those that matter in the period that begins here, in order."""
        base, place = ready - ready % self.period, bisect_left(self.instants, ready % self.period)
        yield from (base + instant for instant in self.instants[place:])
        yield from (base + self.period + instant for instant in self.instants[:place])

    def _place_task(self, task: int, ready: int) -> bool:
        if task == self.problem.tasks:
            return True
        duration = self.durations[task]
        for start in self._instants_from(ready) if task else (0,):
            if self._take((self.gpu[task],), start, duration):
                self.starts[task] = start
                if self._memory_fits() and self._place_transfer(task, start + duration):
                    return True
                del self.starts[task]
                self._release((self.gpu[task],), duration)
        return False

    def _place_transfer(self, task: int, ready: int) -> bool:
        cut = task + 1 < self.problem.tasks and self.gpu[task] != self.gpu[task + 1]
        duration = self.transfers[task] if cut else 0
        if not duration:
            return self._place_task(task + 1, ready)
        link = self.tiny.link(self.gpu[task], self.gpu[task + 1])
        for start in self._instants_from(ready):
            if self._take(link, start, duration):
                if self._place_task(task + 1, start + duration):
                    return True
                self._release(link, duration)
        return False

    def _take(self, resource: tuple[int, ...], start: int, duration: int) -> bool:
        """What takes no time is never in the way."""
        if not duration:
            return True
        if duration > self.period:
            return False
        taken, first = self.busy.setdefault(resource, []), start % self.period
        for other, length in taken:
            if (other - first) % self.period < duration or (first - other) % self.period < length:
                return False
        taken.append((first, duration))
        return True

    def _release(self, resource: tuple[int, ...], duration: int) -> None:
        if duration:
            self.busy[resource].pop()

    # ---- memory ----------------------------------------------------------------------------------------

    def _memory_fits(self) -> bool:
        """At the start of every task; of what is not placed yet, what is kept until then counts as far as is certain.

        Tensors are born at starts of tasks, or at their ends in place of the output that they are.
        """
        return self.tiny.limit is None or all(self.held(task) <= self.tiny.limit for task in self.starts)

    def _earliest_end(self, task: int) -> int:
        """Of a task that is placed, or that comes after those that are."""
        last = min(task, len(self.starts) - 1)
        return self.starts[last] + self.durations[last] + self.reach[task] - self.reach[last]

    def held(self, at: int) -> int:
        """Everything on the GPU of a task when it starts: live intervals counted over all batches."""
        problem, gpu, now, sizes = self.problem, self.gpu[at], self.starts[at], self.tiny.sizes
        held = sum(weight for layer, weight in enumerate(self.tiny.weights) if self.allocation[layer] == gpu)
        for task, start in self.starts.items():
            if self.gpu[task] != gpu:
                continue
            end = start + self.durations[task]
            if task < problem.layers:
                held += sizes[task] * self._alive(start, self._earliest_end(problem.tasks - 1 - task), now)
            if problem.memory_mode == "reserved":
                held += self._current(task, start, end, now)
        if problem.memory_mode == "reserved":
            edges = (e for e in problem.remote_edges if (self.gpu[e - 1] == gpu) != (self.gpu[e] == gpu))
            held += sum(sizes[e] for e in edges)
        return held

    def _current(self, task: int, start: int, end: int, now: int) -> int:
        """What is written, the gradient that is read, and what waits for the next task of this GPU."""
        sizes = self.tiny.sizes
        held = sizes[task + 1] * self._alive(start, end, now)
        if task >= self.problem.layers:
            held += sizes[task] * self._alive(start, end, now)
        if task + 1 in self.starts and self.gpu[task + 1] == self.gpu[task]:
            held += sizes[task + 1] * self._alive(end, self.starts[task + 1], now)
        return held

    def _alive(self, start: int, end: int, now: int) -> int:
        """For how many batches `now` is in the half-open interval."""
        return (now - start) // self.period - (now - end) // self.period
