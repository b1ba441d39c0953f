"""The kinds of problems and plans that there are. A kind is added by one line of `KINDS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from .base.errors import InputError, show
from .base.fields import as_object, join, require
from .base.kind import Kind, Later
from .chain.kind import KIND as CHAIN
from .graph_pipeline.kind import KIND as GRAPH_PIPELINE
from .placement.kind import KIND as PLACEMENT
from .schedule.kind import KIND as SCHEDULE
from .staging.kind import KIND as STAGING
from .training.kind import KIND as TRAINING

if TYPE_CHECKING:
    from .chain.plan import PatternPlan
    from .chain.problem import ChainProblem
    from .graph_pipeline.plan import StageGraphPlan
    from .graph_pipeline.problem import GraphPipelineProblem
    from .placement.plan import PlacementPlan
    from .placement.problem import PlacementProblem
    from .schedule.plan import PeriodicSchedulePlan, SchedulePlan
    from .schedule.problem import ScheduleProblem
    from .staging.leveled_plan import LeveledPlan
    from .staging.plan import StagedPlan
    from .staging.problem import StagingProblem
    from .training.plan import Configuration
    from .training.problem import TrainingProblem

    Problem = (
        PlacementProblem | ChainProblem | StagingProblem | GraphPipelineProblem | ScheduleProblem | TrainingProblem
    )
    Plan = (
        PlacementPlan
        | PatternPlan
        | StagedPlan
        | LeveledPlan
        | StageGraphPlan
        | SchedulePlan
        | PeriodicSchedulePlan
        | Configuration
    )
else:  # annotations alone name them, and a kind that nobody asks for is not imported
    Problem = Plan = Any

KindName = Literal["placement", "chain", "staging", "graph-pipeline", "schedule", "training"]
"""Names of the kinds, for type checkers, which find misspelt names before anything runs."""

DEFAULT_KIND = PLACEMENT
"""The kind of files that do not say theirs: placements were the first kind."""

KINDS: dict[str, Kind[Any, Any]] = {
    kind.name: kind for kind in (PLACEMENT, CHAIN, STAGING, GRAPH_PIPELINE, SCHEDULE, TRAINING)
}


def kind_of(problem: Problem) -> Kind[Any, Any]:
    """All that there is for problems like this one."""
    return KINDS[problem.kind]


def kind_of_plan(plan: Plan) -> Kind[Any, Any]:
    """All that there is for problems that such plans solve."""
    return next(kind for kind in KINDS.values() if plan.kind in kind.plans)


def is_problem(value: object) -> TypeGuard[Problem]:
    """Is it a problem of any kind?"""
    kind = KINDS.get(_kind_named_by(value))
    return kind is not None and isinstance(value, kind.problem.load())


def is_plan(value: object) -> TypeGuard[Plan]:
    """Is it a plan of any kind?"""
    type_ = plan_types().get(_kind_named_by(value))
    return type_ is not None and isinstance(value, type_.load())


def _kind_named_by(value: object) -> str:
    name = getattr(value, "kind", "")
    return name if isinstance(name, str) else ""


def plan_kind(problem: Problem) -> str:
    """The kind of plan that solves the problem, as files name it."""
    name: str = kind_of(problem).rules(problem, {}).plan_type.kind  # type: ignore[attr-defined]
    return name


def plan_types() -> dict[str, Later[type[Plan]]]:
    """Every type of plan, by the kind that a plan's file names."""
    return {name: plan_type for kind in KINDS.values() for name, plan_type in kind.plans.items()}


def any_plan_from_json(data: object, where: str = "plan") -> Plan:
    """Read a plan object of the kind that it names; `where` is its path in the file."""
    top = as_object(where, data, '{"kind": "placement", "devices": [...]}')
    name, known = require(where, top, "kind"), plan_types()
    if not isinstance(name, str) or name not in known:
        listed = " or ".join(f'"{kind}"' for kind in known)
        raise InputError(join(where, "kind"), f"is {show(name)}", f"give {listed}")
    plan: Any = known[name].load().from_json(top, where)
    return plan  # type: ignore[no-any-return]
