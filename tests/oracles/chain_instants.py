"""Patterns of tiny chains by trying every whole start, from the definition alone: also for tasks that take no time.

One or several batches per period, all memory modes, exclusive buffers. Memory is looked at in every unit of the
period. Shares no code with the models or the referee, and with the other brute force, which knows positive times only,
no more than the list of allocations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from oracles.chain import allocations

from pipeplan.instances.chain.problem import ChainProblem

Interval = tuple[int, int, Fraction]
"""Start, end, size; once per period."""


def fits(problem: ChainProblem, period: int, batches: int = 1) -> bool:
    """Has some allocation a pattern of this period (of all batches together), all times being whole?"""
    return any(Search(problem, allocation, period, batches).found() for allocation in allocations(problem))


def sequential(problem: ChainProblem) -> int:
    return int(sum(problem.durations) + sum(problem.edge_times))


def agrees(problem: ChainProblem, value: float | None, batches: int = 1) -> bool:
    """Is this the shortest period per batch? It may be a fraction; None: there is no pattern at all."""
    if value is None:
        return not fits(problem, max(1, batches * sequential(problem)), batches)
    exact = Fraction(value).limit_denominator(24) * batches
    q = exact.denominator
    finer = problem.replace(
        forward=tuple(q * int(time) for time in problem.forward),
        backward=tuple(q * int(time) for time in problem.backward),
        bandwidth=None,
        transfer_times=tuple(q * int(time) for time in problem.edge_times),
    )
    shorter = range(1, exact.numerator) if problem.exclusive_buffers else [exact.numerator - 1]
    return fits(finer, exact.numerator, batches) and not any(p > 0 and fits(finer, p, batches) for p in shorter)


@dataclass
class Search:
    problem: ChainProblem
    allocation: tuple[int, ...]
    period: int
    batches: int
    starts: list[dict[int, int]] = field(default_factory=list)
    sent: list[dict[int, int]] = field(default_factory=list)
    busy: dict[tuple[int, ...], set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gpu = [self.allocation[layer] for layer in self.problem.layer_of]
        self.starts = [{} for _ in range(self.batches)]
        self.sent = [{} for _ in range(self.batches)]
        self.reach = self.period * (1 if self.batches == 1 else 2)

    def found(self) -> bool:
        return self._task(0, 0, 0)

    def _task(self, row: int, task: int, ready: int) -> bool:
        """Place a task, then everything after it; batch after batch."""
        if task == self.problem.tasks:
            return self._task(row + 1, 0, self.starts[row][0]) if row + 1 < self.batches else self._fits()
        duration = int(self.problem.durations[task])
        last = ready + (self.reach if row or task else 1)
        for start in range(ready, last):
            if not self._in_turn(row, task, start):
                continue
            taken = self._take((self.gpu[task],), start, duration)
            if taken is None:
                continue
            self.starts[row][task] = start
            if self._fits() and self._transfer(row, task, start + duration):
                return True
            del self.starts[row][task]
            self.busy[(self.gpu[task],)] -= taken
        return False

    def _in_turn(self, row: int, task: int, start: int) -> bool:
        """After the batch before, and not after the first batch of the next period."""
        if row == 0:
            return True
        return self.starts[row - 1][task] <= start <= self.starts[0][task] + self.period

    def _transfer(self, row: int, task: int, ready: int) -> bool:
        edge = task + 1
        cut = edge < self.problem.tasks and self.gpu[task] != self.gpu[edge]
        if not cut:
            return self._task(row, edge, ready)
        duration = int(self.problem.edge_times[task])
        if not duration and not self.problem.exclusive_buffers and self.problem.memory_mode != "strict":
            return self._task(row, edge, ready)
        ends = (self.gpu[task], self.gpu[edge])
        link = ends if self.problem.duplex == "full" else tuple(sorted(ends))
        for start in range(ready, ready + self.reach):
            if self.problem.exclusive_buffers and start + duration - ready > self.period:
                break
            taken = self._take(link, start, duration)
            if taken is None:
                continue
            self.sent[row][edge] = start
            if self._fits() and self._task(row, edge, start + duration):
                return True
            del self.sent[row][edge]
            self.busy[link] -= taken
        return False

    def _take(self, resource: tuple[int, ...], start: int, duration: int) -> set[int] | None:
        if duration > self.period:
            return None
        wanted = {instant % self.period for instant in range(start, start + duration)}
        busy = self.busy.setdefault(resource, set())
        if wanted & busy:
            return None
        busy |= wanted
        return wanted

    # ---- memory and buffers ------------------------------------------------------------------------------

    def _fits(self) -> bool:
        """For what is placed so far."""
        if self.problem.exclusive_buffers and not self._exclusive():
            return False
        limit = self.problem.memory_bytes
        return limit is None or all(self._peak(gpu) <= Fraction(limit) for gpu in set(self.gpu))

    def _exclusive(self) -> bool:
        """One batch per period: what was received is read within a period."""
        for starts, sent in zip(self.starts, self.sent, strict=True):
            if any(starts[edge] - start > self.period for edge, start in sent.items() if edge in starts):
                return False
        return True

    def _peak(self, gpu: int) -> Fraction:
        problem = self.problem
        copies = Fraction(str(problem.weight_copies))
        weights = [
            copies * Fraction(str(w)) for w, at in zip(problem.weights, self.allocation, strict=True) if at == gpu
        ]
        total = sum(weights, Fraction(0))
        if problem.memory_mode == "weights":
            return total
        sizes = [Fraction(str(size)) for size in problem.activations]
        if problem.memory_mode == "reserved":
            borders = [e for e in problem.remote_edges if (self.gpu[e - 1] == gpu) != (self.gpu[e] == gpu)]
            total += sum((sizes[e] for e in borders), Fraction(0))
        intervals = [interval for row in range(self.batches) for interval in self._alive(row, gpu, sizes)]
        return total + max(self._at(instant, intervals) for instant in range(self.period))

    def _at(self, instant: int, intervals: list[Interval]) -> Fraction:
        held = Fraction(0)
        for start, end, size in intervals:
            held += size * ((instant - start) // self.period - (instant - end) // self.period)
        return held

    def _alive(self, row: int, gpu: int, sizes: list[Fraction]) -> Iterator[Interval]:
        problem, starts, sent = self.problem, self.starts[row], self.sent[row]
        ends = {task: start + int(problem.durations[task]) for task, start in starts.items()}
        latest = max(ends.values(), default=0)
        for task, start in starts.items():
            if self.gpu[task] != gpu:
                continue
            layer = problem.layer_of[task]
            if task < problem.layers:
                back = problem.tasks - 1 - layer
                yield start, ends.get(back, max(latest, start)), sizes[layer]
            if problem.memory_mode == "inputs":
                continue
            yield start, ends[task], sizes[task + 1]
            if task >= problem.layers:
                yield start, ends[task], sizes[task]
            edge = task + 1
            if edge in starts and self.gpu[edge] == gpu:
                yield ends[task], starts[edge], sizes[edge]
        if problem.memory_mode == "strict":
            for edge, start in sent.items():
                if self.gpu[edge - 1] == gpu:
                    yield ends[edge - 1], start + int(problem.edge_times[edge - 1]), sizes[edge]
                elif self.gpu[edge] == gpu and edge in starts:
                    yield start, starts[edge], sizes[edge]
