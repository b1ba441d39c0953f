"""Plans for a staging problem: stages in execution order, on a flat network or level by level as a tree.

A stage has its degrees and a configuration for each layer. Nothing is checked here but shape and types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..base.checks import NodeId, check_count, check_id, check_text
from ..base.errors import InputError, show
from ..base.fields import as_object, checked, each, read_pairs, read_plan, read_record, require, to_record
from ..base.kind import AnyPlan
from ..placement.plan import ids_from_json


def counted(configurations: Mapping[NodeId, str]) -> str:
    """How many layers of a stage run in each configuration, in words."""
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


@dataclass(frozen=True, slots=True, repr=False)
class StagedPlan(AnyPlan):
    """The stages in execution order. Nothing is checked here: judging plans is the referee's task."""

    stages: tuple[PlannedStage, ...]

    kind = "stages"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [_stage_to_json(stage) for stage in self.stages]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> StagedPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        example = '{"kind": "stages", "stages": [...]}'
        return read_plan(cls, cls.kind, where, data, example, stages=each(_stage_from_json))


def _stage_to_json(stage: PlannedStage) -> dict[str, Any]:
    """Configurations by id; as pairs where keys of an object could not tell ids apart, such as 1 and "1"."""
    chosen: dict[str, str] | list[list[NodeId]] = {
        str(node_id): way for node_id, way in stage.configurations.items()
    }
    if len(chosen) < len(stage.configurations) or len({str(node_id) for node_id in stage.nodes}) < len(stage.nodes):
        chosen = [[node_id, way] for node_id, way in stage.configurations.items()]
    return to_record(stage, configurations=chosen)


def _stage_from_json(where: str, entry: Any) -> PlannedStage:
    return read_record(
        PlannedStage,
        where,
        entry,
        '{"nodes": [...], "data_parallel": 1, "tensor_parallel": 1, "configurations": {...}}',
        refuse=None,
        nodes=ids_from_json,
        data_parallel=checked(check_count),
        tensor_parallel=checked(check_count),
        configurations=lambda place, ways: _configurations(place, ways, entry["nodes"]),
        device_type=checked(check_text),
    )


def _configurations(where: str, value: object, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
    """An object by the ids as text, or a list of pairs (id, configuration)."""
    if isinstance(value, list):
        return read_pairs(where, value, "[layer, configuration]", check_text)
    by_text = {str(node_id): node_id for node_id in nodes}
    chosen: dict[NodeId, str] = {}
    for key, way in as_object(where, value).items():
        check_id(where, key)
        check_text(f"{where}[{show(key)}]", way)
        chosen[by_text.get(key, key)] = way
    return chosen


# ---- devices within devices ---------------------------------------------------------------------------
#
# A plan for a staging problem with devices within devices: a tree, one level of the tree per level of the cluster.


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


@dataclass(frozen=True, slots=True, repr=False)
class LeveledPlan(AnyPlan):
    """The stages of the highest level in execution order. Nothing is checked here: judging is the referee's task."""

    stages: tuple[LeveledStage, ...]

    kind = "leveled-stages"

    def leaves(self) -> Iterator[LeveledStage]:
        """The stages of level 1, in execution order."""
        for stage in self.stages:
            yield from stage.leaves()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [_tree_to_json(stage) for stage in self.stages]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> LeveledPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        example = '{"kind": "leveled-stages", "stages": [...]}'
        return read_plan(cls, cls.kind, where, data, example, stages=each(_tree_from_json))


def _tree_to_json(stage: LeveledStage) -> dict[str, Any]:
    shared = {"nodes": list(stage.nodes), "data_parallel": stage.data_parallel}
    if stage.children:
        return {**shared, "children": [_tree_to_json(child) for child in stage.children]}
    ways = [[node_id, way] for node_id, way in stage.configurations.items()]
    return {**shared, "tensor_parallel": stage.tensor_parallel, "configurations": ways}


def _tree_from_json(where: str, entry: object, depth: int = 1) -> LeveledStage:
    if depth > MAX_DEPTH:
        raise InputError(where, "lies too deep", f"give at most {MAX_DEPTH} levels")
    data = as_object(where, entry, '{"nodes": [...], "data_parallel": 1, "children": [...]}')
    nodes = ids_from_json(f"{where}.nodes", require(where, data, "nodes"))
    degree = require(where, data, "data_parallel")
    check_count(f"{where}.data_parallel", degree)
    if "children" in data:
        children = each(partial(_tree_from_json, depth=depth + 1))(f"{where}.children", data["children"])
        return LeveledStage(nodes, degree, children=children)
    tensor = require(where, data, "tensor_parallel")
    check_count(f"{where}.tensor_parallel", tensor)
    ways = require(where, data, "configurations")
    pairs = read_pairs(f"{where}.configurations", ways, "[layer, configuration]", check_text)
    return LeveledStage(nodes, degree, tensor, pairs)
