"""A plan for a graph-pipeline problem: stages that form a graph, each with devices and a micro-batch schedule."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..base.checks import NodeId, check_count
from ..base.errors import InputError, show
from ..base.fields import as_entries, as_object, as_plan, read_entries, require
from ..placement.plan import ids_from_json

STAGE_EXAMPLE = '{"nodes": [...], "devices": 1, "micro_batch": 1, "k": 1, "in_flight": 1}'
MAX_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class GraphStage:
    """Operators that `devices` devices run together, micro-batch after micro-batch.

    The schedule is kFkB: forward passes of `in_flight` samples, then k backward and k forward passes in turn.
    """

    nodes: tuple[NodeId, ...]
    devices: int
    micro_batch: int
    """Samples of one pass of the whole stage; each device runs an equal share."""
    k: int = 1
    in_flight: int = 1
    """Samples that have gone forward and not yet come back, at most."""


@dataclass(frozen=True, slots=True)
class StageGraphPlan:
    """Stages, and edges (i, j): stage i runs forward before stage j and backward after it.

    Nothing is checked here: judging plans is the referee's task.
    """

    stages: tuple[GraphStage, ...]
    edges: tuple[tuple[int, int], ...]

    kind = "stage-graph"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "stages": [{**asdict(stage), "nodes": list(stage.nodes)} for stage in self.stages],
            "edges": [list(edge) for edge in self.edges],
        }

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> StageGraphPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        top = as_plan(where, data, cls.kind, '{"kind": "stage-graph", "stages": [...], "edges": [...]}')
        stages = read_entries(where, top, "stages", _stage_from_json)
        return cls(stages, read_entries(where, top, "edges", _edge_from_json))


def _stage_from_json(where: str, entry: object) -> GraphStage:
    data = as_object(where, entry, STAGE_EXAMPLE)
    nodes = ids_from_json(f"{where}.nodes", require(where, data, "nodes"))
    devices = require(where, data, "devices")
    check_count(f"{where}.devices", devices)
    micro_batch = _samples(f"{where}.micro_batch", require(where, data, "micro_batch"))
    k = _samples(f"{where}.k", data.get("k", 1))
    return GraphStage(
        nodes, devices, micro_batch, k, _samples(f"{where}.in_flight", require(where, data, "in_flight"))
    )


def _samples(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SAMPLES:
        raise InputError(where, f"is {show(value)}", f"give a whole number from 0 to {MAX_SAMPLES}")
    return value


def _edge_from_json(where: str, entry: object) -> tuple[int, int]:
    before, after = as_entries(where, entry, 2, "give two: [stage, stage]")
    return _samples(f"{where}[0]", before), _samples(f"{where}[1]", after)
