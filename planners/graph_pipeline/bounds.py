"""What no plan can beat, proven without a search.

It holds for every plan that the referee accepts (any convex stages, any edges between them, any k and any samples in
flight) whose stages take their micro-batches from the sizes that `micro_batch` allows, all the same one unless
`mixed_micro_batches`, and their numbers of devices from `degrees`. Let B be the mini-batch and D the devices; a
*share* is a size b with a degree d; f and g are forward and backward time of operators for b / d samples. With one
size for all stages each size has a bound of its own, and the least of them is the bound.

Work. A stage with the share (b, d) takes at least (f(v) + g(v)) / b + sync(v, d) / B per sample for each v of its
operators, sync being the time to synchronise v's weights; all its operators together take their sum, but for the
latency of the synchronisation, which is paid once. So if T is the time per sample of the slowest stage, every
operator v has a share with which it alone takes no longer than T, and the least d ((f(v) + g(v)) / b + sync(v, d) /
B) over these shares, added up over all operators, is no more than D T. Moreover operators cannot be divided: of any m
of them a stage with a share takes at most j, as many as of the quickest ones together take no longer than T and of
those that need least memory fit with one micro-batch in flight, so m is at most D times the largest j / d of a share
(tried for sets of operators that take longest). Shares that leave no memory for one micro-batch of v are none. No
iteration is shorter than B times the least T of which all this is true, for transfers were left out.

Paths. Take a path of operators. Stages form no circle and are convex, so it runs through a row of stages x_1, ...,
x_p, each with a run of it, and their devices are at most D in all (D, where the path has all operators). A stage with
r stages after it holds at least b + r b' samples in flight, b' being the smallest size (or B, if that is less), and
must have the memory for its run; r is told apart up to a few. Let s_j be forward and backward time of the run of x_j
for one micro-batch.

For the time per sample let t_j be the transfers of x_j for the tensors at the two places where the path is cut. Then

    (B / b_j) (s_j + t_j) + sync(x_j) <= B T.

For an iteration of T let c_j be the delay from x_j to x_(j+1) and back. The first forward pass of x_j begins no
sooner than one forward pass of each stage before it, one after the other, with the delays between them, and after the
last backward pass of x_j each of them has a backward pass to do: both hold with micro-batches of any sizes, for the
first samples and for the last ones. Between the two, x_j runs all its passes. So with w_j = (s_1 + c_1) + ... +
(s_(j-1) + c_(j-1))

    (B / b_j) s_j + max(w_j, sync(x_j)) <= T.

The left side, times d_j, is time of the devices of x_j in which they do nothing for operators apart from the path.
Summed up over j, with the least work of all other operators added, it is at most D times the right side. A dynamic
program over (place on the path, devices used, stages that come after) keeps the least w_j and, apart from it, the
least such sum. All operators are covered by paths that have none in common. The first and longest of them counts as
above; of the others the bare passes count, with their transfers and without latencies and w_j, for a stage of several
paths waits but once.

How near: the time per sample of a chain without a limit of memory is the optimum. The iteration of a chain of D equal
operators on D devices without transfers, undivided, is (B / b + D - 1) (f + g), which 1F1B attains, wherever the
mini-batch has at least D - 1 micro-batches. Where memory is short and in graphs with many branches the bound may be
a third and more below the plans that are found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled, repays_loading
from ...instances.graph_pipeline.problem import GraphPipelineProblem, micro_batch_sizes
from ...instances.physics.tolerances import SUM_ROUNDING
from . import kernel
from .configurations import allowed_degrees, synchronisation
from .costs import GraphMemory, whole_graph_memory

# Samples of a micro-batch, and devices.
Share = tuple[int, int]

# Relative distance of the computed bound of an iteration from what the argument proves.
PRECISE = 1e-8


# Operators in the largest set whose packing is looked at.
MOST_PACKED = 1000

# Sets whose packing is looked at, each of the operators that take longest.
MOST_SETS = 64


def lower_bound(problem: GraphPipelineProblem, options: Mapping[str, Any], quick: bool = False) -> float | None:
    """The bound for the options of a planner, its objective among them; None where no micro-batch size leaves a plan.

    `quick`: without paths.
    """
    objective = options.get("objective", "iteration")
    arguments = [argument for argument in _arguments(problem, options) if argument.possible]
    if not arguments:
        return None
    steady = objective == "time-per-sample"
    arguments.sort(key=lambda argument: argument.simple(steady))
    best = np.inf
    for argument in arguments:
        low = argument.simple(steady)
        if low < best:
            best = min(best, low if quick else argument.by_paths(steady, best))
    return float(best) * (1 - SUM_ROUNDING) if best < np.inf else None


def _arguments(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> list[Argument]:
    """An argument for each micro-batch size, or one for all sizes together where they may be mixed."""
    mixed = bool(options.get("mixed_micro_batches"))
    sizes = micro_batch_sizes(problem, options.get("micro_batch"), mixed)
    which = options.get("degrees", "divisors")
    shares = [tuple((b, d) for d in allowed_degrees([b], problem.devices, which)) for b in sizes]
    if mixed:
        shares = [tuple(share for row in shares for share in row)]
    memory = whole_graph_memory(problem, {d for row in shares for _, d in row})
    return [Argument(problem, row, memory) for row in shares]


@dataclass(frozen=True, eq=False)
class Argument:
    """The bounds for plans whose stages have these shares. Arrays are [operator, share]."""

    problem: GraphPipelineProblem
    shares: tuple[Share, ...]
    memory: GraphMemory
    """If it is rounded, then down: no plan is lost."""

    @cached_property
    def sizes(self) -> Any:
        return np.array([float(b) for b, _ in self.shares])

    @cached_property
    def degrees(self) -> Any:
        return np.array([d for _, d in self.shares])

    @cached_property
    def passes(self) -> Any:
        """Forward and backward time of one micro-batch; infinite where it does not fit the memory."""
        curves: dict[Any, list[float]] = {}
        for x in self.problem.operators:
            if (x.forward, x.backward) not in curves:
                curves[x.forward, x.backward] = [x.forward(b / d) + x.backward(b / d) for b, d in self.shares]
        times = np.array([curves[x.forward, x.backward] for x in self.problem.operators])
        return np.where(self.held <= self.limits, times, np.inf)

    @cached_property
    def limits(self) -> Any:
        return np.array([self.memory.limits[d] for _, d in self.shares], dtype=np.int64)

    @property
    def held(self) -> Any:
        """Memory of all devices of a stage with one micro-batch in flight, in whole units."""
        fixed, stashes = (
            np.array(row, dtype=np.int64)[:, None] for row in (self.memory.fixed, self.memory.stashes)
        )
        return fixed * self.degrees + stashes * self.sizes.astype(np.int64)

    @cached_property
    def weights(self) -> Any:
        return np.array([x.weight_bytes for x in self.problem.operators])

    @cached_property
    def synchronisation(self) -> tuple[Any, Any]:
        """Seconds per byte of weights, and latency, of each share."""
        return synchronisation(self.problem, (d for _, d in self.shares))

    @property
    def possible(self) -> bool:
        return bool(np.isfinite(self.passes).any(axis=1).all()) and self._packs(np.inf)

    # ---- work --------------------------------------------------------------------------------------------

    @cached_property
    def _together(self) -> Any:
        """Time of each operator per sample, without the latency of synchronisation."""
        return self.passes / self.sizes + self.weights[:, None] * self.synchronisation[0] / self.problem.mini_batch

    @cached_property
    def _alone(self) -> Any:
        """Time of each operator per sample where it is all of a stage."""
        return self._together + self.synchronisation[1] / self.problem.mini_batch

    def spread(self, time: float, synchronised: bool = True, over: Any = slice(None)) -> float:
        """The least work of all devices per sample if no operator takes longer than `time`; `over`: of these alone."""
        work = (self._together if synchronised else self.passes / self.sizes)[over] * self.degrees
        return float(np.where(self._alone[over] <= time * (1 + SUM_ROUNDING), work, np.inf).min(axis=1).sum())

    @cached_property
    def _work(self) -> float:
        """The bound on the time per sample without paths."""
        low = self._evenly_spread
        return low if not low else self._smallest(low, np.inf, self._packs)

    def _smallest(self, low: float, high: float, possible: Callable[[float], bool]) -> float:
        """A time just below the least possible one, or `low` if that is possible. What is possible at some time is
        possible at every later one."""
        if possible(low):
            return low
        if not np.isfinite(high):
            high = 2 * low
            while not possible(high):
                low, high = high, 2 * high
        while high - low > PRECISE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if possible(middle) else (middle, high)
        return low

    @cached_property
    def _evenly_spread(self) -> float:
        """The least T with which no operator takes longer than T, and all work no more than D T."""
        times = np.unique(self._alone[np.isfinite(self._alone)])
        devices = self.problem.devices
        first, last = int(np.searchsorted(times, self._alone.min(axis=1).max())), len(times) - 1
        low = first + bisect_left(
            range(first, last), True, key=lambda n: bool(self.spread(float(times[n])) <= devices * times[n])
        )
        # Before times[low] the work is that of the step before, which may still be the smaller T.
        candidates = [max(float(times[low]), self.spread(float(times[low])) / devices)]
        if low and np.isfinite(before := self.spread(float(times[low - 1])) / devices):
            candidates.append(max(float(times[low - 1]), before))
        return min(candidates)

    @cached_property
    def _packing(self) -> list[tuple[int, Any, Any]]:
        """(m, times of the j quickest of m operators, how many of them fit the memory): [j, share], [share]."""
        together = self._together
        order = np.argsort(-self._alone.min(axis=1), kind="stable")[:MOST_PACKED]
        numbers = np.unique(np.linspace(1, len(order), min(len(order), MOST_SETS)).round().astype(int)).tolist()
        sets = []
        for m in numbers:
            times = np.cumsum(np.sort(together[order[:m]], axis=0), axis=0)
            memory = np.cumsum(np.sort(self.held[order[:m]], axis=0), axis=0)
            fitting = (memory <= self.limits).sum(axis=0)
            sets.append((m, times + self.synchronisation[1] / self.problem.mini_batch, fitting))
        return sets

    def _packs(self, time: float) -> bool:
        """Are there enough devices for all operators at this time, though operators cannot be divided?"""
        most = time * (1 + SUM_ROUNDING)
        for m, times, fitting in self._packing:
            taken = np.minimum(((times <= most) & np.isfinite(times)).sum(axis=0), fitting)
            if self.problem.devices * (taken / self.degrees).max() * (1 + SUM_ROUNDING) < m:
                return False
        return True

    # ---- paths -------------------------------------------------------------------------------------------

    @cached_property
    def _paths(self) -> list[Path]:
        return [Path(self, path) for path in disjoint_paths(self.problem, self.passes.min(axis=1).tolist())]

    @cached_property
    def _looked_at(self) -> tuple[list[Path], list[int]]:
        """The paths whose stages are looked at, and all other operators."""
        alone = len(self.passes) == 1
        paths = [path for path in self._paths if path.steps <= MOST_STEPS and (alone or len(path.operators) > 1)]
        seen = {v for path in paths for v in path.operators}
        return paths, [v for v in range(len(self.passes)) if v not in seen]

    def simple(self, steady: bool) -> float:
        """The bound by all work and, for one iteration, by the longest path of one micro-batch."""
        if steady:
            return self._work
        longest = self._paths[0].passes.min(axis=1).sum()
        return max(self.problem.mini_batch * self._work, float(longest))

    def by_paths(self, steady: bool, enough: float) -> float:
        """The bound, or any number of at least `enough` if the bound is no less; infinite: there are no plans."""

        low, possible = self.simple(steady), partial(self._possible, steady=steady)
        if not low:
            return low
        return self._smallest(low, enough, possible) if possible(enough) else enough

    def _possible(self, time: float, steady: bool) -> bool:
        """May there be a plan whose slowest stage, or iteration, takes no longer than `time`?"""
        devices, batch = self.problem.devices, self.problem.mini_batch
        longest = time * batch if steady else time
        paths, others = self._looked_at
        work = batch * self.spread(longest / batch, steady, others)
        for n, path in enumerate(paths):
            work += path.steady(longest, n == 0) if steady else path.iteration(longest, n == 0)
        return work <= devices * longest * (1 + SUM_ROUNDING) and work < np.inf


# What the stages on a path of operators cost all devices, at least: the dynamic program behind the bound.
# The proof stands in the docstring of the module `bounds`.

# Steps of the dynamic program from which on compiled loops are worth their loading.
COMPILED_FROM = 1_001

# Operators of a path squared times shares (and levels), at most: of longer paths, no more than their work is counted.
MOST_STEPS = 2_000_000

# Numbers of stages after a stage that are told apart.
MOST_LEVELS = 4

# Disjoint paths, at most: of operators on further ones, no more than their work is counted.
MOST_PATHS = 64


def disjoint_paths(problem: GraphPipelineProblem, times: Sequence[float]) -> list[list[int]]:
    """Paths that share no operators: the longest of all by `times`, the longest of what is left, and so on."""
    left, paths = set(problem.topological_order), list[list[int]]()
    order = problem.topological_order[::-1]
    while left and len(paths) < MOST_PATHS:
        length, following = dict.fromkeys(left, 0.0), dict.fromkeys(left, -1)
        for v in order:
            if v in left:
                after = max((w for w in problem.successors[v] if w in left), key=length.__getitem__, default=-1)
                following[v] = after
                length[v] = times[v] + (length[after] if after >= 0 else 0.0)
        v = max(sorted(left), key=length.__getitem__)
        path = []
        while v >= 0:
            path.append(v)
            v = following[v]
        paths.append(path)
        left -= set(path)
    return paths


@dataclass(frozen=True, eq=False)
class Path:
    """A path of operators, for plans whose stages have the shares of an argument."""

    argument: Argument
    operators: list[int]

    @property
    def passes(self) -> Any:
        """Forward and backward time of one micro-batch, [operator, share]."""
        return self.argument.passes[self.operators]

    def iteration(self, longest: float, filled: bool) -> float:
        """Lower bound on the device time that the stages on this path use up in an iteration of at most `longest`.

        It is infinite where no division of the path into stages takes at most `longest`. With `filled` it counts the
        time before a stage can begin and after it is done, and its synchronisation, besides its passes.
        """
        return self._least(longest, self._nothing, self._delays, 1.0, 2 if filled else 0)

    def steady(self, longest: float, whole: bool) -> float:
        """The same lower bound for a mini-batch in the steady state, which counts transfers instead of bubbles.

        With `whole` it counts the latency of synchronisation, which a stage that lies on several paths pays once.
        """
        return self._least(longest, self._transfers, self._nothing, 0.0, 2 if whole else 1)

    # ---- how the loops read it ---------------------------------------------------------------------------

    def _least(self, longest: float, cross: Any, after: Any, fill: float, charge: int) -> float:
        argument, problem = self.argument, self.argument.problem
        counts = problem.mini_batch / argument.sizes
        stage = (argument.synchronisation[1], counts, argument.degrees, argument.sizes)
        alone = len(self.operators) == len(problem.operators)
        devices = (problem.devices, problem.devices if alone else 0)
        limits = (argument.limits, problem.mini_batch, self._levels, *devices, longest * (1 + SUM_ROUNDING))
        steps = self.steps * self._levels * problem.devices
        loops: Any = (
            compiled(kernel, "least_on_path") if repays_loading(steps, COMPILED_FROM) else kernel.least_on_path
        )
        return float(loops(cross, after, *self._parts, *stage, *limits, fill, charge))

    @property
    def steps(self) -> int:
        return len(self.operators) ** 2 * len(self.argument.shares)

    @property
    def _levels(self) -> int:
        """Numbers of stages after a stage that are told apart: they matter for memory alone."""
        problem = self.argument.problem
        if problem.memory_bytes is None or self.steps * MOST_LEVELS > MOST_STEPS:
            return 1
        return min(MOST_LEVELS, len(self.operators), problem.devices)

    @cached_property
    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """What the operators of the path cost, as arrays for the loops.

        Times of passes and of synchronisation are [share, place on the path]; fixed memory and memory per sample,
        which are the same for all shares, are [place on the path].
        """
        argument, passes = self.argument, self.passes
        times = np.where(np.isfinite(passes), passes, 0.0)
        syncs = argument.synchronisation[0][:, None] * argument.weights[self.operators]
        fixed, stashes = (
            np.array(row, dtype=np.int64)[self.operators]
            for row in (argument.memory.fixed, argument.memory.stashes)
        )
        return times.T.copy(), syncs, fixed, stashes

    @cached_property
    def _nothing(self) -> Any:
        return np.zeros((len(self.argument.shares), len(self.operators) + 1))

    @cached_property
    def _delays(self) -> Any:
        """The delay after each operator, there and back: one way in the stage's micro-batches, one in the smallest."""
        return self._between(self.argument.sizes + self.argument.sizes.min())

    @cached_property
    def _transfers(self) -> Any:
        """Time that each of two stages between which the path is cut spends on the tensor, there and back."""
        return self._between(2 * self.argument.sizes)

    def _between(self, samples: Any) -> Any:
        problem = self.argument.problem
        link = problem.boundary_link
        rate = 0.0 if link.bandwidth is None else 1 / link.bandwidth
        outputs = np.array([problem.operators[v].output_bytes for v in self.operators])
        table = self._nothing.copy()
        table[:, 1:-1] = 2 * link.latency_s + rate * (samples / self.argument.degrees)[:, None] * outputs[:-1]
        return table
