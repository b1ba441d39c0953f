"""One run of a comparison: what is to be solved by what, and the record of what came out. Plain data throughout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

SCHEMA = "pipeplan.run/1"


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that decides a run; tables name it by its labels."""

    instance: str
    setting: str
    """Label of the cluster that overrides the instance's own; empty where there is none."""
    method: str
    kind: str
    problem_hash: str
    formulation: str | None = None
    planner: str | None = None
    solver: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `SolveOptions`; the seed among them."""
    made_by: Mapping[str, str | None] = field(default_factory=dict)
    """Versions of what computes the result, and digests of plug-ins' code: another one makes it another run."""

    @property
    def key(self) -> str:
        """A digest of all fields: a resumed comparison does not repeat a run with the same key."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def question(self) -> str:
        """A digest of what is asked, whatever answers it: stored runs are told as stale by it."""
        return replace(self, made_by={}).key

    @property
    def seed(self) -> int:
        return int(self.limits.get("seed", 0))

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.instance, self.setting, self.method, f"seed {self.seed}")))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Status(StrEnum):
    """How the process of a run ended; what the method found is in its result."""

    DONE = "done"
    REFUSED = "refused"
    """The method cannot plan this problem, or an option does not fit: the message says why."""
    CRASHED = "crashed"
    TIME = "time"
    """Killed long after its own limit."""
    MEMORY = "memory"
    """Killed at its memory limit."""


@dataclass(frozen=True, slots=True)
class Record:
    """A finished run. `result` is a `pipeplan.result/1` object, None where there is none."""

    run: Run
    status: Status
    result: Mapping[str, Any] | None = None
    message: str | None = None
    wall_s: float | None = None
    peak_memory_bytes: int | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "key": self.run.key, **asdict(self), "status": str(self.status)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        if data["schema"] != SCHEMA:
            raise ValueError(data["schema"])
        fields = {name: data[name] for name in ("result", "message", "wall_s", "peak_memory_bytes", "versions")}
        return cls(Run(**data["run"]), Status(data["status"]), **fields)
