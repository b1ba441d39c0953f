"""Bounds for every schedule from what each rank does and holds, in whichever chunk; and layouts to begin with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled
from ...instances.physics.schedules import LOOP, SCHEDULES
from ...instances.training.cases import AT_THE_END, NONE, Case
from ...instances.training.problem import TrainingProblem
from . import loads_kernel
from .judging import LISTED, LayoutEvaluator, loop_of

# Numbers of minor units are told apart up to so many combinations; beyond that only sums are compared.
MOST_STATES = 300


class Shape:
    """What the row of a problem looks like: its ends, and units that are alike."""

    def __init__(self, problem: TrainingProblem) -> None:
        row = problem.model.units
        self.units = len(row)
        self.own = bool(problem.model.own)
        self.ends = [u for u in (0, len(row) - 1) if row[u] in ("embedding", "head")]
        self.inner = [u for u in range(len(row)) if u not in self.ends]
        types: dict[Any, list[int]] = {}
        for u in self.inner:
            types.setdefault(u if self.own else row[u], []).append(u)
        self.groups = sorted(types.values(), key=len, reverse=True)
        self.firsts = [group[0] for group in self.groups]

    @cached_property
    def states(self) -> Any:
        """[state, minor group]: all numbers of units of the minor groups that a rank may have; None: there are
        too many."""
        sizes = [len(group) for group in self.groups[1:]]
        if math.prod(size + 1 for size in sizes) > MOST_STATES:
            return None
        rows = list(product(*(range(size + 1) for size in sizes)))
        return np.array(rows, np.int64).reshape(len(rows), len(sizes))

    def caps(self, homes: tuple[int, ...], ranks: int) -> tuple[Any, Any]:
        """[rank, group]: how many of its units can lie there, every chunk having one at least; and [rank]: how many
        units a rank has at least besides the ends."""
        if homes not in self._known_caps:
            chunks = np.arange(len(homes))
            spare = self.units - len(homes)
            rank = np.array(homes)
            caps = np.zeros((ranks, len(self.groups)), np.int64)
            for g, group in enumerate(self.groups):
                for u in group:
                    there = rank[(chunks <= u) & (chunks >= u - spare)]
                    caps[np.unique(there), g] += 1
            least = np.bincount(rank, minlength=ranks)
            for u in self.ends:
                least[homes[0 if u == 0 else -1]] -= 1
            self._known_caps[homes] = caps, np.maximum(least, 0)
        return self._known_caps[homes]

    @cached_property
    def _known_caps(self) -> dict[tuple[int, ...], tuple[Any, Any]]:
        return {}

    @cached_property
    def steps(self) -> Any:
        """[state, state]: the state with the units of both; -1 where there are not so many."""
        rows = [tuple(row) for row in self.states.tolist()]
        index = {row: i for i, row in enumerate(rows)}
        sums = [[index.get(tuple(map(sum, zip(a, b, strict=True))), -1) for b in rows] for a in rows]
        return np.array(sums, np.int64).reshape(len(rows), len(rows))


@lru_cache(maxsize=2000)
def in_flight(schedule: str, p: int, v: int, m: int, units: int) -> tuple[Any, Any]:
    """How often stashes are there together on a rank, at the moment that is worst for so many units: `[rank, units]`.

    Whatever moment it is, each unit's stash is there so often as its chunk is in flight. Every chunk has a unit, the
    others may all be in the chunk that is there least; a chunk with an end of the row may have none besides it. The
    first table has the least sum of all units, the second one how often any unit is there at least.
    """
    if SCHEDULES[schedule].all_first and m > 1:  # all micro-batches are there at once
        together, each = in_flight(schedule, p, v, 1, units)
        return m * together, m * each
    order, _, chunks = loop_of(schedule, p, v, min(m, LISTED * p))
    together, each = np.zeros((p, units + 1)), np.zeros((p, units + 1))
    for r in range(p):
        kind, own = order[r, :, 0], order[r, :, 1]
        step = (kind == 0).astype(np.int64) - ((kind == 1) | (kind == 2))
        live = (step[:, None] * (own[:, None] == np.arange(v))).cumsum(axis=0)[kind == 0]
        inner = (chunks[r] > 0) & (chunks[r] < p * v - 1)
        # For each number that all chunks are there at least, the most that chunks without an end are there together.
        least = live.min(axis=1)
        most = np.full(least.max() + 1, -1)
        np.maximum.at(most, least, live[:, inner].sum(axis=1))
        filled = int(inner.sum())
        counts = np.arange(filled, units + 1)
        for number in np.flatnonzero(most >= 0):
            found = most[number] + (counts - filled) * number
            better = found >= together[r, counts]
            together[r, counts[better]], each[r, counts[better]] = found[better], number
    return together, each


class Loads:
    """Lower bounds of one choice from the loads of its ranks, for all words of recomputation."""

    def __init__(self, shape: Shape, case: Case) -> None:
        self.shape, self.case, self.gamma = shape, case, case.gamma
        self.p, self.v, self.m = case.gamma.degrees.pipeline, case.gamma.degrees.virtual, case.micro_batches
        self.row = self.v == 1 and case.gamma.schedule == "1f1b"
        plain = case.by_word[NONE]
        self.passes = plain.forward + plain.inputs + plain.weights
        ways = list(self.tail_ways())
        self.tails, behind_backward = max(ways, key=lambda way: float(way[0].sum()))
        self.homes = case.gamma.homes
        # While a rank updates its weights the ranks before it still run backward: after its last pass comes the longer
        # of both, and not their sum. Divided passes may come after those of the ranks before.
        # Of rank 0 the embedding alone is known, whose tail is at least what no pass hides.
        tails, first = float(self.tails.sum()) / self.p, float(ways[0][0][0])
        down = self._ramps(plain.forward)
        whole = down if case.gamma.rule.divided else self._ramps(self.passes) + first
        self.ramp = max(float(np.mean(down)) + tails, float(np.mean(whole)))
        self.with_tails = float(np.mean(down)) + tails >= float(np.mean(whole))
        self.ramps = down if self.with_tails else whole
        # The backward pass that hides sums of gradients hides more of them for what it computes again.
        self.again_passes = self.m - (behind_backward and self.with_tails)
        self.plain = float(self.passes.sum())
        self.longest = float(self.passes.max())

    def tail_ways(self) -> Iterator[tuple[Any, bool]]:
        """Seconds of each unit whose sum no rank's tail is below, and whether a backward pass was taken off them.

        Of sums of gradients a share is hidden, but no more than one backward pass of the rank takes; of gathers of
        weights a share, but no more than one forward pass. A tail has the larger of each two remainders, so that either
        is a bound.
        """
        plain = self.case.by_word[NONE]
        sums, gathers, update = self.tail_columns
        seen, seen_gathers = (1 - share for share in self.case.hidden_shares)
        for behind in (False, True) if sums.any() else (False,):
            left = sums - plain.inputs - plain.weights if behind else seen * sums
            yield update + left + seen_gathers * gathers, behind
            if gathers.any():
                yield update + left + gathers - plain.forward, behind

    @cached_property
    def tail_columns(self) -> tuple[Any, Any, Any]:
        """Seconds of each unit after a rank's last pass if nothing were hidden: sums of gradients, gathers of weights,
        and the update."""
        case, model = self.case, self.case.problem.model
        ring = case.sent @ case.tail[:, :2]
        reduce, gather = AT_THE_END[self.gamma.zero]
        sums, gathers, update = reduce * ring[:, 0], gather * ring[:, 1], case.update.copy()
        if model.tied and not model.own:
            sums[-1] = gathers[-1] = update[-1] = 0.0  # beside the embedding it is there once
        return sums, gathers, update

    def _ramps(self, seconds: Any) -> Any:
        """The least that comes before each rank's first forward pass and after its last backward pass."""
        ranks = np.arange(self.p)
        if self.shape.own:
            return np.concatenate(([0.0], np.cumsum(seconds)))[ranks]
        least = float(seconds[self.shape.inner].min())
        return (ranks > 0) * float(seconds[0]) + np.maximum(0, ranks - 1) * least

    @cached_property
    def in_flight(self) -> Any:
        """Two tables [rank, units]: how often stashes of so many units are there at least, all added up, and each."""
        return in_flight(self.gamma.schedule, self.p, self.v, self.m, self.shape.units)

    def seconds(self, again_seconds: float = 0.0) -> float:
        """The bound by time alone, where all ranks together compute so much of one micro-batch again."""
        busy = self.m * self.plain + self.again_passes * again_seconds
        bound = max(busy / self.p + self.ramp, self.m * self.longest)
        return max(bound, self._row_seconds(self.plain + again_seconds)) if self.row else bound

    def _row_seconds(self, plain: float) -> float:
        """A bound with one chunk on a rank under 1F1B: the first micro-batch goes down and up, then others follow.

        Stage k has p - k micro-batches in flight. With m > p - k a path goes down to stage k and on to the last one and
        back, stays on stage k for m - 1 - (p - k) micro-batches, and then the last goes down from there and up again:
        T >= S + S_k + (m - 1 - (p - k)) tau_k, where S is all of one micro-batch, and S_k that of the stages from k on.
        With weights whose sums up to stage k, from 0 on, are (k + 1) (m - 1) / (p (m - p + k)), the mean of these is
        S (1 + (m - 1) / p) for m > p.
        """
        later = self.m - 1 - self.p
        bound = plain + (self.m - 1) * float(self.passes[-1])
        if later >= 0:
            behind = np.cumsum(self.passes[::-1])[::-1]
            bound = max(
                bound, plain * (1 + (self.m - 1) / self.p), plain + float((behind + later * self.passes).max())
            )
        return bound


