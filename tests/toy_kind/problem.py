"""The problem and its plans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from pipeplan.instances.base.checks import check_amount, check_count
from pipeplan.instances.base.fields import as_object, check_schema, refuse_unknown, require, require_list

SCHEMA = "pipeplan.toy/1"


@dataclass(frozen=True)
class ToyProblem:
    """Jobs, each with its seconds, on equal machines."""

    jobs: tuple[float, ...]
    machines: int
    name: str = "toy"

    kind: ClassVar[str] = "toy"
    time_unit: ClassVar[str] = "s"
    extensions: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_count("machines", self.machines)
        for i, seconds in enumerate(self.jobs):
            check_amount(f"jobs[{i}]", seconds)

    @property
    def hash(self) -> str:
        facts = {"jobs": self.jobs, "machines": self.machines}
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> ToyProblem:
        return replace(self, **changes)


@dataclass(frozen=True)
class ToyPlan:
    """The machine of each job."""

    machine: tuple[int, ...]

    kind: ClassVar[str] = "toy-plan"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str) -> ToyPlan:
        return cls(tuple(require_list(where, data, "machine")))


def to_json(problem: ToyProblem) -> dict[str, Any]:
    return {"schema": SCHEMA, "name": problem.name, "jobs": list(problem.jobs), "machines": problem.machines}


def from_json(data: object) -> ToyProblem:
    top = as_object("", data, f'{{"schema": "{SCHEMA}", ...}}')
    check_schema(top, (SCHEMA,))
    refuse_unknown("", top, ("schema", "name", "jobs", "machines"))
    return ToyProblem(tuple(require_list("", top, "jobs")), require("", top, "machines"), top.get("name", "toy"))
