"""The placement problem (Tarnawski et al.): a DAG of operators or layers, accelerators, CPUs.

The paper's letters in our names: p_acc = `accelerator_time`, p_cpu = `cpu_time`, m = `size_bytes`, c = `transfer_time`,
k = `accelerators`, l = `cpus`, M = `memory_bytes`. Of its extensions there are further types of accelerators
(`other_types`); replicas and devices within devices are a matter of stagings (`instances/staging/problem.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base.amounts import (
    MOST_EXACT,
    WholeAmounts,
    canonical,
    canonical_or_none,
    digest,
    exact_sum,
    fits,
    in_digits,
    whole_amounts,
)
from ..base.checks import NodeId as NodeId
from ..base.checks import (
    check_amount,
    check_count,
    check_distinct,
    check_flag,
    check_id,
    check_labels,
    check_limit,
    check_size,
    check_text,
)
from ..base.errors import InputError, UsageError, show
from ..base.fields import check_members
from ..base.graph import Graph, check_acyclic, check_ends
from ..base.kind import AnyProblem
from ..base.quantities import several

MAX_NODES = 1_000_000
MAX_EDGES = 10_000_000
MAX_OTHER_TYPES = 100


@dataclass(frozen=True, slots=True)
class AcceleratorType:
    """Accelerators of one further type."""

    name: str
    count: int
    memory_bytes: float | None = None
    """Memory of one of them; None: no limit."""


def check_types(other_types: Sequence[AcceleratorType]) -> None:
    """Raise an InputError unless every type has a name of its own, a valid count and a valid memory."""
    check_size("other_types", other_types, MAX_OTHER_TYPES)
    for t, other in enumerate(other_types):
        where = f"other_types[{t}]"
        check_text(f"{where}.name", other.name)
        if not other.name:
            raise InputError(f"{where}.name", "is empty", "give the type a name")
        check_count(f"{where}.count", other.count)
        check_limit(f"{where}.memory_bytes", other.memory_bytes)
    check_distinct("other_types", "type", [other.name for other in other_types], "name")


@dataclass(frozen=True, slots=True)
class Node:
    """One operator or layer. Times are in the problem's `time_unit`, for one sample."""

    id: NodeId
    accelerator_time: float
    cpu_time: float
    size_bytes: float = 0.0
    transfer_time: float = 0.0
    """Time to move the node's output between an accelerator and host memory (c[u])."""
    supported: bool = True
    """May the node run on an accelerator?"""
    backward: bool = False
    color: NodeId | None = None
    """Nodes of equal colour must share a device."""
    name: str | None = None
    other_times: tuple[float | None, ...] = ()
    """Time on each of the problem's `other_types`; None: that type cannot run the node. Empty: every other type has
    the base type's `accelerator_time` and `supported`."""


