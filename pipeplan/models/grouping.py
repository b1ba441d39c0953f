"""The operations of a captured graph as the nodes of a profile: blocks, modules, shares of the work or operations."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

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

    def inputs_of(self, node: fx.Node) -> tuple[fx.Node, ...]:
        """The operations that an operation depends on, also through memory that others wrote."""
        return self.dependences.inputs_of(node)

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
    keys = _Keys(captured, known, _rule(captured, granularity, flops))
    owner, nodes = _joined(keys.of, known)
    if not owner:
        raise InputError("the model", "has no operation that reads a parameter", "give a model with parameters")
    parameters, tied = _parameters(captured, nodes)
    return Grouped(
        nodes=nodes,
        owner=owner,
        parameters=parameters,
        tied=tied,
        buffer_bytes=_buffers(captured, nodes),
        modules={name: tuple(dict.fromkeys(filter(None, map(module_path, ops)))) for name, ops in nodes.items()},
        dependences=known,
    )


# ---- granularity: where an operation belongs by its module --------------------------------------------


@dataclass(frozen=True)
class _Rule:
    node_of: Callable[[str], str]
    """Gives, for a module's path, the node that the module is or lies in."""
    divided: Callable[[str], bool]
    """Is this node a container whose children are nodes of their own?"""


def _rule(captured: Captured, granularity: str, flops: Mapping[str, float] | None) -> _Rule | None:
    """The rule by which operations are grouped; None: every operation is a node."""
    paths = {module_path(node) for node in captured.operations}
    if granularity == "op":
        return None
    if granularity == "block":
        model = captured.model
        return _rule_of({path: _block(path, model) for path in paths})
    if granularity == "module":
        return _rule_of({path: path for path in paths})
    head, _, share = granularity.partition(":")
    if head == "share":
        return _rule_of(_by_share(captured, paths, _share(share), flops))
    raise InputError("--granularity", f"is {show(granularity)}", f"give {GRANULARITIES}")


def _rule_of(node_of: Mapping[str, str]) -> _Rule:
    above = {prefix for name in node_of.values() for prefix in _prefixes(name)[:-1]}
    return _Rule(node_of.__getitem__, lambda name: name in above)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise InputError("--granularity", f"is {show('share:' + text)}", "give a share above 0, such as share:0.1")
    return share


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
    from .kernels import trace

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

    def __init__(self, captured: Captured, known: Dependences, rule: _Rule | None) -> None:
        self.captured, self.known, self.rule = captured, known, rule
        self.of: dict[fx.Node, str] = {}
        self._follows: dict[str, set[str]] = {}
        self._segments: dict[str, int] = {}
        self._weights = _weight_values(captured, known)
        for node in captured.operations:
            if node not in known.auxiliary:
                self._place(node)

    def _place(self, node: fx.Node) -> None:
        before = self._keys_of(self.known.inputs_of(node))
        key = self._key(node, before)
        self.of[node] = key
        for source in before:
            if source != key:
                self._follows.setdefault(source, set()).add(key)

    def _keys_of(self, sources: Iterable[fx.Node]) -> list[str]:
        return list(dict.fromkeys(self.of[source] for source in sources if source in self.of))

    def _key(self, node: fx.Node, before: list[str]) -> str:
        """The node that an operation goes to; `before` are the nodes that it depends on."""
        first = node.args[0] if node.args else None
        if node.target is operator.getitem and first in self.of:
            return self.of[first]
        if self.rule is None:
            return str(node.name)
        path = module_path(node)
        name = self.rule.node_of(path)
        if not self._is_free(node, path, name):
            return self._segment(name, before) if self.rule.divided(name) else name or ROOT
        read = self._keys_of(node.all_input_nodes) or before
        if len(read) == 1:
            return read[0]
        return f"{name or ROOT}/{node.name}" if read else name or ROOT

    def _is_free(self, node: fx.Node, path: str, name: str) -> bool:
        """Is the operation code between modules, which reads no parameter and so may go where its input is made?"""
        if node in self.known.buffer_updates or any(source in self._weights for source in node.all_input_nodes):
            return False
        if self.rule is not None and self.rule.divided(name):
            return name == path
        module = _module(self.captured.model, name)
        if module is None:
            return True
        # All of a block is in one place; so is a module with parameters or buffers of its own.
        within = bool(name != path or _is_number(name.split(".")[-1]))
        return not any(True for _ in (*module.parameters(within), *module.buffers(within)))

    def _segment(self, name: str, before: list[str]) -> str:
        """The node of a container's own code; a new one where modules in between lead back, to close no circle."""
        number = self._segments.get(name, 0)
        key = _numbered(name, number)
        if any(source != key and self._reaches(key, source) for source in before):
            self._segments[name] = number + 1
            key = _numbered(name, number + 1)
        return key

    def _reaches(self, start: str, goal: str) -> bool:
        todo, seen = [start], {start}
        while todo:
            for after in self._follows.get(todo.pop(), ()):
                if after == goal:
                    return True
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return False


