"""Why there is no plan, in words: what the problem lacks, where it lacks it, and what would help.

Kinds of problems that have nothing to say are not in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...formulations.contract import Problem
from ...instances.result import Stop
from ..contract import Board
from ..options import SolveOptions
from .choose import Method

ENOUGH_S = 10.0
"""The search for reasons takes no longer, and not longer than the limit of the run."""

Reasons = Callable[[Any, Mapping[str, Any], SolveOptions, bool], tuple[str, ...]]
"""Of a problem, the method's options, limits, and whether the method has proved that there is no plan."""


def _chain(problem: Any, options: Mapping[str, Any], limits: SolveOptions, proven: bool) -> tuple[str, ...]:
    from ..beaumont.too_little_memory import explain

    return explain(problem, options, limits, proven)


def _staging(problem: Any, options: Mapping[str, Any], limits: SolveOptions, proven: bool) -> tuple[str, ...]:
    from ..piper.too_little import explain

    return explain(problem, options, limits, proven)


_REASONS: Mapping[str, Reasons] = {"chain": _chain, "staging": _staging}


def reasons(problem: Problem, method: Method, stop: Stop, limits: SolveOptions, board: Board) -> tuple[str, ...]:
    """Sentences for a run that ended without a plan because none exists, or none of the method's own kind."""
    explain = _REASONS.get(problem.kind)
    if explain is None or stop not in (Stop.INFEASIBLE, Stop.COMPLETED):
        return ()
    seconds = ENOUGH_S
    if limits.time_limit_s is not None:
        seconds = min(seconds, limits.time_limit_s - board.seconds)
    if seconds <= 0:
        return ("there was no time left to find out what would be enough",)
    limits = replace(limits, time_limit_s=seconds, native={}, log_path=None)
    try:
        return explain(problem, method.options, limits, stop == Stop.INFEASIBLE)
    except KeyboardInterrupt:
        return ("interrupted: what would be enough was not found out",)
