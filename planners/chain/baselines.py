"""Baselines to compare with: PipeDream run eagerly, the best contiguous stages, GPipe, and synchronous 1F1B.

All of them have contiguous stages. The best ones under a memory limit have the schedule 1F1B* of Beaumont et al.: from
the last stage on, stages and the transfers between them are packed into groups that each take at most one period. A
stage of group k keeps k batches, the fewest that any schedule of contiguous stages can do with, so a dynamic program
over stages and groups finds the best partition at a period. What is measured by simulation comes after.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, count, pairwise

from ...instances.base.amounts import Amount, as_written, fits, whole_amounts
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem, plain
from ...instances.physics.tolerances import SAME
from ...instances.registry import violations_of
from ..contract import FunctionPlanner, Outcome, Request

# The bisection ends at an interval of the longest period divided by this. It need only find the partition, whose
# period is then computed exactly.
RESOLUTION = 10**12


@dataclass(frozen=True)
class Stages:
    """What contiguous stages of a chain cost, in whole ticks and whole parts of a byte, so that all sums are exact.

    A stage is (first layer, layer behind the last).
    """

    problem: ChainProblem
    allowed: frozenset[tuple[int, int]] | None = None
    """The stages that may be used; None: any stage."""

    @cached_property
    def ticks(self) -> int:
        """Ticks in one time unit, such that all times are whole numbers of ticks."""
        times = (*self.problem.durations, *self.problem.edge_times)
        return math.lcm(*(as_written(time).denominator for time in times))

    @cached_property
    def parts(self) -> int:
        """Parts in one byte, such that all amounts of memory are whole numbers of parts."""
        single = [as_written(size) for size in self.problem.weights]
        amounts = (*self.problem.held_weights, *self.problem.held_activations)
        return math.lcm(*(size.denominator for size in (*single, *amounts)))

    @cached_property
    def memory(self) -> int | None:
        memory = self.problem.memory_bytes
        return None if memory is None else math.floor(as_written(memory) * self.parts)

    @cached_property
    def edge_times(self) -> list[int]:
        return [int(as_written(time) * self.ticks) for time in self.problem.edge_times]

    @cached_property
    def _sizes(self) -> list[int]:
        return [int(size * self.parts) for size in self.problem.held_activations]

    @cached_property
    def _loads(self) -> list[int]:
        times = zip(self.problem.forward, self.problem.backward, strict=True)
        return [0, *accumulate(int((as_written(f) + as_written(b)) * self.ticks) for f, b in times)]

    @cached_property
    def _weights(self) -> list[int]:
        return [0, *accumulate(int(size * self.parts) for size in self.problem.held_weights)]

    @cached_property
    def _versions(self) -> list[int]:
        return [0, *accumulate(int(as_written(size) * self.parts) for size in self.problem.weights)]

    @cached_property
    def _kept(self) -> list[int]:
        return [0, *accumulate(self._sizes[: self.problem.layers])]

    def load(self, first: int, end: int) -> int:
        return self._loads[end] - self._loads[first]

    def estimate(self, first: int, end: int) -> int:
        """What PipeDream counts for each of its versions, in parts of a byte: weights once, and kept activations."""
        return self._versions[end] - self._versions[first] + self.kept(first, end)

    def kept(self, first: int, end: int) -> int:
        """Memory that one batch keeps between its forward and backward pass, in parts of a byte."""
        return self._kept[end] - self._kept[first]

    def transfer(self, border: int) -> int:
        """Time on the link for a border's activation and gradient; 0 at both ends of the chain."""
        if not 0 < border < self.problem.layers:
            return 0
        times = self.edge_times
        return times[border - 1] + times[self.problem.tasks - border - 1]

    def link_load(self, border: int) -> int:
        """Time on a border's link for one batch: that of the busier direction where each has a link of its own."""
        if self.problem.duplex == "half" or not 0 < border < self.problem.layers:
            return self.transfer(border)
        return max(self.edge_times[border - 1], self.edge_times[self.problem.tasks - border - 1])

    def peak(self, first: int, end: int, batches: int) -> int:
        """Memory of a stage that keeps this number of batches and runs each pass without a break."""
        fixed = self._weights[end] - self._weights[first] + (batches - 1) * self.kept(first, end)
        if self.problem.memory_mode in ("inputs", "weights"):
            return fixed + self.kept(first, end)
        sizes, last = self._sizes, self.problem.tasks
        most = 0
        for layer in range(first, end):
            forward = sizes[layer] + sizes[layer + 1]
            backward = sizes[layer] + sizes[last - 1 - layer] + sizes[last - layer]
            most = max(most, self.kept(first, layer) + max(forward, backward))
        slots = sum(sizes[b] + sizes[last - b] for b in (first, end) if 0 < b < self.problem.layers)
        return fixed + most + slots


