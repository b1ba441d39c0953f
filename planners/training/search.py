"""The search for the fastest training configuration, best first with a bound, and the list of what may be fastest.

What is looked at is an *item* with a lower bound on its time: a family of choices, then one choice with its number of
chunks, then this with one word for recomputation, then the same with the memory of all ranks. The item with the least
bound comes next, and is refined or solved. The search ends when no bound is below what a configuration of the list may
take at most; every choice that was not looked at is counted under the bound that discarded it.

**The list.** If every complete configuration really takes between 1 - e and 1 + e times what the model says, then the
one that is really the fastest takes at most (1 + e) / (1 - e) times the model's least time T of those that fit for
sure: the real time of the model's best one is at most (1 + e) T, and that of one with more than (1 + e) / (1 - e) T is
more than (1 + e) T. So the list has every choice of degrees, micro-batch and ZeRO stage one of whose configurations
that may fit is within that.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ...instances.physics.efficiencies import USUAL_ERROR, USUAL_MEMORY_ERROR
from ...instances.physics.tolerances import SAME
from ...instances.training.cases import NONE, WHOLE, Case, CaseMaker, Modules, ParallelismChoice, gradient_bytes_of
from ...instances.training.frameworks import ends_of, even_layout, uncut
from ...instances.training.plan import Configuration, Degrees, Recompute, read_recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Margin, Scope, both_sides
from ..search import OpenItems
from . import ahead
from .bounds import LoadBound, Loads, PathBound, Shape
from .judging import Best, LayoutEvaluator, is_long, solve
from .space import Space, configuration

# The most passes that one search for layouts simulates, and the most that local moves do.
NODE_WORK, LOOK_WORK = 1_000_000, 500_000
# A choice with at most this many layouts has all of them judged.
ALL_LAYOUTS = 150
# The most choices whose figures are kept.
MOST_CASES = 2_000
# The most layouts that local moves look at for a choice with several chunks on a rank, and for one that
# cannot be the best.
MOST_LOOKS, FEW_LOOKS = 400, 40

# Kinds of items, each named in reports by the bound that an item of the kind has.
FAMILY, CHOICE, WORD, MEMORY, LAYOUT = "work", "ramp", "recomputation", "memory and layout", "simulated layouts"
COUNTS = "recomputed layers"
CANNOT_FIT = "cannot fit"
# Bounds by which a choice is discarded, the cheapest first.
BOUNDS = (FAMILY, CHOICE, WORD, MEMORY, LAYOUT)


# What entries of the list differ in: degrees, micro-batch and ZeRO stage.
Key = tuple[Degrees, int, int]
# A bound, a number that decides ties, the kind, and what is looked at.
Item = tuple[float, int, str, Any]


def key_of(gamma: ParallelismChoice) -> Key:
    return gamma.degrees, gamma.micro_batch, gamma.zero


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may ask of the search."""

    error: float = USUAL_ERROR
    """Share by which predicted times may be wrong."""
    memory_error: float | Margin = USUAL_MEMORY_ERROR
    """Share by which predicted bytes may be wrong, or the shares to either side."""
    list_all: bool = True
    """Prove every entry of the list, not only the best configuration?"""
    slack: float = 0.0
    """Share of the memory by which limits are moved: sums of doubles decide nothing that is nearer to a limit."""

    def __post_init__(self) -> None:
        margin = both_sides(self.memory_error)
        for name, value in (("error", self.error), ("memory_error", margin.more), ("memory_error", margin.less)):
            if not 0 <= value < 1:
                raise InputError(name, f"is {value:g}", "give a share from 0 to less than 1, 0.05 for 5 %")

    @property
    def ratio(self) -> float:
        """The most that a configuration of the list takes by the model, as a multiple of the best one's time.

        `Asked.ratio` tells users the same number.
        """
        return (1 + self.error) / (1 - self.error) if self.list_all else 1.0

    def limits(self, memory_bytes: float | None) -> tuple[float, float]:
        """Bytes by the model up to which a configuration fits for sure, and up to which it may fit."""
        if memory_bytes is None:
            return math.inf, math.inf
        limit = memory_bytes * (1 + self.slack)
        margin = both_sides(self.memory_error)
        return limit / (1 + margin.more), limit / (1 - margin.less)


