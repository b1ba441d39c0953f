"""A chain problem in whole numbers: what the constraint models of the decomposition are built from.

Times are rounded down to steps; sizes and the memory are exact, or rounded down together where they have too many
digits. So every periodic pattern of the true problem is one of the integer problem too, with a period of at most one
step more (a pattern that fits a period fits every longer one). Hence what is refuted here up to period c is refuted
in truth up to c / steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from ...instances.base.amounts import WholeAmounts, as_written, whole_amounts

if TYPE_CHECKING:
    from ...instances.chain.problem import ChainProblem

# All copies of all sizes together stay below this: solvers add them up in 64 bits.
MOST_UNITS = 2**60
# The most copies of a tensor, per task, that are ever counted at once in patterns of up to 16 batches.
MOST_COPIES = 100

# Largest relative distance of a period from the fraction that it was rounded from.
ROUNDED = Fraction(1, 10**13)


@dataclass(frozen=True)
class IntegerChain:
    """Tasks are numbered 0..2L-1, layers 0..L-1, edges as in the papers: edge e leads from task e-1 to task e."""

    durations: tuple[int, ...]
    transfers: tuple[int, ...]
    """Transfer time of edge e at position e (position 0 is unused); 0 at edge L."""
    activations: tuple[int, ...]
    """a_0..a_2L as they count in the memory mode: all 0 where only weights count."""
    weights: tuple[int, ...]
    """Bytes of each layer's weights, all copies together."""
    gpus: int
    memory: int | None
    inputs_only: bool
    """Only weights and kept activations count: the modes `inputs` and `weights`."""
    reserved: bool
    """Does the memory of slots count at both ends of each cut border?"""
    full_duplex: bool
    exclusive_buffers: bool
    steps: Fraction
    """Steps per time unit of the problem."""
    exact: bool
    """Are all times whole numbers of steps? If not, they were rounded down."""
    timeless: tuple[bool, ...]
    """Tasks that take no time in truth; others may have been rounded down to none."""
    exact_sizes: bool
    """Do sizes fit the memory here exactly where they do in truth? If not, what fits here may exceed it by a hair."""

    @property
    def layers(self) -> int:
        return len(self.weights)

    @property
    def tasks(self) -> int:
        return len(self.durations)

    def layer_of(self, task: int) -> int:
        return min(task, self.tasks - 1 - task)

    def backward(self, layer: int) -> int:
        return self.tasks - 1 - layer

    def twins(self, border: int) -> tuple[int, int]:
        """The edges between layers `border - 1` and `border`: the activation's and the gradient's."""
        return border, self.tasks - border

    def load(self, layer: int) -> int:
        return self.durations[layer] + self.durations[self.backward(layer)]

    def border_transfer(self, border: int) -> int:
        """Time on the link for both edges of a border."""
        return sum(self.transfers[edge] for edge in self.twins(border))

    def current_size(self, task: int) -> int:
        """What a running task holds beside kept activations: its output, and the gradient that it reads."""
        if self.timeless[task] or self.inputs_only:
            return 0
        return self.activations[task + 1] + (self.activations[task] if task >= self.layers else 0)

    def border_size(self, border: int) -> int:
        return sum(self.activations[edge] for edge in self.twins(border))

    @cached_property
    def elapsed(self) -> tuple[int, ...]:
        """Durations of the tasks before each task, together."""
        sums = [0]
        for duration in self.durations:
            sums.append(sums[-1] + duration)
        return tuple(sums)

    def own_size(self, task: int) -> int:
        """What the task itself holds while it runs: its output, and its input, which is then not counted as kept."""
        given, written = self.activations[task], self.activations[task + 1]
        if self.timeless[task]:
            return 0
        if self.inputs_only:
            return given if task < self.layers else 0
        return given + written

    def current_area(self, layer: int) -> int:
        """Size times duration of outputs while they are written, and of gradients while they are read."""
        if self.inputs_only:
            return 0
        last = self.backward(layer)
        written = self.activations[layer + 1] * self.durations[layer]
        return written + (self.activations[last] + self.activations[last + 1]) * self.durations[last]

    @property
    def most_shifts(self) -> int:
        """The most periods that a critical cycle can span: shifts along the chain, and once around each resource.

        A least period is a whole number of time over at most this many periods.
        """
        return 4 * self.tasks + self.gpus * self.gpus

    def true_time(self, steps: int) -> float:
        return float(Fraction(steps) / self.steps)

    def last_below(self, period: float) -> int:
        """The longest period in steps at which what fits is better than a plan of that period.

        On a rounded grid each of the activities in a critical cycle may in truth take up to one step more. On an exact
        one the plan's period is a fraction, of which the plan has the nearest floating-point number.
        """
        steps = as_written(period) * self.steps
        if not self.exact:
            return math.ceil(steps) - 1 - self.tasks - len(self.transfers)
        fraction = steps.limit_denominator(self.most_shifts)
        return math.ceil(fraction if abs(fraction - steps) <= ROUNDED * steps else steps) - 1


def whole_sizes(problem: ChainProblem) -> WholeAmounts:
    """What each layer's weights take, then a_0..a_2L, as they count in the memory mode; and the memory."""
    sizes = (*problem.held_weights, *problem.held_activations)
    return whole_amounts(sizes, [problem.memory_bytes], MOST_UNITS, MOST_COPIES * problem.tasks)


def integer_chain(problem: ChainProblem, steps: Fraction) -> IntegerChain:
    """The problem on a grid of `steps` per time unit."""
    whole = whole_sizes(problem)
    times = (*problem.durations, *problem.edge_times)
    return IntegerChain(
        durations=_floors(problem.durations, steps),
        transfers=(0, *_floors(problem.edge_times, steps)),
        activations=whole.amounts[problem.layers :],
        weights=whole.amounts[: problem.layers],
        gpus=min(problem.gpus, problem.layers),
        memory=whole.limits[0],
        inputs_only=problem.memory_mode in ("inputs", "weights"),
        reserved=problem.memory_mode == "reserved",
        full_duplex=problem.duplex == "full",
        exclusive_buffers=problem.exclusive_buffers,
        steps=steps,
        exact=all((as_written(time) * steps).denominator == 1 for time in times),
        timeless=tuple(time == 0 for time in problem.durations),
        exact_sizes=whole.exact,
    )


def _floors(amounts: Sequence[float], factor: Fraction) -> tuple[int, ...]:
    return tuple(math.floor(as_written(amount) * factor) for amount in amounts)
