"""Contiguous stages: PipeDream's partition, and the best one under a memory limit with its 1F1B* schedule.

The schedule is that of Beaumont et al.: from the last stage on, stages and the transfers between them are packed
into groups that each take at most one period. A stage of group k keeps k batches, the fewest that any schedule of
contiguous stages can do with, so a dynamic program over stages and groups finds the best partition at a period.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from ...instances.base.amounts import Amount, as_written
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem

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
            return _trace(history)
    return None


def _pack(groups: int, used: int, time: int, limit: int) -> tuple[int, int] | None:
    """Put an item into the current group where it fits, else into the next one; None: it takes longer than a period."""
    if time > limit:
        return None
    return (groups, used + time) if used + time <= limit else (groups + 1, time)


def _trace(history: Sequence[dict[int, _Label]]) -> list[int]:
    borders = [0]
    for labels in reversed(history[1:]):
        borders.append(labels[borders[-1]].end)
    return borders


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


def _items(borders: Sequence[int]) -> list[Item]:
    items: list[Item] = []
    for first, end in pairwise(borders):
        items += [(first, end), (end, end)]
    return items[:-1]


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
    for item in reversed(_items(borders)):
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
