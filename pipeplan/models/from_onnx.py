"""ONNX models as profiles, for inference: what each module costs on a named device, by the roofline rule.

Of weights only the sizes are read; nothing is executed. An operator takes the start of a kernel, and the larger of the
times of its arithmetic and of the bytes that it reads and writes. Views are free; look-ups move only what they return.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..instances.base.errors import InputError, errors_in, unknown_choice
from ..instances.base.graph import strong_components
from ..instances.base.json_file import check_path
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from ..instances.networks.profile.work import Kernels, Work, calculated, merged
from ..instances.physics.hardware import Hardware
from .from_torch import calculated_on
from .onnx_graph import RANDOM, OnnxGraph, Operation, read_onnx


def import_onnx(
    path: str | os.PathLike[str],
    *,
    hardware: Hardware | str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    granularity: str = "block",
    efficiency: float | None = None,
    kernel_start_s: float | None = None,
    allow_uncounted: bool = False,
) -> Profile:
    """A profile of an ONNX model in inference.

    Parameters
    ----------
    path : str or PathLike
        The .onnx file; weights in files beside it are not needed.
    hardware : Hardware or str, optional
        The device whose times are calculated. None: an error lists the devices.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs, by name. None: those of the file, which must be numbers.
    granularity : str
        "block", the outermost module with a number; "module", the innermost module; or "op", each operator.
    efficiency : float, optional
        Share of its peak that the device reaches. None: the device's own figure.
    kernel_start_s : float, optional
        Seconds that the start of a kernel takes. None: the device's own figure.
    allow_uncounted : bool
        Let operators without a formula for their floating-point operations count none.

    Returns
    -------
    Profile
        The costs of one forward pass, over as many samples as the first input has.

    Raises
    ------
    InputError
        The file is no ONNX model, a size is unknown, or an operator has no formula: the message names it.
    UsageError
        No hardware is named, or there is no such hardware or granularity.
    """
    check_path(path)
    device = calculated_on(hardware, efficiency, kernel_start_s)
    if granularity not in GRANULARITIES:
        raise unknown_choice("--granularity", granularity, GRANULARITIES)
    wanted = {name: _checked(name, shape) for name, shape in (shapes or {}).items()}
    with errors_in(path):
        graph = read_onnx(path, wanted, allow_uncounted=allow_uncounted)
        nodes = group(graph, granularity)
    parameters = _held(nodes)
    return Profile(
        nodes=tuple(_profile_nodes(graph, nodes, parameters, device)),
        tensors=tuple(_tensors(graph, nodes)),
        name=graph.name or Path(path).stem,
        training=False,
        micro_batch=graph.samples,
        source={"how": "onnx", **graph.facts, "granularity": granularity, "times": calculated(device)},
        tied=tuple(
            (first, name)
            for names in parameters
            for name, first in names.items()
            if name != first and first not in graph.buffers
        ),
    )


def _checked(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape):
        raise InputError(
            "--shape", f"gives {name!r} a size that is no whole number >= 1", f"give {name}=1,3,224,224"
        )
    return tuple(shape)


def _held(nodes: Sequence[OnnxNode]) -> list[dict[str, str]]:
    """For each node its parameters by name: in the profile, where further copies have a number, and in the file."""
    copies: dict[str, int] = {}
    parameters = []
    for node in nodes:
        names: dict[str, str] = {}
        for name in dict.fromkeys(name for operation in node.operations for name in operation.parameters):
            number = copies.get(name, 0)
            copies[name] = number + 1
            names[f"{name}@{number}" if number else name] = name
        parameters.append(names)
    return parameters


def _profile_nodes(
    graph: OnnxGraph, nodes: Sequence[OnnxNode], parameters: Sequence[Mapping[str, str]], device: Hardware
) -> Iterator[ProfileNode]:
    for node, names in zip(nodes, parameters, strict=True):
        sizes = {name: float(graph.parameters[original].bytes) for name, original in names.items()}
        work = Work(
            merged(
                Kernels(operation.flops, operation.moved_bytes, 1, operation.element_bytes)
                for operation in node.operations
                if not operation.is_free
            )
        )
        yield ProfileNode(
            node.id,
            work.seconds("forward", device),
            buffer_bytes=math.fsum(sizes[name] for name, original in names.items() if original in graph.buffers),
            parameters={name: size for name, size in sizes.items() if names[name] not in graph.buffers},
            flops_forward=work.flops("forward"),
            modules=node.modules,
            work=work,
        )


def _tensors(graph: OnnxGraph, nodes: Sequence[OnnxNode]) -> Iterator[ProfileTensor]:
    """What one node makes and others read, and what the model returns."""
    owner = {name: node.id for node in nodes for operation in node.operations for name in operation.writes}
    readers: dict[str, dict[str, None]] = {name: {} for name in owner}
    for node in nodes:
        for name in (name for operation in node.operations for name in operation.reads):
            if owner.get(name, node.id) != node.id:
                readers[name][node.id] = None
    for name, producer in owner.items():
        if readers[name] or name in graph.outputs:
            tensor = graph.tensors[name]
            yield ProfileTensor(
                name, producer, tuple(readers[name]), float(tensor.bytes), False, tensor.shape, tensor.dtype
            )


# ---- onnx groups ------------------------------------------------------------
# Operations of an ONNX graph as nodes of a profile: by modules, with no circle between them.
#
# Operations that depend on no parameter and are not random (masks, positions) are auxiliary: whoever reads them
# computes them again, and they are no nodes.


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
    place = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    arcs = ((place[pieces[j]], place[pieces[i]]) for i, sources in enumerate(producers) for j in sources)
    parts = strong_components(len(place), arcs)
    number = {i: n for n, part in enumerate(parts) for i in part}
    members: list[list[int]] = [[] for _ in parts]
    for i, piece in enumerate(pieces):
        members[number[place[piece]]].append(i)
    return members


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
