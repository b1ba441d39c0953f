"""A profile: what the parts of a model cost, measured or estimated, before any cluster is known.

Nodes hold times and memory, tensors say what flows between them: a tensor with many readers is one tensor. Every
amount is of one micro-batch of `micro_batch` samples. `whole_layers` joins the nodes of each numbered layer.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...base.amounts import digest, exact_sum
from ...base.checks import check_amount, check_distinct, check_flag, check_size, check_text, check_whole
from ...base.cluster import SECONDS
from ...base.curve import TimeCurve, check_curve, curve_from_json
from ...base.errors import InputError, show
from ...base.fields import (
    as_list,
    as_object,
    as_tuple,
    check_members,
    each,
    read_problem,
    read_record,
    to_record,
    write_problem,
)
from ...base.graph import Graph, check_acyclic
from ...foreign import PROFILE_SCHEMA
from .work import Work, check_work, merged, work_from_json, work_to_json

if TYPE_CHECKING:
    from ...chain.problem import ChainProblem
    from ...graph_pipeline.problem import GraphPipelineProblem
    from ...placement.problem import PlacementProblem
    from ...staging.problem import StagingProblem

MAX_NODES = 100_000
MAX_TENSORS = 1_000_000
MAX_SAMPLES = 10_000_000

# Time of one micro-batch in the profile's time unit, or a curve of times by samples where several numbers were
# measured.
Time = float | TimeCurve


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """One layer, block or operator."""

    id: str
    forward: Time
    backward: Time = 0.0
    saved_bytes: float = 0.0
    """Kept from the forward to the backward pass, parameters and buffers left out."""
    buffer_bytes: float = 0.0
    """Held like parameters, but never updated by an optimizer."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Bytes of one copy of each parameter, by its name."""
    flops_forward: float | None = None
    flops_backward: float | None = None
    modules: tuple[str, ...] = ()
    """The modules of the source that the node stands for."""
    work: Work | None = None
    """The kernels of one micro-batch, for times on other devices; None: they are not known."""

    @property
    def parameter_bytes(self) -> float:
        """Bytes of one copy of all parameters."""
        return float(exact_sum(self.parameters.values()))

    @property
    def label(self) -> str | None:
        """The node's module, where there is exactly one and it says more than the id."""
        return self.modules[0] if len(self.modules) == 1 and self.modules[0] != self.id else None


