"""A plan for a staging problem: stages in execution order, with degrees and a configuration per layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.checks import NodeId, check_count, check_id, check_text
from ..base.errors import InputError, show
from ..base.fields import as_object, as_plan, read_entries, require
from ..placement.plan import ids_from_json


def counted(configurations: Mapping[NodeId, str]) -> str:
    """How many layers of a stage run in which configuration, in words."""
    counts: dict[str, int] = {}
    for way in configurations.values():
        counts[way] = counts.get(way, 0) + 1
    return ", ".join(f"{count} {way}" for way, count in counts.items())


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
    """The stages in execution order. Nothing is checked here: judging plans is the referee's task."""

    stages: tuple[PlannedStage, ...]

    kind = "stages"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [_stage_to_json(stage) for stage in self.stages]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> StagedPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        top = as_plan(where, data, cls.kind, '{"kind": "stages", "stages": [...]}')
        return cls(read_entries(where, top, "stages", _stage_from_json))


def _stage_to_json(stage: PlannedStage) -> dict[str, Any]:
    """Configurations by id; as pairs where keys of an object could not tell ids apart, such as 1 and "1"."""
    chosen: dict[str, str] | list[list[NodeId]] = {
        str(node_id): way for node_id, way in stage.configurations.items()
    }
    if len(chosen) < len(stage.configurations) or len({str(node_id) for node_id in stage.nodes}) < len(stage.nodes):
        chosen = [[node_id, way] for node_id, way in stage.configurations.items()]
    return {
        "nodes": list(stage.nodes),
        "data_parallel": stage.data_parallel,
        "tensor_parallel": stage.tensor_parallel,
        "configurations": chosen,
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
    chosen = _configurations(f"{where}.configurations", require(where, data, "configurations"), nodes)
    kind = data.get("device_type")
    if kind is not None:
        check_text(f"{where}.device_type", kind)
    return PlannedStage(nodes, degrees[0], degrees[1], chosen, kind)


def _configurations(where: str, value: object, nodes: tuple[NodeId, ...]) -> dict[NodeId, str]:
    """An object by the ids as text, or a list of pairs (id, configuration)."""
    by_text = {str(node_id): node_id for node_id in nodes}
    chosen: dict[NodeId, str] = {}
    if isinstance(value, list):
        for number, pair in enumerate(value):
            if not isinstance(pair, list) or len(pair) != 2:
                raise InputError(where, f"has the entry {show(pair)}", "give pairs [layer, configuration]")
            node_id, way = pair
            check_id(f"{where}[{number}][0]", node_id)
            check_text(f"{where}[{number}][1]", way)
            if node_id in chosen:
                raise InputError(f"{where}[{number}]", f"names {show(node_id)} again", "give each layer once")
            chosen[node_id] = way
        return chosen
    for key, way in as_object(where, value).items():
        check_id(where, key)
        check_text(f"{where}[{show(key)}]", way)
        chosen[by_text.get(key, key)] = way
    return chosen
