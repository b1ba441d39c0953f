"""What there is for the kind, by address; how it comes in, what is said of it, and what a better cluster is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeplan.instances.base.cluster import Cluster, changes
from pipeplan.instances.base.kind import Kind
from pipeplan.instances.base.step import Found, Step
from toy_kind.problem import SCHEMA, ToyProblem, from_json

KIND = Kind(
    name="toy",
    schema=SCHEMA,
    problem="toy_kind.problem:ToyProblem",
    plans={"toy-plan": "toy_kind.problem:ToyPlan"},
    read="toy_kind.kind:read",
    write="toy_kind.problem:to_json",
    rules="toy_kind.rules:rules_of",
    facts="toy_kind.kind:facts",
    size="toy_kind.kind:size",
    cluster={"devices": "machines"},
    upgrades="toy_kind.kind:upgrades",
    view="toy_kind.view",
)


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> ToyProblem:
    return from_json({**data, **changes(KIND, cluster)})


def facts(problem: ToyProblem) -> dict[str, Any]:
    return {"jobs": len(problem.jobs), "machines": problem.machines}


def size(problem: ToyProblem) -> str:
    return f"{len(problem.jobs)} jobs"


def upgrades(problem: ToyProblem, step: Step) -> Found:
    yield "one more machine", problem.replace(machines=problem.machines + 1)
