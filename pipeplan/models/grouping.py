"""The operations of a captured graph as the nodes of a profile: blocks, modules, shares of the work or operations."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import networkx as nx
import torch
from torch import fx

from ..instances.base.errors import InputError, show
from ..instances.base.graph import strong_components
from .capture import Captured, attribute, module_path, outputs_of, storages, written

GRANULARITIES = "block, module, op, or share: and a share of the operations, such as share:0.1"
# The id of a node that holds code of the model itself.
ROOT = "(root)"


@dataclass(frozen=True)
class Grouped:
    """Operations grouped into nodes of the profile; auxiliary operations belong to no node."""

    nodes: Mapping[str, tuple[fx.Node, ...]]
    """The operations of each node, nodes in topological order."""
    owner: Mapping[fx.Node, str]
    parameters: Mapping[str, Mapping[str, float]]
    """Bytes of each parameter of each node; a tied parameter is in every node that reads it, under its name there."""
    tied: tuple[tuple[str, str], ...]
    buffer_bytes: Mapping[str, float]
    modules: Mapping[str, tuple[str, ...]]
    dependences: Dependences = field(repr=False)

    @property
    def auxiliary(self) -> frozenset[fx.Node]:
        return self.dependences.auxiliary

    def readers(self) -> dict[fx.Node, tuple[str, ...]]:
        """For each value that leaves its node, the nodes that read it, in their order."""
        place = {name: i for i, name in enumerate(self.nodes)}
        readers: dict[fx.Node, set[str]] = {}
        for node, name in self.owner.items():
            for source in node.all_input_nodes:
                if self.owner.get(source, name) != name:
                    readers.setdefault(source, set()).add(name)
        return {value: tuple(sorted(names, key=place.__getitem__)) for value, names in readers.items()}


def group(captured: Captured, granularity: str = "block", flops: Mapping[str, float] | None = None) -> Grouped:
    """Groups operations into the nodes of a profile; `flops`, by operation, saves counting them for shares."""
    known = dependences(captured.graph)
    keys = _Keys(captured, known, _nodes_by_path(captured, granularity, flops))
    owner, nodes = _joined(keys.of, known)
    if not owner:
        raise InputError("the model", "has no operation that reads a parameter", "give a model with parameters")
    parameters, tied = _parameters(captured, nodes)
    return Grouped(
        nodes=nodes,
        owner=owner,
        parameters=parameters,
        tied=tied,
        buffer_bytes={
            name: sum(map(_bytes, _read_by(captured.graph, operations, is_parameter=False).values()))
            for name, operations in nodes.items()
        },
        modules={name: tuple(dict.fromkeys(filter(None, map(module_path, ops)))) for name, ops in nodes.items()},
        dependences=known,
    )


# ---- granularity: where an operation belongs by its module --------------------------------------------


def _nodes_by_path(
    captured: Captured, granularity: str, flops: Mapping[str, float] | None
) -> dict[str, str] | None:
    """For each module's path the node that the module is or lies in; None: every operation is a node."""
    paths = {module_path(node) for node in captured.operations}
    head, _, share = granularity.partition(":")
    if granularity == "op":
        return None
    if granularity == "block":
        return {path: _block(path, captured.model) for path in paths}
    if granularity == "module":
        return {path: path for path in paths}
    if head == "share":
        limit = 0.0
        with suppress(ValueError):
            limit = float(share)
        if not 0 < limit <= 1:
            remedy = "give a share above 0, such as share:0.1"
            raise InputError("--granularity", f"is {show('share:' + share)}", remedy)
        return _by_share(captured, paths, limit, flops)
    raise InputError("--granularity", f"is {show(granularity)}", f"give {GRANULARITIES}")


def _prefixes(path: str) -> list[str]:
    """The path and all that lie above it, the model first: '', 'a', 'a.b' for 'a.b'."""
    parts = path.split(".") if path else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def _is_number(part: str) -> bool:
    return part.split("@")[0].isdigit()


def _block(path: str, model: torch.nn.Module) -> str:
    """The outermost numbered child (h.0, layer1.0), else the path itself.

    A numbered child of the model itself that holds numbered ones is a row of blocks, not a block.
    """
    for prefix in _prefixes(path)[1:]:
        if _is_number(prefix.split(".")[-1]):
            module = _module(model, prefix) if "." not in prefix else None
            if module is None or not any(name.isdigit() for name, _ in module.named_children()):
                return prefix
    return path


