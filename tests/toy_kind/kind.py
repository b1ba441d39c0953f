"""What there is for the kind, by address; how it comes in, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeplan.instances.base.cluster import Cluster, changes
from pipeplan.instances.base.kind import Function, Kind, Later
from pipeplan.kinds import ShownKind
from toy_kind.problem import SCHEMA, ToyPlan, ToyProblem, from_json

KIND: Kind[ToyProblem, ToyPlan] = Kind(
    name="toy",
    schema=SCHEMA,
    problem=Later("toy_kind.problem:ToyProblem"),
    plans={"toy-plan": Later("toy_kind.problem:ToyPlan")},
    read=Function("toy_kind.kind:read"),
    write=Function("toy_kind.problem:to_json"),
    rules=Function("toy_kind.rules:rules_of"),
    facts=Function("toy_kind.kind:facts"),
    size=Function("toy_kind.kind:size"),
    cluster={"devices": "machines"},
)
SHOWN_KIND = ShownKind(Later("toy_kind.view"))


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> ToyProblem:
    return from_json({**data, **changes(KIND, cluster)})


def facts(problem: ToyProblem) -> dict[str, Any]:
    return {"jobs": len(problem.jobs), "machines": problem.machines}


def size(problem: ToyProblem) -> str:
    return f"{len(problem.jobs)} jobs"
