"""`mip-periodic`: the same question as `cp-periodic`, one period at a time, as a mixed-integer program for any solver.

With the period given nothing is multiplied: heights are whole numbers, and one binary variable for each pair of blocks
of a device says which comes first within the period.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from ...instances.amounts import as_written
from ...instances.errors import UsageError
from ...instances.schedule.problem import ScheduleProblem
from ..contract import FLOAT_ROOM, BuiltModel, CommonFormulation, Options, Refuted, Wanted
from ..periods import largest_fraction
from . import periodic_program
from .period_bounds import lower_bound
from .periodic_cp import built, check_periodic
from .periodic_facts import facts_of, grid_for, next_question, payload
from .standstills import Standstill

ROOM = Fraction(FLOAT_ROOM) * 2
"""More than a float solver's model is cut off above the question."""

MOST_FRACTIONS = 2_000
"""Neighbouring fractions among the periods must lie further apart than a few times this room."""


class PeriodicMip(CommonFormulation):
    """Minimise the period."""

    def solvers(self, problem: ScheduleProblem, options: Options) -> tuple[str, ...]:
        return ("cp-sat", "highs")

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        check_periodic(problem, "mip-periodic")
        facts = facts_of(problem)
        if facts.unit is None or facts.longest / facts.unit * facts.most**2 > MOST_FRACTIONS:
            raise UsageError(
                "mip-periodic takes times that are small whole multiples of a unit; round them, or choose "
                "--formulation cp-periodic."
            )

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        return lower_bound(problem)

    def next_cutoff(
        self,
        problem: ScheduleProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """Above a fraction, by more than the room that models have below their cut-off: see `model`."""
        facts = facts_of(problem)
        assert facts.unit is not None, "checked"
        most = None if cutoff is None else as_written(cutoff)
        goal = next_question(facts, None if bound is None else as_written(bound), most)
        if goal is None:
            return None
        asked = facts.unit * largest_fraction(goal / facts.unit, facts.most)
        return float(max(goal, asked * (1 + 2 * ROOM)))

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        """Of the largest fraction that is below the cut-off by more than the room that float solvers are given there:
        else they would be asked for the next one. `next_cutoff` keeps fractions out of this room."""
        facts = facts_of(problem)
        assert facts.unit is not None, "checked"
        cutoff = None if wanted.cutoff is None else as_written(wanted.cutoff) * (1 - ROOM)
        if cutoff is not None and cutoff < as_written(lower_bound(problem)):
            return Refuted("some device has too much to do, or too little memory, for so short a period")
        grid = grid_for(facts, cutoff)
        model = built(
            Standstill(problem, problem, ()), facts, grid, cutoff, periodic_program.build(payload(facts, grid))
        )
        return replace(model, grids={f"s[{b}]": 1.0 for b in range(len(problem.blocks))})


FORMULATION = PeriodicMip()