@dataclass(frozen=True, slots=True)
class _Label:
    """The best way to divide the layers behind a border: number of groups, time used in the last, first stage's end."""

    groups: int
    used: int
    end: int


def bounds_to_allocation(bounds: Sequence[int]) -> tuple[int, ...]:
    """The GPU of each layer, from the borders 0 = b_0 < b_1 < ... < b_S = L."""
    return tuple(stage for stage, (a, b) in enumerate(pairwise(bounds)) for _ in range(a, b))


def pipedream_partition(problem: ChainProblem, target: float | None = None, versions: int = 1) -> list[int] | None:
    """Borders that minimise the largest stage load or link time; None where no partition meets the target.

    PipeDream's own estimate for a stage, `versions` times its weights and kept activations, must not exceed `target`.
    """
    stages = Stages(problem)
    most = None if target is None else as_written(target) * stages.parts

    def admitted(first: int, end: int) -> bool:
        return most is None or versions * stages.estimate(first, end) <= most

    layers = problem.layers
    best: dict[int, tuple[int, tuple[int, ...]]] = {layers: (0, (layers,))}
    answer: tuple[int, tuple[int, ...]] | None = None
    for _ in range(min(problem.gpus, layers)):
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for end, (worst, borders) in best.items():
            for first in range(end):
                if not admitted(first, end):
                    continue
                value = max(worst, stages.load(first, end), stages.link_load(end))
                if first not in following or value < following[first][0]:
                    following[first] = (value, (first, *borders))
        best = following
        if 0 in best and (answer is None or best[0][0] < answer[0]):
            answer = best[0]
        best.pop(0, None)
    return None if answer is None else list(answer[1])


def best_contiguous(problem: ChainProblem, given: Sequence[int] | None = None) -> PatternPlan | None:
    """The contiguous partition of least period whose 1F1B* schedule fits the memory; None where none does.

    `given`: borders that are to be kept.
    """
    stages = Stages(problem, None if given is None else frozenset(pairwise(given)))
    longest = stages.load(0, problem.layers) + sum(stages.edge_times)
    least = longest // (2 * problem.gpus * problem.layers + 1)
    borders = _divide(stages, longest)
    if borders is None:
        return None
    while longest - least > 1 + longest // RESOLUTION:
        middle = (least + longest) // 2
        division = _divide(stages, middle)
        if division is None:
            least = middle
        else:
            longest, borders = middle, division
    return one_f_one_b(problem, borders, Fraction(longest, stages.ticks))


def _divide(stages: Stages, limit: int) -> list[int] | None:
    """Borders of a partition that fits the period and the memory, built from the last stage on; None: there is none."""
    problem = stages.problem
    layers, memory = problem.layers, stages.memory
    labels: dict[int, _Label] = {layers: _Label(1, 0, layers)}
    history = [labels]
    for _ in range(min(problem.gpus, layers)):
        following: dict[int, _Label] = {}
        for end, label in labels.items():
            sent = _pack(label.groups, label.used, stages.transfer(end), limit)
            for first in range(end - 1, -1, -1):
                packed = None if sent is None else _pack(*sent, stages.load(first, end), limit)
                if packed is None:
                    break
                if stages.allowed is not None and (first, end) not in stages.allowed:
                    continue
                if memory is not None and stages.peak(first, end, packed[0]) > memory:
                    continue
                old = following.get(first)
                if old is None or packed < (old.groups, old.used):
                    following[first] = _Label(*packed, end)
        labels = following
        history.append(labels)
        if 0 in labels:
            borders = [0]
            for labels in reversed(history[1:]):
                borders.append(labels[borders[-1]].end)
            return borders
    return None


