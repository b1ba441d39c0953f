"""A plan for a staging problem with devices within devices: a tree, one level of the tree per level of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..base.checks import NodeId, check_count, check_id, check_text
from ..base.errors import InputError, show
from ..base.fields import as_entries, as_object, as_plan, read_entries, require, require_list
from ..placement.plan import ids_from_json

MAX_DEPTH = 20
"""Deeper trees than any cluster are refused before they exhaust the stack."""


@dataclass(frozen=True, slots=True)
class LeveledStage:
    """Layers that `data_parallel` devices of one level hold, each a copy, for different micro-batches.

    On level 1 a copy is on `tensor_parallel` devices, with a configuration for each layer. Higher up it is on one
    device, whose own devices divide the layers further: `children`, in execution order.
    """

    nodes: tuple[NodeId, ...]
    data_parallel: int
    tensor_parallel: int = 1
    configurations: Mapping[NodeId, str] = field(default_factory=dict)
    children: tuple[LeveledStage, ...] = ()

    def leaves(self) -> Iterator[LeveledStage]:
        """The stages of level 1, in execution order."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, slots=True)
class LeveledPlan:
    """The stages of the highest level in execution order. Nothing is checked here: judging is the referee's task."""

    stages: tuple[LeveledStage, ...]

    kind = "leveled-stages"

    def leaves(self) -> Iterator[LeveledStage]:
        """The stages of level 1, in execution order."""
        for stage in self.stages:
            yield from stage.leaves()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [_to_json(stage) for stage in self.stages]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> LeveledPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        top = as_plan(where, data, cls.kind, '{"kind": "leveled-stages", "stages": [...]}')
        return cls(read_entries(where, top, "stages", _from_json))


def _to_json(stage: LeveledStage) -> dict[str, Any]:
    shared = {"nodes": list(stage.nodes), "data_parallel": stage.data_parallel}
    if stage.children:
        return {**shared, "children": [_to_json(child) for child in stage.children]}
    ways = [[node_id, way] for node_id, way in stage.configurations.items()]
    return {**shared, "tensor_parallel": stage.tensor_parallel, "configurations": ways}


def _from_json(where: str, entry: object, depth: int = 1) -> LeveledStage:
    if depth > MAX_DEPTH:
        raise InputError(where, "lies too deep", f"give at most {MAX_DEPTH} levels")
    data = as_object(where, entry, '{"nodes": [...], "data_parallel": 1, "children": [...]}')
    nodes = ids_from_json(f"{where}.nodes", require(where, data, "nodes"))
    degree = require(where, data, "data_parallel")
    check_count(f"{where}.data_parallel", degree)
    if "children" in data:
        children = read_entries(where, data, "children", partial(_from_json, depth=depth + 1))
        return LeveledStage(nodes, degree, children=children)
    tensor = require(where, data, "tensor_parallel")
    check_count(f"{where}.tensor_parallel", tensor)
    return LeveledStage(nodes, degree, tensor, _ways(where, require_list(where, data, "configurations")))


def _ways(where: str, entries: list[Any]) -> dict[NodeId, str]:
    """Pairs of layer and configuration: keys of JSON objects could not tell the ids 1 and "1" apart."""
    ways: dict[NodeId, str] = {}
    for i, entry in enumerate(entries):
        place = f"{where}.configurations[{i}]"
        node_id, way = as_entries(place, entry, 2, "give two: [layer, configuration]")
        check_id(f"{place}[0]", node_id)
        check_text(f"{place}[1]", way)
        if node_id in ways:
            raise InputError(place, f"repeats {show(node_id)}", "name each layer once")
        ways[node_id] = way
    return ways
