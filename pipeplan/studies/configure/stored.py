"""The best configuration as a result, which brings its problem along, so that it can be exported by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...instances.base.result import Found, Result, Stop, met
from ...instances.training.files import training_to_json
from ...models.export.registry import WHOLE
from ...planners.run.solve import describe

if TYPE_CHECKING:
    from .answer import Answer

PLANNER = "exact-configuration"


def result_of(answer: Answer) -> Result:
    """Of a search; without a best configuration there is no plan in it."""
    report, best = answer.report, answer.best
    problem = {**describe(answer.problem), WHOLE: training_to_json(answer.problem)}
    ended = Stop.COMPLETED if report is None or report.finished else Stop.TIME
    if report is None or best is None:
        return Result(problem, ended, Found.NOTHING, planner=PLANNER)
    seconds = best.timing.seconds
    proven = met(seconds, report.bound)
    return Result(
        problem,
        ended,
        Found.OPTIMAL if proven else Found.FEASIBLE,
        planner=PLANNER,
        plan=best.plan,
        objective=seconds,
        claimed=report.best.seconds if report.best is not None else None,
        bound=report.bound or None,
        scope="configurations of the framework that fit for sure" if report.bound else None,
        verified=True,
        options=answer.asked.to_json(answer.problem),
    )