def _numbered(name: str, number: int) -> str:
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
    for node_id, parameter in _read_by(captured, nodes):
        key = id(parameter)
        alias = _alias(names.get(key, []), node_id, {first[key]} if key in first else set(), bytes_of)
        bytes_of[node_id][alias] = _bytes(parameter)
        if key in first:
            tied.append((first[key], alias))
        first.setdefault(key, alias)
    for name, parameter in captured.model.named_parameters():
        if id(parameter) not in first:  # nobody reads it: it stays with its neighbours
            bytes_of[_nearest(name, nodes)][name] = _bytes(parameter)
    return bytes_of, tuple(tied)


def _read_by(captured: Captured, nodes: Mapping[str, tuple[fx.Node, ...]]) -> list[tuple[str, torch.nn.Parameter]]:
    """Each node with each parameter that its operations read."""
    parameters: dict[tuple[str, int], torch.nn.Parameter] = {}
    for name, operations in nodes.items():
        for node in operations:
            for source in node.all_input_nodes:
                if is_parameter(captured.graph, source):
                    parameter = attribute(captured.graph, source.target)
                    parameters.setdefault((name, id(parameter)), parameter)
    return [(name, parameter) for (name, _), parameter in parameters.items()]


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
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _nearest(name: str, nodes: Mapping[str, tuple[fx.Node, ...]]) -> str:
    return max(nodes, key=lambda node_id: _common_parts(name, node_id))


def _buffers(captured: Captured, nodes: Mapping[str, tuple[fx.Node, ...]]) -> dict[str, float]:
    """By node the bytes of the buffers that its operations read or update."""
    bytes_of: dict[str, float] = {}
    for name, operations in nodes.items():
        read: dict[int, torch.Tensor] = {}
        for node in operations:
            for source in node.all_input_nodes:
                value = attribute(captured.graph, source.target) if source.op == "get_attr" else None
                if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                    read[id(value)] = value
        bytes_of[name] = sum(map(_bytes, read.values()))
    return bytes_of


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
        earlier = (write for storage in sorted(read) for write in self._writes.get(storage, ()))
        self.hidden[node] = list(dict.fromkeys(earlier))
        for storage in read:
            self._users.setdefault(storage, []).append(node)

    def _write(self, node: fx.Node, attributes: set[int]) -> None:
        for target in written(node):
            for storage in storages(target):
                if storage in attributes:
                    self.buffer_updates.add(node)
                self.pairs += [(node, user) for user in self._users.get(storage, ()) if user is not node]
                self._writes.setdefault(storage, []).append(node)


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
    return _Builder(captured, grouped, place, stage).piece()


class _Builder:
    """Copies the operations of one stage into a graph."""

    def __init__(self, captured: Captured, grouped: Grouped, place: Mapping[fx.Node, int], stage: int) -> None:
        self.captured, self.grouped, self.stage, self.place = captured, grouped, stage, place
        self.finals = [value for value in outputs_of(captured.graph) if self._makes(value)]
        self.chosen = self._chosen()
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}

    def _makes(self, value: fx.Node) -> bool:
        """Does this stage make the model's output? The last stage makes those that depend on no parameter."""
        if self._is_copied(value):
            return self.stage == max(self.place.values())
        return self.place.get(value) == self.stage

    def _is_copied(self, node: fx.Node) -> bool:
        return node in self.grouped.auxiliary and node not in self.place

    def _chosen(self) -> set[fx.Node]:
        """The stage's operations, and the auxiliary ones of which it needs copies."""
        mine = {node for node, stage in self.place.items() if stage == self.stage}
        todo = [*mine, *filter(self._is_copied, self.finals)]
        chosen = mine | set(todo)
        while todo:
            for source in self.grouped.inputs_of(todo.pop()):
                if self._is_copied(source) and source not in chosen:
                    chosen.add(source)
                    todo.append(source)
        return chosen

    def piece(self) -> Piece:
        nodes = list(self.captured.graph.graph.nodes)
        read = {source for node in self.chosen for source in node.all_input_nodes}
        inputs = [self._input(node) for node in nodes if node in read and self._is_input(node)]
        for node in nodes:
            if node.op == "get_attr" and node in read:
                self.copies[node] = self.graph.node_copy(node)
        for node in nodes:
            if node in self.chosen:
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
        made = [node for node in nodes if self.place.get(node) == self.stage]
        # What another stage reads.
        outputs = [n for n in made if any(self.place.get(user, self.stage) != self.stage for user in n.users)]
        self.graph.output(tuple(tuple(self.copies[node] for node in part) for part in (outputs, self.finals)))
        self.graph.lint()
        finals = tuple(node.name for node in self.finals)
        loss = self.captured.loss if self.captured.loss in finals else None
        held = [node.target for node in self.graph.nodes if node.op == "get_attr"]
        module = fx.GraphModule({name: attribute(self.captured.graph, name) for name in held}, self.graph)
        return Piece(module, tuple(inputs), tuple(node.name for node in outputs), finals, loss)

    def _is_input(self, node: fx.Node) -> bool:
        return node.op == "placeholder" or (node in self.place and node not in self.chosen)

    def _input(self, node: fx.Node) -> ModelInput | Foreign:
        copy = self.graph.placeholder(node.name)
        copy.meta.update(node.meta)
        self.copies[node] = copy
        return ModelInput(node.name) if node.op == "placeholder" else Foreign(node.name, self.place[node])