def _module(model: torch.nn.Module, path: str) -> torch.nn.Module | None:
    """The module of a path as graphs write it, in which `@1` marks a second call."""
    try:
        return model.get_submodule(re.sub(r"@\d+", "", path))
    except AttributeError:
        return None


def _by_share(
    captured: Captured, paths: set[str], share: float, flops: Mapping[str, float] | None
) -> dict[str, str]:
    """A module is divided into its children while it holds more than this share of the operations."""
    from .torch_profile import trace

    if flops is None:
        flops = trace(captured, allow_uncounted=True).flops()
    weight: dict[str, float] = {}
    for node in captured.operations:
        for prefix in _prefixes(module_path(node)):
            weight[prefix] = weight.get(prefix, 0.0) + flops.get(node.name, 0.0)
    limit = share * weight.get("", 0.0)
    return {path: next((p for p in _prefixes(path) if weight[p] <= limit), path) for path in paths}


# ---- keys ----------------------------------------------------------------------------------------------


class _Keys:
    """The node that each operation goes to, before nodes that depend on each other are merged."""

    def __init__(self, captured: Captured, known: Dependences, node_of: Mapping[str, str] | None) -> None:
        self.captured, self.known, self.node_of = captured, known, node_of
        # Nodes that are divided: their children are nodes of their own.
        self.containers = {above for name in (node_of or {}).values() for above in _prefixes(name)[:-1]}
        self.of: dict[fx.Node, str] = {}
        self._arcs: nx.DiGraph[str] = nx.DiGraph()
        self._segments: Counter[str] = Counter()
        self._weights = _weight_values(captured, known)
        for node in captured.operations:
            if node not in known.auxiliary:
                before = self._keys_of(known.inputs_of(node))
                key = self.of[node] = self._key(node, before)
                self._arcs.add_node(key)
                self._arcs.add_edges_from((source, key) for source in before if source != key)

    def _keys_of(self, sources: Iterable[fx.Node]) -> list[str]:
        return list(dict.fromkeys(self.of[source] for source in sources if source in self.of))

    def _key(self, node: fx.Node, before: list[str]) -> str:
        """The node that an operation goes to; `before` are the nodes that it depends on."""
        first = node.args[0] if node.args else None
        if node.target is operator.getitem and first in self.of:
            return self.of[first]
        if self.node_of is None:
            return str(node.name)
        path = module_path(node)
        name = self.node_of[path]
        if not self._is_free(node, path, name):
            return self._segment(name, before) if name in self.containers else name or ROOT
        read = self._keys_of(node.all_input_nodes) or before
        if len(read) == 1:
            return read[0]
        return f"{name or ROOT}/{node.name}" if read else name or ROOT

    def _is_free(self, node: fx.Node, path: str, name: str) -> bool:
        """Is the operation code between modules, which reads no parameter and so may go where its input is made?"""
        if node in self.known.buffer_updates or any(source in self._weights for source in node.all_input_nodes):
            return False
        if name in self.containers:
            return name == path
        module = _module(self.captured.model, name)
        if module is None:
            return True
        # All of a block is in one place; so is a module with parameters or buffers of its own.
        within = bool(name != path or _is_number(name.split(".")[-1]))
        return not any(True for _ in (*module.parameters(within), *module.buffers(within)))

    def _segment(self, name: str, before: list[str]) -> str:
        """The node of a container's own code; a new one where modules in between lead back, to close no circle."""
        key = self._segment_of(name)
        if key in self._arcs and any(s != key and nx.has_path(self._arcs, key, s) for s in before):
            self._segments[name] += 1
            key = self._segment_of(name)
        return key

    def _segment_of(self, name: str) -> str:
        number = self._segments[name]
        return f"{name or ROOT}/{number}" if number else name or ROOT


def _weight_values(captured: Captured, known: Dependences) -> set[fx.Node]:
    """Parameters, and values made of parameters alone, such as their transposes."""
    values = {node for node in captured.graph.graph.nodes if is_parameter(captured.graph, node)}
    for node in captured.operations:
        sources = known.inputs_of(node)
        if any(source in values for source in sources) and all(
            source in values or source.op == "get_attr" for source in sources
        ):
            values.add(node)
    return values


