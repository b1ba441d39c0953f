"""The placement problem (Tarnawski et al.): an operator or layer DAG, accelerators of one type, CPUs.

`../shared/spec/tarnawski.md`, section 1, in our names: p_acc = `accelerator_time`, p_cpu = `cpu_time`,
m = `size_bytes`, c = `transfer_time`, k = `accelerators`, l = `cpus`, M = `memory_bytes`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .errors import InputError, show

NodeId = int | str
"""Whole numbers and texts; 1 and "1" are two ids."""

MAX_NODES = 1_000_000
MAX_EDGES = 10_000_000
MAX_DEVICES = 100_000
MAX_ID_CHARACTERS = 10_000
MAX_UNIT_CHARACTERS = 20
MAX_WHOLE_ID = 2**63 - 1
MAX_AMOUNT = 1e100
"""So that sums of amounts, and their products with small factors, stay finite."""

SHOWN_CYCLE = 8
"""Nodes of a cycle that an error message names."""


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


@dataclass(frozen=True)
class PlacementProblem:
    """A placement problem, checked at construction; `replace()` makes variants."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]
    accelerators: int
    cpus: int
    memory_bytes: float | None = None
    """Memory of one accelerator; None: no limit."""
    name: str = "placement"
    time_unit: str | None = "s"
    """None where the source does not say."""

    kind = "placement"

    def __post_init__(self) -> None:
        # Lists are welcome at the door; inside there are only tuples.
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "edges", tuple(_pair(i, edge) for i, edge in enumerate(self.edges)))
        _check(self)

    def replace(self, **changes: Any) -> PlacementProblem:
        return replace(self, **changes)

    # ---- derived structure: positions instead of ids, computed once -----------------------------------

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Position of each node id in `nodes`."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def arcs(self) -> tuple[tuple[int, int], ...]:
        """Edges as pairs of positions, each once, in the order of the input."""
        return tuple(dict.fromkeys((self.index[u], self.index[v]) for u, v in self.edges))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        return _adjacency(len(self.nodes), self.arcs)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return _adjacency(len(self.nodes), ((v, u) for u, v in self.arcs))

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        order = _topological_order(self.successors)
        assert order is not None, "checked at construction"
        return order

    @cached_property
    def color_classes(self) -> tuple[tuple[int, ...], ...]:
        """Positions that must share a device: one tuple per colour, one per uncoloured node."""
        classes: dict[Any, list[int]] = {}
        for i, node in enumerate(self.nodes):
            key = ("node", i) if node.color is None else ("color", node.color)
            classes.setdefault(key, []).append(i)
        return tuple(tuple(members) for members in classes.values())

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value (so not of names)."""
        facts = [
            self.accelerators,
            self.cpus,
            None if self.memory_bytes is None else _canonical(self.memory_bytes),
            [_node_facts(node) for node in self.nodes],
            list(self.edges),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def has_backward(self) -> bool:
        """Is this a training problem?"""
        return any(node.backward for node in self.nodes)


def _node_facts(node: Node) -> list[Any]:
    amounts = (node.accelerator_time, node.cpu_time, node.size_bytes, node.transfer_time)
    return [node.id, *map(_canonical, amounts), node.supported, node.backward, node.color]


def _canonical(amount: float) -> float:
    """Equal amounts are written alike: 1 as 1.0, -0.0 as 0.0."""
    return float(amount) + 0.0


def _adjacency(count: int, arcs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in range(count)]
    for u, v in arcs:
        lists[u].append(v)
    return tuple(map(tuple, lists))


def _topological_order(successors: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Positions with every arc pointing forward, or None where there is a cycle."""
    missing = [0] * len(successors)
    for targets in successors:
        for v in targets:
            missing[v] += 1
    ready = [v for v in range(len(successors) - 1, -1, -1) if not missing[v]]
    order = []
    while ready:
        u = ready.pop()
        order.append(u)
        for v in reversed(successors[u]):
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return tuple(order) if len(order) == len(successors) else None


# ---- the door ------------------------------------------------------------------------------------------


