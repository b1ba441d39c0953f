"""The search's own judgement of a configuration, as arrays for the kernels; and the inner problem.

The inner problem under 1F1B is where to cut a row of units, given what is computed again. It is plain arrays, which
know nothing of models. What is minimised is the makespan of the simulated schedule. `pipeline_kernel` has the bounds
and the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled
from ...instances.physics.schedules import SCHEDULES
from ...instances.training.cases import NONE, Case, CaseMaker, Modules, ParallelismChoice
from ...instances.training.frameworks import ends_of, uncut
from ...instances.training.plan import Configuration, Recompute, chunks_of_ranks
from ...instances.training.problem import TrainingProblem
from . import layouts_kernel
from .layouts_kernel import SUMS, tail_seconds

Array = np.ndarray[Any, np.dtype[np.float64]]

# The most sets of last stages that one search looks at.
MOST_NODES = 20_000
# Plain Python looks at so many intervals of all stages in a tenth of a second.
BRIEF_INTERVALS = 50_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sums over intervals of units, [first, behind the last]."""

    forward_seconds: Array
    backward_seconds: Array
    """Seconds of the backward pass; infinite where a stage may not have this word."""
    fixed_bytes: Array
    stash_bytes: Array
    tail_seconds: Array

    @property
    def units(self) -> int:
        return int(self.forward_seconds.shape[0]) - 1


@dataclass(frozen=True)
class Pipeline:
    """Stages for a row of units under 1F1B, one chunk on each rank."""

    intervals: Intervals
    stages: int
    micro_batches: int
    memory_bytes: float
    delays: tuple[float, ...]
    """Seconds of a message between each two stages that follow each other."""
    second: Intervals | None = None
    """The same intervals on GPUs of a second sort."""
    sorts: tuple[int, ...] = ()
    """Which stages run on these: a number for each, 0 or 1; empty: none."""
    share: float = 1.0
    """Bytes of a GPU of the second sort as a multiple of `memory_bytes`."""

    @cached_property
    def flights(self) -> Any:
        """Micro-batches of which each stage keeps the stash at once."""
        return np.minimum(self.micro_batches, self.stages - np.arange(self.stages)).astype(np.float64)

    @cached_property
    def down(self) -> Any:
        """Seconds of messages from the first stage to each stage."""
        return np.concatenate(([0.0], np.cumsum(self.delays[: self.stages - 1])))


@dataclass(frozen=True, slots=True)
class Best:
    """What is known of an inner problem. None: no layout is known, or none below the cut-off was looked for."""

    value: float | None
    bound: float
    """No layout is faster; infinite where none fits."""
    layout: tuple[int, ...] = ()
    nodes: int = 0


def is_long(units: int, stages: int) -> bool:
    """Is a row too long for plain Python?"""
    return units**2 * stages > BRIEF_INTERVALS


def solve(
    pipeline: Pipeline, cutoff: float = float("inf"), tolerance: float = 1e-12, most_nodes: int = MOST_NODES
) -> Best:
    """The best layout.

    Parameters
    ----------
    pipeline : Pipeline
        What is to be cut.
    cutoff : float
        Only what is faster is looked for.
    tolerance : float
        The relative gap that is good enough.
    most_nodes : int
        The most nodes of the search; 0: a first layout and its bound; negative: only bounds.
    """
    intervals = pipeline.intervals
    if pipeline.stages > intervals.units:
        return Best(None, float("inf"))
    from . import pipeline_kernel

    brief = not is_long(intervals.units, pipeline.stages)
    tables = [intervals] if pipeline.second is None else [intervals, pipeline.second]
    sorts = np.array(pipeline.sorts or (0,) * pipeline.stages, np.int64)
    value, bound, layout, nodes = compiled(pipeline_kernel, "plan_row", meanwhile=brief)(
        pipeline.stages,
        pipeline.micro_batches,
        tuple(np.array([getattr(own, entry.name) for own in tables]) for entry in fields(intervals)),
        sorts,
        pipeline.down,
        pipeline.flights,
        pipeline.memory_bytes * np.where(sorts, pipeline.share, 1.0),
        float(cutoff),
        float(tolerance),
        most_nodes,
    )
    if value == float("inf"):
        return Best(None, float(bound), nodes=int(nodes))
    return Best(float(value), float(bound), tuple(int(count) for count in layout), int(nodes))


