"""The stages near the optimum, where a lattice has too many to list: those of plans within a limit, no others.

The largest load is what counts, so stages that are slower than some plan need no columns. They are found anew for each
limit, by two passes over all pairs of sets (`scan`), and listed only where they are few. A limit is raised only
after the model has proven that no plan keeps it: so columns are made as they are needed, and the proofs are those of
the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled, repays_loading
from ...instances.base.errors import TooLargeError
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import Configuration, StagingProblem
from . import scan
from .lattice import MAX_STAGES, REMEDY, Lattice
from .memory import TRIPS, memory_of

# Limits are raised to at least this.
LEAST = 1e-300
# The factor by which limits are raised until some stage is within them, and how closely, relatively, a limit is then
# sought that leaves few stages.
FASTER, CLOSE = 1.3, 1e-3
# The search for a limit starts at this share of the highest limit if nothing is proven.
SMALL = 1e-6
# Number of sets from which on compiled loops pay: fewer are scanned faster than the loops are loaded.
COMPILED_FROM = 41

# Sums that are at most this many times their least part are exact enough.
ALIKE = 1e6

# Stands for the time of what cannot run at all: infinity would spoil sums that leave it out.
ENDLESS = 1e300

# Numbers of replicas that a stage may have, ascending, with the time per byte of weights that they synchronise.
Degrees = Mapping[int, float]
# The least device time and the least time of each layer.
Least = tuple[Sequence[float], Sequence[float]]


class NearStages:
    """All suffix sets of a problem, with what decides whether a stage between two of them can be in a plan."""

    def __init__(self, problem: StagingProblem, sets: tuple[int, ...], degrees: Degrees, least: Least) -> None:
        """`least` has two numbers of each layer, the least device time and the least time that it takes."""
        self.sets = sets
        self.plain = not repays_loading(len(sets), COMPILED_FROM)
        """Are the loops of `scan` run as Python, since there is too little to do for compiled ones?"""
        self.layers = _layers(problem, sets, degrees)
        self.function("borders")(self.layers)
        outside = ~_membership(self.layers.bits, len(problem.layers))
        self._work_outside, self._time_outside = (outside @ np.minimum(values, ENDLESS) for values in least)
        """By set: the least device time, and the least time, of all layers that are not in it."""
        self._last: tuple[float, Lattice | None] | None = None
        """The last limit that was asked for, with the answer."""
        self._reach = scan.Reach(*(np.empty(len(sets), dtype=np.int64) for _ in range(4)))

    def function(self, name: str) -> Callable[..., Any]:
        return getattr(scan, name) if self.plain else compiled(scan, name)

    def possible(self, limit: float) -> bool:
        """False: no plan has all loads within the limit."""
        limit = _raised(limit)
        rest = [_counts(amounts, limit) for amounts in (self._work_outside, self._time_outside)]
        return bool(self.function("reach_from_the_end")(self.layers, limit, *rest, self._reach))

    def within(self, limit: float) -> Lattice:
        """The stages of plans with all loads within the limit; a `TooLargeError` where there are too many."""
        stages = self.few_within(limit)
        if stages is None:
            raise TooLargeError("layers", f"can form more than {MAX_STAGES} stages that are fast enough", REMEDY)
        return stages

    def few_within(self, limit: float) -> Lattice | None:
        """The stages within a limit, or None where there are too many; the last answer is kept."""
        if self._last is None or self._last[0] != limit:
            self._last = limit, self._list(limit)
        return self._last[1]

    def next_limit(self, proven: float, highest: float, out_of_time: Callable[[], bool]) -> float:
        """A limit, at most the highest one, that leaves some stages, but few; `proven`: no plan is below it.

        Where there is none, a limit that leaves too many, close above one that leaves none.
        """
        low, high = proven or SMALL * highest, highest
        while high > low * (1 + CLOSE) and not out_of_time():
            limit = min(FASTER * low, math.sqrt(low * high))
            stages = self.few_within(limit)
            if stages is None:
                high = limit
            elif any(stages.stages_from):
                return limit
            else:
                low = limit
        return high

    def _list(self, limit: float) -> Lattice | None:
        smaller, larger = np.empty(MAX_STAGES, dtype=np.int32), np.empty(MAX_STAGES, dtype=np.int32)
        count = 0
        if self.possible(limit):
            arguments = (self.layers, _raised(limit), self._reach, smaller, larger)
            count = self.function("reach_from_the_beginning")(*arguments)
        return None if count < 0 else self._lattice(smaller[:count], larger[:count])

    def _lattice(self, smaller: Any, larger: Any) -> Lattice:
        """The lattice of these stages; its sets are their ends, the empty set and that of all layers."""
        used = np.unique(np.concatenate([smaller, larger, [0, len(self.sets) - 1]]))
        place = {int(i): n for n, i in enumerate(used)}
        stages: list[list[int]] = [[] for _ in used]
        for i, j in zip(smaller.tolist(), larger.tolist(), strict=True):
            stages[place[i]].append(place[j])
        return Lattice(tuple(self.sets[int(i)] for i in used), tuple(tuple(sorted(outer)) for outer in stages))


def _raised(limit: float) -> float:
    """The limit raised by a hair, and above 0: layers that take no time are within every limit."""
    return max(limit * (1 + SAFETY), LEAST)


def _counts(amounts: Any, limit: float) -> Any:
    """Least number of devices or replicas that so much work takes; work that cannot run takes more than there are."""
    counts = np.ceil(np.minimum(amounts / limit, 1e12) - SAFETY)
    return np.where(amounts > 0, np.maximum(counts, 1), 0).astype(np.int64)


def _membership(bits: Any, count: int) -> Any:
    """For each set, given as bits, which layers it contains: an array bool[sets, layers]."""
    return np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little", count=count).astype(bool)


def _layers(problem: StagingProblem, sets: tuple[int, ...], allowed: Degrees) -> Any:
    """The arrays that `scan` reads; amounts are summed over the layers of each set."""
    words = -(-len(problem.layers) // 64)
    raw = b"".join(members.to_bytes(8 * words, "little") for members in sets)
    bits = np.frombuffer(raw, dtype="<u8").reshape(len(sets), words).astype(np.uint64)
    degrees, most = problem.degrees, min(problem.devices, problem.micro_batches)
    replicas = list(allowed)
    inside = _membership(bits, len(problem.layers)).astype(float)
    memory = memory_of(problem).in_copies(most).rounded_down(most)  # all that fits is kept
    limit = memory.limits[0]

    def over(rows: Any) -> Any:
        """The amounts of single layers, summed over each set."""
        return np.array(rows, dtype=float).reshape(len(degrees), len(problem.layers)) @ inside.T

    def least_of(of: Callable[[Configuration], float]) -> list[list[float]]:
        """The least amount of each layer, whichever its configuration."""
        return [
            [min(map(of, layer.configurations.get(t, ())), default=0.0) for layer in problem.layers]
            for t in degrees
        ]

    def least_held(place: int) -> list[list[int]]:
        return [[min((held[place] for held in of.get(t, ())), default=0) for of in memory.ways] for t in degrees]

    time, weight = least_of(lambda way: way.time), least_of(lambda way: way.weight_bytes)
    (time, time_rest), (weight, weight_rest) = (_in_two(np.array(rows, dtype=float)) for rows in (time, weight))
    missing = [[float(not layer.configurations.get(t)) for layer in problem.layers] for t in degrees]
    into, out_of = _transfers(problem, degrees)
    return scan.Layers(
        bits=bits,
        tail=np.array([u for u, _ in problem.arcs], dtype=np.int64),
        head=np.array([v for _, v in problem.arcs], dtype=np.int64),
        into=into,
        out_of=out_of,
        time=over(time),
        weight=over(weight),
        time_rest=over(time_rest),
        weight_rest=over(weight_rest),
        fine=bool(time_rest.any() or weight_rest.any()),
        per_batch=over(least_held(0)),
        fixed=over(least_held(1)),
        missing=over(missing),
        enter=np.zeros((len(degrees), len(sets))),
        leave=np.zeros((len(degrees), len(sets))),
        degree=np.array(degrees, dtype=np.int64),
        replicas=np.array(replicas, dtype=np.int64),
        at_least=np.searchsorted(replicas, np.arange(most + 2)),
        sync=np.array(list(allowed.values())),
        memory=math.inf if limit is None else float(limit),
        devices=problem.devices,
        batches=most,
    )


def _in_two(values: Any) -> tuple[Any, Any]:
    """[degree, layer] as multiples of a large unit, whose sums and differences are exact, and what is left.

    Nothing is left where the numbers are alike in size. Where one layer takes 1e16 ("forbidden"), a sum that holds it
    would otherwise forget the others.
    """
    totals = values.sum(axis=1, keepdims=True)
    least = np.where(values > 0, values, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    units = np.where(totals > ALIKE * least, 2.0 ** (np.frexp(totals)[1] - 52), 0.0)
    coarse = np.where(units > 0, np.floor(values / np.where(units > 0, units, 1.0)) * units, values)
    return coarse, values - coarse


def _transfers(problem: StagingProblem, degrees: tuple[int, ...]) -> tuple[Any, Any]:
    """Lower bound on what an edge that is cut costs its two stages, by degree."""
    into, out_of = np.zeros((len(degrees), len(problem.edges))), np.zeros((len(degrees), len(problem.edges)))
    for e, ((u, v), edge) in enumerate(zip(problem.arcs, problem.edges, strict=True)):
        for a, t in enumerate(degrees):
            ways_u, ways_v = (problem.layers[end].configurations.get(t, ()) for end in (u, v))
            gathered_v = min((way.gather_in.get(edge.source, 0.0) for way in ways_v), default=0.0)
            gathered_u = min((way.gather_out.get(edge.target, 0.0) for way in ways_u), default=0.0)
            into[a, e] = TRIPS * (edge.bytes + gathered_v) / problem.bandwidth
            out_of[a, e] = TRIPS * (edge.bytes + gathered_u) / problem.bandwidth
    return into, out_of
