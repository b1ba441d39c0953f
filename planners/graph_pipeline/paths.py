"""What the stages on a path of operators cost all devices, at least: the dynamic program behind the bound.

The proof stands in the docstring of the module `bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.graph_pipeline.problem import GraphPipelineProblem
from . import kernel
from .memory import GraphMemory

ROUNDING = 1e-12

COMPILED_FROM = 1_001
"""Below so many steps of the dynamic program, compiled loops are not worth their loading."""

MOST_STEPS = 2_000_000
"""Operators of a path squared times shares (and levels): of longer paths, no more than their work is counted."""

MOST_LEVELS = 4
"""One number of stages after a stage is told apart from another up to this."""

MOST_PATHS = 64


def disjoint_paths(problem: GraphPipelineProblem, times: Sequence[float]) -> list[list[int]]:
    """Paths that share no operators and take longest: the longest of all, the longest of what is left, and so on."""
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
class Shares:
    """All that a stage may choose from: for each share, micro-batch, devices, and what synchronisation takes."""

    sizes: Any
    degrees: Any
    rates: Any
    """Seconds per byte of weights."""
    latencies: Any
    limits: Any
    """Memory of all devices, in whole units."""


@dataclass(frozen=True, eq=False)
class Path:
    """A path of operators; `passes` are forward and backward time of one micro-batch, [operator, share]."""

    problem: GraphPipelineProblem
    shares: Shares
    operators: list[int]
    passes: Any
    memory: GraphMemory

    def iteration(self, longest: float, filled: bool) -> float:
        """Time of all devices within an iteration of at most `longest`; infinite where there is none.

        `filled`: with the time before a stage can begin and after it is done, and with its synchronisation.
        """
        return self._least(longest, self._nothing, self._delays, 1.0, 2 if filled else 0)

    def steady(self, longest: float, whole: bool) -> float:
        """The same with transfers in place of bubbles, for a mini-batch in the steady state.

        `whole`: with the latency of synchronisation, which stages of several paths pay once.
        """
        return self._least(longest, self._transfers, self._nothing, 0.0, 2 if whole else 1)

    @property
    def short_enough(self) -> bool:
        return self._steps <= MOST_STEPS

    # ---- how the loops read it ---------------------------------------------------------------------------

    def _least(self, longest: float, cross: Any, after: Any, fill: float, charge: int) -> float:
        problem, shares = self.problem, self.shares
        counts = problem.mini_batch / shares.sizes
        stage = (shares.latencies, counts, shares.degrees, shares.sizes)
        alone = len(self.operators) == len(problem.operators)
        devices = (problem.devices, problem.devices if alone else 0)
        limits = (shares.limits, problem.mini_batch, self._levels, *devices, longest * (1 + ROUNDING))
        return float(self._loops(cross, after, *self._parts, *stage, *limits, fill, charge))

    @property
    def _steps(self) -> int:
        return len(self.operators) ** 2 * len(self.shares.sizes)

    @property
    def _levels(self) -> int:
        """Numbers of stages after a stage that are told apart: they matter for memory alone."""
        if self.problem.memory_bytes is None or self._steps * MOST_LEVELS > MOST_STEPS:
            return 1
        return min(MOST_LEVELS, len(self.operators), self.problem.devices)

    @cached_property
    def _loops(self) -> Any:
        from ...instances.base.compiled import compiled, repays_loading

        steps = self._steps * self._levels * self.problem.devices
        return compiled(kernel, "least_on_path") if repays_loading(steps, COMPILED_FROM) else kernel.least_on_path

    @cached_property
    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """Of each operator: times, synchronisation, fixed memory, memory per sample; [share, place] or [place]."""
        weights = np.array([self.problem.operators[v].weight_bytes for v in self.operators])
        times = np.where(np.isfinite(self.passes), self.passes, 0.0)
        fixed, stashes = (
            np.array([row[v] for v in self.operators], dtype=np.int64)
            for row in (self.memory.fixed, self.memory.stashes)
        )
        return times.T.copy(), self.shares.rates[:, None] * weights, fixed, stashes

    @cached_property
    def _nothing(self) -> Any:
        return np.zeros((len(self.shares.sizes), len(self.operators) + 1))

    @cached_property
    def _delays(self) -> Any:
        """After each operator, there and back: sent in the stage's micro-batches, and in the smallest."""
        return self._between(self.shares.sizes + self.shares.sizes.min())

    @cached_property
    def _transfers(self) -> Any:
        """What each of two stages between which the path is cut spends on the tensor, there and back."""
        return self._between(2 * self.shares.sizes)

    def _between(self, samples: Any) -> Any:
        link = self.problem.boundary_link
        rate = 0.0 if link.bandwidth is None else 1 / link.bandwidth
        outputs = np.array([self.problem.operators[v].output_bytes for v in self.operators])
        table = self._nothing.copy()
        table[:, 1:-1] = 2 * link.latency_s + rate * (samples / self.shares.degrees)[:, None] * outputs[:-1]
        return table