# ---- The search's own judgement of a configuration: one choice and one word as arrays for the kernels.

# ---- sums over intervals -------------------------------------------------------------------------------
#
# Sums over intervals of units. A dozen operations of numpy make all of them at once: code for numba would take a
# second to compile.
#
# Sums are those of a loop that adds unit by unit, to the last digit. Before an interval's first unit all is 0.

FORWARD, INPUTS, WEIGHTS, AGAIN, STASH, MOMENT, FOR_WEIGHTS = range(7)


def interval_sums(costs: Any, plain: Any, layers: Any, count: int) -> Any:
    """[sum, first, behind]: all that a chunk of these units takes and keeps.

    `costs` and `plain` are the columns of a word and of no word: what is computed again with the word holds for the
    first `count` layers of a chunk (all of them where it is negative), no word for the others.
    """
    units = costs.shape[1]
    inside = _inside(units)
    among_first = _among_first(layers, count)
    again, with_word = inside & layers & among_first, ~layers | among_first
    moment, stash, for_weights = (
        np.where(inside, np.where(with_word, costs[part], plain[part]), 0.0)
        for part in (MOMENT, STASH, FOR_WEIGHTS)
    )
    # What is computed again is added after the unit's own seconds.
    inputs = np.zeros((units, 2 * units))
    inputs[:, 0::2] = np.where(inside, costs[INPUTS], 0.0)
    inputs[:, 1::2] = np.where(again, costs[AGAIN], 0.0)
    found = np.zeros((SUMS, units + 1, units + 1))
    found[0, :-1, 1:] = _running(costs[FORWARD])
    found[1, :-1, 1:] = inputs.cumsum(axis=1)[:, 1::2]
    found[2, :-1, 1:] = _running(costs[WEIGHTS])
    found[3, :-1, 1:] = stash.cumsum(axis=1)
    found[4, :-1, 1:] = np.maximum.accumulate(np.where(inside, found[3, :-1, :-1] + moment, 0.0), axis=1)
    found[5, :-1, 1:] = for_weights.cumsum(axis=1)
    return found


def stage_tables(
    sums: Any,
    types: Any,
    standing: Any,
    gathered: Any,
    masks: Any,
    sent: Any,
    update: Any,
    tail: Any,
    zero: int,
    shares: tuple[float, float],
    tied: int,
    update_rates: Any,
    received: float,
    beside: float,
) -> Any:
    """Table of stages with one chunk: backward seconds, fixed bytes and tail seconds, [number, first unit, unit
    behind the last]."""
    units = len(types)
    inside = _inside(units)
    mask = np.bitwise_or.accumulate(np.where(inside, types, 0), axis=1)
    most = np.maximum.accumulate(np.where(inside, gathered, 0.0), axis=1)
    usual, experts, updated = (_running(each) for each in (sent[:, 0], sent[:, 1], update))
    if tied >= 0:  # the position of the embedding, whose table is the head's
        usual[: tied + 1, -1] -= sent[-1, 0]
        updated[: tied + 1, -1] -= sent[-1, 0] * update_rates[0]
    own = sums[:, :-1, 1:]
    backward = own[1] + own[2]
    fixed = _running(standing) + masks[mask] + most + beside + own[4] - own[3]
    fixed[1:] += received
    found = np.zeros((3, units + 1, units + 1))
    tails = tail_seconds(own[0], backward, usual, experts, updated, tail, zero, shares)
    found[:, :-1, 1:] = np.where(inside, [backward, fixed, tails], 0.0)
    return found


def _inside(units: int) -> Any:
    """[first, unit]: is the unit in the intervals that begin there?"""
    return np.tri(units, dtype=bool).T


def _running(column: Any) -> Any:
    """[first, last]: sums."""
    return np.where(_inside(len(column)), column, 0.0).cumsum(axis=1)


def _among_first(layers: Any, count: int) -> Any:
    """[first, unit]: is the unit before a layer that is one too many? All are where the count is negative."""
    if count < 0:
        return np.True_
    before = np.cumsum(layers) - layers
    return before[None, :] - before[:, None] < count


# ---- layouts of one choice -----------------------------------------------------------------------------------------