def _joined(
    keys: Mapping[fx.Node, str], known: Dependences
) -> tuple[dict[fx.Node, str], dict[str, tuple[fx.Node, ...]]]:
    """The node of each operation, and the operations of each node.

    Nodes that depend on each other, or write into each other's memory, become one. They are in topological order;
    where several may come next, the first operation decides.
    """
    place = {key: i for i, key in enumerate(dict.fromkeys(keys.values()))}
    arcs = [(place[keys[s]], place[key]) for node, key in keys.items() for s in known.inputs_of(node) if s in keys]
    for write, before in known.together:
        if write in keys and before in keys:
            one, other = place[keys[write]], place[keys[before]]
            arcs += [(one, other), (other, one)]
    names, members, name_of = list(place), dict[str, list[fx.Node]](), dict[str, str]()
    for part in strong_components(len(names), arcs):
        first = names[part[0]]
        members[first] = []
        name_of |= dict.fromkeys((names[i] for i in part), first)
    owner = {node: name_of[key] for node, key in keys.items()}
    for node, name in owner.items():
        members[name].append(node)
    return owner, {name: tuple(operations) for name, operations in members.items()}


# ---- parameters and buffers ----------------------------------------------------------------------------


def _bytes(tensor: torch.Tensor) -> float:
    return float(tensor.numel() * tensor.element_size())


def _parameters(
    captured: Captured, nodes: Mapping[str, tuple[fx.Node, ...]]
) -> tuple[dict[str, dict[str, float]], tuple[tuple[str, str], ...]]:
    """Bytes of each parameter of each node, and the pairs of names that are one parameter in two nodes."""
    names: dict[int, list[str]] = {}
    for name, parameter in captured.model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    bytes_of: dict[str, dict[str, float]] = {name: {} for name in nodes}
    first: dict[int, str] = {}
    tied: list[tuple[str, str]] = []
    for node_id, operations in nodes.items():
        for key, parameter in _read_by(captured.graph, operations, is_parameter=True).items():
            alias = _alias(names.get(key, []), node_id, {first[key]} if key in first else set(), bytes_of)
            bytes_of[node_id][alias] = _bytes(parameter)
            if key in first:
                tied.append((first[key], alias))
            first.setdefault(key, alias)
    for name, parameter in captured.model.named_parameters():
        if id(parameter) not in first:  # nobody reads it: it stays with its neighbours
            bytes_of[max(nodes, key=lambda node_id: _common_parts(name, node_id))][name] = _bytes(parameter)
    return bytes_of, tuple(tied)


def _read_by(
    graph: fx.GraphModule, operations: Iterable[fx.Node], *, is_parameter: bool
) -> dict[int, torch.Tensor]:
    """The parameters that the operations read, or the buffers that they read or update, by their ids."""
    sources = (source for node in operations for source in node.all_input_nodes if source.op == "get_attr")
    values = (attribute(graph, source.target) for source in sources)
    return {
        id(value): value
        for value in values
        if isinstance(value, torch.Tensor) and isinstance(value, torch.nn.Parameter) is is_parameter
    }


def _alias(names: list[str], node_id: str, taken: set[str], held: Mapping[str, Mapping[str, float]]) -> str:
    """The parameter's free name nearest to the node; where none is free, its first name with a number."""
    used = {name for parameters in held.values() for name in parameters}
    free = [name for name in names if name not in taken and name not in used]
    if free:
        return max(free, key=lambda name: _common_parts(name, node_id))
    return next(f"{names[0]}@{i}" for i in range(1, len(used) + 2) if f"{names[0]}@{i}" not in used)


