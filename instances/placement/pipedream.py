"""PipeDream's profiles (``graph.txt``): a layer graph with measured times, lowered to a placement problem.

A profile has node lines and tab-indented edge lines:

    node4 -- ReLU() -- forward_compute_time=1.5, backward_compute_time=2.5, activation_size=9.0, parameter_size=0.0
    <tab>node4 -- node5

in milliseconds and bytes; several outputs are written ``activation_size=[9.0; 4.0]`` and summed. A
`` -- stage_id=...`` at the end is somebody's plan and no part of the problem.

The lowering, which gives the published layer graphs of Tarnawski et al. where those came from profiles:

- accelerator time: the forward (or backward) time; CPU time: that times `cpu_slowdown`;
- memory of a node: parameters + activations; the backward node again needs as much (their gradients);
- transfer time: activations / bandwidth, and 0 where nobody reads them;
- training: every layer gets a backward node of its own colour, so that both share a device. An edge between
  backward nodes points the way of its forward edge, because it stands for the gradient of the forward
  edge's tensor: one tensor per producer, as large as the forward one, whichever way it travels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..checks import check_amount, check_positive
from ..errors import InputError, show
from .problem import Node, NodeId, PlacementProblem

BACKWARD_SUFFIX = "/backward"
FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
NODE_FORM = f'write "node1 -- description -- {"=..., ".join(FIELDS)}=..."'
EDGE_FORM = 'write a tab and "node1 -- node2"'

MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """One node line: times in ms, sizes in bytes."""

    line: int
    id: str
    description: str
    forward_ms: float
    backward_ms: float
    activation_bytes: float
    parameter_bytes: float


@dataclass(frozen=True, slots=True)
class ProfileEdge:
    line: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A parsed ``graph.txt``, before any cluster is known."""

    nodes: tuple[ProfileNode, ...]
    edges: tuple[ProfileEdge, ...]


@dataclass(frozen=True, slots=True)
class ProfileCluster:
    """What a profile does not say. `memory_bytes` None: no limit; `bandwidth` in bytes per second."""

    accelerators: int
    memory_bytes: float | None
    bandwidth: float
    cpus: int = 0
    cpu_slowdown: float | None = None
    """How many times longer a CPU takes than the accelerator of the profile; needed where there are CPUs."""

    def __post_init__(self) -> None:
        check_positive("bandwidth", self.bandwidth, "give bytes per second, such as --bandwidth 25GiB/s")
        if self.cpu_slowdown is not None:
            check_positive("cpu_slowdown", self.cpu_slowdown, "give a factor, such as --cpu-slowdown 10")
        elif self.cpus:
            raise InputError(
                "cpu_slowdown",
                "is missing although there are CPUs: a profile holds no CPU times",
                "give --cpu-slowdown, a factor on the accelerator times, or no CPU",
            )


def profile_name(path: str | os.PathLike[str]) -> str:
    """vgg16 for vgg16.graph.txt."""
    stem = Path(path).stem
    return stem.removesuffix(".graph") or stem


# ---- parsing -------------------------------------------------------------------------------------------


def looks_like_profile(text: str) -> bool:
    """Is there a node or edge line among the first ones?"""
    return any(" -- " in line for line in text.splitlines()[:100])


def parse_profile(text: str) -> Profile:
    """Parse a ``graph.txt``; errors name the line."""
    nodes: dict[str, ProfileNode] = {}
    edges = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line[0].isspace():
            edges.append(_parse_edge(number, line))
            continue
        node = _parse_node(number, line)
        if node.id in nodes:
            raise InputError(
                f"line {number}",
                f"repeats the node {show(node.id)} of line {nodes[node.id].line}",
                "name each node once",
            )
        nodes[node.id] = node
    for edge in edges:
        for end in (edge.source, edge.target):
            if end not in nodes:
                raise InputError(
                    f"line {edge.line}", f"names the unknown node {show(end)}", "add a line for that node"
                )
    return Profile(tuple(nodes.values()), tuple(edges))


def _parse_edge(number: int, line: str) -> ProfileEdge:
    ends = line.strip().split(" -- ")
    if len(ends) != 2 or not all(map(str.strip, ends)):
        raise InputError(f"line {number}", f"is no edge ({show(line.strip())})", EDGE_FORM)
    return ProfileEdge(number, ends[0].strip(), ends[1].strip())


def _parse_node(number: int, line: str) -> ProfileNode:
    parts = [part.strip() for part in line.split(" -- ")]
    if parts[-1].startswith("stage_id="):
        parts.pop()
    if len(parts) < 3 or not parts[0]:
        raise InputError(f"line {number}", f"is neither a node nor an edge ({show(line)})", NODE_FORM)
    values = _parse_values(number, parts[-1])
    return ProfileNode(number, parts[0], " -- ".join(parts[1:-1]), *(values[field] for field in FIELDS))


def _parse_values(number: int, text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for entry in text.split(","):
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
    return values


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


# ---- lowering ------------------------------------------------------------------------------------------


def lower_profile(
    profile: Profile, cluster: ProfileCluster, *, training: bool = True, name: str = "profile"
) -> PlacementProblem:
    """The placement problem of a parsed profile; the rules stand at the top of this module."""
    read = {edge.source for edge in profile.edges}
    nodes = [_lower_node(node, cluster, node.id in read, False, training) for node in profile.nodes]
    edges: list[tuple[NodeId, NodeId]] = [(edge.source, edge.target) for edge in profile.edges]
    if training:
        nodes += [_lower_node(node, cluster, node.id in read, True, training) for node in profile.nodes]
        edges += [(edge.source + BACKWARD_SUFFIX, edge.target + BACKWARD_SUFFIX) for edge in profile.edges]
    try:
        return PlacementProblem(
            nodes=tuple(nodes),
            edges=tuple(edges),
            accelerators=cluster.accelerators,
            cpus=cluster.cpus,
            memory_bytes=cluster.memory_bytes,
            name=name,
            time_unit="ms",
        )
    except InputError as error:
        raise _at_line(error, profile) from None


def _lower_node(node: ProfileNode, cluster: ProfileCluster, is_read: bool, backward: bool, training: bool) -> Node:
    time = node.backward_ms if backward else node.forward_ms
    return Node(
        id=node.id + BACKWARD_SUFFIX if backward else node.id,
        accelerator_time=time,
        # Without a CPU the factor is of no consequence, and none has to be given.
        cpu_time=time * (cluster.cpu_slowdown or 1.0),
        size_bytes=node.parameter_bytes + node.activation_bytes,
        transfer_time=MS_PER_S * node.activation_bytes / cluster.bandwidth if is_read else 0.0,
        backward=backward,
        color=node.id if training else None,
        name=node.description or None,
    )


_PLACE = re.compile(r"(nodes|edges)\[(\d+)\](?:\.(\w+))?")


def _at_line(error: InputError, profile: Profile) -> InputError:
    """The place of an error as a line of the profile, where it has one."""
    match = _PLACE.fullmatch(error.field)
    if match is None:
        return error.renamed({"accelerators": "--devices", "cpus": "--cpus", "memory_bytes": "--memory"})
    lines: Sequence[ProfileNode | ProfileEdge] = profile.nodes if match[1] == "nodes" else profile.edges
    place = f"line {lines[int(match[2]) % len(lines)].line}"
    return InputError(f"{place}, {match[3]}" if match[3] else place, error.problem, error.remedy)
