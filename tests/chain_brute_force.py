"""The shortest whole period of tiny chains, by trying everything: shares no code with the models or the referee.

A pattern that fits a period fits every longer one, so periods are tried from the shortest. For one period: every
allocation, and every start of every activity within the period, each as early as its batch allows (waiting longer
than a period only costs memory). Times are whole and positive; transfers may take no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from pipeplan.instances.chain import ChainProblem


def best_period(problem: ChainProblem) -> int | None:
    """None where nothing fits the memory, however long the period."""
    longest = int(sum(problem.durations) + sum(problem.edge_times))
    fitting = [allocation for allocation in allocations(problem) if _Search(problem, allocation, longest).sequential()]
    if not fitting:
        return None
    loads = [f + b for f, b in zip(problem.forward, problem.backward, strict=True)]
    period = int(max(loads))
    while not any(_Search(problem, allocation, period).fits() for allocation in fitting):
        period += 1
    return period


def fits(problem: ChainProblem, period: int) -> bool:
    """Has some allocation a pattern of this period?"""
    return any(_Search(problem, allocation, period).fits() for allocation in allocations(problem))


def scaled(problem: ChainProblem, factor: int) -> ChainProblem:
    """All times multiplied: periods that are fractions become whole."""
    return problem.replace(
        forward=tuple(factor * time for time in problem.forward),
        backward=tuple(factor * time for time in problem.backward),
        bandwidth=None,
        transfer_times=tuple(factor * time for time in problem.edge_times),
    )


def agrees(problem: ChainProblem, value: float | None) -> bool:
    """Is this the shortest period, which may be a fraction?"""
    if value is None:
        return best_period(problem) is None
    exact = Fraction(value).limit_denominator(60)
    finer = scaled(problem, exact.denominator)
    return fits(finer, exact.numerator) and not fits(finer, exact.numerator - 1)


def allocations(problem: ChainProblem, held: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Up to the names of GPUs."""
    if len(held) == problem.layers:
        yield held
        return
    for gpu in range(min(problem.gpus, max(held, default=-1) + 2)):
        yield from allocations(problem, (*held, gpu))


def least_memory(problem: ChainProblem) -> int:
    """Of one batch at a time, with the best allocation: less is never enough."""
    return min(_Search(problem, allocation, 10**6).sequential_peak() for allocation in allocations(problem))


@dataclass
class _Search:
    problem: ChainProblem
    allocation: tuple[int, ...]
    period: int
    starts: dict[int, int] = field(default_factory=dict)
    busy: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Which instants of the period are taken, as the bits of a number, by resource."""

    def __post_init__(self) -> None:
        self.gpu = [self.allocation[layer] for layer in self.problem.layer_of]

    # ---- time ------------------------------------------------------------------------------------------

    def fits(self) -> bool:
        loads = [0.0] * self.problem.gpus
        for task, duration in enumerate(self.problem.durations):
            loads[self.gpu[task]] += duration
        return max(loads) <= self.period and self._place_task(0, 0)

    def _place_task(self, task: int, ready: int) -> bool:
        if task == self.problem.tasks:
            return self._memory_fits(complete=True)
        duration = int(self.problem.durations[task])
        for start in range(ready, ready + (self.period if task else 1)):
            if self._take((self.gpu[task],), start, duration):
                self.starts[task] = start
                if self._memory_fits(complete=False) and self._place_transfer(task, start + duration):
                    return True
                del self.starts[task]
                self._release((self.gpu[task],), start, duration)
        return False

    def _place_transfer(self, task: int, ready: int) -> bool:
        cut = task + 1 < self.problem.tasks and self.gpu[task] != self.gpu[task + 1]
        duration = int(self.problem.edge_times[task]) if cut else 0
        if not duration:
            return self._place_task(task + 1, ready)
        ends = (self.gpu[task], self.gpu[task + 1])
        link = ends if self.problem.duplex == "full" else tuple(sorted(ends))
        for start in range(ready, ready + self.period):
            if self._take(link, start, duration):
                if self._place_task(task + 1, start + duration):
                    return True
                self._release(link, start, duration)
        return False

    def _mask(self, start: int, duration: int) -> int:
        return sum(1 << (instant % self.period) for instant in range(start, start + duration))

    def _take(self, resource: tuple[int, ...], start: int, duration: int) -> bool:
        if duration > self.period:
            return False
        mask, taken = self._mask(start, duration), self.busy.get(resource, 0)
        if mask & taken:
            return False
        self.busy[resource] = taken | mask
        return True

    def _release(self, resource: tuple[int, ...], start: int, duration: int) -> None:
        self.busy[resource] &= ~self._mask(start, duration)

    # ---- memory ----------------------------------------------------------------------------------------

    def _memory_fits(self, complete: bool) -> bool:
        """At the start of every task that is placed; what is not placed yet counts for nothing."""
        limit = self.problem.memory_bytes
        if limit is None:
            return True
        checked = self.starts if complete else [max(self.starts)]
        gpus = {self.gpu[task] for task in checked}
        return all(self._held(task) <= limit for task in self.starts if self.gpu[task] in gpus)

    def _held(self, at: int) -> float:
        """Everything on the GPU of a task when it starts: live intervals counted over all batches."""
        problem, gpu, now = self.problem, self.gpu[at], self.starts[at]
        sizes = problem.activations if problem.memory_mode != "weights" else (0,) * (problem.tasks + 1)
        held = problem.weight_copies * sum(
            weight for layer, weight in enumerate(problem.weights) if self.allocation[layer] == gpu
        )
        for task, start in self.starts.items():
            if self.gpu[task] != gpu:
                continue
            end = start + int(problem.durations[task])
            if task >= problem.layers:
                layer = problem.tasks - 1 - task
                held += sizes[layer] * self._alive(self.starts[layer], end, now)
            elif problem.tasks - 1 - task not in self.starts:
                held += sizes[task] * self._alive(start, end, now)
            if problem.memory_mode == "reserved":
                held += self._current(task, start, end, now, sizes)
        if problem.memory_mode == "reserved":
            edges = (e for e in problem.remote_edges if (self.gpu[e - 1] == gpu) != (self.gpu[e] == gpu))
            held += sum(sizes[e] for e in edges)
        return held

    def _current(self, task: int, start: int, end: int, now: int, sizes: tuple[float, ...]) -> float:
        """What is written, the gradient that is read, and what waits for the next task of this GPU."""
        held = sizes[task + 1] * self._alive(start, end, now)
        if task >= self.problem.layers:
            held += sizes[task] * self._alive(start, end, now)
        if task + 1 in self.starts and self.gpu[task + 1] == self.gpu[task]:
            held += sizes[task + 1] * self._alive(end, self.starts[task + 1], now)
        return held

    def _alive(self, start: int, end: int, now: int) -> int:
        """For how many batches `now` is in the half-open interval."""
        return (now - start) // self.period - (now - end) // self.period

    # ---- one batch at a time ---------------------------------------------------------------------------

    def sequential_peak(self) -> int:
        ready = 0
        for task, duration in enumerate(self.problem.durations):
            self.starts[task] = ready
            ready += int(duration)
        return int(max(self._held(task) for task in self.starts))

    def sequential(self) -> bool:
        limit = self.problem.memory_bytes
        return limit is None or self.sequential_peak() <= limit
