"""What no plan can beat, proven without a search.

It holds for every plan that the referee accepts (any convex stages, any edges between them, any k and any samples in
flight) whose stages take their micro-batches from the sizes that `micro_batch` allows, all the same one unless
`mixed_micro_batches`, and their numbers of devices from `degrees`. Let B be the mini-batch and D the devices; a
*share* is a size b with a degree d; f and g are forward and backward time of operators for b / d samples.

Time per sample. A stage with the share (b, d) takes at least (f(v) + g(v)) / b + sync(v, d) / B for each v of its
operators, sync being the time to synchronise v's weights; all its operators together take their sum, but for the
latency of the synchronisation, which is paid once. So if T is the time of the slowest stage, every operator v has a
share with which it alone takes no longer than T, and the least d ((f(v) + g(v)) / b + sync(v, d) / B) over these
shares, added up over all operators, is no more than D T. Moreover operators cannot be divided: of any m of them a
stage with a share takes at most j, as many as of the quickest ones together take no longer than T and of those that
need least memory fit with one micro-batch in flight, so m is at most D times the largest j / d of a share (tried for
sets of operators that take longest). The smallest T of which all this is true is the bound. Shares that leave no
memory for one micro-batch of v are none.

Iteration. No stage can be done before B times its time per sample (transfers left out, for they may overlap with
computation), so B times the bound above holds. Bubbles come from a path of operators. By convexity and since stages
form no circle, the path runs through a row of stages x_1, x_2, ..., x_p, each taking a run of it, and their devices
are at most D in all. The first forward pass of x_j begins no sooner than one forward pass of each stage before it, one
after the other, with the transfers between them, and after the last backward pass of x_j each of them has a backward
pass to do: both hold with micro-batches of any sizes, for the first samples and for the last ones. Between the two,
x_j runs all its B / b passes. If s_j is forward and backward time of the run alone, c_i the transfers after x_i there
and back, an iteration of T satisfies for all j

    (s_1 + c_1) + ... + (s_(j-1) + c_(j-1)) + (B / b_j) s_j <= T   and   (B / b_j) s_j + sync(x_j) <= T.

A dynamic program over (place on the path, devices used, stages that come after) keeps the least sum on the left, for
less is never worse, and so tells whether any row of stages satisfies this. A stage with r stages after it on the path
holds at least b + r b' samples in flight, b' being the smallest size (or the mini-batch, if that is less), and must
have the memory for them; r is told apart as far as `MOST_LEVELS` goes. Moreover, x_j stands idle for that sum of
time, so D T, less d_j times it for all j, has to hold the work of all operators (without synchronisation, for which
x_j need not wait until the stages before it are done). The path is one whose operators take longest.

How near: for a chain of D equal operators on D devices without transfers, undivided, this is (B / b + D - 1) (f + g),
which 1F1B attains, wherever the mini-batch has at least D - 1 micro-batches. Where memory is short and in graphs with
many branches it is up to a third below the plans that are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.graph_pipeline import GraphPipelineProblem
from ...instances.referee.verify import MEMORY_TOLERANCE
from . import kernel
from .configurations import allowed_degrees, micro_batches

Share = tuple[int, int]
"""Samples of a micro-batch, and devices."""

PRECISE = 1e-8
"""Relative: how close the iteration's bound is to what the argument proves."""

ROUNDING = 1e-12

PLAIN_STEPS = 1_000
"""Below so many steps of the dynamic program, compiled loops are not worth their loading."""

MOST_PACKED = 1000
"""Operators in a set whose packing is looked at."""

MOST_SETS = 64

MOST_STEPS = 2_000_000
"""Operators of the path squared times shares (and levels): longer paths give no more than their length."""

MOST_LEVELS = 4
"""One number of stages after a stage is told apart from another up to this."""


def lower_bound(problem: GraphPipelineProblem, options: Mapping[str, Any], quick: bool = False) -> float | None:
    """For the options of a planner and its objective; None where no operator fits the memory. `quick`: no paths."""
    objective = options.get("objective", "iteration")
    arguments = [argument for argument in _arguments(problem, options) if argument.possible]
    if not arguments:
        return None
    if objective == "time-per-sample":
        return min(argument.time_per_sample for argument in arguments) * (1 - ROUNDING)
    arguments.sort(key=lambda argument: argument.simple)
    best = np.inf
    for argument in arguments:
        if argument.simple < best:
            best = min(best, argument.simple if quick else argument.iteration(best))
    return float(best) * (1 - ROUNDING)