@dataclass(frozen=True, slots=True)
class ProfileTensor:
    """What one node makes and others read; without a reader it is an output of the model."""

    id: str
    producer: str
    readers: tuple[str, ...]
    bytes: float
    gradient: bool = True
    """Does a gradient of its size come back?"""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class Profile(Graph):
    """A profile, checked at construction; `to_chain`, `to_placement` and so on put it on a cluster."""

    nodes: tuple[ProfileNode, ...]
    tensors: tuple[ProfileTensor, ...]
    name: str = "profile"
    training: bool = True
    """Does the profile count backward passes and the memory that they need?"""
    micro_batch: int = 1
    """Samples of the micro-batch that all amounts are of."""
    time_unit: str = "s"
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the profile comes from, in words of its source."""
    tied: tuple[tuple[str, str], ...] = ()
    """Pairs of names under which one and the same parameter is listed twice."""

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    def replace(self, **changes: Any) -> Profile:
        return replace(self, **changes)

    # ---- derived structure: positions instead of ids ---------------------------------------------------

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(node.id for node in self.nodes)

    @property
    def ends(self) -> Iterator[tuple[str, str]]:
        """Pairs of a producer and a reader, by producer and then in the order of the file."""
        for node, made in zip(self.nodes, self.made, strict=True):
            for tensor in made:
                for reader in tensor.readers:
                    yield node.id, reader

    @cached_property
    def made(self) -> tuple[tuple[ProfileTensor, ...], ...]:
        """For each node the tensors that it makes."""
        tensors_of: list[list[ProfileTensor]] = [[] for _ in self.nodes]
        for tensor in self.tensors:
            tensors_of[self.index[tensor.producer]].append(tensor)
        return tuple(map(tuple, tensors_of))

    @cached_property
    def model_order(self) -> tuple[int, ...]:
        """Positions of the nodes in the order of the model: that of the file, where nothing reads from a later node."""
        in_order = all(u < v for u, v in self.arcs)
        return tuple(range(len(self.nodes))) if in_order else self.topological_order

    @cached_property
    def is_row(self) -> bool:
        """Does every node but the first read from the one before it, and from nothing else?"""
        order = self.topological_order
        return set(self.arcs) == set(pairwise(order))

    @cached_property
    def has_curves(self) -> bool:
        """Were times measured for several numbers of samples?"""
        return any(isinstance(time, TimeCurve) for node in self.nodes for time in (node.forward, node.backward))

    @cached_property
    def tied_bytes(self) -> float:
        """Bytes of the parameters that stand in a second node as well, each counted once."""
        sizes = {name: size for node in self.nodes for name, size in node.parameters.items()}
        return float(exact_sum(sizes[second] for second in {second for _, second in self.tied}))

    def time(self, time: Time) -> float:
        """The time for one micro-batch, read from a curve where it is one."""
        return time(self.micro_batch) if isinstance(time, TimeCurve) else time

    @cached_property
    def hash(self) -> str:
        """A digest of times, sizes and the graph with the ids of its nodes; kernels and number formats are left out."""
        facts = [
            self.training,
            self.micro_batch,
            self.time_unit,
            [_node_facts(node) for node in self.nodes],
            [[t.producer, list(t.readers), float(t.bytes), t.gradient] for t in self.tensors],
        ]
        return digest(facts)

    # ---- on a cluster ----------------------------------------------------------------------------------

    def to_placement(self, **given: Any) -> PlacementProblem:
        """Nodes on accelerators; `given` are the cluster's fields and the options that `lower` takes."""
        return self._on("placement", given)  # type: ignore[no-any-return]

    def to_chain(self, **given: Any) -> ChainProblem:
        """Layers in a row with a periodic schedule; see `to_placement`."""
        return self._on("chain", given)  # type: ignore[no-any-return]

    def to_staging(self, **given: Any) -> StagingProblem:
        """Stages in a row, each with its memory by its place; see `to_placement`."""
        return self._on("staging", given)  # type: ignore[no-any-return]

    def to_graph_pipeline(self, **given: Any) -> GraphPipelineProblem:
        """Stages that form a graph; see `to_placement`."""
        return self._on("graph-pipeline", given)  # type: ignore[no-any-return]

    def _on(self, kind: str, given: Mapping[str, Any]) -> Any:
        # Loaded by its address, since the modules of kinds import profiles.
        from ...base.kind import load_address

        return load_address("pipeplan.instances.lowering:lower")(self, kind=kind, **given).problem


def _node_facts(node: ProfileNode) -> list[Any]:
    times = (
        [list(map(float, time.samples)), list(map(float, time.seconds))]
        if isinstance(time, TimeCurve)
        else float(time)
        for time in (node.forward, node.backward)
    )
    sizes = (node.saved_bytes, node.buffer_bytes, *node.parameters.values())
    return [node.id, *times, *map(float, sizes)]


# ---- the door ------------------------------------------------------------------------------------------


