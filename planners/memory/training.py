"""The least memory of a GPU with which any configuration fits, and why there is none with less."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.clock import now
from ...instances.base.quantities import GIB
from ...instances.training.kind_functions import held, with_memory
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import scope_of
from ..options import SolveOptions
from ..training.pools import search_of
from ..training.search import Settings
from .smallest import Answer, Floor, Questions, accepted

# Amounts are searched in whole bytes, of which a GPU has a whole number.
UNIT = Fraction(1)


def questions(problem: TrainingProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory of a GPU with which any configuration in the scope fits."""
    reserve = as_written(problem.reserve_bytes)
    floor = Floor(-(-reserve // UNIT) * UNIT, "the reserve for the driver and for buffers")
    ask = partial(_ask, problem, options)
    return Questions(
        unit=UNIT,
        floor=floor,
        held=lambda plan: -(-held(problem, plan, options) // UNIT) * UNIT,
        first=ask,
        rounds=(ask,),
    )


def _ask(
    problem: TrainingProblem, options: Mapping[str, Any], memory_bytes: float | None, limits: SolveOptions
) -> Answer:
    asked = with_memory(problem, memory_bytes)
    ends = inf if limits.time_limit_s is None else now() + limits.time_limit_s
    settings = Settings(memory_error=0.0, list_all=False)
    report = search_of(asked)(asked, scope_of(options), settings, out_of_time=lambda: now() >= ends).run()
    plan = accepted(asked, None if report.best is None else report.best.plan, {})
    return Answer(plan, none=plan is None and report.finished and report.best is None)


def explain(
    problem: TrainingProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """The surest reason why there is no plan: the scope has no configuration, or a GPU has too little memory."""
    from ..training.empty import why_empty
    from ..training.pools import space_of

    scope = scope_of(options)
    space = space_of(problem, scope)
    if not space.sizes.sum():
        return (why_empty(problem, scope),)
    least = float(min(space.bounds[1]))
    if problem.memory_bytes is not None and least > problem.memory_bytes:
        have = problem.memory_bytes / GIB
        return (f"every configuration holds at least {least / GIB:.1f} GiB on a GPU, which has {have:.1f} GiB",)
    return ()