def _pack(groups: int, used: int, time: int, limit: int) -> tuple[int, int] | None:
    """Put an item into the current group where it fits, else into the next one; None: it takes longer than a period."""
    if time > limit:
        return None
    return (groups, used + time) if used + time <= limit else (groups + 1, time)


def one_f_one_b(problem: ChainProblem, borders: Sequence[int], period: Amount) -> PatternPlan:
    """1F1B*: forward passes without a pause; each group's backward pass whole periods after its forward pass ends."""
    forward, backward, packed = _groups(problem, borders, as_written(period))
    least = max(forward[k] + backward[k] for k in forward)
    starts = [Fraction(0)] * problem.tasks
    transfers: dict[int, Fraction] = {}
    now = Fraction(0)
    ended: dict[int, Fraction] = {}
    for item, group in packed:
        now = _run(problem, item, False, now, starts, transfers)
        ended[group] = now
    begun: dict[int, Fraction] = {}
    for item, group in reversed(packed):
        if group not in begun:
            now = begun[group] = ended[group] + (group - 1) * least
        now = _run(problem, item, True, now, starts, transfers)
    return one_batch(least, bounds_to_allocation(borders), starts, transfers)


def one_batch(
    period: Fraction, allocation: Sequence[int], starts: Sequence[Fraction], transfers: Mapping[int, Fraction]
) -> PatternPlan:
    """The pattern with one batch in a period, from exact times."""
    return PatternPlan(
        period=float(period),
        allocation=tuple(allocation),
        starts=(tuple(map(float, starts)),),
        transfers=({edge: float(transfers[edge]) for edge in sorted(transfers)},),
    )


# A stage (first layer, end), or the transfers at a border (border, border).
Item = tuple[int, int]


def _times(problem: ChainProblem, item: Item) -> tuple[Fraction, Fraction]:
    """Time of an item in the forward and in the backward pass."""
    first, end = item
    if first == end:
        times = problem.edge_times
        return as_written(times[first - 1]), as_written(times[problem.tasks - first - 1])
    layers = range(first, end)
    forward = sum((as_written(problem.forward[layer]) for layer in layers), Fraction(0))
    return forward, sum((as_written(problem.backward[layer]) for layer in layers), Fraction(0))


def _groups(
    problem: ChainProblem, borders: Sequence[int], limit: Fraction
) -> tuple[dict[int, Fraction], dict[int, Fraction], list[tuple[Item, int]]]:
    """Forward time and backward time of each group; and every item with its group, in the order of the chain."""
    forward: dict[int, Fraction] = {}
    backward: dict[int, Fraction] = {}
    packed: list[tuple[Item, int]] = []
    group, used = 1, Fraction(0)
    items: list[Item] = [item for first, end in pairwise(borders) for item in ((first, end), (end, end))]
    for item in reversed(items[:-1]):
        ahead, back = _times(problem, item)
        if used + ahead + back > limit:
            group, used = group + 1, Fraction(0)
        used += ahead + back
        forward[group] = forward.get(group, Fraction(0)) + ahead
        backward[group] = backward.get(group, Fraction(0)) + back
        packed.append((item, group))
    return forward, backward, packed[::-1]


def _run(
    problem: ChainProblem,
    item: Item,
    back: bool,
    now: Fraction,
    starts: list[Fraction],
    transfers: dict[int, Fraction],
) -> Fraction:
    """Note the starts of an item's tasks, one after the other from `now` on; return the time when the last ends."""
    first, end = item
    if first == end:
        edge = problem.tasks - first if back else first
        transfers[edge] = now
        return now + as_written(problem.edge_times[edge - 1])
    tasks = range(problem.tasks - end, problem.tasks - first) if back else range(first, end)
    for task in tasks:
        starts[task] = now
        now += as_written(problem.durations[task])
    return now


# ---- The planners to compare with: PipeDream run eagerly, the best contiguous stages, GPipe, and synchronous 1F1B.

# ---- simulation ------------------------------------------------------------------------------------------
# Contiguous stages at work, event by event: the eager 1F1B of PipeDream, and the synchronous schedules.
#
# An idle GPU takes what is ready: `eager` alternates between forward and backward passes, oldest batch first;
# `gpipe` does all forward passes before the first backward one; `flush` is 1F1B that drains after its batches.
# Links serve transfers first come, first served. One simulator runs every policy, so their results are comparable.