def _check(profile: Profile) -> None:
    """Every rule that a profile obeys; the first broken one is raised as an `InputError`."""
    check_text("name", profile.name)
    check_flag("training", profile.training)
    check_whole("micro_batch", profile.micro_batch, MAX_SAMPLES)
    check_text("time_unit", profile.time_unit)
    if profile.time_unit not in SECONDS:
        raise InputError("time_unit", f"is {show(profile.time_unit)}", f"give one of {', '.join(SECONDS)}")
    if not profile.nodes:
        raise InputError("nodes", "is empty", "give at least one node")
    for field_name, most in (("nodes", MAX_NODES), ("tensors", MAX_TENSORS)):
        check_size(field_name, getattr(profile, field_name), most)
    for i, node in enumerate(profile.nodes):
        _check_node(f"nodes[{i}]", node)
    check_distinct("nodes", "node", [node.id for node in profile.nodes])
    for i, tensor in enumerate(profile.tensors):
        _check_tensor(f"tensors[{i}]", tensor, profile.index)
    check_distinct("tensors", "tensor", [tensor.id for tensor in profile.tensors])
    _check_tied(profile)
    try:
        check_acyclic(profile)
    except InputError as error:
        raise InputError("tensors", error.problem, "remove a reader: the graph must be acyclic") from None


def _check_name(field_name: str, value: object) -> None:
    check_text(field_name, value)
    if not value:
        raise InputError(field_name, "is empty", "give it a name")


def _check_node(where: str, node: ProfileNode) -> None:
    """Refuse a node with a field that is not of its type or range; `where` is the node's address in the file."""
    _check_name(f"{where}.id", node.id)
    for side in ("forward", "backward"):
        time = getattr(node, side)
        if isinstance(time, TimeCurve):
            check_curve(f"{where}.{side}", time)
        else:
            check_amount(f"{where}.{side}", time)
    for field_name in ("saved_bytes", "buffer_bytes", "flops_forward", "flops_backward"):
        value = getattr(node, field_name)
        if value is not None or field_name.endswith("bytes"):
            check_amount(f"{where}.{field_name}", value)
    for name, size in node.parameters.items():
        _check_name(f"{where}.parameters", name)
        check_amount(f"{where}.parameters[{show(name)}]", size)
    if node.work is not None:
        check_work(f"{where}.work", node.work)
    for j, module in enumerate(node.modules):
        check_text(f"{where}.modules[{j}]", module)


def _check_tensor(where: str, tensor: ProfileTensor, known: Container[object]) -> None:
    _check_name(f"{where}.id", tensor.id)
    check_amount(f"{where}.bytes", tensor.bytes)
    check_flag(f"{where}.gradient", tensor.gradient)
    if tensor.dtype is not None:
        check_text(f"{where}.dtype", tensor.dtype)
    for j, size in enumerate(tensor.shape or ()):
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise InputError(f"{where}.shape[{j}]", f"is {show(size)}", "give whole numbers >= 0")
    readers = ((f"{where}.readers[{j}]", reader) for j, reader in enumerate(tensor.readers))
    for place, end in ((f"{where}.producer", tensor.producer), *readers):
        if not isinstance(end, str) or end not in known:
            raise InputError(place, f"names the unknown node {show(end)}", "name a node of the list `nodes`")
    if tensor.producer in tensor.readers:
        raise InputError(f"{where}.readers", f"holds its producer {show(tensor.producer)}", "remove it")
    if len(set(tensor.readers)) < len(tensor.readers):
        raise InputError(f"{where}.readers", "name a node twice", "name each reader once")


def _check_tied(profile: Profile) -> None:
    parameters = {name for node in profile.nodes for name in node.parameters}
    for i, pair in enumerate(profile.tied):
        for name in pair:
            if name not in parameters:
                raise InputError(f"tied[{i}]", f"names the unknown parameter {show(name)}", "name one of a node")


# ---- files ------------------------------------------------------------
# Profiles as files: ``pipeplan.profile/1``, versioned and strict; nodes and tensors leave out default values.


