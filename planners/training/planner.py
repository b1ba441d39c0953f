"""The planner `exact-configuration`, and what users do by hand: parts of its space, and the guides' rule of thumb."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...formulations.family import Family, Outside
from ...instances.base.quantities import several
from ...instances.base.result import Stop, met
from ...instances.registry import evaluation_of, violations_of
from ...instances.training.frameworks import even_layout
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem, refuse_two_sorts
from ...instances.training.scope import Scope, scope_of
from ..contract import Outcome, Request
from .pools import WAY, WAY_IN_WORDS, search_of
from .search import Report, Search, Settings, rule_of_thumb

# ---- what the bounds speak of --------------------------------------------------------------------------


def family(problem: TrainingProblem, options: Mapping[str, Any]) -> Family:
    """All configurations in the scope that fit for sure."""
    scope = scope_of(options)
    share = float(options.get("memory_error") or 0.0)

    def outside(plan: Configuration) -> Outside | None:
        return _outside(problem, scope, share, plan)

    words = ["all configurations"]
    if problem.second is not None:
        words.append(f"with {WAY_IN_WORDS}")
    if scope.layouts == "even":
        words.append("with even layouts")
    if scope.fix or scope.forbid:
        words.append("in the scope")
    if share:
        words.append(f"that fit with {100 * share:g} % to spare")
    wider = "--memory-error 0" if share else None
    return Family(" ".join(words), wider, outside)


def _outside(problem: TrainingProblem, scope: Scope, share: float, plan: Configuration) -> Outside | None:
    if len(set(plan.recompute)) > 1:
        return Outside("chunks that compute different things again")
    if scope.layouts == "even" and plan.layout != even_layout(problem, plan.degrees.chunks):
        return Outside("a layout that is not even", "--layouts any")
    if problem.second is not None and (plan.schedule, plan.degrees.virtual) != WAY:
        return Outside(f"another schedule than {WAY_IN_WORDS}")
    values = {"micro-batch": plan.micro_batch, "zero": plan.zero, "schedule": plan.schedule}
    values["first-pool"] = plan.first_pool
    taken = scope.takes_degrees(plan.degrees) and all(scope.takes(key, value) for key, value in values.items())
    taken = taken and scope.layout in (None, plan.layout)
    if not (taken and scope.takes_word(plan.recompute[0])):
        return Outside("values that are not in the scope")
    if share and problem.memory_bytes is not None:
        full = evaluation_of(problem, plan).fullest
        if full.limit is not None and full.bytes * (1 + share) > full.limit:
            return Outside(f"memory that does not fit with {100 * share:g} % to spare", "--memory-error 0")
    return None


# ---- planners ------------------------------------------------------------------------------------------

CHECKS = ("the search discarded every other choice of degrees by a bound on its time or its memory",)
# A share of a GPU's memory, some bytes, that is larger than any error in sums of doubles.
NARROW = 1e-10
NOTHING_FITS = "no configuration in the scope fits"


@dataclass(frozen=True)
class ConfigurationPlanner:
    """The whole space, or a part of it whose bounds say nothing of the rest."""

    fixed: Mapping[str, str] = field(default_factory=dict)
    layouts: str | None = None

    @property
    def whole(self) -> bool:
        return not self.fixed and self.layouts is None

    def plan(self, request: Request) -> Outcome:
        """Bounds allow slightly more memory, so that rounding loses no plan; the referee decides what fits."""
        search = self._search(request)
        with suppress(KeyboardInterrupt):
            search.run()
        return self._outcome(search.report, search.report.cut or Stop.COMPLETED)

    def _search(self, request: Request) -> Search:
        asked = scope_of(request.options)
        scope = Scope({**asked.fix, **self.fixed}, asked.forbid, self.layouts or asked.layouts)
        share = float(request.options.get("memory_error") or 0.0)
        settings = Settings(memory_error=share, list_all=False, slack=NARROW)

        def heard(report: Report) -> None:
            if report.best is not None:
                bound = report.bound if self.whole else None
                request.board.post(report.best.plan, report.best.seconds, bound or None, nodes=report.solved)

        def fits(plan: Configuration) -> bool:
            return not violations_of(request.problem, plan)

        return search_of(request.problem)(request.problem, scope, settings, heard, request.out_of_time, fits)

    def _outcome(self, report: Report, stop: Stop) -> Outcome:
        size = {"choices": report.considered, "solved": report.solved, "cannot fit": report.unfit}
        if report.best is None:
            return Outcome(
                Stop.INFEASIBLE if report.nothing_fits and self.whole else stop,
                model_size=size,
                messages=(NOTHING_FITS,) if report.nothing_fits and report.considered else (),
            )
        considered = several(report.considered, "choice")
        undecided = [f"{report.undecided} choices are not discarded yet"] if report.undecided else []
        value, bound = report.best.seconds, report.bound if self.whole else None
        if bound is not None and report.finished and met(value, bound):
            stop = Stop.PROVEN
        return Outcome(
            stop,
            report.best.plan,
            value,
            bound,
            model_size=size,
            messages=(f"{considered} of degrees, of which {report.unfit} cannot fit", *undecided),
            checks=CHECKS if self.whole else (),
        )


PLANNER = ConfigurationPlanner()
EVEN_LAYOUTS = ConfigurationPlanner(layouts="even")
FULL_RECOMPUTE = ConfigurationPlanner({"recompute": "full"})
NO_RECOMPUTE = ConfigurationPlanner({"recompute": "none"})


def guide(request: Request) -> Outcome:
    """The rule of thumb alone."""
    refuse_two_sorts(request.problem, "rule of thumb")
    share = float(request.options.get("memory_error") or 0.0)
    best = rule_of_thumb(request.problem, Scope(), Settings(memory_error=share), request.out_of_time)
    if best is not None:
        request.board.post(best.plan, best.seconds)
        return Outcome(Stop.TIME if request.out_of_time() else Stop.COMPLETED, best.plan, best.seconds)
    if request.out_of_time():
        return Outcome(Stop.TIME)
    return Outcome(Stop.COMPLETED, messages=("nothing that the rule of thumb tries fits",))
