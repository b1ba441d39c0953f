"""`cp-periodic`: the shortest period of a schedule that repeats, as a native CP-SAT model for one period at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ...instances.base.amounts import as_written
from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem, check_repeats
from ..contract import (
    BuiltModel,
    CommonFormulation,
    NativeModel,
    NativeOnlyError,
    Options,
    Refuted,
    Stage,
    Values,
    Wanted,
    check_type,
    side_by_side,
)
from ..least_periods import float_below
from . import periodic_model
from .period_bounds import lower_bound
from .periodic_facts import grid_for, moving_facts, next_question, payload
from .periodic_plans import best_timed, laid_by, laid_out, values_of

# Seconds of the first turn; each turn after it takes twice as long as the one before.
FIRST_TURN_S = 2.0
# Number of turns, in each of which both questions are asked.
TURNS = 6
ASKED: tuple[Literal["decide"], Literal["improve"]] = ("decide", "improve")


class PeriodicCp(CommonFormulation):
    """CP-SAT searches the shortest period of a repeating schedule."""

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        check_type("cp-periodic", problem, ScheduleProblem)
        check_repeats(problem)

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        return lower_bound(problem)

    def portfolio(self, problem: ScheduleProblem, options: Options, *, found: bool) -> tuple[Stage, ...]:
        """A period near the bound may be open for long, while one just below the best plan is found at once: both
        questions are asked in turn, each time for longer."""
        turns = [Stage(kind, ("cp-sat",), FIRST_TURN_S * 2**number) for number in range(TURNS) for kind in ASKED]
        return (*turns, *side_by_side("cp-sat"))

    def next_cutoff(
        self,
        problem: ScheduleProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """The next longer question, since a period that is too short is refuted much faster than one that is almost
        long enough; `cutoff` where no float between the bound and the next fraction holds a question."""
        still, facts = moving_facts(problem)
        known, most = (None if value is None else as_written(value) - still.time for value in (bound, cutoff))
        goal = next_question(facts, known, most)
        asked = cutoff if goal is None or goal == most else float_below(goal + still.time)
        return cutoff if asked is None or (bound is not None and asked <= bound) else asked

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError("cp-periodic")
        still, facts = moving_facts(problem)
        cutoff = None if wanted.cutoff is None else as_written(wanted.cutoff)
        if cutoff is not None and cutoff < as_written(lower_bound(problem)):
            return Refuted("some device has too much to do, or too little memory, for so short a period")
        grid = grid_for(facts, None if cutoff is None else cutoff - still.time)
        data = payload(facts, grid, still.time)
        model = NativeModel(periodic_model.BUILDER, data)

        def decode(values: Values) -> PeriodicSchedulePlan:
            plan = best_timed(laid_by(facts, values))
            assert plan is not None, "orders and heights of a period that is possible do not contradict each other"
            return still.expanded(plan)

        def encode(plan: PeriodicSchedulePlan) -> Values | None:
            if cutoff is not None and plan.period > cutoff:
                return None
            return values_of(laid_out(facts, still.compressed(plan)))

        size = {"blocks": len(facts.problem.blocks), "pairs": len(facts.pairs)}
        bound = float_below(still.time + facts.bound)
        return BuiltModel(model, decode, encode, size=size, coarse=not grid.exact, bound=bound)


FORMULATION = PeriodicCp()