@dataclass(frozen=True, slots=True)
class Found:
    """One choice of the list with the best configuration that is known for it."""

    plan: Configuration
    seconds: float
    bound: float
    """No configuration of the same degrees, micro-batch and ZeRO stage that may fit is faster; 0 until the search ends,
    since other items may have configurations of the same."""
    sure: bool
    """Does it fit for sure?"""

    @property
    def key(self) -> Key:
        return self.plan.degrees, self.plan.micro_batch, self.plan.zero


@dataclass
class Report:
    """What the search knows so far."""

    considered: int = 0
    """Number of all choices in the scope."""
    discarded: Counter[str] = field(default_factory=Counter)
    """Choices by the bound that discarded them."""
    unfit: int = 0
    """Choices that are proven not to fit."""
    solved: int = 0
    """Number of pairs of a choice and a word whose layouts were searched."""
    best: Found | None = None
    bound: float = 0.0
    """No configuration that fits for sure is faster."""
    listed: tuple[Found, ...] = ()
    unsettled: tuple[tuple[ParallelismChoice, float], ...] = ()
    """Choices with several chunks on a rank of which no configuration in the list was found, though their bounds do not
    exclude one: by degrees, micro-batch and ZeRO stage, with the bound. The theorem holds for the list and these."""
    undecided: int = 0
    """Choices that an interrupted search has neither listed nor discarded."""
    nothing_fits: bool = False
    """Is it proven that no configuration fits for sure?"""
    finished: bool = False
    cut: Stop | None = None
    """What ended the search before its time, be it that only the bound could still have been raised."""

    @property
    def fit(self) -> int:
        """Number of choices that may fit."""
        return self.considered - self.unfit

    @property
    def unlisted(self) -> dict[Key, float]:
        """Lower bounds of choices that are left besides the list, by degrees, micro-batch and ZeRO stage, as
        the list is; the least first."""
        listed = {entry.key for entry in self.listed}
        left: dict[Key, float] = {}
        for gamma, bound in self.unsettled:
            if key_of(gamma) not in listed:
                left.setdefault(key_of(gamma), bound)
        return left

    @property
    def gap(self) -> float | None:
        """Relative gap between the best configuration's time and its lower bound; None: nothing is known to fit."""
        if self.best is None:
            return None
        return max(0.0, (self.best.seconds - self.bound) / self.best.seconds)


@dataclass(frozen=True, slots=True)
class _Word:
    """A choice together with a word for recomputation."""

    gamma: ParallelismChoice
    modules: Modules
    count: int | None = None
    """Layers of each chunk that the word holds for; None: all."""


@dataclass
class _Entry:
    """What is known of one choice of degrees, micro-batch and ZeRO stage that is being looked at."""

    left: int = 0
    """Items of the choice that are still open."""
    fits: bool = False
    """Is it possible that an item of the choice fits?"""
    by: str = CANNOT_FIT
    """The bound that discarded the last item of the choice."""
    bound: float = math.inf
    """No configuration of the items that are closed is faster, whether it fits for sure or not."""