@dataclass(frozen=True)
class Trace:
    """What happened: absolute starts of every task and transfer of every batch."""

    problem: ChainProblem
    allocation: tuple[int, ...]
    starts: list[list[float]]
    transfers: list[dict[int, float]]

    @property
    def completed(self) -> list[float]:
        """When each batch has left the pipeline."""
        last = self.problem.durations[-1]
        return [row[-1] + last for row in self.starts]


@dataclass
class _Stage:
    first: int
    end: int
    ready: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """Batches that wait for their forward and their backward pass, oldest first."""
    done: list[int] = field(default_factory=lambda: [0, 0])
    """Numbers of forward and of backward passes that have been started."""
    last: int = 1
    """1: the last pass was a backward one, so a forward one is next."""
    idle: bool = True


@dataclass
class _Link:
    queue: list[tuple[int, int]] = field(default_factory=list)
    """(edge, batch) in the order of arrival."""
    idle: bool = True


def simulate(problem: ChainProblem, borders: Sequence[int], batches: int, in_flight: int, policy: str) -> Trace:
    """Run this number of batches; at most `in_flight` of them are between injection and completion at any time."""
    return _Simulation(problem, borders, batches, in_flight, policy).run()


class _Simulation:
    def __init__(
        self, problem: ChainProblem, borders: Sequence[int], batches: int, in_flight: int, policy: str
    ) -> None:
        self.problem = problem
        self.batches = batches
        self.policy = policy
        self.stages = [_Stage(a, b) for a, b in pairwise(borders)]
        self.links: Mapping[tuple[int, int], _Link] = _links(problem, len(self.stages))
        self.injected = min(in_flight, batches)
        self.now = 0.0
        self.events: list[tuple[float, int, str, int, int, int]] = []
        self.numbers = count()
        self.trace = Trace(
            problem,
            bounds_to_allocation(borders),
            [[0.0] * problem.tasks for _ in range(batches)],
            [{} for _ in range(batches)],
        )

    def run(self) -> Trace:
        for batch in range(self.injected):
            heapq.heappush(self.stages[0].ready[0], batch)
        self._start_work()
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, _, kind, place, way, batch = heapq.heappop(self.events)
                if kind == "pass":
                    self._passed(place, way, batch)
                else:
                    self._sent(place, way, batch)
            self._start_work()
        return self.trace

    def _later(self, duration: float, kind: str, place: int, way: int, batch: int) -> None:
        heapq.heappush(self.events, (self.now + duration, next(self.numbers), kind, place, way, batch))

    # ---- GPUs --------------------------------------------------------------------------------------------------

    def _start_work(self) -> None:
        for s, stage in enumerate(self.stages):
            if stage.idle:
                way = self._choose(s, stage)
                if way is not None:
                    self._start_pass(s, stage, way)

    def _choose(self, s: int, stage: _Stage) -> int | None:
        """The pass that a stage starts next: 0 a forward one, 1 a backward one, None: it waits."""
        forward, backward = bool(stage.ready[0]), bool(stage.ready[1])
        if self.policy == "gpipe":
            backward = backward and stage.done[0] == self.batches
        if self.policy == "flush":
            forward = forward and stage.done[0] - stage.done[1] < len(self.stages) - s
            return 1 if backward else (0 if forward else None)
        if forward and backward:
            return 1 - stage.last
        return 0 if forward else (1 if backward else None)

    def _start_pass(self, s: int, stage: _Stage, way: int) -> None:
        batch = heapq.heappop(stage.ready[way])
        stage.idle, stage.last = False, way
        stage.done[way] += 1
        last = self.problem.tasks
        tasks = range(last - stage.end, last - stage.first) if way else range(stage.first, stage.end)
        begun = self.now
        for task in tasks:
            self.trace.starts[batch][task] = begun
            begun += self.problem.durations[task]
        self._later(begun - self.now, "pass", s, way, batch)

    def _passed(self, s: int, way: int, batch: int) -> None:
        stage = self.stages[s]
        stage.idle = True
        if way == 0 and s == len(self.stages) - 1:
            heapq.heappush(stage.ready[1], batch)
        elif way == 1 and s == 0:  # the batch is completed
            if self.injected < self.batches:
                heapq.heappush(self.stages[0].ready[0], self.injected)
                self.injected += 1
        else:
            border = s if way else s + 1
            link = self.links[border, way]
            link.queue.append((way, batch))
            self._start_transfer(border, link)

    # ---- links: border b lies between stages b - 1 and b -------------------------------------------------------

    def _start_transfer(self, border: int, link: _Link) -> None:
        if not link.idle or not link.queue:
            return
        way, batch = link.queue.pop(0)
        link.idle = False
        layer = self.stages[border].first
        edge = self.problem.tasks - layer if way else layer
        self.trace.transfers[batch][edge] = self.now
        self._later(self.problem.edge_times[edge - 1], "transfer", border, way, batch)

    def _sent(self, border: int, way: int, batch: int) -> None:
        link = self.links[border, way]
        link.idle = True
        receiver = self.stages[border - 1 if way else border]
        heapq.heappush(receiver.ready[way], batch)
        self._start_transfer(border, link)