def _pair(i: int, edge: object) -> tuple[Any, Any]:
    if not isinstance(edge, (tuple, list)) or len(edge) != 2:
        raise InputError(f"edges[{i}]", f"is {show(edge)}, not a pair", "give two node ids: (source, target)")
    return edge[0], edge[1]


def _check(problem: PlacementProblem) -> None:
    """Every rule that a placement problem obeys; the first broken one is raised as an `InputError`."""
    _check_labels(problem)
    _check_cluster(problem)
    if not problem.nodes:
        raise InputError("nodes", "is empty", "give at least one node")
    for i, node in enumerate(problem.nodes):
        _check_node(f"nodes[{i}]", node)
    _check_ids(problem)
    _check_edges(problem)
    _check_acyclic(problem)
    _check_sinks_are_free(problem)
    _check_placeable(problem)


def _check_labels(problem: PlacementProblem) -> None:
    check_text("name", problem.name)
    if problem.time_unit is not None:
        check_text("time_unit", problem.time_unit, MAX_UNIT_CHARACTERS)


def _check_cluster(problem: PlacementProblem) -> None:
    if len(problem.nodes) > MAX_NODES:
        raise InputError("nodes", f"has {len(problem.nodes)} entries", f"give at most {MAX_NODES}")
    if len(problem.edges) > MAX_EDGES:
        raise InputError("edges", f"has {len(problem.edges)} entries", f"give at most {MAX_EDGES}")
    for field in ("accelerators", "cpus"):
        check_count(field, getattr(problem, field))
    if problem.accelerators + problem.cpus == 0:
        raise InputError("accelerators", "is 0 and there is no CPU", "give at least one device")
    if problem.memory_bytes is not None:
        check_amount("memory_bytes", problem.memory_bytes)


def check_count(field: str, value: object) -> None:
    """A number of devices: a whole number from 0 to `MAX_DEVICES`."""
    remedy = f"give a whole number from 0 to {MAX_DEVICES}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(field, f"is {show(value)}, not a whole number", remedy)
    if value < 0:
        raise InputError(field, f"is negative ({show(value)})", remedy)
    if value > MAX_DEVICES:
        raise InputError(field, f"is {show(value)}, too many", remedy)


def check_amount(field: str, value: object) -> None:
    """A finite number >= 0, or an error that says which field is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(field, f"is {show(value)}, not a number", "give a finite number >= 0")
    # Comparisons, unlike math.isnan and math.isinf, take whole numbers of any length.
    if 0 <= value <= MAX_AMOUNT:
        return
    if value != value:
        raise InputError(field, "is NaN", "give a finite number >= 0")
    if value in (math.inf, -math.inf):
        raise InputError(field, "is infinite", "give a finite number >= 0")
    if value < 0:
        raise InputError(field, f"is negative ({show(value)})", "give a finite number >= 0")
    raise InputError(field, f"is too large ({show(value)})", f"give a number of at most {MAX_AMOUNT:g}")


def check_text(field: str, value: object, longest: int = MAX_ID_CHARACTERS) -> None:
    """A text of bounded length that can be written to a file."""
    if not isinstance(value, str):
        raise InputError(field, f"is {show(value)}, not a text", "give a text")
    if len(value) > longest:
        raise InputError(field, f"is a text of {len(value)} characters", f"give at most {longest}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(field, f"is {show(value)}, which holds half a character", "give valid Unicode text")


def check_id(field: str, value: object) -> None:
    """A whole number of 64 bits or a text of bounded length."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(field, f"is {show(value)}, not an id", "give a whole number or a text")
    if isinstance(value, str):
        check_text(field, value)
    elif abs(value) > MAX_WHOLE_ID:
        raise InputError(field, f"is {show(value)}", "give a whole number of at most 64 bits or a text")


def _check_node(where: str, node: Node) -> None:
    check_id(f"{where}.id", node.id)
    for field in ("accelerator_time", "cpu_time", "size_bytes", "transfer_time"):
        check_amount(f"{where}.{field}", getattr(node, field))
    for field in ("supported", "backward"):
        value = getattr(node, field)
        if not isinstance(value, bool):
            raise InputError(f"{where}.{field}", f"is {show(value)}, not a truth value", "give true or false")
    if node.color is not None:
        check_id(f"{where}.color", node.color)
    if node.name is not None:
        check_text(f"{where}.name", node.name)