@dataclass(frozen=True, repr=False)
class PlacementProblem(AnyProblem, Graph):
    """A placement problem, checked at construction; `replace()` makes variants."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]
    accelerators: int
    cpus: int
    memory_bytes: float | None = None
    """Memory of one accelerator; None: no limit."""
    name: str = "placement"
    time_unit: str | None = "s"
    """The unit of all times; None where the source does not say."""
    other_types: tuple[AcceleratorType, ...] = ()
    """Accelerators beside those of the base type, which `accelerators`, `memory_bytes` and the nodes' own
    `accelerator_time` and `supported` describe. Transfers take the same time for all types."""

    kind = "placement"

    def __post_init__(self) -> None:
        check_members(self)  # lists are welcome at the door; inside there are only tuples
        _check(self)

    # ---- derived structure: positions instead of ids, computed once -----------------------------------

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(node.id for node in self.nodes)

    @property
    def ends(self) -> tuple[tuple[NodeId, NodeId], ...]:
        return self.edges

    @cached_property
    def type_index(self) -> dict[str, int]:
        """Position of each type's name in `other_types`."""
        return {other.name: t for t, other in enumerate(self.other_types)}

    @cached_property
    def color_classes(self) -> tuple[tuple[int, ...], ...]:
        """Positions that must share a device: one tuple per colour, one per uncoloured node."""
        classes: dict[Any, list[int]] = {}
        for i, node in enumerate(self.nodes):
            key = ("node", i) if node.color is None else ("color", node.color)
            classes.setdefault(key, []).append(i)
        return tuple(tuple(members) for members in classes.values())

    # ---- memory ---------------------------------------------------------------------------------------

    def memory_of(self, other_type: int | None) -> float | None:
        """Bytes of one accelerator of the base type (None) or another; None: no limit."""
        return self.memory_bytes if other_type is None else self.other_types[other_type].memory_bytes

    def holds(self, nodes: Iterable[int], other_type: int | None = None) -> bool:
        """Would an accelerator of this type have the memory for these nodes? Decided exactly."""
        return fits((self.nodes[i].size_bytes for i in nodes), self.memory_of(other_type))

    @cached_property
    def whole_sizes(self) -> WholeAmounts:
        """Sizes of nodes, and memories of the base type and then of the others, for loops that add up: see `amounts`.

        Where they are not exact they are rounded down: no plan that fits is lost.
        """
        return self._whole_sizes(upwards=False)

    @cached_property
    def safe_sizes(self) -> WholeAmounts:
        """The whole sizes, rounded up where they are not exact: every plan that fits here fits in truth."""
        return self.whole_sizes if self.whole_sizes.exact else self._whole_sizes(upwards=True)

    @cached_property
    def exact_sizes(self) -> WholeAmounts:
        """The whole sizes, exact in any case: Python's whole numbers, which may be too large for floats."""
        return self.whole_sizes if self.whole_sizes.exact else self._whole_sizes(upwards=False, most=math.inf)

    def _whole_sizes(self, upwards: bool, most: float = MOST_EXACT) -> WholeAmounts:
        memories = [self.memory_of(t) for t in (None, *range(len(self.other_types)))]
        if all(memory is None for memory in memories):  # then nobody asks for sizes
            return WholeAmounts((0,) * len(self.nodes), tuple(None for _ in memories), exact=True)
        return whole_amounts([node.size_bytes for node in self.nodes], memories, most, upwards=upwards)

    # ---- identity -------------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value (so not of names)."""
        facts: list[Any] = [
            self.accelerators,
            self.cpus,
            canonical_or_none(self.memory_bytes),
            [_node_facts(node) for node in self.nodes],
            list(self.edges),
        ]
        # Only where they differ from the defaults: the hashes of problems without them stay what they were.
        if self.other_types:
            facts.append(["other_types", *(_type_facts(other) for other in self.other_types)])
        return digest(facts)

    @property
    def has_backward(self) -> bool:
        """Is this a training problem?"""
        return any(node.backward for node in self.nodes)

    @property
    def extensions(self) -> frozenset[str]:
        """What a method must be able to plan beyond the flat problem: "types"."""
        return frozenset(["types"] if self.other_types else [])

    def time_on(self, i: int, other_type: int | None) -> float | None:
        """Time of the node at position i on an accelerator of the base type (None) or another; None: it cannot run."""
        node = self.nodes[i]
        if other_type is not None and node.other_times:
            return node.other_times[other_type]
        return node.accelerator_time if node.supported else None


def _node_facts(node: Node) -> list[Any]:
    amounts = (node.accelerator_time, node.cpu_time, node.size_bytes, node.transfer_time)
    facts: list[Any] = [node.id, *map(canonical, amounts), node.supported, node.backward, node.color]
    if node.other_times:
        facts.append(["other_times", *map(canonical_or_none, node.other_times)])
    return facts


def _type_facts(other: AcceleratorType) -> list[Any]:
    """Facts of a type for the hash; its name is one of them, since plans name types."""
    return [other.name, other.count, canonical_or_none(other.memory_bytes)]


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: PlacementProblem) -> None:
    """Every rule that a placement problem obeys; the first broken one is raised as an `InputError`."""
    check_labels(problem.name, problem.time_unit)
    _check_cluster(problem)
    if not problem.nodes:
        raise InputError("nodes", "is empty", "give at least one node")
    for i, node in enumerate(problem.nodes):
        _check_node(f"nodes[{i}]", node, len(problem.other_types))
    check_distinct("nodes", "node", problem.ids)
    _check_edges(problem)
    check_acyclic(problem)
    _check_sinks_are_free(problem)
    _check_placeable(problem)


def _check_cluster(problem: PlacementProblem) -> None:
    check_size("nodes", problem.nodes, MAX_NODES)
    check_size("edges", problem.edges, MAX_EDGES)
    for field in ("accelerators", "cpus"):
        check_count(field, getattr(problem, field))
    check_limit("memory_bytes", problem.memory_bytes)
    check_types(problem.other_types)
    if problem.accelerators + problem.cpus + sum(other.count for other in problem.other_types) == 0:
        raise InputError("accelerators", "is 0 and there is no CPU", "give at least one device")