def _links(problem: ChainProblem, stages: int) -> dict[tuple[int, int], _Link]:
    """The links of each border: one for both directions, or one for each direction (duplex "full")."""
    links: dict[tuple[int, int], _Link] = {}
    for border in range(1, stages):
        links[border, 0] = _Link()
        links[border, 1] = _Link() if problem.duplex == "full" else links[border, 0]
    return links


# ---- baselines ------------------------------------------------------------

# PipeDream's way to plan: partitions for a grid of memory targets and batches in flight, run eagerly, then
# measured. The grid is ours (the paper does not print one): every number of batches in flight from 1 to two more
# than GPUs, and memory targets in equal ratios between a lower bound on the estimate and the estimate of all layers
# on one GPU.

# Batches of one run.
BATCHES = 500
# Memory targets for each number of batches in flight.
TARGETS = 12
# Batches in flight beyond the number of GPUs.
EXTRA_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: its memory target, batches in flight and borders, and what was measured."""

    target: float
    in_flight: int
    borders: tuple[int, ...]
    period: float
    """Time per batch in the problem's unit."""
    exact_peak: Fraction
    """Peak memory of the fullest GPU, in bytes."""
    plan: PatternPlan | None
    """The pattern that the run fell into; None where it did not within its batches."""

    @property
    def peak(self) -> float:
        return plain(self.exact_peak)

    def fits(self, memory: float | None) -> bool:
        return fits([self.exact_peak], memory)


def run_eagerly(problem: ChainProblem, borders: list[int], in_flight: int, target: float) -> Measured:
    trace = simulate(problem, borders, BATCHES, in_flight, "eager")
    return Measured(
        target, in_flight, tuple(borders), measured_period(trace), max(peak_memory(trace)), repeated(trace)
    )


def pipedream_points(problem: ChainProblem, stop: Callable[[], bool] = lambda: False) -> Iterator[Measured]:
    """One run for every pair of a partition and a number of batches in flight to which the grid leads."""
    seen: set[tuple[tuple[int, ...], int]] = set()
    for in_flight in range(1, problem.gpus + EXTRA_IN_FLIGHT + 1):
        for target in _targets(problem, in_flight):
            borders = pipedream_partition(problem, target, in_flight)
            if stop():
                return
            if borders is None or (tuple(borders), in_flight) in seen:
                continue
            seen.add((tuple(borders), in_flight))
            yield run_eagerly(problem, borders, in_flight, target)


def _targets(problem: ChainProblem, versions: int) -> list[float]:
    """Targets from a lower bound on PipeDream's estimate at this many versions to the estimate of all layers on one
    GPU."""
    stages, layers = Stages(problem), problem.layers
    estimates = [Fraction(versions * stages.estimate(i, i + 1), stages.parts) for i in range(layers)]
    most = float(sum(estimates))
    least = max(float(max(estimates)), most / problem.gpus)
    if least <= 0:
        return [most]
    return [least * (most / least) ** (step / (TARGETS - 1)) for step in range(TARGETS)]


def pareto(points: list[Measured]) -> list[Measured]:
    """The runs that no other run beats in both peak memory and period, by growing memory."""
    front: list[Measured] = []
    for point in sorted(points, key=lambda point: (point.peak, point.period)):
        if not front or point.period < front[-1].period:
            front.append(point)
    return front


# ---- What a trace shows a posteriori: the period without warm-up and drain, and the peak memory of each GPU ----
# The memory is counted as the specification of the problem says, in the problem's own mode, from the trace alone.