def _check_ids(problem: PlacementProblem) -> None:
    first: dict[NodeId, int] = {}
    for i, node in enumerate(problem.nodes):
        if node.id in first:
            raise InputError(
                f"nodes[{i}].id",
                f"repeats {show(node.id)} of nodes[{first[node.id]}]",
                "give every node an id of its own",
            )
        first[node.id] = i


def _check_edges(problem: PlacementProblem) -> None:
    for i, edge in enumerate(problem.edges):
        for end, node_id in zip(("source", "target"), edge, strict=True):
            check_id(f"edges[{i}].{end}", node_id)
            if node_id not in problem.index:
                raise InputError(
                    f"edges[{i}].{end}", f"names the unknown node {show(node_id)}", "name a node of the list `nodes`"
                )
        source, target = (problem.nodes[problem.index[node_id]] for node_id in edge)
        if source.id == target.id:
            raise InputError(f"edges[{i}]", f"leads from node {show(source.id)} to itself", "remove the edge")
        if source.backward and not target.backward:
            raise InputError(
                f"edges[{i}]",
                f"leads from the backward node {show(source.id)} to the forward node {show(target.id)}",
                "let edges lead from forward to backward nodes only, or correct the nodes' backward marks",
            )


def _check_acyclic(problem: PlacementProblem) -> None:
    if _topological_order(problem.successors) is not None:
        return
    cycle = [show(problem.nodes[i].id) for i in _find_cycle(problem.successors)]
    if len(cycle) > SHOWN_CYCLE:
        cycle = [*cycle[: SHOWN_CYCLE - 2], f"({len(cycle) - SHOWN_CYCLE} more)", cycle[-1]]
    raise InputError(
        "edges", f"contain the cycle {' -> '.join(cycle)}", "remove one of its edges: the graph must be acyclic"
    )


def _find_cycle(successors: Sequence[Sequence[int]]) -> list[int]:
    """Some cycle, first node repeated at the end; the graph has one."""
    state = [0] * len(successors)  # 0 new, 1 on the path, 2 done
    for root in range(len(successors)):
        if state[root]:
            continue
        path, iterators = [root], [iter(successors[root])]
        state[root] = 1
        while path:
            v = next(iterators[-1], None)
            if v is None:
                state[path.pop()] = 2
                iterators.pop()
            elif state[v] == 1:
                return [*path[path.index(v) :], v]
            elif state[v] == 0:
                state[v] = 1
                path.append(v)
                iterators.append(iter(successors[v]))
    raise AssertionError("called on an acyclic graph")


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
    limit = problem.memory_bytes
    for members in problem.color_classes:
        blocked = next((i for i in members if not problem.nodes[i].supported), None)
        size = math.fsum(problem.nodes[i].size_bytes for i in members)
        largest = max(members, key=lambda i: problem.nodes[i].size_bytes)
        if blocked is not None:
            what = "no accelerator supports it" if len(members) == 1 else "its colour class has no common device"
            raise InputError(
                f"nodes[{blocked}].supported",
                f"is false for node {show(problem.nodes[blocked].id)} and there is no CPU: {what}",
                "add a CPU or mark the node as supported",
            )
        if limit is not None and problem.nodes[largest].size_bytes > limit:
            raise InputError(
                f"nodes[{largest}].size_bytes",
                f"is {problem.nodes[largest].size_bytes:.12g} bytes, more than an accelerator's {limit:.12g}, "
                "and there is no CPU",
                "give more memory, a smaller node or a CPU",
            )
        if limit is not None and size > limit:
            raise InputError(
                f"nodes[{largest}].color",
                f"is {show(problem.nodes[largest].color)}: its class has no common device, {size:.12g} bytes exceed "
                f"an accelerator's {limit:.12g} and there is no CPU",
                "give more memory, split the class or add a CPU",
            )
