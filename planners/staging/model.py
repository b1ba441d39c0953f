"""A staging problem as arrays: layers in reverse topological order, their options by degree, their edges.

A *downset* holds with a layer all that comes after it: what remains to be run behind some stage. Downsets are the
ideals of the reversed graph, so they come from the same enumeration as those of the placement problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instances.base.checks import check_whole
from ...instances.base.errors import InputError
from ...instances.staging.problem import Configuration, StagingProblem
from ..placement.dp.lattice import MOST_IDEALS, TooManyIdealsError, ideal_bits, sums
from ..registry import MAX_DOWNSETS
from .links import sync_seconds
from .memory import Bytes, StagingMemory, whole_memory

# Relative: bounds on sums of work are relaxed by this.
ROUNDING = 1e-11


@dataclass(frozen=True)
class PiperModel:
    """`order[v]`: position in the problem of layer v; `ways[tau][v]`: its configurations of the tau-th degree."""

    problem: StagingProblem
    semantics: str
    order: tuple[int, ...]
    degrees: tuple[int, ...]
    ways: tuple[tuple[tuple[Configuration, ...], ...], ...]
    places: tuple[tuple[tuple[int, ...], ...], ...]
    """where each of the ways stands among its layer's, by which `memory` knows what it holds"""
    memory: StagingMemory
    bits: Any
    """uint64[downsets, words], by growing inclusion: 0 is empty, the last is everything"""
    rest_work: Any
    """per downset: the least device time of all layers outside"""
    replicas: Any
    """data-parallel degrees that may be chosen, ascending"""
    uniform: bool
    """Do all options of a layer and degree have the same weights, and hold the same in any number of replicas? Then one
    table serves all of them."""

    @property
    def layers(self) -> int:
        return len(self.order)

    @property
    def downsets(self) -> int:
        return len(self.bits)

    def limit(self, tau: int, copies: int) -> float:
        """What the layers of a stage may take of a device, in whole units."""
        limit = self.memory.limit(0, self.degrees[tau], copies)
        return math.inf if limit is None else float(limit)

    def bytes(self, tau: int, v: int, copies: int) -> tuple[Bytes, ...]:
        """What each way of a layer holds in so many copies, in whole units."""
        held = self.memory.held(self.order[v], self.degrees[tau], copies)
        return tuple(held[place] for place in self.places[tau][v])

    def inside(self) -> PiperModel:
        """The model with slightly less memory, so that rounding cannot make anything fit."""
        return replace(self, memory=self.memory.inside())

    def sync_time(self, replicas: int) -> float:
        """Time per byte of weights, times the number of replicas: what d replicas add to d times the load."""
        samples = replicas if self.semantics == "paper" else self.problem.micro_batches
        return sync_seconds(self.problem, replicas, samples, self.problem.bandwidth)


# (degree, configuration): may it be chosen?
Allowed = Callable[[int, Configuration], bool]


def build(
    problem: StagingProblem,
    semantics: str = "paper",
    allowed: Allowed = lambda degree, way: True,
    replicas: Callable[[int], bool] = lambda d: True,
    max_downsets: int = 20_000,
) -> PiperModel:
    """The model of a problem; `allowed` and `replicas` restrict the choice, which makes the baselines."""
    order = tuple(reversed(problem.topological_order))
    number = {i: v for v, i in enumerate(order)}
    before = [sorted({number[j] for j in problem.successors[i]}) for i in order]
    return _model(problem, semantics, allowed, replicas, ideal_bits(before, max_downsets))


def from_downsets(
    problem: StagingProblem,
    downsets: Sequence[Collection[int]],
    semantics: str = "paper",
    allowed: Allowed = lambda degree, way: True,
) -> PiperModel:
    """Stages only between these downsets (positions of layers), the empty one and that of all layers among them."""
    number = {i: v for v, i in enumerate(reversed(problem.topological_order))}
    bits = np.zeros((len(downsets), -(-len(number) // 64)), dtype=np.uint64)
    for row, members in zip(bits, downsets, strict=True):
        for i in members:
            row[number[i] >> 6] |= np.uint64(1 << (number[i] & 63))
    return _model(problem, semantics, allowed, lambda d: True, bits)


def _model(
    problem: StagingProblem, semantics: str, allowed: Allowed, replicas: Callable[[int], bool], bits: Any
) -> PiperModel:
    order = tuple(reversed(problem.topological_order))
    degrees = problem.degrees
    memory = whole_memory(problem, min(problem.devices, problem.micro_batches))
    kept = [[_kept(problem, i, t, allowed) for i in order] for t in degrees]
    ways = tuple(tuple(tuple(way for way, _ in pairs) for pairs in row) for row in kept)
    places = tuple(tuple(tuple(place for _, place in pairs) for pairs in row) for row in kept)
    work = [
        min((t * way.time for t, row in zip(degrees, ways, strict=True) for way in row[v]), default=np.inf)
        for v in range(len(order))
    ]
    # Stable: a downset stands behind all that it contains, since those have fewer layers.
    bits = bits[np.argsort(sums(bits, [1.0] * len(order)), kind="stable")]
    finite = [value if value < np.inf else 0.0 for value in work]
    return PiperModel(
        problem,
        semantics,
        order,
        degrees,
        ways,
        places,
        memory,
        bits,
        _rest(bits, finite),
        np.array(
            [
                d
                for d in range(1, min(problem.devices, problem.micro_batches) + 1)
                if (semantics == "paper" or problem.micro_batches % d == 0)
                and (d == 1 or problem.replication)
                and replicas(d)
            ],
            dtype=np.int64,
        ),
        not problem.zero and all(len({way.weight_bytes for way in row}) <= 1 for rows in ways for row in rows),
    )


def _rest(bits: Any, work: list[float]) -> Any:
    """Work outside each downset, lowered by what rounding may have added: a trace above 0 would cost a device."""
    inside = sums(bits, work)
    return np.maximum(inside[-1] - inside - ROUNDING * inside[-1], 0.0)


def _kept(problem: StagingProblem, i: int, degree: int, allowed: Allowed) -> list[tuple[Configuration, int]]:
    ways = problem.layers[i].configurations.get(degree, ())
    return [(way, place) for place, way in enumerate(ways) if allowed(degree, way)]


# ---- Which degrees and configurations a planner may choose from, and the model that they leave -------------


@dataclass(frozen=True)
class Restriction:
    """The degrees and configurations that a planner may choose from."""

    allowed: Callable[[int, Configuration], bool] = lambda degree, way: True
    replicas: Callable[[int], bool] = lambda d: True


def model_of(problem: StagingProblem, options: Any, restriction: Restriction = Restriction()) -> PiperModel:
    """The model, or an `InputError` where there are too many downsets."""
    most = options.get("max_downsets", MAX_DOWNSETS.default)
    check_whole("option max_downsets", most, MOST_IDEALS)
    try:
        return build(problem, options.get("semantics", "paper"), restriction.allowed, restriction.replicas, most)
    except TooManyIdealsError:
        raise InputError(
            "layers",
            f"have more than {most} downsets",
            "merge parallel layers, or give --option max-downsets for more",
        ) from None