# Fields that are written even where they equal their defaults.
ALWAYS = ("name", "training", "micro_batch", "time_unit", "source", "nodes", "tensors", "tied")


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON data."""
    nodes = [to_record(node, **({"work": work_to_json(node.work)} if node.work else {})) for node in profile.nodes]
    tensors = [to_record(tensor) for tensor in profile.tensors]
    return write_problem(profile, PROFILE_SCHEMA, ALWAYS, source=dict(profile.source), nodes=nodes, tensors=tensors)


def profile_from_json(data: object) -> Profile:
    """The profile in JSON data, or an `InputError` that names the field."""
    return read_problem(
        Profile,
        PROFILE_SCHEMA,
        data,
        nodes=each(_node_from_json),
        tensors=each(_tensor_from_json),
        source=as_object,
        tied=each(_pair),
    )


def _node_from_json(where: str, value: object) -> ProfileNode:
    return read_record(
        ProfileNode,
        where,
        value,
        '{"id": ..., "forward": ..., "backward": ...}',
        forward=_time,
        backward=_time,
        parameters=as_object,
        modules=as_tuple,
        work=work_from_json,
    )


def _time(where: str, value: Any) -> Any:
    """A number, which the profile checks, or a curve."""
    return curve_from_json(where, value) if isinstance(value, dict) else value


def _tensor_from_json(where: str, value: object) -> ProfileTensor:
    example = '{"id": ..., "producer": ..., "readers": [...], "bytes": ...}'
    return read_record(
        ProfileTensor, where, value, example, producer=_node_id, readers=each(_node_id), shape=as_tuple
    )


def _node_id(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(where, f"is {show(value)}, not the id of a node", "give a text")
    return value


def _pair(where: str, value: object) -> tuple[str, str]:
    pair = as_list(where, value)
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise InputError(where, "is no pair of texts", 'give two names of parameters: ["first", "second"]')
    return pair[0], pair[1]


# ---- whole layers ------------------------------------------------------------
# A profile whose nodes are whole layers, as servers move them: the embedding stays with the first layer, the head with
# the last.
#
# Layers are the numbered modules: `model.layers.7`, and all that lies below. Every stage of a plan of such a profile
# holds a layer.


OPTION = "--option whole-layers"


@dataclass(frozen=True)
class WholeLayers:
    """The profile of whole layers, and the nodes that it was made of."""

    profile: Profile
    members: dict[str, tuple[str, ...]]
    """For each layer the nodes of the first profile, in their order."""
    joined: frozenset[str]
    """Nodes of the first profile that are in no layer themselves: the embedding, the head and what else is around."""


def whole_layers(profile: Profile) -> WholeLayers:
    """One node for each layer; a profile without layers in a row is refused."""
    order = [profile.nodes[i] for i in profile.model_order]
    layer_of = {node.id: _layer(node) for node in order}
    names = list(dict.fromkeys(name for name in layer_of.values() if name is not None))
    if not names:
        raise InputError(
            OPTION, f"finds no numbered layers, like 'layers.7', among nodes such as {show(order[0].id)}", "drop it"
        )
    group_of: dict[str, str] = {}
    current = names[0]
    for node in order:
        current = layer_of[node.id] or current
        group_of[node.id] = current
    members = {name: tuple(node.id for node in order if group_of[node.id] == name) for name in names}
    nodes = tuple(
        _joined(name, [profile.nodes[profile.index[i]] for i in members[name]], profile) for name in names
    )
    try:
        together = profile.replace(nodes=nodes, tensors=_tensors(profile, group_of), tied=_tied(profile, group_of))
    except InputError:
        raise InputError(
            OPTION, f"finds layers that wait for each other in {show(profile.name)}", "drop it"
        ) from None
    return WholeLayers(together, members, frozenset(i for i, name in layer_of.items() if name is None))


def _layer(node: ProfileNode) -> str | None:
    """The layer that a node is part of; None for an embedding, a head and the like."""
    layers = {part for name in node.modules or (node.id,) if (part := numbered_part(name)) is not None}
    if len(layers) > 1:
        raise InputError(OPTION, f"finds the node {show(node.id)} in several layers", "drop it")
    return next(iter(layers), None)


def _joined(name: str, nodes: Sequence[ProfileNode], profile: Profile) -> ProfileNode:
    """One node that runs all of these nodes in turn."""
    parameters: dict[str, float] = {}
    for node in nodes:
        parameters |= node.parameters
    doubled = {second for first, second in profile.tied if first in parameters and second in parameters}
    return ProfileNode(
        name,
        reduce(_added, (node.forward for node in nodes)),
        reduce(_added, (node.backward for node in nodes)),
        float(exact_sum(node.saved_bytes for node in nodes)),
        float(exact_sum(node.buffer_bytes for node in nodes)),
        {parameter: size for parameter, size in parameters.items() if parameter not in doubled},
        _sum_of([node.flops_forward for node in nodes]),
        _sum_of([node.flops_backward for node in nodes]),
        tuple(dict.fromkeys(module for node in nodes for module in node.modules or (node.id,))),
        _work([node.work for node in nodes]),
    )


def _added(one: Time, other: Time) -> Time:
    """The sum of two times; curves are added at all samples at which either was measured."""
    if not isinstance(one, TimeCurve) and not isinstance(other, TimeCurve):
        return float(exact_sum((one, other)))
    curves = [time for time in (one, other) if isinstance(time, TimeCurve)]
    samples = tuple(sorted({at for curve in curves for at in curve.samples}))
    return TimeCurve(samples, tuple(_at(one, q) + _at(other, q) for q in samples))


def _at(time: Time, samples: float) -> float:
    return time(samples) if isinstance(time, TimeCurve) else time


def _sum_of(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return float(exact_sum(known)) if len(known) == len(amounts) else None


def _work(works: Sequence[Work | None]) -> Work | None:
    known = [work for work in works if work is not None]
    if len(known) < len(works):
        return None
    sides = ([kernel for work in known for kernel in getattr(work, side)] for side in ("forward", "backward"))
    return Work(*map(merged, sides))


def _tensors(profile: Profile, group_of: dict[str, str]) -> tuple[ProfileTensor, ...]:
    """The tensors that leave a layer, and the outputs of the model."""
    tensors = []
    for tensor in profile.tensors:
        producer = group_of[tensor.producer]
        readers = tuple(dict.fromkeys(group_of[reader] for reader in tensor.readers))
        outside = tuple(reader for reader in readers if reader != producer)
        if outside or not tensor.readers:
            tensors.append(
                ProfileTensor(
                    tensor.id, producer, outside, tensor.bytes, tensor.gradient, tensor.shape, tensor.dtype
                )
            )
    return tuple(tensors)


def _tied(profile: Profile, group_of: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs that stand in two layers; a pair within one layer is counted once there (`_joined`)."""
    homes: dict[str, str] = {}
    for node in profile.nodes:
        for name in node.parameters:
            homes.setdefault(name, group_of[node.id])
    return tuple((first, second) for first, second in profile.tied if homes[first] != homes[second])


# ---- module names ------------------------------------------------------------
# What the name of a module tells: the list of layers that it is in, and its number there.


_NUMBERED = re.compile(
    r"(?P<list>[^\[]+?)(?:\.(?P<dot>[0-9]{1,18})|\[(?P<bracket>[0-9]{1,18})\]| (?P<space>[0-9]{1,18}))(?=\.|$|@)"
)


def number_in(name: str) -> tuple[str, int] | None:
    """The list and the number, from the outermost number in the name: `h`, 7 of `h.7.mlp`, `h[7]` and `h 7`."""
    match = _NUMBERED.match(name)
    if match is None:
        return None
    return match["list"], int(match["dot"] or match["bracket"] or match["space"])


def numbered_part(name: str) -> str | None:
    """The name up to its outermost number: `h.7` of `h.7.mlp`."""
    match = _NUMBERED.match(name)
    return None if match is None else match[0]


def runs_backward(lists: Sequence[Sequence[str]]) -> bool:
    """Do the numbers fall along these lists of names more often than they rise?"""
    steps = 0
    for names in lists:
        homes = [home for name in names if (home := number_in(name)) is not None]
        steps += sum((b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(homes) if a[0] == b[0])
    return steps < 0
