"""A plan for a staging problem: stages in execution order, with degrees and a configuration per layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .checks import NodeId, check_count, check_id, check_text
from .errors import InputError, show
from .fields import as_object, join, require, require_list
from .plan import ids_from_json


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """Layers that `data_parallel` groups of `tensor_parallel` devices run, group by group for different batches."""

    nodes: tuple[NodeId, ...]
    data_parallel: int
    tensor_parallel: int
    configurations: Mapping[NodeId, str]
    """Id of the chosen configuration (of degree `tensor_parallel`) of each layer."""
    device_type: str | None = None
    """Name of the type that its devices are of; None where all devices are alike."""


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """The stages in execution order. Nothing is checked here: judging plans is the referee's office."""

    stages: tuple[PlannedStage, ...]

    kind = "stages"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [_stage_to_json(stage) for stage in self.stages]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> StagedPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        top = as_object(where, data, '{"kind": "stages", "stages": [...]}')
        kind = require(where, top, "kind")
        if kind != cls.kind:
            raise InputError(join(where, "kind"), f"is {show(kind)}", f'give "{cls.kind}"')
        stages, place = require_list(where, top, "stages"), join(where, "stages")
        return cls(tuple(_stage_from_json(f"{place}[{i}]", entry) for i, entry in enumerate(stages)))


def _stage_to_json(stage: PlannedStage) -> dict[str, Any]:
    """Configurations are listed like the nodes: JSON keys could not tell the ids 1 and "1" apart."""
    return {
        "nodes": list(stage.nodes),
        "data_parallel": stage.data_parallel,
        "tensor_parallel": stage.tensor_parallel,
        "configurations": {str(node_id): way for node_id, way in stage.configurations.items()},
        **({} if stage.device_type is None else {"device_type": stage.device_type}),
    }


def _stage_from_json(where: str, entry: object) -> PlannedStage:
    data = as_object(
        where, entry, '{"nodes": [...], "data_parallel": 1, "tensor_parallel": 1, "configurations": {...}}'
    )
    nodes = ids_from_json(f"{where}.nodes", require(where, data, "nodes"))
    degrees = [require(where, data, key) for key in ("data_parallel", "tensor_parallel")]
    for key, degree in zip(("data_parallel", "tensor_parallel"), degrees, strict=True):
        check_count(f"{where}.{key}", degree)
    place = f"{where}.configurations"
    names = as_object(place, require(where, data, "configurations"))
    by_text = {str(node_id): node_id for node_id in nodes}
    chosen: dict[NodeId, str] = {}
    for key, way in names.items():
        check_id(place, key)
        check_text(f"{place}[{show(key)}]", way)
        chosen[by_text.get(key, key)] = way
    kind = data.get("device_type")
    if kind is not None:
        check_text(f"{where}.device_type", kind)
    return PlannedStage(nodes, degrees[0], degrees[1], chosen, kind)
