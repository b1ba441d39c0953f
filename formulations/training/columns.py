"""What a pipeline rank may have: its intervals of units, with the seconds of their passes, where they fit.

Seconds and bytes are the referee's own, asked of whole configurations. They depend on the rank and on the units on it
alone, and not on the rest of the layout; units with shapes are told apart by their types alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...instances.base.amounts import as_written, fits
from ...instances.base.errors import TooLargeError
from ...instances.physics.schedules import SCHEDULES
from ...instances.physics.tolerances import SUM_ROUNDING
from ...instances.registry import evaluation_of
from ...instances.training.frameworks import uncut
from ...instances.training.plan import NOTHING, Recompute
from ...instances.training.problem import TrainingProblem
from .settings import Setting

# The most columns of one rank.
MOST_COLUMNS = 20_000
# Relative error that rounding may make in differences of such sums.
DIFFERENCES = 1e-9
# Types of units that can be computed again.
LAYERS = ("dense", "experts", "own")

# The first unit of a chunk, and the unit behind its last.
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """The referee's figures for one rank with the units on it."""

    passes: tuple[tuple[float, ...], ...]
    """Seconds of each chunk's passes: forward and backward, or forward, for inputs and for weights."""
    delays: tuple[float, ...]
    """Seconds from the end of each chunk's pass until the next chunk has what it sends."""
    tail: float
    """Seconds after the last pass."""
    fits: bool

    @property
    def busy(self) -> float:
        """Seconds of one micro-batch."""
        return sum(map(sum, self.passes))


@dataclass(frozen=True, slots=True)
class Column:
    """One choice for a rank."""

    intervals: tuple[Interval, ...]
    figures: Figures


