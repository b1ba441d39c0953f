"""Bounds for every schedule: from what each rank does and holds, in whichever chunk, and by paths through its passes.

**Theorem.** Take any paths through the passes of a schedule, with any shares that add up to 1, and for moments of ranks
any prices of a byte, none below 0. Then no layout that fits is faster than the least of all layouts L of

    sum of shares times path(L)  +  sum of prices times (bytes(L) - limit),

where path(L) is what the passes and messages of the path take one after the other and then the tail of the rank on
which it ends, and bytes(L) is what that rank holds at that moment at least.

*Proof.* A pass begins after the one before it on its rank, and after the pass whose message it waits for. So no path
takes longer than the schedule, whatever the layout is, and no mean of paths does. If L fits, bytes(L) - limit is at
most 0, and so is its product with the price. Hence the sum is at most the time of L, and so is its least value. QED.

How often a path has each chunk is fixed, so that the sum is one over chunks of numbers that depend on the chunk's units
alone: a dynamic program finds the layout for which it is least, with all that integers, ends of the row and words for
some layers of a chunk cost. With equal shares of a path that stays on one rank and of one that follows a micro-batch
down and up through all chunks, this is what filling the pipeline costs, however the units are divided.

Shares and prices only decide how good the bound is. They come from a linear program in which chunks have parts of
units: it divides the units for the paths that are known, the longest path of that division joins them, and so on. A
wrong answer of the program makes the bound weaker, never false. Prices alone, without a path, show that nothing fits
where their sum is above 0 for every layout. A tail is the larger of two sums for gradients, and of two for gathers (see
`Loads.tail_ways`); a path takes one of each, which is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled
from ...instances.physics.schedules import LOOP, SCHEDULES
from ...instances.training.cases import AT_THE_END, NONE, Case
from ...instances.training.problem import TrainingProblem
from . import layouts_kernel
from .judging import LISTED, LayoutEvaluator, loop_of

# Numbers of minor units are told apart up to so many combinations; beyond that only sums are compared.
MOST_STATES = 300


class Shape:
    """What the row of a problem looks like: its ends, and units that are alike."""

    def __init__(self, problem: TrainingProblem) -> None:
        row = problem.model.units
        self.units = len(row)
        self.own = bool(problem.model.own)
        self.ends = [] if self.own else [0, len(row) - 1]
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
        # Of rank 0 the first unit alone is known, whose tail is at least what no pass hides.
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
        weights a share, but with one chunk on a rank no more than one forward pass. A tail has the larger of each two
        remainders, so that either is a bound.
        """
        plain = self.case.by_word[NONE]
        sums, gathers, update = self.tail_columns
        seen, seen_gathers = (1 - share for share in self.case.hidden_shares)
        for behind in (False, True) if sums.any() else (False,):
            left = sums - plain.inputs - plain.weights if behind else seen * sums
            yield update + left + seen_gathers * gathers, behind
            if gathers.any() and self.v == 1:
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
        answer = compiled(layouts_kernel, "least_seconds")(
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
            # A chunk runs backward while most is in flight; on the first rank it may be the first unit alone.
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


# ---- A bound by paths through the passes of a schedule, for several chunks on a rank and for every schedule.

# Schedules with more passes take little to fill and to drain beside what ranks do in between: no paths are
# looked for.
MOST_PASSES = 200_000
# The most sorts of units that the linear program divides.
MOST_GROUPS = 6
# Plain Python finds a longest path through so many passes in a tenth of a second, where machine code is not there yet.
BRIEF_PASSES = 10_000
# The most linear programs that are solved for one bound.
MOST_ROUNDS = 30
# A share of the memory that is larger than any error in sums of doubles.
CERTAIN = 1e-9
# The search ends when the time of the divided units is within this relative distance of the linear program's
# bound.
CLOSE = 2e-3
# Steps from the best division so far to the one of the linear program, at which longest paths are looked for.
STEPS = (0.1, 0.25, 0.5, 1.0)
# The most paths that are kept of one schedule; the latest ones are.
MOST_PATHS = 120
# Rows of the amounts of a chunk. Paths have the first six.
FORWARD, INPUTS, WEIGHTS, REDUCE, GATHER, UPDATE, STANDING, STASH = range(8)


@dataclass(frozen=True)
class Path:
    """How often each chunk's amounts are on a path, or on the mean of some."""

    amounts: Any
    """[amount, chunk]: how often the path has each amount of a chunk"""
    messages: Any
    """[chunk]: those to the next chunk and back."""


def _mean(shares: Any, paths: list[Path]) -> Path:
    return Path(
        sum(share * path.amounts for share, path in zip(shares, paths, strict=True)),
        sum(share * path.messages for share, path in zip(shares, paths, strict=True)),
    )


class Known:
    """Paths through one schedule that were good for other choices."""

    def __init__(self, schedule: str, p: int, v: int, m: int) -> None:
        self.loop = loop_of(schedule, p, v, m)
        self.paths: list[Path] = []

    @cached_property
    def moments(self) -> Any:
        """[rank, moment, chunk of the rank]: how many stashes are there as a backward pass begins, where each chunk
        has the most, and where all have."""
        order, _, chunks = self.loop
        v = chunks.shape[1]
        found = np.zeros((len(order), v + 1, v))
        for r, passes in enumerate(order):
            begins = (passes[:, 0] == 0)[:, None] & (passes[:, 1:2] == np.arange(v))
            backward = (passes[:, 0] == 1) | (passes[:, 0] == 2)
            ends = backward[:, None] & (passes[:, 1:2] == np.arange(v))
            live = (begins.cumsum(axis=0) - ends.cumsum(axis=0) + ends)[backward]
            together = live.sum(axis=1, keepdims=True)
            # Of moments that are alike for one chunk the one with the most in all.
            crowded = np.hstack([live + together / (1 + v * len(passes)), together])
            found[r] = live[crowded.argmax(axis=0)]
        return found

    def keep(self, path: Path) -> None:
        self.paths = [*self.paths[1 - MOST_PATHS :], path]


@lru_cache(maxsize=100)
def known_of(schedule: str, p: int, v: int, m: int, hidden_shares: tuple[float, float]) -> Known:
    """The paths that are known of one schedule; they also depend on the shares of sums and gathers that passes
    hide."""
    return Known(schedule, p, v, m)


class PathBound:
    """Lower bound of one choice and one word from longest paths through its schedule."""

    def __init__(self, load: LoadBound) -> None:
        self.load, self.judge, self.case = load, load.judge, load.case
        self.loads, gamma = load.loads, load.case.gamma
        self.known = known_of(gamma.schedule, self.loads.p, self.loads.v, self.loads.m, self.case.hidden_shares)
        self.count = len(self.loads.homes)

    @staticmethod
    def takes(judge: LayoutEvaluator) -> bool:
        d = judge.case.gamma.degrees
        return 2 * judge.case.micro_batches * d.chunks <= MOST_PASSES and len(judge.case.types) >= d.chunks

    @cached_property
    def tables(self) -> Any:
        """[amount, first unit, unit behind the last]: the amounts of every chunk that may be."""
        loads, sums = self.loads, self.judge.sums
        columns = [*loads.tail_columns, self.case.standing]
        ends = [np.concatenate(([0.0], np.cumsum(column))) for column in columns]
        return np.stack([*sums[:3], *(end[None, :] - end[:, None] for end in ends), sums[3]])

    @cached_property
    def delays(self) -> Any:
        """Seconds of a message after each chunk, with the smallest output that there is."""
        least = float(self.case.output_bytes[:-1].min()) if self.count > 1 else 0.0
        return np.array([*(each * least + once for each, once in self.case.sends), 0.0])

    def _least(self, mixture: Path, prices: Any | None, limit: float) -> float:
        """The least value of the theorem's sum for any layout; `prices`: [rank, moment], of a byte."""
        amounts = np.zeros((len(self.tables), self.count))
        amounts[: len(mixture.amounts)] = mixture.amounts
        besides = float((mixture.messages * self.delays).sum())
        if prices is not None:
            _, homes, chunks = self.known.loop
            amounts[STANDING] = prices.sum(axis=1)[homes]
            amounts[STASH][chunks] = (prices[:, :, None] * self.known.moments).sum(axis=1)
            besides -= float((prices.sum(axis=1) * (limit - self.beside)).sum())
        return cheapest_layout(amounts, self.tables) + besides

    @cached_property
    def beside(self) -> Any:
        """[rank]: bytes that are there besides units."""
        return self.load.beside()

    def seconds(self, limit: float, enough: float, rounds: int = MOST_ROUNDS) -> float:
        """The best bound that is found for what fits; no better than `enough`."""
        program = _Program(self, limit)
        if not program.groups or len(program.groups) > MOST_GROUPS:
            return 0.0
        best, center, least = 0.0, program.even(), math.inf
        if not self.known.paths:
            self.known.keep(self._longest(program, center)[1])
        for _ in range(rounds):
            answer = program.solve(self.known.paths)
            if answer is None:
                return math.inf if self._nothing_fits(program, limit) else best
            below, division, shares, prices = answer
            best = max(best, self._least(_mean(shares, self.known.paths), prices, limit))
            # The division at a corner has long paths; those between it and the best one so far bind.
            before = center
            for step in STEPS:
                at = before + step * (division - before)
                seconds, path = self._longest(program, at)
                self.known.keep(path)
                if seconds < least:
                    least, center = seconds, at
            if best >= enough or least - below <= CLOSE * least:
                break
        return best

    def _nothing_fits(self, program: _Program, limit: float) -> bool:
        """Is too much there at some moment, whatever the layout is? Prices alone say so where their sum is above 0."""
        prices = program.crowded()
        none = Path(np.zeros((6, self.count)), np.zeros(self.count))
        return prices is not None and self._least(none, prices, limit) > CERTAIN

    def _longest(self, program: _Program, division: Any) -> tuple[float, Path]:
        """The time of a division of units among chunks (also in fractions), and the longest path through it."""
        own = program.amounts(division)
        order, homes, chunks = self.known.loop
        of_ranks = np.zeros((6, self.loads.p))
        for k in range(6):
            np.add.at(of_ranks[k], homes, own[k])
        seen = [1 - share for share in self.case.hidden_shares]
        reduce, gather = of_ranks[REDUCE], of_ranks[GATHER]
        firsts = chunks[:, 0]
        backward = own[INPUTS, firsts] + own[WEIGHTS, firsts]
        forward = of_ranks[FORWARD] if self.loads.v == 1 else np.inf
        behind = reduce - backward > seen[0] * reduce, gather - forward > seen[1] * gather
        tails = of_ranks[UPDATE] + np.where(behind[0], reduce - backward, seen[0] * reduce)
        tails += np.where(behind[1], gather - forward, seen[1] * gather)
        brief = order.shape[0] * order.shape[1] <= BRIEF_PASSES
        seconds, last, counts = compiled(layouts_kernel, "longest_path", meanwhile=brief)(
            self.known.loop, own[FORWARD], own[INPUTS], own[WEIGHTS], self.delays, tails, self.loads.m
        )
        there = (homes == last).astype(float)
        amounts = np.zeros((6, self.count))
        amounts[:3] = counts[:3]
        amounts[REDUCE], amounts[GATHER], amounts[UPDATE] = there * seen[0], there * seen[1], there
        if behind[0][last]:
            amounts[REDUCE] = there
            amounts[[INPUTS, WEIGHTS], firsts[last]] -= 1
        if behind[1][last]:
            amounts[GATHER] = there
            amounts[FORWARD] -= there
        return float(seconds), Path(amounts, counts[3])


def cheapest_layout(prices: Any, tables: Any) -> float:
    """The least sum of prices [amount, chunk] times amounts [amount, first unit, unit behind the last] of a layout in
    which every chunk has a unit."""
    count = prices.shape[1]
    spare = tables.shape[1] - 1 - count
    # Chunk j begins at unit j + a and ends before unit j + 1 + b, both from 0 to `spare`.
    ends_before = np.tri(spare + 1, k=-1, dtype=bool)
    best = np.full(spare + 1, np.inf)
    best[0] = 0.0
    for j in range(count):
        costs = np.where(ends_before, np.inf, best[:, None])
        for price, table in zip(prices[:, j], tables, strict=True):
            costs += price * table[j : j + spare + 1, j + 1 : j + spare + 2]
        best = costs.min(axis=0)
    return float(best[spare])


class _Program:
    """Units in parts: how many of each sort a chunk has, and for a word of some layers how many are computed again."""

    def __init__(self, bound: PathBound, limit: float) -> None:
        self.bound, self.limit, self.n = bound, limit, bound.count
        shape, case = bound.loads.shape, bound.case
        self.groups = shape.groups
        plain, word = case.by_word[NONE], case.by_word[bound.judge.modules]
        self.some = bound.judge.count
        again = word.again * case.layers
        stash = word.stash if self.some is None else plain.stash
        inputs = plain.inputs + (again if self.some is None else 0.0)
        # [amount, unit]
        self.rows = np.stack(
            [plain.forward, inputs, plain.weights, *bound.loads.tail_columns, case.standing, stash]
        )
        self.firsts = list(shape.firsts)
        layers = [u for u in self.firsts if case.layers[u]]
        self.again = float(min(again[layers])) if layers else 0.0
        self.saved = float((plain.stash - word.stash).max())
        self.is_layer = [bool(case.layers[u]) for u in self.firsts]
        self.ends = [(u, 0 if u == 0 else self.n - 1) for u in shape.ends]
        # With a unit for each chunk at least, not every chunk can have every unit.
        spare = shape.units - self.n
        self.can = np.array([[any(j <= u <= j + spare for u in own) for j in range(self.n)] for own in self.groups])
        self.memory = self._memory() if np.isfinite(limit) else None

    @property
    def columns(self) -> int:
        return (len(self.groups) + (self.some is not None)) * self.n

    def even(self) -> Any:
        """The division that shares each sort of units evenly among the chunks that can have it."""
        division = np.zeros((len(self.groups) + (self.some is not None), self.n))
        for g, group in enumerate(self.groups):
            division[g] = self.can[g] * len(group) / max(1, self.can[g].sum())
        return division.ravel()

    def amounts(self, division: Any) -> Any:
        """[amount, chunk]: the amounts of each chunk for a division of units"""
        parts = division.reshape(-1, self.n)
        amounts = self.rows[:, self.firsts] @ parts[: len(self.groups)]
        if self.some is not None:
            amounts[INPUTS] += self.again * parts[-1]
        for u, j in self.ends:
            amounts[:, j] += self.rows[:, u]
        return amounts

    def _row(self, prices: Any) -> tuple[Any, float]:
        """What prices [amount, chunk] make of each column, and what the ends add; amounts without one cost nothing."""
        used = len(prices)
        row = self.rows[:used, self.firsts].T @ prices
        if self.some is not None:
            more = prices[INPUTS] * self.again - (prices[STASH] * self.saved if used > STASH else 0.0)
            row = np.concatenate((row, more[None]))
        return row.ravel(), sum(float(self.rows[:used, u] @ prices[:, j]) for u, j in self.ends)

    def _memory(self) -> tuple[Any, Any]:
        """For each moment of each rank a row of the bytes that a division holds, and what is left for them, as shares
        of the limit."""
        _, _, chunks = self.bound.known.loop
        rows, room = [], []
        for r, moments in enumerate(self.bound.known.moments):
            for live in moments:
                prices = np.zeros((STASH + 1, self.n))
                prices[STANDING, chunks[r]] = 1.0
                prices[STASH, chunks[r]] = live
                row, ends = self._row(prices)
                rows.append(row / self.limit)
                room.append((self.limit - self.bound.beside[r] - ends) / self.limit)
        return np.array(rows), np.array(room)

    @cached_property
    def fixed(self) -> tuple[Any, Any]:
        """Rows, and what is left for them: every chunk has a unit, and computes no more layers again than it has."""
        rows, room = [], []
        with_end = {j for _, j in self.ends}
        for j in range(self.n):
            if j not in with_end:
                row = np.zeros(self.columns)
                row[j : len(self.groups) * self.n : self.n] = -1
                rows.append(row)
                room.append(-1.0)
            if self.some is not None:
                row = np.zeros(self.columns)
                for g, layer in enumerate(self.is_layer):
                    row[g * self.n + j] = -float(layer)
                row[len(self.groups) * self.n + j] = 1
                rows.append(row)
                room.append(0.0)
        return np.array(rows).reshape(len(room), self.columns), np.array(room)

    def solve(self, paths: list[Path]) -> tuple[float, Any, Any, Any] | None:
        """The least time by these paths, the division, and the shares of paths and prices of bytes that prove it."""
        own = [self._row(path.amounts) for path in paths]
        messages = [float((path.messages * self.bound.delays).sum()) for path in paths]
        besides = np.array([ends + more for (_, ends), more in zip(own, messages, strict=True)])
        memory = [] if self.memory is None else [(*self.memory, 0.0)]
        answer = self._answer([(np.array([row for row, _ in own]), -besides, -1.0), (*self.fixed, 0.0), *memory])
        if answer is None:
            return None
        seconds, division, weights = answer
        shares = weights[: len(paths)]
        if shares.sum() <= 0:
            return None
        return seconds, division, shares / shares.sum(), self._prices(weights) if memory else None

    def crowded(self) -> Any:
        """Prices of the moments that exceed the limit even in the division whose greatest excess is least; None: there
        is no limit, or no answer."""
        answer = self.memory and self._answer([(*self.fixed, 0.0), (*self.memory, -1.0)])
        return self._prices(answer[2]) if answer else None

    def _prices(self, weights: Any) -> Any:
        assert self.memory is not None, "asked where memory has a limit"
        return weights[-len(self.memory[1]) :].reshape(self.bound.loads.p, -1) / self.limit

    def _answer(self, parts: list[tuple[Any, Any, float]]) -> tuple[float, Any, Any] | None:
        """The linear program: the least number z with rows x + often z <= room for all parts (rows, room, often) and a
        division x. Returns z, x and the weight of each row; None where there is no solution."""
        from scipy.optimize import linprog

        sums = np.zeros((len(self.groups), self.columns + 1))
        for g in range(len(self.groups)):
            sums[g, g * self.n : (g + 1) * self.n] = 1
        most = [(0.0, None if can else 0.0) for can in self.can.ravel()]
        most += [(0.0, float(self.some or 0))] * (self.columns - len(most))
        answer: Any = linprog(
            np.concatenate((np.zeros(self.columns), [1.0])),
            A_ub=np.vstack([np.hstack([block, np.full((len(block), 1), often)]) for block, _, often in parts]),
            b_ub=np.concatenate([room for _, room, _ in parts]),
            A_eq=sums,
            b_eq=[len(group) for group in self.groups],
            bounds=[*most, (0.0, None)],
            method="highs",
        )
        if answer.status != 0:
            return None
        weights = np.maximum(-answer.ineqlin.marginals, 0.0)
        return float(answer.fun), answer.x[: self.columns], weights