class Search:
    """One search; `run` may be interrupted and leaves what is known in `report`."""

    def __init__(
        self,
        problem: TrainingProblem,
        scope: Scope | None = None,
        settings: Settings | None = None,
        heard: Callable[[Report], None] | None = None,
        out_of_time: Callable[[], bool] | None = None,
        fits: Callable[[Configuration], bool] | None = None,
        by_thumb: bool = True,
    ) -> None:
        """`fits` has the last word on a plan that is better than all before; None: the sums of the search decide.
        `by_thumb`: begin with a plan by the rule of thumb, so that there is one at once."""
        self.problem, self.scope = problem, (scope or Scope()).of_framework(problem.rules.layouts)
        self.settings = settings or Settings()
        self.heard, self.out_of_time = heard, out_of_time or (lambda: False)
        self.sure, self.maybe = self.settings.limits(problem.memory_bytes)
        self.fits = fits or (lambda plan: True)
        self.by_thumb = by_thumb
        self.rough: Found | None = None
        self.step = problem.step_seconds
        self.report = Report()
        self.open: OpenItems[Item] = OpenItems()
        self.ticks = 0
        self.values: dict[ParallelismChoice, Found] = {}
        self.entries: dict[ParallelismChoice, _Entry] = {}
        self.cases: dict[ParallelismChoice, Case] = {}
        self.loads_of: dict[ParallelismChoice, Loads] = {}
        self.best_bound = math.inf
        """No layout of the other searched items is faster."""
        self.hopes: list[tuple[float, int, _Word]] = []
        """Searched items whose layouts may be better than those found, as a heap by their bounds."""
        self.unsettled: dict[ParallelismChoice, str] = {}
        """Choices without a configuration, all of whose items are closed, with the bound that closed them."""
        self.bounds: dict[ParallelismChoice, float] = {}
        """No configuration of these choices, all of whose items are closed, is faster, if it may fit."""
        self.useful: dict[tuple[int, float], list[Modules]] = {}

    @cached_property
    def space(self) -> Space:
        return Space(self.problem, self.scope)

    # ---- the loop -------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Search until the list is proven or time is over; `report` is then complete."""
        ahead.begin(is_long(self.space.units, min(self.space.units, self.problem.devices)))
        try:
            self._begin()
            if self.by_thumb:
                self._start()
            for bound, _, kind, payload in self.open:
                if self._is_cut():
                    return self._end(finished=False)
                if bound > self.most:
                    break
                self._refine(bound, kind, payload)
            self._raise_bounds()
            return self._end(finished=True)
        except BaseException:  # an interrupt above all; whatever it is, what is known stays
            self.report.cut = Stop.INTERRUPTED
            self._end(finished=False)
            raise

    def _is_cut(self) -> bool:
        """Is time over? The report says so."""
        if self.out_of_time():
            self.report.cut = Stop.TIME
        return self.report.cut is not None

    @property
    def most(self) -> float:
        """The longest time that a configuration of the list may take; above it nothing is looked at."""
        best = self.report.best
        return math.inf if best is None else best.seconds * self.settings.ratio * (1 + SAME)

    @property
    def _solved_bound(self) -> float:
        """No layout of the solved items is faster."""
        return min(self.best_bound, self.hopes[0][0] if self.hopes else math.inf)

    def _raise_bounds(self) -> None:
        """Raise the least bounds until the least of all cannot be raised: the others do not matter for the gap."""
        raised: set[_Word] = set()
        while self.hopes:
            bound, number, word = self.hopes[0]
            least = min(self.best_bound, self.report.best.seconds if self.report.best else 0.0)
            if word in raised or bound >= least or self._is_cut():
                return
            raised.add(word)
            judge = self._judge(word)
            if PathBound.takes(judge):
                seconds = PathBound(self._load(judge)).seconds(self.sure, self._best_seconds) + self.step
                heapq.heapreplace(self.hopes, (max(bound, seconds), number, word))

    def _begin(self) -> None:
        """All families that may fit are open, by their bounds."""
        seconds, least_bytes = self.space.bounds
        sizes = self.space.sizes
        self.report.considered = int(sizes.sum())
        unfit = least_bytes > self.maybe
        self.report.unfit += int(sizes[unfit].sum())
        self.open = OpenItems(
            (float(seconds[row]) + self.step, -row, FAMILY, row)
            for row in range(len(self.space))
            if not unfit[row] and sizes[row]
        )

    def _start(self) -> None:
        """A rough plan, which tells which choices are too slow. It shortens no search for layouts: each choice that
        may be listed still gets a plan of its own."""
        plan = rule_of_thumb(self.problem, self.scope, self.settings, self.out_of_time)
        if plan is not None and self.fits(plan.plan):
            self.rough = self.report.best = plan
            self._tell(None)

    def _push(self, bound: float, kind: str, payload: Any) -> None:
        self.ticks += 1
        self.open.add((bound, self.ticks, kind, payload))

    def _refine(self, bound: float, kind: str, payload: Any) -> None:
        """Look closer at the item with the least bound: split it, bound it better, or search its layouts."""
        if kind not in (FAMILY, CHOICE) and self._is_enough(payload.gamma, bound):
            entry = self.entries[payload.gamma]
            entry.bound = min(entry.bound, bound)
            entry.left -= 1
            self._close(payload.gamma, LAYOUT)
        elif kind == FAMILY:
            for gamma in self.space.gammas(payload):
                self._open(gamma, bound)
        elif kind == CHOICE:
            self._words(payload, bound)
        elif kind == COUNTS:
            self._counts(payload, bound)
        elif kind == WORD:
            self._with_memory(payload, bound)
        else:
            self._solve(payload, bound)

    def _is_enough(self, gamma: ParallelismChoice, bound: float) -> bool:
        """Is the choice in the list already, with a bound by which it cannot be better than the best?"""
        entry, best = self.values.get(gamma), self.report.best
        return entry is not None and best is not None and bound >= best.seconds and entry.seconds <= self.most

    # ---- a choice -------------------------------------------------------------------------------------------

    def case(self, gamma: ParallelismChoice) -> Case:
        """The figures of a choice, made once; a small store of them is kept."""
        if gamma not in self.cases:
            if len(self.cases) > MOST_CASES:
                self.cases.clear()
                self.loads_of.clear()
            self.cases[gamma] = self.space.maker.case(gamma, (NONE,))
        return self.cases[gamma]

    def _judge(self, word: _Word) -> LayoutEvaluator:
        """The judge of a choice and word."""
        case = self.case(word.gamma)
        self.space.maker.with_word(case, word.modules)
        return LayoutEvaluator(case, word.modules, word.count)

    def _open(self, gamma: ParallelismChoice, bound: float) -> None:
        """Begin with a choice: its first item is bounded by the loads of its ranks."""
        self.entries[gamma] = _Entry(left=1)
        self._push(max(bound, self._least_seconds(gamma) + self.step), CHOICE, gamma)

    def _words(self, gamma: ParallelismChoice, bound: float) -> None:
        """Open one item for each word of a choice; whole layers are recomputed fewest first, one more only when
        that item comes up."""
        entry, fixed = self.entries[gamma], self.scope.fix.get("recompute")
        entry.left -= 1
        words: list[_Word] = []
        if fixed is not None:
            recompute = read_recompute("scope: recompute", fixed)
            words = [_Word(gamma, recompute.modules, recompute.layers)]
        elif gamma.rule.divided:
            words = [_Word(gamma, NONE)]
        else:
            words = [_Word(gamma, word) for word in self._useful(gamma) if word != WHOLE]
            if WHOLE in self.space.words and self.problem.rules.counted_layers:
                entry.left += 1
                self._push(bound, COUNTS, _Word(gamma, WHOLE, 1))
            elif WHOLE in self.space.words:
                words.append(_Word(gamma, WHOLE))
        entry.left += len(words)
        case = self.case(gamma)
        for word in words:
            costs = self.space.maker.with_word(case, word.modules)
            again = 0.0 if word.count is not None else float((costs.again * case.layers).sum())
            self._push(max(bound, self._least_seconds(gamma, again) + self.step), WORD, word)
        self._close(gamma, CHOICE)

    def _counts(self, word: _Word, bound: float) -> None:
        """Open an item in which this many whole layers of each chunk are computed again, and one for more of
        them."""
        gamma, count = word.gamma, word.count or 1
        entry, layers = self.entries[gamma], self.problem.model.layers or len(self.problem.model.own)
        # The most layers that one chunk can have; few are ever asked for beyond those of even chunks.
        most = max(1, min(layers, self.space.units - gamma.degrees.chunks + 1))
        entry.left -= 1
        if not self.scope.is_one_layout:
            least = self._least_of(self._judge(word)) + self.step
            if least == math.inf:
                self._close(gamma, CANNOT_FIT)
                return
            if least > max(bound, self.most):
                entry.left += 1
                self._push(least, COUNTS, word)
                return
            bound = max(bound, least)
            if count == 1:
                count = self._least_count(gamma, most)
        if count > most:
            self._close(gamma, CANNOT_FIT)
            return
        item = _Word(gamma, WHOLE, count if count < most else None)
        if self.scope.takes_word(Recompute(item.modules, item.count)):
            entry.left += 1
            self._push(bound, WORD, item)
        if count < most:
            entry.left += 1
            self._push(bound, COUNTS, _Word(gamma, WHOLE, count + 1))
        if entry.left == 0:  # its last word is not in the scope
            self._close(gamma, CHOICE)

    def _least_count(self, gamma: ParallelismChoice, most: int) -> int:
        """The fewest whole layers of each chunk with which something may fit, since more never hold more; above
        `most` where nothing does."""
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._memory_bound(_Word(gamma, WHOLE, middle if middle < most else None)) < math.inf:
                high = middle
            else:
                low = middle
        return high

    def _useful(self, gamma: ParallelismChoice) -> list[Modules]:
        """Words that no other word beats by taking no longer and keeping no more in every type of unit."""
        maker = self.space.maker
        if self.problem.model.own or len(self.space.words) <= 2:
            return list(self.space.words)
        key = maker.row_of[gamma.key], gradient_bytes_of(self.problem.states[gamma.zero])
        if key not in self.useful:
            self.useful[key] = self._not_dominated(*key)
        return self.useful[key]

    def _not_dominated(self, row: int, gradient: float) -> list[Modules]:
        return self._not_beaten(self.space.maker, row, gradient)

    def _not_beaten(self, maker: CaseMaker, row: int, gradient: float) -> list[Modules]:
        """The same for one row of the tables; of words that are alike the first stays."""
        words = self.space.words
        columns = []
        for name in maker.names:
            kept, again = maker.bytes[name], maker.seconds(name, gradient).again
            columns += [[float(table[word][row]) for word in words] for table in (again, kept.stash)]
            columns.append(
                [max(float(left[row] + more[row]) for left, more in kept.moments[word]) for word in words]
            )
        facts = np.array(columns).T
        no_worse: Any = (facts[:, None] <= facts[None]).all(axis=2)
        earlier = np.tri(len(words), k=-1, dtype=bool).T
        beaten: Any = (no_worse & (~no_worse.T | earlier)).any(axis=0)
        return [word for word, lost in zip(words, beaten, strict=True) if not lost]

    def _least_seconds(self, gamma: ParallelismChoice, again: float = 0.0) -> float:
        """No layout of a choice that computes so many seconds again in all is faster."""
        return self.loads(gamma).seconds(again)

    def _least_of(self, judge: LayoutEvaluator) -> float:
        """No layout is faster that computes at least as much again and may fit."""
        return LoadBound(self.loads(judge.case.gamma), judge, judge.count).seconds(self.maybe)

    def loads(self, gamma: ParallelismChoice) -> Loads:
        """Bounds of a choice from the loads of its ranks, made once."""
        if gamma not in self.loads_of:
            self.loads_of[gamma] = Loads(self.shape, self.case(gamma))
        return self.loads_of[gamma]

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.problem)

    def _load(self, judge: LayoutEvaluator) -> LoadBound:
        """The bound of a choice and word from the loads of ranks that fit."""
        return LoadBound(self.loads(judge.case.gamma), judge)

    # ---- a word ---------------------------------------------------------------------------------------------

    def _with_memory(self, word: _Word, bound: float) -> None:
        """Bound an item by time and the memory of all ranks, if anything of it may fit."""
        if self.scope.is_one_layout:
            self._push(bound, MEMORY, word)
            return
        seconds = self._memory_bound(word)
        if seconds == math.inf:
            self.entries[word.gamma].left -= 1
            self._close(word.gamma, CANNOT_FIT)
            return
        self.entries[word.gamma].fits = True
        self._push(max(bound, seconds + self.step), MEMORY, word)

    def _memory_bound(self, word: _Word) -> float:
        """Lower bound on the seconds of an iteration, the constant `step` left out, of plans that may fit; infinite
        where there is none."""
        judge = self._judge(word)
        if self._is_row(judge.case):
            return solve(judge.pipeline(self.maybe), most_nodes=-1).bound
        return self._load(judge).seconds(self.maybe)

    @staticmethod
    def _is_row(case: Case) -> bool:
        """Does each rank have one chunk under 1F1B, with messages of equal length whatever the layout?"""
        return case.gamma.schedule == "1f1b" and (case.alike_outputs or case.gamma.degrees.pipeline == 1)

    def _close(self, gamma: ParallelismChoice, by: str) -> None:
        """Note which bound closed an item; when no item of the choice is open, settle what the report says of
        it."""
        entry = self.entries[gamma]
        if by != CANNOT_FIT:
            entry.fits = entry.fits or by != CHOICE
            entry.by = by
        if entry.left == 0:
            self.bounds[gamma] = entry.bound
            self.cases.pop(gamma, None)
            self.loads_of.pop(gamma, None)
            if gamma not in self.values and entry.fits:
                self.unsettled[gamma] = entry.by
            elif gamma not in self.values:
                self.report.unfit += 1
            del self.entries[gamma]

    # ---- layouts --------------------------------------------------------------------------------------------

    def _solve(self, word: _Word, bound: float) -> None:
        """Search the layouts of a choice and word, first among those that fit for sure, then among those that
        may fit."""
        judge = self._judge(word)
        answer = self._layout(judge, self.sure, self._best_seconds)
        answer = replace(answer, bound=max(answer.bound, bound - self.step))
        self._take(word, answer, sure=True)
        if not self._is_row(judge.case) and not self.scope.is_one_layout and answer.bound < self._best_seconds:
            heapq.heappush(self.hopes, (answer.bound + self.step, self.report.solved, word))
        else:
            self.best_bound = min(self.best_bound, answer.bound + self.step)
        listed = self.values.get(word.gamma)
        # What was found for sure may leave the list when the best one becomes faster: then this alone is known.
        least = bound if self.sure < self.maybe else answer.bound + self.step
        if self.settings.list_all and (listed is None or not listed.sure):
            most = self.most - self.step
            if listed is not None:
                most = min(most, listed.seconds - self.step)
            answer = self._layout(judge, self.maybe, most)
            self._take(word, answer, sure=self.sure == self.maybe)
            least = max(least, answer.bound + self.step)
        self.report.solved += 1
        entry = self.entries[word.gamma]
        entry.bound = min(entry.bound, least)
        entry.left -= 1
        self._close(word.gamma, LAYOUT)
        self._tell(bound)

    def _layout(self, judge: LayoutEvaluator, limit: float, below: float) -> Best:
        """The best layout of a choice and word whose ranks hold at most `limit` bytes; only one faster than
        `below` seconds is searched."""
        if self.scope.is_one_layout:
            return self._only(judge, limit)
        case = judge.case
        if self._is_row(case):
            pipeline = judge.pipeline(limit)
            first = solve(pipeline, cutoff=below, tolerance=SAME, most_nodes=0)
            if first.bound >= min(self._best_seconds, below) or (first.value is None and first.bound >= below):
                return first
            nodes = max(200, NODE_WORK // (case.micro_batches * case.gamma.degrees.pipeline))
            return solve(pipeline, cutoff=below, tolerance=SAME, most_nodes=nodes)
        load = self._load(judge)
        bound = load.seconds(limit)
        if bound >= below:
            return Best(None, bound)
        if math.comb(self.space.units - 1, case.gamma.degrees.chunks - 1) <= ALL_LAYOUTS:
            value, layout = judge.exhaust(limit)
            return Best(None, math.inf) if value == math.inf else Best(value, value, layout)
        starts = [(judge.judge(start, limit), start) for start in self._starts(judge, load)]
        if not starts:
            return Best(None, bound)
        starts.sort(key=lambda one: (one[0][0], max(one[0][1])))
        (value, _), layout = starts[0]
        if bound < self._best_seconds:
            climbed = [judge.climb(one, limit, self._looks(case), bound * (1 + SAME)) for _, one in starts]
            value, layout = min(climbed)
        elif value > below:
            value, layout = judge.climb(layout, limit, FEW_LOOKS, bound * (1 + SAME))
        if value == math.inf:
            return Best(None, bound)
        return Best(value, min(bound, value), layout)

    @property
    def _best_seconds(self) -> float:
        """Seconds of the best configuration that the search has found itself, the constant `step` left out; infinite:
        there is none."""
        best = self.report.best
        return math.inf if best is None or best is self.rough else best.seconds - self.step

    @staticmethod
    def _looks(case: Case) -> int:
        """Number of layouts that local moves may look at."""
        return max(20, min(MOST_LOOKS, LOOK_WORK // (2 * case.micro_batches * case.gamma.degrees.chunks)))

    def _starts(self, judge: LayoutEvaluator, load: LoadBound) -> list[tuple[int, ...]]:
        """Layouts from which local moves begin."""
        chunks = judge.case.gamma.degrees.chunks
        starts = [even_layout(self.problem, chunks), load.layout(), load.layout(late=True), load.balanced()]
        layouts: list[tuple[int, ...]] = []
        for start in starts:
            own = None if start is None or min(start) < 1 else judge.near(start)
            if own is not None and own not in layouts:
                layouts.append(own)
        return layouts

    def _only(self, judge: LayoutEvaluator, limit: float) -> Best:
        """The only layout of a case, even or fixed, where it fits and the framework can run it."""
        degrees = judge.case.gamma.degrees
        even = even_layout(self.problem, degrees.chunks)
        layout = self.scope.layout or even
        cut = layout is None or uncut(self.problem, degrees) & {*ends_of(layout)}
        if cut or layout is None or min(layout) < 1 or (self.scope.layouts == "even" and layout != even):
            return Best(None, math.inf)
        seconds, _ = judge.judge(layout, limit)
        return Best(None, math.inf) if seconds == math.inf else Best(seconds, seconds, layout)

    def _take(self, word: _Word, answer: Best, *, sure: bool) -> None:
        """Keep a configuration if it is better for its choice, or the best of all."""
        if answer.value is None:
            return
        seconds = answer.value + self.step
        plan = configuration(word.gamma, answer.layout, Recompute(word.modules, word.count))
        is_best = sure and (self.report.best is None or seconds < self.report.best.seconds)
        if is_best and not self.fits(plan):
            return
        entry = Found(plan, seconds, 0.0, sure)
        before = self.values.get(word.gamma)
        if seconds <= self.most or before is not None:
            better = before is None or (sure, -seconds) > (before.sure, -before.seconds)
            if better:
                self.values[word.gamma] = entry
        if is_best:
            self.report.best = entry
            self.values[word.gamma] = entry
            self._tell(None)

    def _tell(self, bound: float | None) -> None:
        """Tell the listener how far the search is; `bound`: of the item that was just refined."""
        if bound is not None:
            self.report.bound = max(self.report.bound, min(bound, self._solved_bound))
        if self.heard is not None:
            self.heard(self.report)

    # ---- the end --------------------------------------------------------------------------------------------

    def _end(self, *, finished: bool) -> Report:
        """Close the report: the bound, what is discarded and what is undecided. The search itself stays as it is, so
        that an interrupt in here may close the report anew."""
        report = self.report
        best = report.best
        if best is not None and best is self.rough:
            self.values.setdefault(ParallelismChoice.of(best.plan), best)
        bound = min(self.open.least, self._solved_bound, math.inf if best is None else best.seconds)
        report.bound = bound if bound < math.inf else report.bound
        report.listed = self._listed()
        report.best = next((entry for entry in report.listed if best and entry.plan == best.plan), best)
        report.unsettled, report.discarded = self._settle(finished)
        families = [item for item in self.open.left if item[2] == FAMILY and item[0] <= self.most]
        without = sum(gamma not in self.values for gamma in self.entries)
        report.undecided = 0 if finished else without + sum(int(self.space.sizes[row]) for *_, row in families)
        report.nothing_fits = finished and bound == math.inf
        report.finished = finished
        return report

    def _bound(self, gamma: ParallelismChoice) -> float:
        """No configuration of the choice that may fit is faster. What is open of it, or of other choices, counts."""
        entry = self.entries.get(gamma)
        return min(self.open.least, self.bounds.get(gamma, math.inf), math.inf if entry is None else entry.bound)

    def _settle(self, finished: bool) -> tuple[tuple[tuple[ParallelismChoice, float], ...], Counter[str]]:
        """Choices of which no configuration is listed, with their bounds; those whose bound excludes them are
        discarded, as are families."""
        slow = {gamma: LAYOUT for gamma, entry in self.values.items() if entry.seconds > self.most}
        begun = [gamma for gamma in self.entries if finished and gamma not in self.values]
        begun_by = {gamma: LAYOUT if self.entries[gamma].bound <= self.most else CHOICE for gamma in begun}
        closed = {gamma: by for gamma, by in self.unsettled.items() if gamma not in self.values}
        left, discarded = [], Counter[str]()
        for gamma, by in (slow | begun_by | closed).items():
            bound = self._bound(gamma)
            if bound > self.most:
                discarded[by] += 1
            else:
                left.append((gamma, bound))
        for bound, _, kind, row in self.open.left:
            if kind == FAMILY and bound > self.most:
                discarded[FAMILY] += int(self.space.sizes[row])
        return tuple(sorted(left, key=lambda one: one[1])), discarded

    def _listed(self) -> tuple[Found, ...]:
        """The list: one entry for each choice of degrees, micro-batch and ZeRO stage, the fastest first."""
        best: dict[Key, Found] = {}
        for entry in self.values.values():
            before = best.get(entry.key)
            if entry.seconds <= self.most and (
                before is None or (entry.sure, -entry.seconds) > (before.sure, -before.seconds)
            ):
                best[entry.key] = entry
        bounds = dict.fromkeys(best, self.open.least)
        for gamma in (*self.bounds, *self.entries):
            key = key_of(gamma)
            if key in bounds:
                bounds[key] = min(bounds[key], self._bound(gamma))
        settled = [replace(entry, bound=min(entry.seconds, bounds[key])) for key, entry in best.items()]
        return tuple(sorted(settled, key=lambda entry: entry.seconds))


def rule_of_thumb(
    problem: TrainingProblem, scope: Scope, settings: Settings, out_of_time: Callable[[], bool]
) -> Found | None:
    """What users do by hand: tensor parallelism inside the node, then the fewest stages that fit, and data parallelism
    with the rest; nothing is computed again unless nothing fits without.

    Experts are divided among as many ranks of a stage as can be. What the scope fixes stays as it is.
    """
    node, devices = problem.levels[0].count, problem.devices
    words = [scope.fix["recompute"]] if "recompute" in scope.fix else ["none", "full"]
    tensors = [t for t in range(node, 0, -1) if node % t == 0 and scope.takes("tensor", t)]
    pipelines = [p for p in range(1, len(problem.model.units) + 1) if scope.takes("pipeline", p)]
    usual = {"context": "1", "micro-batch": "1", "virtual": "1", "expert-tensor": "1"}
    usual["zero"] = str(problem.rules.usual_zero)
    for word, tensor, stages in product(words, tensors, pipelines):
        if devices % (stages * tensor):
            continue
        if out_of_time():
            return None
        expert = _most_expert_ranks(problem, devices // stages)
        degrees = {"tensor": str(tensor), "pipeline": str(stages), "expert": str(expert)}
        narrow = Scope({**usual, **degrees, "recompute": word, **scope.fix}, scope.forbid, scope.layouts)
        # The first answer is one whose layout is balanced; nothing else is left to decide.
        search = Search(problem, narrow, replace(settings, list_all=False), None, out_of_time, by_thumb=False)
        best = search.run().best
        if best is not None:
            return best
    return None


def _most_expert_ranks(problem: TrainingProblem, ranks: int) -> int:
    """Among how many ranks of a stage the experts can be divided at most."""
    experts = problem.model.experts
    if experts is None:
        return 1
    return max(e for e in range(1, experts.count + 1) if experts.count % e == 0 and ranks % e == 0)