# The period is measured between these shares of the batches: 250 and 450 of 500.
WARM_SHARE, DRAIN_SHARE = 0.5, 0.9
# Batches per period of the longest patterns that are looked for in a trace.
LONGEST_CYCLE = 12
# Copies of a tensor that one batch counts at a time, at most: kept, read and written, and in a slot.
MOST_HELD = 4


def measured_period(trace: Trace) -> float:
    """Time per batch between two completions, far from warm-up and drain."""
    completed = trace.completed
    first, last = int(WARM_SHARE * len(completed)), int(DRAIN_SHARE * len(completed))
    if last <= first:
        first, last = 0, len(completed) - 1
    return (completed[last] - completed[first]) / (last - first)


def peak_memory(trace: Trace) -> list[Fraction]:
    """The largest memory that each GPU holds at any time of the trace, in bytes.

    Sizes are counted in whole units, so that their sums are exact; where they have too many digits for that, units
    are so small that hardly anything is lost.
    """
    problem = trace.problem
    sizes = (*problem.held_weights, *problem.held_activations)
    whole = whole_amounts(sizes, (), copies=MOST_HELD * len(trace.starts))
    unit = next((size / number for size, number in zip(sizes, whole.amounts, strict=True) if number), Fraction(0))
    weights, activations = whole.amounts[: problem.layers], whole.amounts[problem.layers :]
    gpus = range(max(trace.allocation) + 1)
    return [unit * int(_peak(trace, gpu, weights, activations)) for gpu in gpus]


def _peak(trace: Trace, gpu: int, weights: Sequence[int], sizes: Sequence[int]) -> float:
    """The largest sum, at any time, of what is always there and of what lives for a while."""
    import numpy as np

    standing = _standing(trace, gpu, weights, sizes)
    lives = _intervals(trace, gpu, sizes)
    intervals = [(start, end, size) for start, end, size in lives if size and end > start]
    if not intervals:
        return standing
    table = np.array(intervals)
    times = np.concatenate([table[:, 1], table[:, 0]])
    changes = np.concatenate([-table[:, 2], table[:, 2]])
    order = np.argsort(times, kind="stable")  # what ends leaves before what begins at the same time
    return standing + max(0.0, float(np.cumsum(changes[order]).max()))


def _standing(trace: Trace, gpu: int, weights: Sequence[int], sizes: Sequence[int]) -> int:
    """Weights, and the reserved slots of what crosses the GPU's border."""
    problem, here = trace.problem, [at == gpu for at in trace.allocation]
    total = sum(weight for weight, own in zip(weights, here, strict=True) if own)
    if problem.memory_mode == "reserved":
        layer = problem.layer_of
        total += sum(sizes[e] for e in problem.remote_edges if here[layer[e - 1]] != here[layer[e]])
    return total


def _intervals(trace: Trace, gpu: int, sizes: Sequence[int]) -> Iterator[tuple[float, float, float]]:
    """(start, end, size) of everything that lives on the GPU for a while."""
    problem = trace.problem
    if problem.memory_mode == "weights":
        return
    layers = [layer for layer, g in enumerate(trace.allocation) if g == gpu]
    durations, last = problem.durations, problem.tasks
    for row in trace.starts:
        for layer in layers:
            back = last - 1 - layer
            yield row[layer], row[back] + durations[back], sizes[layer]
    if problem.memory_mode == "inputs":
        return
    for row, sent in zip(trace.starts, trace.transfers, strict=True):
        for layer in layers:
            back = last - 1 - layer
            yield row[layer], row[layer] + durations[layer], sizes[layer + 1]
            yield row[back], row[back] + durations[back], sizes[back] + sizes[back + 1]
        yield from _in_between(trace, gpu, row, sent, sizes)


def _in_between(
    trace: Trace, gpu: int, row: list[float], sent: dict[int, float], sizes: Sequence[int]
) -> Iterator[tuple[float, float, float]]:
    """Tensors between two tasks of the GPU; and those that cross its border, where slots are not reserved."""
    problem, on = trace.problem, trace.allocation
    for edge in range(1, problem.tasks):
        here = on[problem.layer_of[edge - 1]] == gpu, on[problem.layer_of[edge]] == gpu
        size, ended = sizes[edge], row[edge - 1] + problem.durations[edge - 1]
        if all(here):
            yield ended, row[edge], size
        elif problem.memory_mode == "strict" and here[0]:
            yield ended, sent[edge] + problem.edge_times[edge - 1], size
        elif problem.memory_mode == "strict" and here[1]:
            yield sent[edge], row[edge], size


