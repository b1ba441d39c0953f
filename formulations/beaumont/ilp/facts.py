"""The numbers of the program, numbered from 1 as in the paper, in units that suit a solver's tolerances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ....instances.chain import ChainProblem
from ..bounds import areas, lives, lower_bound, sequential_period
from ..decimals import FINE, decimal, unit_of

LARGEST = 20_000
"""Numbers in natural units are kept up to here; others are scaled to a largest value of about this size."""


@dataclass(frozen=True)
class Facts:
    """Tasks t = 1..N, edges e = 1..N-1, layers l = 1..L; position 0 of durations and transfers is unused."""

    problem: ChainProblem
    layers: int
    tasks: int
    gpus: int
    durations: tuple[float, ...]
    transfers: tuple[float, ...]
    """dc_e; 0 at edge L."""
    sizes: tuple[float, ...]
    """a_0..a_N as the memory mode counts them."""
    weights: tuple[float, ...]
    """All copies of a layer's weights; position 0 is unused."""
    memory: float | None
    upper: float
    """No longer period needs to be considered (UB)."""
    lower: float
    current: bool
    """Do inputs and outputs of the running task, waiting tensors and slots count, too?"""
    lives: tuple[float, ...]
    areas: tuple[float, ...]
    time_unit: Fraction

    @property
    def edges(self) -> list[int]:
        """Edges whose tasks may be on different GPUs (E)."""
        return [e for e in range(1, self.tasks) if e != self.layers]

    @property
    def staged(self) -> list[int]:
        """Edges with a transfer of their own between the two tasks."""
        return [e for e in self.edges if self.transfers[e] > 0 or self.problem.exclusive_buffers]

    @property
    def kept(self) -> list[int]:
        """Layers whose kept input takes memory."""
        return [] if self.memory is None else [i for i in range(1, self.layers + 1) if self.sizes[i - 1] > 0]

    @property
    def waiting(self) -> list[int]:
        """Edges whose tensor takes memory while it waits on one GPU."""
        if self.memory is None or not self.current:
            return []
        return [e for e in range(1, self.tasks) if self.sizes[e] > 0]

    def layer(self, task: int) -> int:
        return task if task <= self.layers else self.tasks + 1 - task

    def backward(self, layer: int) -> int:
        return self.tasks + 1 - layer

    def load(self, layer: int) -> float:
        return self.durations[layer] + self.durations[self.backward(layer)]

    def border_size(self, layer: int) -> float:
        """Both slots for what passes between a layer and the next."""
        return self.sizes[layer] + self.sizes[self.tasks - layer]

    def own_size(self, task: int) -> float:
        """What a running task holds beside kept activations: input and output, or only the input to be kept."""
        if self.current:
            return self.sizes[task - 1] + self.sizes[task]
        return self.sizes[task - 1] if task <= self.layers else 0.0

    def most_shifts(self, edge: int) -> int:
        """Shifts that one edge can need."""
        if edge == self.layers:
            return 1
        return 4 if edge in self.staged else 2


def facts_of(problem: ChainProblem, cutoff: float | None) -> Facts:
    """Numbers for periods of at most `cutoff`."""
    longest = sequential_period(problem)
    upper = longest if cutoff is None else min(longest, decimal(cutoff))
    time_unit = _time_unit(problem, longest)
    if unit_of(problem) is None:
        upper *= 1 + FINE  # integer solvers round such times up to a fine grid
    counted = problem.memory_mode != "weights"
    sizes = [size if counted else 0.0 for size in problem.activations]
    weights = [problem.weight_copies * weight for weight in problem.weights]
    size_unit = _size_unit([*sizes, *weights], problem.memory_bytes)
    return Facts(
        problem=problem,
        layers=problem.layers,
        tasks=problem.tasks,
        gpus=min(problem.gpus, problem.layers),
        durations=(0.0, *_scaled(problem.durations, time_unit)),
        transfers=(0.0, *_scaled(problem.edge_times, time_unit)),
        sizes=_scaled(sizes, size_unit),
        weights=(0.0, *_scaled(weights, size_unit)),
        memory=None if problem.memory_bytes is None else float(decimal(problem.memory_bytes) / size_unit),
        upper=float(upper / time_unit),
        lower=float(decimal(lower_bound(problem)) / time_unit),
        current=problem.memory_mode not in ("inputs", "weights"),
        lives=(0.0, *(float(life / time_unit) for life in lives(problem))),
        areas=(0.0, *(float(area / time_unit / size_unit) for area in areas(problem))),
        time_unit=time_unit,
    )


def _scaled(amounts: Sequence[float], unit: Fraction) -> tuple[float, ...]:
    return tuple(float(decimal(amount) / unit) for amount in amounts)


def _time_unit(problem: ChainProblem, longest: Fraction) -> Fraction:
    unit = unit_of(problem)
    if unit is not None and longest / unit <= LARGEST:
        return unit
    return longest / LARGEST


def _size_unit(sizes: Sequence[float], memory: float | None) -> Fraction:
    """The common divisor of whole sizes where the memory is a moderate multiple of it."""
    largest = max((*sizes, memory or 0.0))
    if not largest:
        return Fraction(1)
    if all(float(size).is_integer() for size in sizes):
        divisor = math.gcd(*(int(size) for size in sizes)) or 1
        if largest / divisor <= LARGEST:
            return Fraction(divisor)
    return decimal(largest) / LARGEST