@dataclass
class Book:
    """The columns of one setting and one word for recomputation; the referee is asked for each once."""

    problem: TrainingProblem
    setting: Setting
    word: Recompute = NOTHING
    share: float = 0.0
    """The share by which memory may be misjudged: (1 + share) times what a rank holds must fit."""
    other: Callable[[Recompute], Book] | None = field(default=None, repr=False)
    """The book of the same setting with another word."""
    asked: Callable[[], None] = field(default=lambda: None, repr=False)
    """Called before each question to the referee, so that the caller can count them."""
    known: dict[Any, Figures] = field(default_factory=dict, repr=False)

    @cached_property
    def homes(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of each rank."""
        return self.setting.plan((1,) * self.chunks, self.word).chunks_of_ranks

    @property
    def chunks(self) -> int:
        return self.setting.degrees.chunks

    @property
    def units(self) -> int:
        return len(self.problem.model.units)

    @property
    def micro_batches(self) -> int:
        return self.problem.batch // (self.setting.degrees.data * self.setting.micro_batch)

    @cached_property
    def bound(self) -> float:
        """No iteration is shorter, whatever the layout: with S the seconds of all passes of one micro-batch, m of them
        on p ranks keep one rank busy for m S / p.

        Where rank k waits for the first micro-batch and the last one goes back from it, an iteration takes (m - 1)
        tau_k + tau_0 + ... + tau_k. For a given S the largest of these is least where all are equal, and then it is
        S / (1 - (1 - 1/m)^p).
        """
        m, p = self.micro_batches, self.setting.degrees.pipeline
        layout = (self.units - self.chunks + 1, *[1] * (self.chunks - 1))
        figures = [self.of_layout(rank, layout).figures for rank in range(p)]
        work = sum(own.busy for own in figures)
        if self.word.layers is not None:
            work = (self._nothing[-1] + self._least_again()) * (1 - DIFFERENCES)
        least = m * work / p
        # Whole backward passes: the first micro-batch goes down to a rank before its first pass, the last goes back up.
        if not SCHEDULES[self.setting.schedule].divided and self.setting.degrees.virtual == 1:
            least = work / (1 - (1 - 1 / m) ** p)
        if p == 1:
            least += figures[0].tail
        return (least + self.problem.efficiencies.step_seconds) * (1 - SUM_ROUNDING)

    def fitting(self, rank: int, cutoff: float | None) -> Iterator[Column]:
        """The columns of a rank that fit, without those that make any iteration longer than the cut-off."""
        likely = (own for own in self._intervals(rank) if cutoff is None or self._least(own) <= cutoff)
        for number, intervals in enumerate(likely):
            if number == MOST_COLUMNS:
                p, v = self.setting.degrees.pipeline, self.setting.degrees.virtual
                raise TooLargeError(
                    "model",
                    f"has more than {MOST_COLUMNS:,} choices of units for a rank with pipeline={p} and virtual={v}",
                    "fix more, as in --fix virtual=1, or --layouts even",
                )
            figures = self.figures(rank, intervals)
            if figures.fits:
                yield Column(intervals, figures)

    def of_layout(self, rank: int, layout: tuple[int, ...]) -> Column:
        """What the rank has in that layout."""
        intervals = self._cut(rank, layout)
        return Column(intervals, self.figures(rank, intervals))

    # ---- units one by one ---------------------------------------------------------------------------------------

    def _least(self, intervals: tuple[Interval, ...]) -> float:
        """Lower bound on an iteration: the rank's own passes and, under some schedules, those of one micro-batch on
        all units before its own."""
        busy = self.micro_batches * sum(self._busy(*own) for own in intervals)
        if not SCHEDULES[self.setting.schedule].divided:
            busy += self._nothing[intervals[0][0]]
        return (busy + self.problem.efficiencies.step_seconds) * (1 - DIFFERENCES)

    def _busy(self, first: int, behind: int) -> float:
        """Seconds of a chunk's units; a word with a number of layers holds for the chunk's first layers."""
        end = behind
        if self.word.layers is not None:
            layers = [unit for unit in range(first, behind) if self.problem.model.units[unit] in LAYERS]
            end = layers[self.word.layers] if len(layers) > self.word.layers else behind
        with_word, without = self._throughout, self._nothing
        return with_word[end] - with_word[first] + without[behind] - without[end]

    def _least_again(self) -> float:
        """Lower bound on the seconds that recomputation adds: one long chunk and many short ones have the fewest
        first layers."""
        layers = [unit for unit, name in enumerate(self.problem.model.units) if name in LAYERS]
        one = min(len(layers), self.units - self.chunks + 1)
        count = min(self.word.layers or 0, one) + len(layers) - one
        with_word, without = self._throughout, self._nothing
        each = [with_word[u + 1] - with_word[u] - without[u + 1] + without[u] for u in layers]
        return count * max(0.0, min(each, default=0.0))

    @property
    def _nothing(self) -> list[float]:
        return self._sums_of(NOTHING)

    @property
    def _throughout(self) -> list[float]:
        """With the word in all layers of every chunk."""
        return self._sums_of(Recompute(self.word.modules))

    def _sums_of(self, word: Recompute) -> list[float]:
        if word == self.word:
            return self._sums
        return (self.other or self._beside)(word)._sums

    def _beside(self, word: Recompute) -> Book:
        return Book(self.problem, self.setting, word, self.share)

    @cached_property
    def _sums(self) -> list[float]:
        """Seconds of all units before each one; a unit by which no two chunks differ counts as 0."""
        seconds: dict[Any, float] = {}
        sums = [0.0]
        for unit, name in enumerate(self.problem.model.units):
            key = unit if name == "own" else name
            if key not in seconds:
                seconds[key] = self._of_unit(unit)
            sums.append(sums[-1] + seconds[key])
        return sums

    def _of_unit(self, unit: int) -> float:
        """Seconds of one micro-batch in a unit: the difference of two first chunks, one that ends with the unit and one
        that ends before it, or of two last chunks."""
        units, chunks = self.units, self.chunks
        longest = units - chunks + 1
        if unit < longest:
            return self._first_chunk(unit + 1) - self._first_chunk(unit)
        if units - unit <= longest:
            return self._last_chunk(units - unit) - self._last_chunk(units - unit - 1)
        return 0.0

    def _first_chunk(self, count: int) -> float:
        rest = self.units - count - (self.chunks - 2)
        layout = (count, rest, *[1] * (self.chunks - 2)) if self.chunks > 1 else (self.units,)
        return self._of_chunk(layout, 0) if count else 0.0

    def _last_chunk(self, count: int) -> float:
        rest = self.units - count - (self.chunks - 2)
        return self._of_chunk((rest, *[1] * (self.chunks - 2), count), self.chunks - 1) if count else 0.0

    def _of_chunk(self, layout: tuple[int, ...], chunk: int) -> float:
        rank, i = next((r, own.index(chunk)) for r, own in enumerate(self.homes) if chunk in own)
        return sum(self.of_layout(rank, layout).figures.passes[i])

    # ---- the referee's figures ------------------------------------------------------------------------------

    def figures(self, rank: int, intervals: tuple[Interval, ...]) -> Figures:
        key = self._key(rank, intervals)
        if key not in self.known:
            fixed = dict(zip(self.homes[rank], intervals, strict=True))
            self._ask(self._completed(fixed))
        return self.known[key]

    def _key(self, rank: int, intervals: tuple[Interval, ...]) -> tuple[Any, ...]:
        if self.problem.model.own:
            return rank, intervals
        return rank, *(self.problem.model.units[first:behind] for first, behind in intervals)

    def _ask(self, layout: tuple[int, ...]) -> None:
        """Ask the referee about one configuration, and keep the figures of all its ranks."""
        self.asked()
        evaluation = evaluation_of(self.problem, self.setting.plan(layout, self.word))
        timing, most = evaluation.timing, self.problem.memory_bytes
        limit = None if most is None else as_written(most) / (1 + as_written(self.share))
        delays = (*timing.delays, 0.0)
        divided = SCHEDULES[self.setting.schedule].divided
        for rank, own in enumerate(self.homes):
            passes = tuple(_passes(timing.chunks[j], divided) for j in own)
            self.known[self._key(rank, self._cut(rank, layout))] = Figures(
                passes,
                tuple(delays[j] for j in own),
                timing.tails[rank],
                fits(evaluation.memory[rank].parts.values(), limit),
            )

    # ---- layouts --------------------------------------------------------------------------------------------

    def _cut(self, rank: int, layout: tuple[int, ...]) -> tuple[Interval, ...]:
        return tuple((sum(layout[:j]), sum(layout[: j + 1])) for j in self.homes[rank])

    def _completed(self, fixed: Mapping[int, Interval]) -> tuple[int, ...]:
        """Some layout with these chunks, the other ones having at least a unit each."""
        layout, at, j = list[int](), 0, 0
        while j < self.chunks:
            if j in fixed:
                layout.append(fixed[j][1] - fixed[j][0])
                j += 1
            else:
                later = min((k for k in fixed if k > j), default=self.chunks)
                end = fixed[later][0] if later in fixed else self.units
                layout += [end - at - (later - j - 1), *[1] * (later - j - 1)]
                j = later
            at = sum(layout)
        return tuple(layout)

    def _intervals(self, rank: int) -> Iterator[tuple[Interval, ...]]:
        """All that a rank may have, with a unit at least for every chunk before, between and after its own."""
        own, units, chunks = self.homes[rank], self.units, self.chunks
        refused = uncut(self.problem, self.setting.degrees)

        def extended(prefix: tuple[Interval, ...]) -> Iterator[tuple[Interval, ...]]:
            if len(prefix) == len(own):
                yield prefix
                return
            j = own[len(prefix)]
            end, before = (prefix[-1][1], own[len(prefix) - 1]) if prefix else (0, -1)
            between = j - before - 1
            last = end if between == 0 else units - (chunks - j)
            for first in range(end + between, last + 1):
                most = units - (chunks - j - 1)
                for behind in range(units if j == chunks - 1 else first + 1, most + 1):
                    if first in refused or behind in refused:
                        continue
                    yield from extended((*prefix, (first, behind)))

        yield from extended(())


def _passes(times: Any, divided: bool) -> tuple[float, ...]:
    forward = times.forward.total
    if divided:
        return forward, times.inputs.total + times.again.total, times.weights.total
    return forward, times.backward_seconds


def meeting(
    homes: tuple[tuple[int, ...], ...], ranks: Sequence[tuple[Column, ...]]
) -> tuple[tuple[Column, ...], ...] | None:
    """The columns without those that no column of a neighbouring chunk meets at a border; None: some rank has none.

    With one chunk on each rank, every column that is left is part of a whole layout.
    """
    place = {j: (rank, i) for rank, own in enumerate(homes) for i, j in enumerate(own)}
    left = list(ranks)
    while True:
        before = sum(map(len, left))
        for j in range(len(place) - 1):
            (rank, i), (other, k) = place[j], place[j + 1]
            common = {own.intervals[i][1] for own in left[rank]} & {own.intervals[k][0] for own in left[other]}
            left[rank] = tuple(own for own in left[rank] if own.intervals[i][1] in common)
            left[other] = tuple(own for own in left[other] if own.intervals[k][0] in common)
        if not all(left):
            return None
        if sum(map(len, left)) == before:
            return tuple(left)