def repeated(trace: Trace) -> PatternPlan | None:
    """The pattern that the trace falls into: k batches after which everything comes again, k as small as possible."""
    first, last = int(WARM_SHARE * len(trace.starts)), int(DRAIN_SHARE * len(trace.starts))
    for cycle in range(1, min(LONGEST_CYCLE, (last - first) // 2) + 1):
        period = trace.starts[first + cycle][0] - trace.starts[first][0]
        if all(_same(trace, batch, cycle, period) for batch in range(first, last - cycle)):
            rows = range(first, first + cycle)
            origin = trace.starts[first][0]
            return PatternPlan(
                period=period,
                allocation=trace.allocation,
                starts=tuple(tuple(time - origin for time in trace.starts[b]) for b in rows),
                transfers=tuple({e: t - origin for e, t in sorted(trace.transfers[b].items())} for b in rows),
            )
    return None


def _same(trace: Trace, batch: int, cycle: int, period: float) -> bool:
    slack = SAME * trace.starts[batch + cycle][-1]
    pairs = zip(trace.starts[batch], trace.starts[batch + cycle], strict=True)
    if any(abs(b - a - period) > slack for a, b in pairs):
        return False
    sent, later = trace.transfers[batch], trace.transfers[batch + cycle]
    return all(abs(later[edge] - time - period) <= slack for edge, time in sent.items())


# Batches per GPU between two flushes up to which all numbers are tried, where the user gives none.
AUTO_FLUSH = 4


def _best_of(request: Request, plans: Iterable[PatternPlan | None], messages: Sequence[str] = ()) -> Outcome:
    """The best of plans that the referee accepts. `messages` is read after the plans."""
    board = request.board
    for plan in filter(None, plans):
        value = plan.period / plan.batches_per_period
        if (board.value is None or value < board.value) and not violations_of(request.problem, plan):
            board.post(plan, value)
    stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
    none = () if board.plan else ("none of the plans that were tried fits the memory",)
    return Outcome(stop, board.plan, board.value, messages=(*messages, *none))


def plan_pipedream(request: Request) -> Outcome:
    """PipeDream's partitions, run eagerly and measured: the run of least period that fits, as the pattern that it fell
    into."""
    problem: ChainProblem = request.problem
    points = list(pipedream_points(problem, request.out_of_time))
    messages = [f"{len(points)} runs were measured"]

    def plans() -> Iterator[PatternPlan | None]:
        for point in sorted(points, key=lambda point: point.period):
            if request.board.plan is not None:
                return
            if not point.fits(problem.memory_bytes):
                continue
            if point.plan is None:
                messages.append("the best run did not become periodic: its stages were given their best pattern")
            yield point.plan or best_contiguous(problem, point.borders)

    return _best_of(request, plans(), messages)


@dataclass(frozen=True)
class Flushing:
    """GPipe or synchronous 1F1B: some batches run through the pipeline, and the next start once it is empty."""

    policy: str

    def plan(self, request: Request) -> Outcome:
        return _best_of(request, self._plans(request))

    def _plans(self, request: Request) -> Iterator[PatternPlan]:
        """The load-optimal stages with as many batches between flushes as asked, or with all numbers up to some."""
        problem, asked = request.problem, request.options.get("batches_per_flush")
        borders = pipedream_partition(problem)
        assert borders is not None
        for batches in [asked] if asked else range(1, AUTO_FLUSH * problem.gpus + 1):
            if request.out_of_time():
                return
            trace = simulate(problem, borders, batches, batches, self.policy)
            if fits([max(peak_memory(trace))], problem.memory_bytes):
                starts = tuple(map(tuple, trace.starts))
                yield PatternPlan(max(trace.completed), trace.allocation, starts, tuple(trace.transfers))


CONTIGUOUS = FunctionPlanner(lambda request: _best_of(request, [best_contiguous(request.problem)]))
GPIPE = Flushing("gpipe")
SYNCHRONOUS = Flushing("flush")