def _common_parts(first: str, second: str) -> int:
    """Words at the beginning that two dotted names share."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


# ---- dependences ------------------------------------------------------------
# What an operation of a captured graph depends on, beyond the graph's edges.
#
# A write in place through a view changes what others read later, and no edge says so. Operations that depend on no
# parameter (masks, positions, shifted labels) belong to nobody: each stage that needs them computes its own copy.


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
    operations = [node for node in graph.graph.nodes if node.op == "call_function"]
    # An operation depends on a parameter where it reads one, is random or updates a buffer, and so does all that reads
    # it; and all whose memory it writes into, since one node holds both.
    arcs: nx.DiGraph[Any] = nx.DiGraph()
    arcs.add_edges_from((source, node) for node in operations for source in node.all_input_nodes)
    arcs.add_edges_from((write, node) for node in operations for write in memory.hidden[node])
    arcs.add_edges_from(memory.pairs)
    arcs.add_edges_from(("", node) for node in graph.graph.nodes if is_parameter(graph, node))
    arcs.add_edges_from(("", node) for node in operations if is_random(node) or node in memory.buffer_updates)
    dependent = nx.descendants(arcs, "") if "" in arcs else set()
    return Dependences(
        hidden={node: tuple(writes) for node, writes in memory.hidden.items() if writes},
        together=tuple(pair for pair in memory.pairs if pair[0] in dependent),
        auxiliary=frozenset(node for node in operations if node not in dependent),
        buffer_updates=frozenset(memory.buffer_updates),
    )


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
            if node.op != "call_function":
                continue
            read = {storage for source in node.all_input_nodes for storage in storages(source)}
            earlier = (write for storage in sorted(read) for write in self._writes.get(storage, ()))
            self.hidden[node] = list(dict.fromkeys(earlier))
            for storage in read:
                self._users.setdefault(storage, []).append(node)
            for storage in (storage for target in written(node) for storage in storages(target)):
                if storage in attributes:
                    self.buffer_updates.add(node)
                self.pairs += [(node, user) for user in self._users.get(storage, ()) if user is not node]
                self._writes.setdefault(storage, []).append(node)
            for storage in storages(node):
                self._users.setdefault(storage, []).append(node)


# ---- extraction ------------------------------------------------------------
# One stage of a captured graph as a module of its own.


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An argument of the model, which every stage may read."""

    name: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that another stage makes."""

    value: str
    stage: int


@dataclass(frozen=True)
class Piece:
    """A stage: `module(*inputs)` returns the tuple of `outputs` and the tuple of `finals`."""

    module: fx.GraphModule
    inputs: tuple[ModelInput | Foreign, ...]
    outputs: tuple[str, ...]
    """The values that other stages read."""
    finals: tuple[str, ...]
    """The model's outputs that are made here."""
    loss: str | None
    """The one of `finals` that is the loss; None: another stage makes it, or nothing is trained."""


# The number of the stage of auxiliary operations, where these are a stage of their own.
AUXILIARY = -1


def extract(
    captured: Captured, grouped: Grouped, stage_of: Mapping[str, int], stage: int, *, apart: bool = False
) -> Piece:
    """The stage with its own copies of the auxiliary operations that it needs; parameters are the model's own.

    `apart`: auxiliary operations are a stage of their own, `AUXILIARY`.
    """
    place = {node: stage_of[name] for node, name in grouped.owner.items()}
    if apart:
        place.update(dict.fromkeys(grouped.auxiliary, AUXILIARY))
    # Auxiliary operations that are on no stage: whoever needs one has a copy, and the last stage returns it.
    copied = grouped.auxiliary - place.keys()
    home = {**place, **dict.fromkeys(copied, max(place.values()))}
    finals = [value for value in outputs_of(captured.graph) if home.get(value) == stage]
    nodes = list(captured.graph.graph.nodes)
    made = [node for node in nodes if place.get(node) == stage]
    chosen = {*made, *copied.intersection(finals)}
    todo = list(chosen)
    while todo:
        needed = copied.intersection(grouped.dependences.inputs_of(todo.pop())) - chosen
        chosen |= needed
        todo += needed
    read = {source for node in chosen for source in node.all_input_nodes}
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs: list[ModelInput | Foreign] = []
    for node in (node for node in nodes if node in read):
        if node.op == "placeholder" or (node in place and node not in chosen):
            copies[node] = graph.placeholder(node.name)
            copies[node].meta.update(node.meta)
            inputs.append(ModelInput(node.name) if node.op == "placeholder" else Foreign(node.name, place[node]))
    for node in nodes:
        if node in chosen or (node.op == "get_attr" and node in read):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    # What another stage reads.
    outputs = [node for node in made if any(place.get(user, stage) != stage for user in node.users)]
    graph.output(tuple(tuple(copies[node] for node in part) for part in (outputs, finals)))
    graph.lint()
    names = tuple(node.name for node in finals)
    held = [node.target for node in graph.nodes if node.op == "get_attr"]
    module = fx.GraphModule({name: attribute(captured.graph, name) for name in held}, graph)
    loss = captured.loss if captured.loss in names else None
    return Piece(module, tuple(inputs), tuple(node.name for node in outputs), names, loss)
