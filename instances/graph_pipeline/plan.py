"""A plan for a graph-pipeline problem: stages that form a graph, each with devices and a micro-batch schedule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.checks import NodeId, check_count, check_whole
from ..base.fields import as_entries, as_object, checked, each, plain_fields, read_plan, read_record, require
from ..base.kind import AnyPlan
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


@dataclass(frozen=True, slots=True, repr=False)
class StageGraphPlan(AnyPlan):
    """Stages, and edges (i, j): stage i runs forward before stage j and backward after it.

    Nothing is checked here: judging plans is the referee's task.
    """

    stages: tuple[GraphStage, ...]
    edges: tuple[tuple[int, int], ...]

    kind = "stage-graph"

    def to_json(self) -> dict[str, Any]:
        """As `from_json` and the schema stage-graph-1 have it: a new field needs a default there."""
        return {"kind": self.kind, **plain_fields(self)}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> StageGraphPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        example = '{"kind": "stage-graph", "stages": [...], "edges": [...]}'
        return read_plan(cls, cls.kind, where, data, example, stages=each(_stage), edges=each(_edge))


def _stage(where: str, entry: object) -> GraphStage:
    require(where, as_object(where, entry, STAGE_EXAMPLE), "in_flight")  # its default is not for files
    return read_record(
        GraphStage,
        where,
        entry,
        STAGE_EXAMPLE,
        refuse=None,
        nodes=ids_from_json,
        devices=checked(check_count),
        micro_batch=_samples,
        k=_samples,
        in_flight=_samples,
    )


_samples = checked(partial(check_whole, most=MAX_SAMPLES, least=0))


def _edge(where: str, entry: object) -> tuple[int, int]:
    before, after = as_entries(where, entry, 2, "give two: [stage, stage]")
    return _samples(f"{where}[0]", before), _samples(f"{where}[1]", after)
