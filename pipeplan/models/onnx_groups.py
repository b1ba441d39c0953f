"""Operations of an ONNX graph as nodes of a profile: by modules, with no circle between them.

Operations that depend on no parameter and are not random (masks, positions) are auxiliary: whoever reads them computes
them again, and they are no nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..instances.base.errors import InputError
from .onnx_graph import RANDOM, OnnxGraph, Operation

# The outermost module with a number (a transformer layer); the innermost module; each operator.
GRANULARITIES = ("block", "module", "op")

# Largest share of the floating-point operations that may be auxiliary, since a profile leaves these out.
MOST_AUXILIARY = 0.01

_NUMBERED = re.compile(r"(?:^|.*\.)\d+")


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """Operations that are planned as one."""

    id: str
    modules: tuple[str, ...]
    operations: tuple[Operation, ...]


def group(graph: OnnxGraph, granularity: str) -> tuple[OnnxNode, ...]:
    """The nodes in topological order, named like their modules; the node of a second call ends in `@1`."""
    operations = _without_auxiliary(graph)
    writers = {name: i for i, operation in enumerate(operations) for name in operation.writes}
    producers = [[writers[name] for name in operation.reads if name in writers] for operation in operations]
    keys = _keys(operations, producers, granularity)
    pieces = _connected(keys, producers)
    return tuple(_nodes(operations, keys, _without_circles(pieces, producers)))


def _without_auxiliary(graph: OnnxGraph) -> tuple[Operation, ...]:
    """The operations that depend on a parameter or are random; the others must be light."""
    derived: set[str] = set()
    kept, lost = [], 0.0
    for operation in graph.operations:
        if operation.parameters or operation.kind in RANDOM or not derived.isdisjoint(operation.reads):
            derived.update(operation.writes)
            kept.append(operation)
        else:
            lost += operation.flops
    if not kept:
        raise InputError(
            "graph", "has no operator that depends on a parameter", "export the model with its weights"
        )
    if lost > MOST_AUXILIARY * (lost + sum(operation.flops for operation in kept)):
        raise InputError(
            "graph",
            f"has {lost:.3g} floating-point operations that depend on no parameter, more than 1 % of all",
            "leave that part out of the model",
        )
    return tuple(kept)


def _keys(operations: Sequence[Operation], producers: Sequence[Sequence[int]], granularity: str) -> list[str]:
    """The module of each operation; what a container does between its parts goes with the operation that it reads."""
    names = [_module(operation, granularity) for operation in operations]
    containers = {prefix for name in names if name for prefix in _prefixes(name.rpartition(".")[0])}
    keys: list[str] = []
    for i, (name, operation) in enumerate(zip(names, operations, strict=True)):
        # Where others have modules, what has none was made by the exporter and stands in the model itself.
        inside = "" if name is None and containers else name
        sources = {keys[j] for j in producers[i]} if inside in containers and not operation.parameters else set()
        keys.append(sources.pop() if len(sources) == 1 else name or operation.name)
    return keys


def _module(operation: Operation, granularity: str) -> str | None:
    """The module of an operation, where an empty name is the model itself; None: the operation's own name counts."""
    scopes = operation.scopes
    if scopes is None or granularity == "op":
        return None
    if granularity == "block":
        numbered = next((scope for scope in scopes if _NUMBERED.fullmatch(scope)), None)
        if numbered is not None:
            return numbered
    return scopes[-1] if scopes else ""


def _prefixes(name: str) -> Iterable[str]:
    """Every module around a module, the model itself included."""
    yield ""
    parts = name.split(".")
    yield from (".".join(parts[:i]) for i in range(1, len(parts) + 1) if name)


def _connected(keys: Sequence[str], producers: Sequence[Sequence[int]]) -> list[int]:
    """The first operation of each one's piece. A piece is connected and has one key, so two calls are two pieces."""
    parent = list(range(len(keys)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, sources in enumerate(producers):
        for j in sources:
            if keys[i] == keys[j]:
                first, second = sorted((find(i), find(j)))
                parent[second] = first
    return [find(i) for i in range(len(keys))]


def _without_circles(pieces: Sequence[int], producers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Operations of each node in topological order; pieces that read from each other become one."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(dict.fromkeys(pieces))
    graph.add_edges_from((pieces[j], pieces[i]) for i, sources in enumerate(producers) for j in sources)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    merged = nx.condensation(graph)
    number = merged.graph["mapping"]
    members: dict[int, list[int]] = {}
    for i, piece in enumerate(pieces):
        members.setdefault(number[piece], []).append(i)
    order = nx.lexicographical_topological_sort(merged, key=lambda node: members[node][0])
    return [members[node] for node in order]


def _nodes(
    operations: Sequence[Operation], keys: Sequence[str], groups: Sequence[Sequence[int]]
) -> Iterable[OnnxNode]:
    taken: dict[str, int] = {}
    for members in groups:
        name = keys[members[0]]
        calls = taken.get(name, 0)
        taken[name] = calls + 1
        yield OnnxNode(
            f"{name}@{calls}" if calls else name,
            tuple(dict.fromkeys(keys[i] for i in members)),
            tuple(operations[i] for i in members),
        )


def owners(nodes: Sequence[OnnxNode]) -> Mapping[str, str]:
    """The node that makes each tensor."""
    return {name: node.id for node in nodes for operation in node.operations for name in operation.writes}
