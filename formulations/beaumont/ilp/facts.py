"""The numbers of the program, numbered from 1 as in the paper, in units that suit a solver's tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ....instances.base.amounts import Amount, as_written
from ....instances.chain.problem import ChainProblem
from ...contract import FLOAT_ROOM
from ..bounds import areas, lives, lower_bound, sequential_period
from ..decimals import FINE, unit_of
from ..integer_chain import whole_sizes

# Numbers in natural units are kept up to here; others are scaled to a largest value of about this size.
LARGEST = 20_000

# Memory beyond the limit where sizes were scaled so: a solver's tolerances may charge as much to a pattern that fits.
RELAXED = 1e-5


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
    """The memory with half a unit, or a solver's tolerance, to spare, so that no pattern is lost; None: no limit."""
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
    upper = longest * (1 + as_written(FLOAT_ROOM))
    if cutoff is not None:
        upper = min(upper, as_written(cutoff))
    time_unit = _time_unit(problem, longest)
    if unit_of(problem) is None:
        upper *= 1 + FINE  # integer solvers round such times up to a fine grid
    amounts, memory = _sizes(problem)
    weights, sizes = amounts[: problem.layers], amounts[problem.layers :]
    return Facts(
        problem=problem,
        layers=problem.layers,
        tasks=problem.tasks,
        gpus=min(problem.gpus, problem.layers),
        durations=(0.0, *_scaled(problem.durations, time_unit)),
        transfers=(0.0, *_scaled(_capped(problem, upper), time_unit)),
        sizes=tuple(map(float, sizes)),
        weights=(0.0, *map(float, weights)),
        memory=memory,
        upper=float(upper / time_unit),
        lower=float(as_written(lower_bound(problem)) / time_unit),
        current=problem.memory_mode not in ("inputs", "weights"),
        lives=(0.0, *(float(life / time_unit) for life in lives(problem))),
        areas=(0.0, *(float(area / time_unit) for area in areas(problem, sizes))),
        time_unit=time_unit,
    )


def _scaled(amounts: Sequence[Amount], unit: Fraction) -> tuple[float, ...]:
    return tuple(float(as_written(amount) / unit) for amount in amounts)


def _capped(problem: ChainProblem, upper: Fraction) -> list[Fraction]:
    """Transfer times; those that are longer than any period of interest are cut to a little more than that.

    People forbid a transfer by giving it a time beyond all others, which no solver's tolerances are made for.
    """
    unit = unit_of(problem)
    beyond = 2 * upper if unit is None else unit * (upper // unit + 1)
    return [min(as_written(time), beyond) for time in problem.edge_times]


def _time_unit(problem: ChainProblem, longest: Fraction) -> Fraction:
    unit = unit_of(problem)
    if unit is not None and longest / unit <= LARGEST:
        return unit
    return longest / LARGEST


def _sizes(problem: ChainProblem) -> tuple[list[Fraction], float | None]:
    """Weights and activations, and the memory, in units that suit a solver.

    In few whole units half a unit more memory changes nothing; else all are scaled down.
    """
    whole = whole_sizes(problem)
    limit = whole.limits[0]
    largest = max((*whole.amounts, limit or 0))
    if whole.exact and largest <= LARGEST:
        return [Fraction(amount) for amount in whole.amounts], None if limit is None else limit + 0.5
    unit = Fraction(largest, LARGEST)
    return [amount / unit for amount in whole.amounts], None if limit is None else float(limit / unit) + RELAXED
