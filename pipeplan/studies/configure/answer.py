"""What `plan configure` answers: the best configuration, the shortlist, and what became of all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...instances.base.kind import Displayed
from ...instances.base.quantities import GIB
from ...instances.physics.efficiencies import USUAL_ERROR, USUAL_MEMORY_ERROR
from ...instances.training.iteration import model_operations
from ...instances.training.kind_functions import facts
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import ConfigurationEvaluation, evaluate_configuration
from ...instances.training.scope import Margin, fit_of, plain_margin
from ...instances.training.words import words_of
from .judge import Judged, configuration_facts
from .least_change import memory_of_few
from .loss import lost

if TYPE_CHECKING:
    from ...instances.base.result import Result
    from ...planners.training.measured import Fitted
    from ...planners.training.search import Found, Report

SCHEMA = "pipeplan.configurations/1"
# The most configurations of a shortlist whose time the referee tells; the times of the others are the
# search's own.
MOST_JUDGED = 20


@dataclass(frozen=True)
class Asked:
    """What narrows the scope, and by which shares the model may be wrong."""

    error: float = USUAL_ERROR
    memory_error: float | Margin = USUAL_MEMORY_ERROR
    """A share to both sides, or how much more and how much less a rank may hold than predicted."""
    fixed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The most that a configuration of the shortlist takes, as a multiple of the best one's time."""
        return (1 + self.error) / (1 - self.error)

    def to_json(self, problem: TrainingProblem) -> dict[str, Any]:
        return {
            "framework": problem.framework,
            "error": self.error,
            **plain_margin(self.memory_error),
            "fix": list(self.fixed),
            "forbid": list(self.forbidden),
        }


@dataclass(frozen=True, repr=False)
class Answer(Displayed):
    """A problem with the configurations that were found for it, and those that were judged."""

    problem: TrainingProblem
    asked: Asked
    judged: tuple[Judged, ...] = ()
    report: Report | None = None
    """What the search knows; None: there was none."""
    measured: Fitted | None = None
    """The fit of the efficiencies to given runs, which `problem` has already; None: no runs were given."""
    before: Report | None = None
    """What the search knew without the runs."""
    before_error: float | None = None
    """The error of times that the search without the runs allowed for."""
    seconds: float = 0.0
    """Seconds that the search took."""

    @cached_property
    def best(self) -> ConfigurationEvaluation | None:
        """The fastest configuration that fits for sure, judged by the referee."""
        best = None if self.report is None else self.report.best
        return None if best is None else evaluate_configuration(self.problem, best.plan)

    @cached_property
    def result(self) -> Result:
        """The best configuration as the result that `plan configure -o` writes."""
        from .result import result_of  # imports all that solves, which judging does not need

        return result_of(self, self.seconds)

    @cached_property
    def why_empty(self) -> str | None:
        """Why nothing of the scope can be run; None where something can, or nothing was searched for."""
        if self.report is None or self.report.considered or not self.report.finished:
            return None
        from ...planners.training.empty import why_empty  # loads the search, which judging does not need
        from .search import scope_in

        return why_empty(self.problem, scope_in(self.problem, self.asked))

    @property
    def listed(self) -> Sequence[Found]:
        """The shortlist, the fastest first."""
        return () if self.report is None else self.report.listed

    @cached_property
    def shortlist(self) -> tuple[ConfigurationEvaluation, ...]:
        """The first `MOST_JUDGED` configurations of the list, judged by the referee."""
        return tuple(evaluate_configuration(self.problem, own.plan) for own in self.listed[:MOST_JUDGED])

    @cached_property
    def nearest(self) -> ConfigurationEvaluation | None:
        """The configuration that lacks least memory; None where any fits or may fit, or nothing was searched for."""
        if self.report is None or self.report.best is not None or self.listed:
            return None
        from .nearest import nearest_miss  # imports the search, which judging does not need

        plan = nearest_miss(self.problem, self.asked)
        return None if plan is None else evaluate_configuration(self.problem, plan)

    def lost(self, own: Judged) -> dict[str, float] | None:
        """Seconds that a configuration loses against the best one, by part; None without a best one."""
        return None if self.best is None else lost(own.evaluation, self.best)

    def to_json(self) -> dict[str, Any]:
        """The answer as `pipeplan.configurations/1`; fields of a search are None where there was none."""
        problem, report, error = self.problem, self.report, self.asked.memory_error
        rest = [_brief(problem, own, error) for own in self.listed[MOST_JUDGED:]]
        return {
            "schema": SCHEMA,
            "problem": {"kind": problem.kind, "name": problem.name, "hash": problem.hash, **facts(problem)},
            "scope": self.asked.to_json(problem),
            "considered": None if report is None else report.considered,
            "fit": None if report is None else report.fit,
            "cannot_fit": None if report is None else report.unfit,
            "discarded": {} if report is None else dict(report.discarded),
            "undecided": None if report is None else report.undecided,
            "best": None if self.best is None else configuration_facts(self.best, error),
            "shortlist": [*(configuration_facts(own, error) for own in self.shortlist), *rest],
            "not_excluded": None if report is None else _not_excluded(report),
            "nearest": None if self.nearest is None else configuration_facts(self.nearest, error),
            "judged": [{**own.to_json(), "lost": self.lost(own)} for own in self.judged],
            "bound": None if report is None or report.best is None else report.bound,
            "gap": None if report is None else report.gap,
            **self._measured(),
        }

    def _measured(self) -> dict[str, Any]:
        """The fit to given runs, and the length of the shortlist before; empty where no runs were given."""
        if self.measured is None:
            return {}
        before = None if self.before is None else len(self.before.listed)
        lists = {"shortlist_before": before, "shortlist_before_error": self.before_error}
        return {"measured": {**self.measured.to_json(), **lists}}


def _not_excluded(report: Report) -> list[dict[str, Any]]:
    """The choices that are not excluded, which the theorem of the shortlist counts in."""
    return [
        {"degrees": asdict(degrees), "micro_batch": micro_batch, "zero": zero, "bound": bound}
        for (degrees, micro_batch, zero), bound in report.unlisted.items()
    ]


def _brief(problem: TrainingProblem, own: Found, memory_error: float | Margin) -> Mapping[str, Any]:
    """A configuration of the list in JSON: its time is the search's own, and its memory is the referee's."""
    plan = {name: value for name, value in own.plan.to_json().items() if name != "kind"}
    memory = memory_of_few(problem, own.plan)
    full = max(memory, key=lambda rank: rank.bytes)
    operations = model_operations(problem)
    work = own.seconds * problem.devices
    return {
        **plan,
        "words": words_of(own.plan),
        "seconds": own.seconds,
        "tokens_per_second_per_gpu": problem.batch * problem.sequence / work,
        "mfu": None if operations is None else operations / (work * problem.peak),
        "micro_batches": own.plan.micro_batches(problem.batch),
        "ranks": [
            {
                "rank": rank.rank * own.plan.degrees.stage_ranks,
                "stage": rank.rank,
                "bytes": rank.bytes,
                "parts": dict(rank.parts),
            }
            for rank in memory
        ],
        "fits": fit_of(full.bytes, problem.memory_bytes, memory_error),
        "limited_by": f"memory of stage {full.rank}: {full.bytes / GIB:.2f} GiB",
    }