def _check_node(where: str, node: Node, other_types: int) -> None:
    check_id(f"{where}.id", node.id)
    for field in ("accelerator_time", "cpu_time", "size_bytes", "transfer_time"):
        check_amount(f"{where}.{field}", getattr(node, field))
    for field in ("supported", "backward"):
        check_flag(f"{where}.{field}", getattr(node, field))
    if node.color is not None:
        check_id(f"{where}.color", node.color)
    if node.name is not None:
        check_text(f"{where}.name", node.name)
    _check_other_times(f"{where}.other_times", node.other_times, other_types)


def _check_other_times(where: str, times: Sequence[float | None], other_types: int) -> None:
    if not times:
        return
    if len(times) != other_types:
        raise InputError(
            where,
            f"has {len(times)} entries",
            f"give one for each of the {several(other_types, 'entry')} of `other_types`",
        )
    for t, time in enumerate(times):
        check_limit(f"{where}[{t}]", time)


def _check_edges(problem: PlacementProblem) -> None:
    """Edges join nodes, and none leads back to a forward pass: models rest on that (`stage_arcs` of the referee)."""
    for i, edge in enumerate(problem.edges):
        check_ends(f"edges[{i}]", edge, problem.index, "node", "name a node of the list `nodes`")
        source, target = (problem.nodes[problem.index[node_id]] for node_id in edge)
        if source.backward and not target.backward:
            raise InputError(
                f"edges[{i}]",
                f"leads from the backward node {show(source.id)} to the forward node {show(target.id)}",
                "let edges lead from forward to backward nodes only, or correct the nodes' backward marks",
            )


def _check_sinks_are_free(problem: PlacementProblem) -> None:
    for i, node in enumerate(problem.nodes):
        if node.transfer_time and not problem.successors[i]:
            raise InputError(
                f"nodes[{i}].transfer_time",
                f"is {show(node.transfer_time)} although no edge leaves node {show(node.id)}",
                "give 0 or the missing edge: an output that nobody reads is never transferred",
            )


def _check_placeable(problem: PlacementProblem) -> None:
    """Each colour class needs one device that can take all of it; a CPU always can."""
    if problem.cpus:
        return
    for members in problem.color_classes:
        if not problem.other_types:
            _check_fits_base_type(problem, members)
        elif not any(_fits(problem, members, t) for t in (None, *range(len(problem.other_types)))):
            first = problem.nodes[members[0]]
            what = f"node {show(first.id)}" if len(members) == 1 else f"the class of colour {show(first.color)}"
            raise InputError(
                f"nodes[{members[0]}]",
                f"has no device: no type of accelerator both supports and holds {what} and there is no CPU",
                "add a CPU, an accelerator that can take it, or memory",
            )


def _fits(problem: PlacementProblem, members: Sequence[int], other_type: int | None) -> bool:
    """Is there an accelerator of this type that can take all of them?"""
    count = problem.accelerators if other_type is None else problem.other_types[other_type].count
    if not count or any(problem.time_on(i, other_type) is None for i in members):
        return False
    return problem.holds(members, other_type)


def _check_fits_base_type(problem: PlacementProblem, members: Sequence[int]) -> None:
    blocked = next((i for i in members if not problem.nodes[i].supported), None)
    largest = max(members, key=lambda i: problem.nodes[i].size_bytes)
    if blocked is not None:
        what = "no accelerator supports it" if len(members) == 1 else "its colour class has no common device"
        raise InputError(
            f"nodes[{blocked}].supported",
            f"is false for node {show(problem.nodes[blocked].id)} and there is no CPU: {what}",
            "add a CPU or mark the node as supported",
        )
    if problem.memory_bytes is None or problem.holds(members):
        return
    limit = in_digits(problem.memory_bytes)
    if not problem.holds([largest]):
        raise InputError(
            f"nodes[{largest}].size_bytes",
            f"is {in_digits(problem.nodes[largest].size_bytes)} bytes for node {show(problem.nodes[largest].id)}, more "
            f"than an accelerator's {limit} bytes, and there is no CPU",
            "give more memory, a smaller node or a CPU",
        )
    size = in_digits(exact_sum(problem.nodes[i].size_bytes for i in members))
    raise InputError(
        f"nodes[{largest}].color",
        f"is {show(problem.nodes[largest].color)}: its class has no common device, {size} bytes exceed "
        f"an accelerator's {limit} and there is no CPU",
        "give more memory, split the class or add a CPU",
    )


def refuse_other_kinds(problem: PlacementProblem, what: str) -> None:
    """Raise a UsageError for a problem of another kind, whose referee has another name."""
    if problem.kind != PlacementProblem.kind:
        remedy = f"use {what}_stages" if problem.kind == "staging" else "use the referee of its kind"
        raise UsageError(f"{what} is for placement problems and this is a {problem.kind} problem; {remedy}.")
