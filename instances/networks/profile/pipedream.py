"""PipeDream's profiles (``graph.txt``) as profiles: a graph of layers with measured times.

A file has node lines and tab-indented edge lines:

    node4 -- ReLU() -- forward_compute_time=1.5, backward_compute_time=2.5, activation_size=9.0, parameter_size=0.0
    <tab>node4 -- node5

in milliseconds and bytes; several outputs are written ``activation_size=[9.0; 4.0]`` and summed. A
`` -- stage_id=...`` at the end is somebody's plan and no part of the profile.

A layer sends its activations on and keeps them for its backward pass; in inference they stay in memory as they are. A
file does not say of how many samples its times are, so its micro-batch counts as one sample.

Placement problems from these files are those that Tarnawski et al. published: one batch is in flight, and the gradients
of its activations are in memory beside them, so activations count twice (`PUBLISHED_IN_FLIGHT`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ...base.checks import check_amount
from ...base.errors import InputError, show
from .profile import Profile, ProfileNode, ProfileTensor

# How often activations count in the published placements: as themselves and as their gradients.
PUBLISHED_IN_FLIGHT = 2
FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
NODE_FORM = f'write "node1 -- description -- {"=..., ".join(FIELDS)}=..."'
EDGE_FORM = 'write a tab and "node1 -- node2"'


@dataclass(frozen=True, slots=True)
class _Layer:
    """One node line: times in ms, sizes in bytes."""

    line: int
    id: str
    description: str
    forward_ms: float
    backward_ms: float
    activation_bytes: float
    parameter_bytes: float


def profile_name(path: str | os.PathLike[str]) -> str:
    """The name of a profile from the name of its file: vgg16 for vgg16.graph.txt."""
    stem = Path(path).stem
    return stem.removesuffix(".graph") or stem


# ---- parsing -------------------------------------------------------------------------------------------


def read_graph_txt(text: str, *, name: str = "profile", training: bool = True) -> Profile:
    """The profile in a ``graph.txt``; errors name the line."""
    layers, edges = _parse(text)
    readers: dict[str, dict[str, None]] = {layer.id: {} for layer in layers}
    for source, target in edges:
        readers[source][target] = None
    try:
        return Profile(
            nodes=tuple(_node(layer, training) for layer in layers),
            tensors=tuple(
                ProfileTensor(layer.id, layer.id, tuple(readers[layer.id]), layer.activation_bytes)
                for layer in layers
            ),
            name=name,
            training=training,
            time_unit="ms",
            source={"how": "pipedream", "times": "measured by PipeDream's profiler"},
        )
    except InputError as error:
        raise _at_line(error, layers) from None


def _node(layer: _Layer, training: bool) -> ProfileNode:
    return ProfileNode(
        layer.id,
        layer.forward_ms,
        layer.backward_ms if training else 0.0,
        saved_bytes=layer.activation_bytes if training else 0.0,
        buffer_bytes=0.0 if training else layer.activation_bytes,
        parameters={layer.id: layer.parameter_bytes} if layer.parameter_bytes else {},
        modules=(layer.description,) if layer.description else (),
    )


def _parse(text: str) -> tuple[list[_Layer], list[tuple[str, str]]]:
    """The layers and edges of a file; a line that is neither and an edge without its nodes are refused."""
    nodes: dict[str, _Layer] = {}
    edges: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line[0].isspace():
            ends = [end.strip() for end in line.strip().split(" -- ")]
            if len(ends) != 2 or not all(ends):
                raise InputError(f"line {number}", f"is no edge ({show(line.strip())})", EDGE_FORM)
            edges.append((number, ends[0], ends[1]))
            continue
        node = _parse_node(number, line)
        if node.id in nodes:
            what = f"repeats the node {show(node.id)} of line {nodes[node.id].line}"
            raise InputError(f"line {number}", what, "name each node once")
        nodes[node.id] = node
    for number, *ends in edges:
        missing = next((end for end in ends if end not in nodes), None)
        if missing is not None:
            what = f"names the unknown node {show(missing)}"
            raise InputError(f"line {number}", what, "add a line for that node")
        if ends[0] == ends[1]:
            raise InputError(f"line {number}", f"leads from {show(ends[0])} to itself", "remove the edge")
    return list(nodes.values()), [(source, target) for _, source, target in edges]


def _parse_node(number: int, line: str) -> _Layer:
    parts = [part.strip() for part in line.split(" -- ")]
    if parts[-1].startswith("stage_id="):
        parts.pop()
    if len(parts) < 3 or not parts[0]:
        raise InputError(f"line {number}", f"is neither a node nor an edge ({show(line)})", NODE_FORM)
    values: dict[str, float] = {}
    for entry in parts[-1].split(","):
        field, equals, amount = (part.strip() for part in entry.partition("="))
        where = f"line {number}, {field if field in FIELDS else show(field)}"
        if not equals or field not in FIELDS:
            raise InputError(where, "is no known entry", NODE_FORM)
        if field in values:
            raise InputError(where, "stands twice", "give it once")
        values[field] = _parse_amount(where, amount)
    for field in FIELDS:
        if field not in values:
            raise InputError(f"line {number}, {field}", "is missing", NODE_FORM)
    return _Layer(number, parts[0], " -- ".join(parts[1:-1]), *(values[field] for field in FIELDS))


def _parse_amount(where: str, text: str) -> float:
    """A number, or the sum of a list ``[a; b]``."""
    terms = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else [text]
    total = 0.0
    for term in terms:
        try:
            value = float(term) if "_" not in term else None
        except ValueError:
            value = None
        check_amount(where, term.strip() if value is None else value)
        total += value or 0.0
    return total


_PLACE = re.compile(r"(?:nodes|tensors)\[(\d+)\](?:\.(\w+))?.*")


def _at_line(error: InputError, layers: list[_Layer]) -> InputError:
    """The error with its line of the file in place of the node or tensor, where it names one."""
    if error.field == "tensors" and "cycle" in error.problem:
        return InputError("edges", error.problem, "remove one of its edges: the graph must be acyclic")
    match = _PLACE.fullmatch(error.field)
    if match is None:
        return error
    place = f"line {layers[int(match[1])].line}"
    return InputError(f"{place}, {match[2]}" if match[2] else place, error.problem, error.remedy)
