"""`mip-configuration`: whole training configurations as a mixed-integer program, behind the common contract.

It checks `exact-configuration`. Seconds and bytes of a stage are the referee's figures; the list of configurations, the
order of passes, the longest path, bounds and the program are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

from ...instances.base.errors import TooLargeError
from ...instances.training.frameworks import even_layout
from ...instances.training.plan import NOTHING, Recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope, scope_of
from ..contract import BuiltModel, CommonFormulation, Options, Refuted, Wanted, check_type
from .columns import Book, Column, meeting
from .program import NAME, Block, Grid, Program
from .settings import Setting, settings_of, words_of

# Number of steps, on the grid of whole numbers, of the longest iteration.
STEPS = 2**40
# Number of settings that each cut-off adds to those of the one before, and its least ratio to the bound.
FEW = 4
GROWTH = 1.01
# The most columns of a model of all settings.
MOST_ALL = 200_000
# The most configurations that the referee is asked about, which takes a minute.
MOST_JUDGED = 10_000


@dataclass
class Case:
    """All settings of a question, with what was asked of the referee."""

    problem: TrainingProblem
    scope: Scope
    share: float
    books: dict[tuple[Setting, Recompute], Book] = field(default_factory=dict)
    judged: int = 0

    def book(self, setting: Setting, word: Recompute = NOTHING) -> Book:
        key = setting, word
        if key not in self.books:
            self.books[key] = Book(
                self.problem, setting, word, self.share, partial(self.book, setting), self._count
            )
        return self.books[key]

    def _count(self) -> None:
        self.judged += 1
        if self.judged > MOST_JUDGED:
            raise TooLargeError(
                "model",
                f"needs more than {MOST_JUDGED:,} questions about stages, too many for {NAME}",
                'narrow the scope, as in --fix "tensor=4 pipeline=2"',
            )

    @cached_property
    def bounds(self) -> tuple[tuple[float, Setting], ...]:
        """The bound of each setting, the least first; recomputation only adds time, so it holds for every word."""
        pairs = [(self.book(setting).bound, setting) for setting in settings_of(self.problem, self.scope)]
        return tuple(sorted(pairs, key=lambda pair: pair[0]))

    def blocks(self, cutoff: float | None) -> tuple[Block, ...]:
        """All blocks that may hold a configuration of at most that value."""
        blocks: list[Block] = []
        for bound, setting in self.bounds:
            if cutoff is not None and bound > cutoff:
                break
            blocks += self._of_setting(setting, cutoff)
            if sum(len(columns) for block in blocks for columns in block.ranks) > MOST_ALL:
                raise TooLargeError(
                    "model", f"has more than {MOST_ALL:,} stages, too many for {NAME}", "fix some degrees"
                )
        return tuple(blocks)

    def _of_setting(self, setting: Setting, cutoff: float | None) -> list[Block]:
        """One block for each word, or only the one without recomputation where everything fits in it.

        Then the same layout without recomputation is no slower: passes are shorter, and what a stage does after its
        last one hides behind a backward pass by no more than that pass was longer.
        """
        blocks = []
        for word in words_of(self.problem, self.scope, setting.schedule):
            book = self.book(setting, word)
            if cutoff is not None and book.bound > cutoff:
                continue
            block = self._block(book, cutoff)
            if block is not None:
                blocks.append(block)
            if word == NOTHING and block is not None and all(figures.fits for figures in book.known.values()):
                break
        return blocks

    def _block(self, book: Book, cutoff: float | None) -> Block | None:
        """The block of a book; None: no column is left for some rank."""
        ranks = []
        for rank in range(len(book.homes)):
            columns = self._even(book, rank) if self.scope.layouts == "even" else tuple(book.fitting(rank, cutoff))
            if cutoff is not None:
                columns = tuple(own for own in columns if self._least(book, own) <= cutoff)
            if not columns:
                return None
            ranks.append(columns)
        joined = meeting(book.homes, ranks)
        return None if joined is None else Block(book.setting, book.word, book.micro_batches, book.homes, joined)

    @staticmethod
    def _even(book: Book, rank: int) -> tuple[Column, ...]:
        layout = even_layout(book.problem, book.chunks)
        if layout is None or min(layout) < 1:
            return ()
        own = book.of_layout(rank, layout)
        return (own,) if own.figures.fits else ()

    def _least(self, book: Book, column: Column) -> float:
        """Lower bound on an iteration, in seconds: the rank's own work, and the step."""
        busy = book.micro_batches * column.figures.busy + column.figures.tail
        return (busy + self.problem.efficiencies.step_seconds) * (1 - 1e-12)


class ConfigurationMip(CommonFormulation):
    """Minimise the time of an iteration over degrees, micro-batch, ZeRO stage, schedule, layout and recomputation."""

    def check(self, problem: TrainingProblem, options: Options) -> None:
        check_type(NAME, problem, TrainingProblem)
        scope_of(options)

    def solvers(self, problem: TrainingProblem, options: Options) -> tuple[str, ...]:
        return ("cp-sat", "highs")

    def lower_bound(self, problem: TrainingProblem, options: Options) -> float:
        return min((bound for bound, _ in _case(problem, options).bounds), default=0.0)

    def next_cutoff(
        self,
        problem: TrainingProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """A cut-off with a few settings more, since the referee is asked for all columns of every setting."""
        bounds = [own for own, _ in _case(problem, options).bounds]
        known = bound or 0.0
        behind = sum(own <= known for own in bounds) + FEW
        if behind >= len(bounds):
            return cutoff
        limit = max(bounds[behind - 1], GROWTH * known)
        return limit if cutoff is None or limit < cutoff else cutoff

    def model(self, problem: TrainingProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        case, cutoff = _case(problem, options), wanted.cutoff
        blocks = case.blocks(cutoff)
        if not blocks:
            return Refuted("the bounds of stages and the referee's figures leave no configuration that fits")
        step = problem.efficiencies.step_seconds
        limit = max(block.longest for block in blocks) + step if cutoff is None else cutoff
        grid = Grid(limit / STEPS if wanted.native else limit, wanted.native)
        program = Program(blocks, step, grid, limit)
        return BuiltModel(
            program.model,
            program.decode,
            program.encode,
            grids=program.steps if wanted.native else {},
            size={"choices": len(case.bounds), "blocks": len(blocks), "passes": program.passes},
            rounding=program.rounding,
            key=program.key,
        )


FORMULATION = ConfigurationMip()


@dataclass(frozen=True, slots=True)
class _Question:
    """The key of `_kept`: the same for problems that differ in their names alone."""

    digest: str
    options: tuple[str | float | None, ...]
    problem: TrainingProblem = field(compare=False)


def _case(problem: TrainingProblem, options: Options) -> Case:
    asked = (options.get("fix"), options.get("forbid"), options.get("layouts"), options.get("memory_error"))
    return _kept(_Question(problem.hash, asked, problem))


@lru_cache(maxsize=2)
def _kept(question: _Question) -> Case:
    """The case of a question, kept so that all cut-offs, and backends side by side, ask the referee once."""
    fix, forbid, layouts, share = question.options
    scope = scope_of({"fix": fix, "forbid": forbid, "layouts": layouts})
    return Case(question.problem, scope.of_framework(question.problem.rules.layouts), float(share or 0.0))
