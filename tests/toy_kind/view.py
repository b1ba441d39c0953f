"""How the kind and its plans are shown."""

from __future__ import annotations

from typing import Any

from pipeplan.instances.base.kind import Rules
from pipeplan.show.views import PlanView, Row, Table
from toy_kind.problem import ToyPlan, ToyProblem


def facts(problem: ToyProblem) -> dict[str, Any]:
    return {"jobs": len(problem.jobs), "machines": problem.machines}


def value_name(rules: Rules) -> str:
    return "longest work"


def view(problem: ToyProblem, plan: ToyPlan, rules: Rules) -> PlanView:
    loads = rules.evaluation(problem, plan).loads
    rows = tuple(
        Row(f"machine {m}", load, {"work": load}, {}, slowest=load == max(loads)) for m, load in enumerate(loads)
    )
    return PlanView(
        value=f"{max(loads):g} s",
        headline=f"longest work {max(loads):g} s",
        tables=(Table("machine", rows),),
        full_load=max(loads),
        sentences=(),
    )