# Schedules whose orders follow from a formula, which is written apart from the referee's rules.
BY_FORMULA = ("gpipe", "1f1b", "interleaved-1f1b")
# Of more than LISTED micro-batches for each rank so many are listed; the others repeat what LAG for each rank do. Where
# these have not found their pace, four times as many are listed, as long as that makes no more than MOST_PASSES.
LISTED, LAG, MOST_PASSES = 60, 12, 4_000_000
KINDS = {"F": 0, "B": 1, "I": 2, "W": 3}


@lru_cache(maxsize=20)
def loop_of(schedule: str, p: int, v: int, m: int) -> tuple[Any, Any, Any]:
    """Order of each rank's passes, rank of each chunk, chunks of each rank; some megabytes where m is large."""
    chunks = np.array(chunks_of_ranks(schedule, p, v))
    homes = np.zeros(p * v, np.int64)
    homes[chunks] = np.arange(p)[:, None]
    if schedule in BY_FORMULA:
        return _order_by_formula(schedule, p, v, m), homes, chunks
    rule = SCHEDULES[schedule].order
    rows = [[(KINDS[kind], own, n) for kind, own, n in rule(rank, p, v, m)] for rank in range(p)]
    return np.array(rows, np.int64), homes, chunks


def _order_by_formula(schedule: str, p: int, v: int, m: int) -> Any:
    """The orders of GPipe, 1F1B and interleaved 1F1B: where each pass stands follows from how many come before it."""
    total = m * v
    passes = np.arange(total)
    chunk, batch = (passes % (p * v) // p, passes // (p * v) * p + passes % p) if v > 1 else (0 * passes, passes)
    found = np.zeros((p, 2 * total, 3), np.int64)
    for r in range(p):
        warm_up = {"gpipe": total, "1f1b": p - r, "interleaved-1f1b": 2 * (p - 1 - r) + (v - 1) * p}
        warm = min(total, warm_up[schedule])
        # A backward pass begins a turn of 1F1B and ends one of interleaved 1F1B.
        first = schedule != "interleaved-1f1b"
        forward = passes + np.clip(passes - warm + first, 0, total)
        backward = passes + np.clip(passes + warm + (not first), 0, total)
        found[r, forward, 1], found[r, forward, 2] = chunk, batch
        found[r, backward, 0], found[r, backward, 1], found[r, backward, 2] = 1, v - 1 - chunk, batch
    return found


@dataclass(frozen=True)
class LayoutEvaluator:
    """One choice with one recomputation mode; evaluates layouts."""

    case: Case
    modules: Modules
    count: int | None = None
    """The word holds for so many layers of each chunk from the first on."""

    @property
    def recompute(self) -> Recompute:
        return Recompute(self.modules, self.count)

    @cached_property
    def sums(self) -> Any:
        case = self.case
        rows = [case.by_word[word] for word in (self.modules, NONE)]
        costs, plain = (
            np.stack([own.forward, own.inputs, own.weights, own.again, own.stash, own.moment, own.for_weights])
            for own in rows
        )
        count = -1 if self.count is None else self.count
        return interval_sums(costs, plain, case.layers, count)

    @cached_property
    def _facts(self) -> tuple[Any, ...]:
        """What a rank is told of, but for its memory."""
        case, gamma, model = self.case, self.case.gamma, self.case.problem.model
        return (
            case.types,
            case.standing,
            case.gathered,
            case.masks,
            case.sent,
            case.update,
            case.tail,
            gamma.zero,
            case.hidden_shares,
            model.embedding_at if model.tied and not model.own else -1,
            case.update_rates,
            case.received_bytes,
            case.beside_bytes,
        )

    @cached_property
    def intervals(self) -> Intervals:
        """Stages of one chunk; no word runs those that end where no chunk may."""
        tables = stage_tables(self.sums, *self._facts)
        for end in self.uncut:
            tables[0, :, end] = tables[0, end, :] = float("inf")
        return Intervals(self.sums[0], tables[0], tables[1], self.sums[3], tables[2])

    def pipeline(self, limit_bytes: float) -> Pipeline:
        case = self.case
        stages = case.gamma.degrees.pipeline
        delays = tuple(case.delays_of([1] * stages))
        return Pipeline(self.intervals, stages, case.micro_batches, limit_bytes, delays)

    @cached_property
    def uncut(self) -> frozenset[int]:
        """Positions in the row at which no chunk may end."""
        return uncut(self.case.problem, self.case.gamma.degrees)

    def near(self, layout: Sequence[int]) -> tuple[int, ...] | None:
        """The layout, whose chunks end earlier where they may not end there; None: there is no room for that."""
        ends, behind = list(ends_of(layout)), sum(layout)
        for at in reversed(range(len(ends))):
            ends[at] = min(ends[at], behind - 1)
            while ends[at] in self.uncut:
                ends[at] -= 1
            behind = ends[at]
        return None if behind < 1 else tuple(b - a for a, b in pairwise((0, *ends, sum(layout))))

    def _listings(self) -> Iterator[int]:
        """Numbers of micro-batches to list, one after the other until the times of those that are counted hold."""
        m, d = self.case.micro_batches, self.case.gamma.degrees
        lag, listed = LAG * d.pipeline, LISTED * d.pipeline
        while listed < m:
            yield listed + (m - listed) % lag
            listed *= 4
            if 2 * listed * d.chunks > MOST_PASSES:
                return  # the time is too short at most, so no bound is wrong
        yield m

    def judge(self, layout: Sequence[int], limit_bytes: float = float("inf")) -> tuple[float, tuple[float, ...]]:
        """Seconds of an iteration without what is added to every one, and bytes of each rank."""
        seconds, sizes, _ = self._climbed(layout, limit_bytes, 0, 0.0)
        return seconds, sizes

    def exhaust(self, limit_bytes: float) -> tuple[float, tuple[int, ...]]:
        """The best of all layouts, one by one; infinite where there is none."""
        values = ((self.judge(layout, limit_bytes)[0], layout) for layout in self.all_layouts())
        return min(values, default=(float("inf"), ()))

    def climb(
        self, layout: Sequence[int], limit_bytes: float, most_looks: int, enough: float = 0.0
    ) -> tuple[float, tuple[int, ...]]:
        """Better layouts from this one on, by moves of single units."""
        seconds, _, better = self._climbed(layout, limit_bytes, most_looks, enough)
        allowed = self.near(better)
        # Moves know nothing of where chunks may not end; messages take as long as they did in the first layout.
        if allowed is None:
            return float("inf"), better
        if allowed != better or not self.case.alike_outputs:
            seconds, _ = self.judge(allowed, limit_bytes)
        return seconds, allowed

    def _climbed(
        self, layout: Sequence[int], limit_bytes: float, most_looks: int, enough: float
    ) -> tuple[float, tuple[float, ...], tuple[int, ...]]:
        """One entry for both, since each entry is compiled with all that it calls."""
        gamma = self.case.gamma
        lag = LAG * gamma.degrees.pipeline
        for listed in self._listings():
            own = np.asarray(layout, np.int64).copy()
            seconds, sizes, steady = compiled(layouts_kernel, "climb")(
                own,
                loop_of(gamma.schedule, gamma.degrees.pipeline, gamma.degrees.virtual, listed),
                (listed, (self.case.micro_batches - listed) // lag, lag, gamma.rule.all_first),
                np.array([*self.case.delays_of(layout), 0.0]),
                self.sums,
                self._facts,
                limit_bytes,
                most_looks,
                enough,
            )
            if steady:
                break
        return float(seconds), tuple(map(float, sizes)), tuple(map(int, own))

    def all_layouts(self) -> Iterator[tuple[int, ...]]:
        """Every way to cut the row into as many chunks as there are, where it may be cut."""
        units, chunks = len(self.case.types), self.case.gamma.degrees.chunks
        for cuts in combinations([end for end in range(1, units) if end not in self.uncut], chunks - 1):
            yield tuple(b - a for a, b in pairwise((0, *cuts, units)))


def judged(problem: TrainingProblem, plan: Configuration) -> tuple[float, tuple[float, ...]]:
    """Seconds of an iteration and bytes of each rank, for a configuration with one word for all chunks."""
    word = plan.recompute[0]
    gamma = ParallelismChoice.of(plan)
    maker = CaseMaker(problem, [gamma.key], sorted({NONE, word.modules}))
    judge = LayoutEvaluator(maker.case(gamma), word.modules, word.layers)
    seconds, held = judge.judge(plan.layout)
    return seconds + problem.efficiencies.step_seconds, held