def _arguments(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> list[Argument]:
    """One for each micro-batch size, or one for all together."""
    sizes = micro_batches(problem, options.get("micro_batch"))
    which = options.get("degrees", "divisors")
    shares = [tuple((b, d) for d in allowed_degrees([b], problem.devices, which)) for b in sizes]
    if options.get("mixed_micro_batches"):
        shares = [tuple(share for some in shares for share in some)]
    return [Argument(problem, some) for some in shares]


@dataclass(frozen=True, eq=False)
class Argument:
    """The bounds for plans whose stages have these shares. Arrays are [operator, share]."""

    problem: GraphPipelineProblem
    shares: tuple[Share, ...]

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
        return np.where(self._fits(), times, np.inf)

    def _fits(self) -> Any:
        return np.True_ if self.room is None else self.bytes <= self.room

    @property
    def room(self) -> float | None:
        """Memory of a device for operators."""
        problem = self.problem
        if problem.memory_bytes is None:
            return None
        return problem.memory_bytes * (1 + MEMORY_TOLERANCE) - problem.workspace_bytes

    @property
    def bytes(self) -> Any:
        """Of a device, with one micro-batch in flight."""
        stash = np.array([x.stash_bytes for x in self.problem.operators])[:, None]
        return self.problem.weight_copies * self.weights[:, None] + stash * (self.sizes / self.degrees)

    @cached_property
    def weights(self) -> Any:
        return np.array([x.weight_bytes for x in self.problem.operators])

    @cached_property
    def synchronisation(self) -> tuple[Any, Any]:
        """For each share: seconds per byte of weights, and latency."""
        links = [self.problem.inner_link(d) for _, d in self.shares]
        rates = [
            0.0 if d == 1 or link.bandwidth is None else 2 * (d - 1) / d / link.bandwidth
            for (_, d), link in zip(self.shares, links, strict=True)
        ]
        latencies = [0.0 if d == 1 else link.latency_s for (_, d), link in zip(self.shares, links, strict=True)]
        return np.array(rates), np.array(latencies)

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
        """Where it is all of a stage."""
        return self._together + self.synchronisation[1] / self.problem.mini_batch

    def spread(self, time: float, synchronised: bool = True) -> float:
        """The work of all devices per sample, where no operator takes longer than `time`."""
        work = (self._together if synchronised else self.passes / self.sizes) * self.degrees
        return float(np.where(self._alone <= time * (1 + ROUNDING), work, np.inf).min(axis=1).sum())

    @cached_property
    def time_per_sample(self) -> float:
        """The smallest T of which all that is said of it is true."""
        low = self._evenly_spread
        return low if not low else self._smallest(low, np.inf, self._packs)

    def _smallest(self, low: float, high: float, possible: Callable[[float], bool]) -> float:
        """What is possible at some time is so from there on; just below the first such time, or `low` if it is one."""
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
        """All operators keep below T, and all work below D T."""
        times = np.unique(self._alone[np.isfinite(self._alone)])
        devices = self.problem.devices
        low, high = int(np.searchsorted(times, self._alone.min(axis=1).max())), len(times) - 1
        while low < high:
            middle = (low + high) // 2
            if self.spread(float(times[middle])) <= devices * times[middle]:
                high = middle
            else:
                low = middle + 1
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
        found = []
        for m in numbers:
            times = np.cumsum(np.sort(together[order[:m]], axis=0), axis=0)
            memory = np.cumsum(np.sort(self.bytes[order[:m]], axis=0), axis=0)
            fitting = (memory <= (np.inf if self.room is None else self.room)).sum(axis=0)
            found.append((m, times + self.synchronisation[1] / self.problem.mini_batch, fitting))
        return found

    def _packs(self, time: float) -> bool:
        """Are there devices enough for the indivisible operators?"""
        most = time * (1 + ROUNDING)
        for m, times, fitting in self._packing:
            taken = np.minimum(((times <= most) & np.isfinite(times)).sum(axis=0), fitting)
            if self.problem.devices * (taken / self.degrees).max() * (1 + ROUNDING) < m:
                return False
        return True

    # ---- iterations --------------------------------------------------------------------------------------

    @cached_property
    def simple(self) -> float:
        """All work, and the longest path of one micro-batch."""
        least = self.passes.min(axis=1)
        return max(self.problem.mini_batch * self.time_per_sample, float(sum(least[v] for v in self.path)))

    @cached_property
    def path(self) -> list[int]:
        """The operators of a longest path, each with its fastest share."""
        least = self.passes.min(axis=1)
        problem = self.problem
        length, following = [0.0] * len(least), [-1] * len(least)
        for v in reversed(problem.topological_order):
            after = max(problem.successors[v], key=lambda w: length[w], default=-1)
            following[v] = after
            length[v] = float(least[v]) + (length[after] if after >= 0 else 0.0)
        v = max(range(len(least)), key=lambda v: length[v])
        path = []
        while v >= 0:
            path.append(v)
            v = following[v]
        return path

    def iteration(self, enough: float) -> float:
        """The bound, or anything from `enough` up where it is no less than that."""
        low = self.simple
        if not low or self._steps > MOST_STEPS:
            return low
        if np.isfinite(enough) and not self._possible(enough):
            return enough
        return self._smallest(low, enough, self._possible)

    def _possible(self, time: float) -> bool:
        """May there be a plan whose iteration takes no longer than `time`?"""
        devices, batch = self.problem.devices, self.problem.mini_batch
        lost = self._loops(*self._row, devices, time * (1 + ROUNDING))
        return bool(lost + batch * self.spread(time / batch, synchronised=False) <= devices * time * (1 + ROUNDING))

    @property
    def _steps(self) -> int:
        return len(self.path) ** 2 * len(self.shares)

    @property
    def _levels(self) -> int:
        """Numbers of stages after a stage that are told apart: they matter for memory alone."""
        if self.room is None or self._steps * MOST_LEVELS > MOST_STEPS:
            return 1
        return min(MOST_LEVELS, len(self.path), self.problem.devices)

    @cached_property
    def _loops(self) -> Any:
        if self._steps * self._levels * self.problem.devices <= PLAIN_STEPS:
            return kernel.idle_on_path
        from ...instances.compiled import compiled

        return compiled(kernel, "idle_on_path")

    @cached_property
    def _row(self) -> tuple[Any, ...]:
        """The path as the loops read it: sums up to each place, [share, place]."""
        path, problem = self.path, self.problem
        times = np.where(np.isfinite(self.passes[path]), self.passes[path], 0.0)
        rates, latencies = self.synchronisation
        stashes = np.array([problem.operators[v].stash_bytes for v in path])[:, None] / self.degrees
        fixed = problem.weight_copies * self.weights[path]
        return (
            _sums(times),
            _sums(self.weights[path][:, None] * rates),
            latencies,
            self._transfers(path),
            problem.mini_batch / self.sizes,
            self.degrees.astype(np.int64),
            _sums(fixed[:, None])[0],
            _sums(stashes),
            self.sizes,
            np.inf if self.room is None else self.room,
            float(problem.mini_batch),
            self._levels,
        )

    def _transfers(self, path: list[int]) -> Any:
        """After each operator of the path, there and back: sent in the stage's micro-batches, and in the smallest."""
        link = self.problem.boundary_link
        rate = 0.0 if link.bandwidth is None else 1 / link.bandwidth
        outputs = np.array([self.problem.operators[v].output_bytes for v in path])
        samples = (self.sizes + self.sizes.min()) / self.degrees
        after = 2 * link.latency_s + rate * samples[:, None] * outputs
        after[:, -1] = 0.0
        return np.concatenate([np.zeros((len(self.shares), 1)), after], axis=1)


def _sums(rows: Any) -> Any:
    """[operator, share] to [share, operators before]."""
    sums = np.zeros((rows.shape[1], len(rows) + 1))
    np.cumsum(rows.T, axis=1, out=sums[:, 1:])
    return sums
