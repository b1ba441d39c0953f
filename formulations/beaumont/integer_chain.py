"""A chain problem in whole numbers: what the constraint models of the decomposition are built from.

Times are rounded down to steps, sizes down to units and the memory up or exactly, so every periodic pattern of
the true problem is one of the integer problem too, with a period of at most one step more (a pattern that fits
a period fits every longer one). Hence what is refuted here up to period c is refuted in truth up to c / steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...instances.chain import ChainProblem

MEMORY_UNITS = 2**30
"""Units of memory where sizes are not whole bytes: their rounding stays far below the referee's tolerance."""


@dataclass(frozen=True)
class IntegerChain:
    """Tasks are numbered 0..2L-1, layers 0..L-1, edges as in the papers: edge e leads from task e-1 to task e."""

    durations: tuple[int, ...]
    transfers: tuple[int, ...]
    """Transfer time of edge e at position e (position 0 is unused); 0 at edge L."""
    activations: tuple[int, ...]
    """a_0..a_2L as they count in the memory mode: all 0 where only weights count."""
    weights: tuple[int, ...]
    """Of each layer, all copies together."""
    gpus: int
    memory: int | None
    inputs_only: bool
    """Only weights and kept activations count: the modes `inputs` and `weights`."""
    full_duplex: bool
    exclusive_buffers: bool
    steps: Fraction
    """Steps per time unit of the problem."""
    exact: bool
    """Are all times whole numbers of steps? If not, they were rounded down."""

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
        """What is held only while the task runs: its output, its input that no kept copy covers."""
        given, written = self.activations[task], self.activations[task + 1]
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

        On a rounded grid each of the activities in a critical cycle may in truth take up to one step more.
        """
        margin = 0 if self.exact else self.tasks + len(self.transfers)
        return math.ceil(Fraction(period) * self.steps) - 1 - margin


def integer_chain(problem: ChainProblem, steps: Fraction) -> IntegerChain:
    """The problem on a grid of `steps` per time unit."""
    counted = problem.memory_mode != "weights"
    weights = [problem.weight_copies * weight for weight in problem.weights]
    sizes = [float(a) if counted else 0.0 for a in problem.activations]
    unit = _size_unit([*weights, *sizes], problem.memory_bytes)
    memory = None if problem.memory_bytes is None else math.floor(Fraction(problem.memory_bytes) / unit)
    return IntegerChain(
        durations=_floors(problem.durations, steps),
        transfers=(0, *_floors(problem.edge_times, steps)),
        activations=_floors(sizes, 1 / unit),
        weights=_floors(weights, 1 / unit),
        gpus=min(problem.gpus, problem.layers),
        memory=memory,
        inputs_only=problem.memory_mode in ("inputs", "weights"),
        full_duplex=problem.duplex == "full",
        exclusive_buffers=problem.exclusive_buffers,
        steps=steps,
        exact=all((Fraction(time) * steps).denominator == 1 for time in (*problem.durations, *problem.edge_times)),
    )


def _floors(amounts: Sequence[float], factor: Fraction) -> tuple[int, ...]:
    return tuple(math.floor(Fraction(amount) * factor) for amount in amounts)


def _size_unit(sizes: Iterable[float], memory: float | None) -> Fraction:
    """Bytes per unit: the common divisor of whole sizes, or a small part of the memory."""
    if all(float(size).is_integer() for size in sizes):
        return Fraction(math.gcd(*(int(size) for size in sizes)) or 1)
    return Fraction(memory) / MEMORY_UNITS if memory else Fraction(1)
