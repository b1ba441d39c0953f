"""What an operation of a captured graph depends on, beyond the graph's edges.

A write in place through a view changes what others read later, and no edge says so. Operations that depend on no
parameter (masks, positions, shifted labels) belong to nobody: each stage that needs them computes its own copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import fx

from .memory import attribute, storages, written


@dataclass(frozen=True)
class Dependences:
    """How operations of one graph depend on each other, beside the edges that the graph shows."""

    hidden: Mapping[fx.Node, tuple[fx.Node, ...]]
    """For each operation the earlier writes into memory that it reads."""
    together: tuple[tuple[fx.Node, fx.Node], ...]
    """A write, and an operation that made, viewed or read that memory before: one node of the profile holds both."""
    auxiliary: frozenset[fx.Node]
    """Operations that depend on no parameter and are not random."""
    buffer_updates: frozenset[fx.Node]

    def inputs_of(self, node: fx.Node) -> tuple[fx.Node, ...]:
        """The operations that must run before this one: those that it reads, and those that write to what it reads."""
        return (*node.all_input_nodes, *self.hidden.get(node, ()))


def dependences(graph: fx.GraphModule) -> Dependences:
    """The hidden dependences and the auxiliary operations of the graph."""
    memory = _Memory(graph)
    dependent = _depending(graph, memory, set())
    # An operation is not auxiliary where a dependent one writes into its memory: one node holds both.
    while True:
        forced = {before for write, before in memory.pairs if write in dependent and before not in dependent}
        if not forced:
            break
        dependent = _depending(graph, memory, dependent | forced)
    operations = [node for node in graph.graph.nodes if node.op == "call_function"]
    return Dependences(
        hidden={node: tuple(writes) for node, writes in memory.hidden.items() if writes},
        together=tuple(pair for pair in memory.pairs if pair[0] in dependent),
        auxiliary=frozenset(node for node in operations if node not in dependent),
        buffer_updates=frozenset(memory.buffer_updates),
    )


def _depending(graph: fx.GraphModule, memory: _Memory, forced: set[fx.Node]) -> set[fx.Node]:
    """Operations that are forced, read a parameter, are random or update a buffer, and all that depend on them."""
    dependent = set(forced)
    parameters = {node for node in graph.graph.nodes if is_parameter(graph, node)}
    for node in graph.graph.nodes:
        if node.op != "call_function" or node in dependent:
            continue
        sources = (*node.all_input_nodes, *memory.hidden.get(node, ()))
        if (
            any(source in dependent or source in parameters for source in sources)
            or is_random(node)
            or node in memory.buffer_updates
        ):
            dependent.add(node)
    return dependent


def is_parameter(graph: fx.GraphModule, node: fx.Node) -> bool:
    return node.op == "get_attr" and isinstance(attribute(graph, node.target), torch.nn.Parameter)


def is_random(node: fx.Node) -> bool:
    """Does the operation draw random numbers? Dropout of probability 0, or outside training, draws none."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if "dropout" in str(node.target) and len(node.args) > 2:
        return bool(node.args[1]) and bool(node.args[2])
    return True


class _Memory:
    """Who writes where, in the order of the graph."""

    def __init__(self, graph: fx.GraphModule) -> None:
        self.hidden: dict[fx.Node, list[fx.Node]] = {}
        self.pairs: list[tuple[fx.Node, fx.Node]] = []
        self.buffer_updates: set[fx.Node] = set()
        self._writes: dict[int, list[fx.Node]] = {}
        self._users: dict[int, list[fx.Node]] = {}
        attributes = {s for node in graph.graph.nodes if node.op == "get_attr" for s in storages(node)}
        for node in graph.graph.nodes:
            if node.op == "call_function":
                self._read(node)
                self._write(node, attributes)
            for storage in storages(node) if node.op == "call_function" else ():
                self._users.setdefault(storage, []).append(node)

    def _read(self, node: fx.Node) -> None:
        read = {storage for source in node.all_input_nodes for storage in storages(source)}
        self.hidden[node] = list(dict.fromkeys(self._earlier(read)))
        for storage in read:
            self._users.setdefault(storage, []).append(node)

    def _earlier(self, read: set[int]) -> Iterator[fx.Node]:
        for storage in sorted(read):
            yield from self._writes.get(storage, ())

    def _write(self, node: fx.Node, attributes: set[int]) -> None:
        for target in written(node):
            for storage in storages(target):
                if storage in attributes:
                    self.buffer_updates.add(node)
                self.pairs += [(node, user) for user in self._users.get(storage, ()) if user is not node]
                self._writes.setdefault(storage, []).append(node)
