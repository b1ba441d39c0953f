"""The graph-pipeline problem (GraphPipe): a DAG of operators whose times depend on how many samples they run at once.

A synchronous training step runs `mini_batch` samples. Stages are sets of operators that run micro-batches of b
samples on d devices, b / d samples on each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

from ..checks import NodeId, check_amount, check_count, check_distinct, check_id, check_text, check_whole
from ..curve import TimeCurve as TimeCurve
from ..curve import check_curve
from ..errors import InputError, UsageError, show
from ..graph import adjacency, check_acyclic, topological_order

MAX_OPERATORS = 100_000
MAX_OPERATOR_EDGES = 1_000_000
MAX_MINI_BATCH = 10_000_000
MAX_UNIT_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `forward(q)` and `backward(q)` are the times of q samples at once on one device."""

    id: NodeId
    forward: TimeCurve
    backward: TimeCurve
    weight_bytes: float = 0.0
    """One copy of its parameters; every device of its stage holds all of them."""
    stash_bytes: float = 0.0
    """Per sample, kept from the forward to the backward pass."""
    output_bytes: float = 0.0
    """Per sample, the one tensor that every consumer reads."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """What joins two devices, one direction: bytes per second (None: transfers take no time) and seconds of latency."""

    bandwidth: float | None = None
    latency_s: float = 0.0

    def seconds(self, amount_bytes: float) -> float:
        """Time of one transfer."""
        return self.latency_s + (0.0 if self.bandwidth is None else amount_bytes / self.bandwidth)


@dataclass(frozen=True)
class GraphPipelineProblem:
    """A graph-pipeline problem, checked at construction; `replace()` makes variants.

    Which link a transfer uses does not depend on where stages are put: one between stages uses `node_link` unless all
    devices stand in one node, one inside a stage uses `node_link` only where the stage has more devices than a node.
    """

    operators: tuple[Operator, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]
    mini_batch: int
    """Samples between two updates of the weights."""
    devices: int
    memory_bytes: float | None = None
    """Memory of one device; None: no limit."""
    link: Link = Link()
    """Between devices of one node."""
    node_link: Link | None = None
    """Between nodes; None: one level, all devices joined by `link`."""
    devices_per_node: int | None = None
    weight_copies: float = 2.0
    """What a device holds for each byte of weights: the weights, their gradients, optimiser states."""
    workspace_bytes: float = 0.0
    """Per device, whatever it runs."""
    name: str = "graph-pipeline"
    time_unit: str | None = "s"

    kind = "graph-pipeline"
    extensions: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))
        object.__setattr__(self, "edges", tuple((source, target) for source, target in self.edges))
        _check(self)

    def replace(self, **changes: Any) -> GraphPipelineProblem:
        return replace(self, **changes)

    # ---- derived structure: positions instead of ids ---------------------------------------------------

    @cached_property
    def index_of(self) -> Mapping[NodeId, int]:
        """Position of each operator's id."""
        return MappingProxyType({operator.id: i for i, operator in enumerate(self.operators)})

    @cached_property
    def arcs(self) -> tuple[tuple[int, int], ...]:
        """Edges as pairs of positions, in the order of the input."""
        return tuple((self.index_of[source], self.index_of[target]) for source, target in self.edges)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(len(self.operators), self.arcs)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(len(self.operators), ((v, u) for u, v in self.arcs))

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        order = topological_order(self.successors)
        assert order is not None, "checked at construction"
        return order

    @property
    def boundary_link(self) -> Link:
        """The link of transfers between stages."""
        if self.node_link is None or self.devices_per_node is None or self.devices <= self.devices_per_node:
            return self.link
        return self.node_link

    def inner_link(self, devices: int) -> Link:
        """The link over which a stage of so many devices synchronises its weights."""
        if self.node_link is None or self.devices_per_node is None or devices <= self.devices_per_node:
            return self.link
        return self.node_link

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value (so not of names)."""
        facts: list[Any] = [
            [_operator_facts(operator) for operator in self.operators],
            [list(edge) for edge in self.edges],
            self.mini_batch,
            self.devices,
            _float_or_none(self.memory_bytes),
            _link_facts(self.link),
            _link_facts(self.node_link),
            self.devices_per_node,
            float(self.weight_copies),
            float(self.workspace_bytes),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def micro_batch_sizes(problem: GraphPipelineProblem, given: int | None, mixed: bool = False) -> tuple[int, ...]:
    """The given size, or all powers of two that divide the mini-batch. `mixed`: stages may differ in their sizes."""
    batch = problem.mini_batch
    if given is None:
        return tuple(1 << e for e in range(batch.bit_length()) if batch % (1 << e) == 0)
    if mixed:
        raise UsageError("--micro-batch is one size for all stages, --mixed-micro-batches asks for several; drop one.")
    if given < 1 or batch % given:
        raise InputError(
            "option micro_batch", f"is {given}", f"give a whole number that divides the mini-batch of {batch}"
        )
    return (given,)


def _operator_facts(operator: Operator) -> list[Any]:
    curves = [[list(map(float, c.samples)), list(map(float, c.seconds))] for c in (operator.forward, operator.backward)]
    amounts = (operator.weight_bytes, operator.stash_bytes, operator.output_bytes)
    return [operator.id, *curves, *map(float, amounts)]


def _link_facts(link: Link | None) -> list[float | None] | None:
    return None if link is None else [_float_or_none(link.bandwidth), float(link.latency_s)]


def _float_or_none(value: float | None) -> float | None:
    return None if value is None else float(value)


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: GraphPipelineProblem) -> None:
    check_text("name", problem.name)
    if problem.time_unit is not None:
        check_text("time_unit", problem.time_unit, MAX_UNIT_CHARACTERS)
    _check_cluster(problem)
    _check_sizes(problem)
    for i, operator in enumerate(problem.operators):
        _check_operator(f"operators[{i}]", operator)
    check_distinct("operators", "operator", [operator.id for operator in problem.operators])
    _check_edges(problem)
    check_acyclic([operator.id for operator in problem.operators], problem.successors)


def _check_cluster(problem: GraphPipelineProblem) -> None:
    check_whole("mini_batch", problem.mini_batch, MAX_MINI_BATCH)
    _check_at_least_one("devices", problem.devices)
    if problem.memory_bytes is not None:
        check_amount("memory_bytes", problem.memory_bytes)
    check_amount("weight_copies", problem.weight_copies)
    check_amount("workspace_bytes", problem.workspace_bytes)
    _check_link("link", problem.link)
    if (problem.node_link is None) != (problem.devices_per_node is None):
        missing = "node_link" if problem.node_link is None else "devices_per_node"
        raise InputError(missing, "is missing", "give `node_link` and `devices_per_node` together, or neither")
    if problem.node_link is not None:
        _check_link("node_link", problem.node_link)
        _check_at_least_one("devices_per_node", problem.devices_per_node)


def _check_at_least_one(field: str, value: object) -> None:
    check_count(field, value)
    if not value:
        raise InputError(field, "is 0", "give at least one device")


def _check_link(where: str, link: object) -> None:
    if not isinstance(link, Link):
        raise InputError(where, f"is {show(link)}, not a link", "give a bandwidth and a latency")
    if link.bandwidth is not None:
        check_amount(f"{where}.bandwidth", link.bandwidth)
        if not link.bandwidth:
            raise InputError(f"{where}.bandwidth", "is 0", "give a finite number > 0, or null for no transfer time")
    check_amount(f"{where}.latency_s", link.latency_s)


def _check_sizes(problem: GraphPipelineProblem) -> None:
    if not problem.operators:
        raise InputError("operators", "is empty", "give at least one operator")
    sizes: tuple[tuple[str, Iterable[object], int], ...] = (
        ("operators", problem.operators, MAX_OPERATORS),
        ("edges", problem.edges, MAX_OPERATOR_EDGES),
    )
    for name, entries, most in sizes:
        count = sum(1 for _ in entries)
        if count > most:
            raise InputError(name, f"has {count} entries", f"give at most {most}")


def _check_operator(where: str, operator: Operator) -> None:
    check_id(f"{where}.id", operator.id)
    if operator.name is not None:
        check_text(f"{where}.name", operator.name)
    for side in ("forward", "backward"):
        check_curve(f"{where}.{side}", getattr(operator, side))
    for amount in ("weight_bytes", "stash_bytes", "output_bytes"):
        check_amount(f"{where}.{amount}", getattr(operator, amount))


def _check_edges(problem: GraphPipelineProblem) -> None:
    seen: set[tuple[NodeId, NodeId]] = set()
    for i, edge in enumerate(problem.edges):
        for end, node_id in zip(("source", "target"), edge, strict=True):
            check_id(f"edges[{i}].{end}", node_id)
            if node_id not in problem.index_of:
                raise InputError(f"edges[{i}].{end}", f"names the unknown operator {show(node_id)}", "name an operator")
        if edge[0] == edge[1]:
            raise InputError(f"edges[{i}]", f"leads from operator {show(edge[0])} to itself", "remove the edge")
        if edge in seen:
            raise InputError(f"edges[{i}]", "repeats an edge", "name each edge once")
        seen.add(edge)
