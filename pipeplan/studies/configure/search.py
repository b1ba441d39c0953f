"""The search behind `plan configure`; a search that is cut short reports what it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...instances.base.clock import now
from ...instances.training.frameworks import FRAMEWORKS
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope, read_scope
from ...planners.options import Progress
from ...planners.training.search import Report, Search, Settings

if TYPE_CHECKING:
    from .answer import Asked

# Seconds between two reports of progress.
TELL_EVERY_S = 0.2


def scope_in(problem: TrainingProblem, asked: Asked) -> Scope:
    """The scope that was asked for, with layouts that the framework's files can express."""
    return read_scope(asked.fixed, asked.forbidden, FRAMEWORKS[problem.framework].layouts)


def search_configurations(
    problem: TrainingProblem,
    asked: Asked,
    time_limit_s: float | None,
    on_progress: Callable[[Progress], None],
) -> Report:
    """Search until the shortlist is proven, the time is over, or the user interrupts."""
    started = last_report = now()

    def heard(report: Report) -> None:
        nonlocal last_report
        if now() - last_report < TELL_EVERY_S:
            return
        last_report = now()
        incumbent = None if report.best is None else report.best.seconds
        on_progress(
            Progress(last_report - started, incumbent, report.bound or None, report.solved, "exact-configuration")
        )

    def out_of_time() -> bool:
        return time_limit_s is not None and now() - started >= time_limit_s

    settings = Settings(asked.error, asked.memory_error)
    search = Search(problem, scope_in(problem, asked), settings, heard, out_of_time)
    try:
        return search.run()
    except KeyboardInterrupt:
        return search.report
