"""All choices of degrees, micro-batch, ZeRO stage and schedule, and all words for recomputation, of a scope.

The referee is asked which of them a framework can run; none of its rules are repeated here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ...instances.base.errors import TooLargeError
from ...instances.registry import violations_of
from ...instances.training.frameworks import fault_of_word
from ...instances.training.model import MODULES
from ...instances.training.plan import (
    FULL,
    LARGEST,
    NOTHING,
    Configuration,
    Degrees,
    Recompute,
    divisors,
    read_recompute,
)
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope

# The most choices that the referee is asked about, which takes half a minute.
MOST_ASKED = 4_000


@dataclass(frozen=True, slots=True)
class Setting:
    """A configuration without its layout and without its recomputation."""

    degrees: Degrees
    micro_batch: int
    zero: int
    schedule: str

    def plan(self, layout: tuple[int, ...], word: Recompute = NOTHING) -> Configuration:
        words = (word,) * len(layout)
        return Configuration(self.degrees, self.micro_batch, self.zero, self.schedule, layout, words)

    @classmethod
    def of(cls, plan: Configuration) -> Setting:
        return cls(plan.degrees, plan.micro_batch, plan.zero, plan.schedule)


def settings_of(problem: TrainingProblem, scope: Scope) -> Iterator[Setting]:
    """The settings of the scope that the framework can run, whether they fit or not."""
    settings = list(itertools.islice(_all(problem, scope), MOST_ASKED + 1))
    if len(settings) > MOST_ASKED:
        raise TooLargeError(
            "devices",
            f"allow more than {MOST_ASKED:,} choices of degrees, too many for mip-configuration",
            'narrow the scope, as in --fix "tensor=4 pipeline=2"',
        )
    for setting in settings:
        broken = violations_of(problem, setting.plan(_some_layout(problem, setting)))
        # Other layouts may keep the rules on these.
        if all(violation.rule in ("memory", "layout") for violation in broken):
            yield setting


def _all(problem: TrainingProblem, scope: Scope) -> Iterator[Setting]:
    for degrees in _degrees(problem, scope):
        sizes = [b for b in divisors(problem.batch // degrees.data) if b <= LARGEST]
        sizes = [b for b in sizes if scope.takes("micro-batch", b)]
        zeros = [zero for zero in problem.states if scope.takes("zero", zero)]
        schedules = [name for name in problem.rules.schedules if scope.takes("schedule", name)]
        for b, zero, schedule in itertools.product(sizes, zeros, schedules):
            yield Setting(degrees, b, zero, schedule)


def _degrees(problem: TrainingProblem, scope: Scope) -> Iterator[Degrees]:
    devices, units = problem.devices, len(problem.model.units)
    for t, c, p in itertools.product(divisors(devices), repeat=3):
        d, rest = divmod(devices, t * c * p)
        if rest or p > units or problem.batch % d:
            continue
        ranks = t * c * d if problem.model.experts is not None else 1
        pairs = [(e, s) for e in divisors(ranks) for s in divisors(ranks // e)]
        for (e, s), v in itertools.product(pairs, range(1, units // p + 1)):
            degrees = Degrees(t, c, p, v, d, e, s)
            if scope.takes_degrees(degrees):
                yield degrees


def _some_layout(problem: TrainingProblem, setting: Setting) -> tuple[int, ...]:
    chunks = setting.degrees.chunks
    return (len(problem.model.units) - chunks + 1, *[1] * (chunks - 1))


# ---- what is computed again ------------------------------------------------------------------------------


def words_of(problem: TrainingProblem, scope: Scope, schedule: str) -> Iterator[Recompute]:
    """The words for recomputation that the scope takes with this schedule; a word holds for every chunk.

    A fixed word may be none of `_words`: it may name as many layers as there are.
    """
    fixed = scope.fix.get("recompute")
    for word in _words(problem) if fixed is None else (read_recompute("scope: recompute", fixed),):
        if scope.takes_word(word) and fault_of_word(problem, schedule, word) is None:
            yield word


def _words(problem: TrainingProblem) -> Iterator[Recompute]:
    """Every word for recomputation: sets of modules, and whole layers of all or of the first of a chunk."""
    for size in range(len(MODULES) + 1):
        yield from map(Recompute, itertools.combinations(MODULES, size))
    yield Recompute((FULL,))
    layers = problem.model.layers or len(problem.model.own)
    for count in range(1, layers):
        yield Recompute((FULL,), count)