class LoadBound:
    """Lower bound of one choice and one word from the loads of ranks that fit; with `least_count`, of that word
    for at least so many layers of each chunk."""

    def __init__(self, loads: Loads, judge: LayoutEvaluator, least_count: int | None = None) -> None:
        self.loads, self.judge, self.case = loads, judge, judge.case
        self.least_count = least_count
        self.counted = judge.count is not None or least_count is not None
        self.counts: Any = None
        self.costs = self.case.by_word[NONE if self.counted else judge.modules]

    @cached_property
    def _unit_seconds(self) -> Any:
        """Seconds of each unit's passes of one micro-batch, with its share of the tail where the bound has tails."""
        again = 0.0 if self.counted else self.costs.again * self.case.layers
        tails = self.loads.tails / self.loads.m if self.loads.with_tails else 0.0
        return self.loads.passes + again * self._again_share + tails

    @property
    def _again_share(self) -> float:
        return self.loads.again_passes / self.loads.m

    def seconds(self, limit: float) -> float:
        """The least time of a division that may fit; infinite where none does."""
        loads, shape = self.loads, self.loads.shape
        if shape.states is None or not shape.groups:
            return loads.seconds()
        seconds, stash = self._unit_seconds, self.costs.stash
        kept = np.stack([self.case.standing, stash], axis=1)
        ends_seconds, ends_bytes = np.zeros(loads.p), np.stack([self.beside(), np.zeros(loads.p)], axis=1)
        for u in shape.ends:
            rank = loads.homes[0 if u == 0 else -1]
            ends_seconds[rank] += seconds[u]
            ends_bytes[rank] += kept[u]
        again, saved, count, most = self._again()
        caps, least_units = shape.caps(loads.homes, loads.p)
        # Each chunk with a layer computes one again at least, and one of them so many as the word says or all.
        least = (count - 1 + np.maximum(1, least_units)) * (count > 0)
        self.counts = np.zeros((loads.p, 2), np.int64)
        low = loads.m * float(seconds.sum()) / loads.p
        high = 2 * loads.m * (float(seconds.sum()) + float(again.max()) * shape.units) + float(loads.ramps.sum())
        low_stash = min(stash[shape.inner].min(), self.case.by_word[self.judge.modules].stash[shape.inner].min())
        ranks = (loads.ramps, ends_seconds, ends_bytes, *loads.in_flight, least, caps, least_units)
        units = (seconds[shape.firsts], kept[shape.firsts], float(low_stash), limit, again, saved, most)
        table = shape.states, shape.steps, len(shape.groups[0])
        answer = compiled(loads_kernel, "least_seconds")(
            loads.p, table, low, high, loads.m, ranks, units, self.counts
        )
        return max(float(answer), loads.seconds())

    def _again(self) -> tuple[Any, float, int, int]:
        """For a word that recomputes the first layers: seconds that one layer of each group takes again, bytes
        by which one stash is smaller, and the fewest and the most such layers of a rank."""
        loads = self.loads
        if not self.counted:
            return np.zeros(len(loads.shape.firsts)), 0.0, 0, 0
        costs = self.case.by_word[self.judge.modules]
        less = float((self.case.by_word[NONE].stash - costs.stash).max())
        again = (costs.again * self.case.layers)[loads.shape.firsts] * self._again_share
        if self.least_count is not None:
            return again, less, self.least_count, loads.shape.units
        assert self.judge.count is not None, "one of both"
        return again, less, self.judge.count, self.judge.count * loads.v

    def beside(self) -> Any:
        """[rank]: the least bytes that a rank holds besides its units."""
        case, shape = self.case, self.loads.shape
        besides = np.full(self.loads.p, float(case.beside_bytes))
        besides[1:] += case.received_bytes
        if self.loads.gamma.rule.shape == LOOP and not shape.own:
            words = [case.by_word[word] for word in {self.judge.modules, NONE}]
            # A chunk runs backward while most is in flight; on the first rank it may be the embedding alone.
            besides[1:] += max(0.0, min(float((word.moment - word.stash)[1:].min()) for word in words))
            besides[0] += max(0.0, min(float((word.moment - word.stash).min()) for word in words))
            besides += min(float(case.masks[case.types[u]]) for u in shape.firsts)
        return besides

    # ---- layouts to begin with ------------------------------------------------------------------------------

    def layout(self, *, late: bool = False) -> tuple[int, ...] | None:
        """The division of the bound, each rank's units spread over its chunks; the odd ones come early or late."""
        loads, shape = self.loads, self.loads.shape
        if self.counts is None or not self.counts.any():
            return None
        units = [int(self.counts[r, 1] + shape.states[self.counts[r, 0]].sum()) for r in range(loads.p)]
        for _ in range(sum(units) - len(shape.inner)):
            units[max(range(loads.p), key=units.__getitem__)] -= 1
        return self._spread(units, -1 if late else 1)

    def _spread(self, units: Sequence[int], sign: int) -> tuple[int, ...] | None:
        """Chunks of each rank as even as can be, the ends counting as many layers as they take time."""
        loads, shape, seconds = self.loads, self.loads.shape, self._unit_seconds
        counts = [0] * len(loads.homes)
        layer = max(float(seconds[shape.firsts[0]]), 1e-30)
        weights = [0.0] * len(counts)
        for u in shape.ends:
            j = 0 if u == 0 else len(counts) - 1
            counts[j], weights[j] = counts[j] + 1, weights[j] + float(seconds[u]) / layer
        for r, left in enumerate(units):
            chunks = [j for j, home in enumerate(loads.homes) if home == r]
            for _ in range(left):
                j = min(chunks, key=lambda j: (counts[j] > 0, weights[j], sign * j))
                counts[j], weights[j] = counts[j] + 1, weights[j] + 1
        return tuple(counts) if min(counts) > 0 and sum(counts) == shape.units else None

    def balanced(self) -> tuple[int, ...] | None:
        """Chunks with about the same time, by shares of the whole."""
        seconds, chunks = self._unit_seconds, len(self.loads.homes)
        units = len(seconds)
        if chunks > units:
            return None
        counts, start, left = [], 0, float(seconds.sum())
        for j in range(chunks - 1):
            rest = chunks - j
            goal, size, taken = left / rest, 0, 0.0
            while start + size < units - (rest - 1) and (
                size == 0 or taken + float(seconds[start + size]) / 2 <= goal
            ):
                taken += float(seconds[start + size])
                size += 1
            counts.append(size)
            start, left = start + size, left - taken
        return (*counts, units - start)
