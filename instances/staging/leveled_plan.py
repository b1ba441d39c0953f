"""A plan for a staging problem with devices within devices: a tree, one level of the tree per level of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..base.checks import NodeId, check_count, check_text
from ..base.errors import InputError
from ..base.fields import as_object, each, read_pairs, read_plan, require
from ..placement.plan import ids_from_json

# Deeper trees than any cluster are refused before they exhaust the stack.
MAX_DEPTH = 20


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
        example = '{"kind": "leveled-stages", "stages": [...]}'
        return read_plan(cls, cls.kind, where, data, example, stages=each(_from_json))


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
        children = each(partial(_from_json, depth=depth + 1))(f"{where}.children", data["children"])
        return LeveledStage(nodes, degree, children=children)
    tensor = require(where, data, "tensor_parallel")
    check_count(f"{where}.tensor_parallel", tensor)
    ways = require(where, data, "configurations")
    pairs = read_pairs(f"{where}.configurations", ways, "[layer, configuration]", check_text)
    return LeveledStage(nodes, degree, tensor, pairs)
