"""Seeded random placement problems. The same arguments give the same problem, on every machine and Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from .problem import Node, NodeId, PlacementProblem, check_amount, check_count

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a generator, as the command line offers it. `type` is int, float or flag."""

    name: str
    type: str
    default: Any
    help: str


@dataclass(frozen=True, slots=True)
class Generator:
    """A family of problems; every generator also takes the `COMMON` parameters."""

    name: str
    title: str
    build: Callable[..., PlacementProblem]
    parameters: tuple[Parameter, ...]

    def __call__(self, **arguments: Any) -> PlacementProblem:
        return self.build(**arguments)


COMMON = (
    Parameter("nodes", "int", 40, "how many forward nodes"),
    Parameter("accelerators", "int", 4, "how many accelerators"),
    Parameter("cpus", "int", 1, "how many CPUs"),
    Parameter("memory_bytes", "float", None, "memory of an accelerator; none: no limit"),
    Parameter("training", "flag", False, "add the backward pass"),
    Parameter("seed", "int", 0, "seed of all random numbers"),
)


@dataclass(frozen=True, slots=True)
class _Cluster:
    accelerators: int
    cpus: int
    memory_bytes: float | None


MAX_GENERATED = 100_000


def _start(nodes: int, seed: int) -> random.Random:
    check_count("nodes", nodes)
    if not 1 <= nodes <= MAX_GENERATED:
        raise InputError("nodes", f"is {nodes}", f"give a whole number from 1 to {MAX_GENERATED}")
    check_count("seed", seed)
    return random.Random(seed)


def _check_share(field: str, value: float) -> None:
    check_amount(field, value)
    if value > 1:
        raise InputError(field, f"is {value}, more than everything", "give a share from 0 to 1")


def _check_positive(field: str, value: int) -> None:
    check_count(field, value)
    if value < 1:
        raise InputError(field, f"is {value}", "give a whole number >= 1")


def chain(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
) -> PlacementProblem:
    """One node after the other."""
    rng = _start(nodes, seed)
    edges = [(v - 1, v) for v in range(1, nodes)]
    cluster = _Cluster(accelerators, cpus, memory_bytes)
    return _assemble(f"chain-{nodes}-{seed}", rng, nodes, edges, cluster, training)


def series_parallel(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
    branches: int = 4,
) -> PlacementProblem:
    """Blocks in series; a block forks into up to `branches` chains that join again."""
    rng = _start(nodes, seed)
    _check_positive("branches", branches)
    edges: list[Edge] = []
    last, used = 0, 1
    while used < nodes:
        room = nodes - used
        width = rng.randint(1, max(1, min(branches, room - 1)))
        ends = []
        for _ in range(width):
            length = rng.randint(1, max(1, min(4, (nodes - used - 1) // width)))
            tail = last
            for _ in range(length):
                if used < nodes:
                    edges.append((tail, used))
                    tail, used = used, used + 1
            if tail != last:
                ends.append(tail)
        if used < nodes:
            edges += [(tail, used) for tail in ends or [last]]
            last, used = used, used + 1
    cluster = _Cluster(accelerators, cpus, memory_bytes)
    return _assemble(f"series-parallel-{nodes}-{seed}", rng, nodes, edges, cluster, training)


def blocks(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
    branches: int = 4,
    length: int = 9,
) -> PlacementProblem:
    """Equal blocks in series: many ideals, (length + 1) ** branches for each block.

    A block is `branches` chains of `length` nodes and a node in which they join; what is left over is a chain.
    """
    rng = _start(nodes, seed)
    _check_positive("branches", branches)
    _check_positive("length", length)
    edges: list[Edge] = []
    last = 0
    while last + branches * length + 1 < nodes:
        join = last + branches * length + 1
        for branch in range(branches):
            row = [last, *range(last + 1 + branch * length, last + 1 + (branch + 1) * length), join]
            edges += itertools.pairwise(row)
        last = join
    edges += [(v - 1, v) for v in range(last + 1, nodes)]
    cluster = _Cluster(accelerators, cpus, memory_bytes)
    return _assemble(f"blocks-{nodes}-{branches}x{length}-{seed}", rng, nodes, edges, cluster, training)


def layered(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
    width: int = 4,
    density: float = 0.4,
) -> PlacementProblem:
    """Layers of `width` nodes; each node reads one or more of the layer before it."""
    rng = _start(nodes, seed)
    _check_positive("width", width)
    _check_share("density", density)
    edges: list[Edge] = []
    for v in range(width, nodes):
        first = v // width * width - width
        sources = [u for u in range(first, first + width) if rng.random() < density]
        edges += [(u, v) for u in sources or [rng.randrange(first, first + width)]]
    cluster = _Cluster(accelerators, cpus, memory_bytes)
    return _assemble(f"layered-{nodes}-{seed}", rng, nodes, edges, cluster, training)


def dnn(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = True,
    seed: int = 0,
    skip: float = 0.15,
) -> PlacementProblem:
    """An operator graph as frameworks export it: a spine with branches, skip connections and weights as free nodes.

    With training, some backward nodes have no forward partner (orphans) and some pairs have no common colour.
    """
    rng = _start(nodes, seed)
    _check_share("skip", skip)
    edges: list[Edge] = []
    spine = [0]
    weights: set[int] = set()
    for v in range(1, nodes):
        kind = rng.random()
        if kind < 0.25 and v + 1 < nodes:
            weights.add(v)  # read by the next node
            continue
        edges += [(u, v) for u in (v - 1,) if u in weights]
        edges.append((spine[-1], v))
        if rng.random() < skip and len(spine) > 3:
            edges.append((spine[-rng.randint(2, min(6, len(spine)))], v))
        if rng.random() > 0.2:
            spine.append(v)
    edges += [(v, nodes - 1) for v in weights if v + 1 == nodes - 1]
    problem = _assemble(
        f"dnn-{nodes}-{seed}", rng, nodes, edges, _Cluster(accelerators, cpus, memory_bytes), training, free=weights
    )
    return _loosen_colours(problem, rng) if training else problem


def heterogeneous(
    nodes: int = 40,
    accelerators: int = 4,
    cpus: int = 2,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
    unsupported: float = 0.1,
) -> PlacementProblem:
    """CPUs matter: some nodes run nowhere else, some run faster there, most run much slower."""
    rng = _start(nodes, seed)
    _check_share("unsupported", unsupported)
    if cpus < 1:
        raise InputError("cpus", f"is {cpus}", "give at least one CPU for the nodes that need one")
    base = series_parallel(nodes, accelerators, cpus, memory_bytes, False, seed)
    changed = tuple(
        replace(
            node,
            supported=rng.random() >= unsupported,
            cpu_time=round(node.accelerator_time * rng.choice((0.3, 1.0, 3.0, 20.0, 50.0)), 3),
        )
        for node in base.nodes
    )
    problem = base.replace(nodes=changed, name=f"heterogeneous-{nodes}-{seed}")
    return _with_backward(problem, rng) if training else problem


def random_dag(
    nodes: int = 7,
    accelerators: int = 2,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
    seed: int = 0,
    density: float = 0.4,
    ties: bool = True,
) -> PlacementProblem:
    """Tiny and mean, for comparisons with enumeration: zero costs, ties, unsupported nodes."""
    rng = _start(nodes, seed)
    _check_share("density", density)
    edges = [edge for edge in itertools.combinations(range(nodes), 2) if rng.random() < density]
    senders = {u for u, _ in edges}

    def amount(high: int) -> float:
        return float(rng.randint(0, high)) if ties else round(rng.uniform(0, high), 3)

    drawn = [
        Node(
            v,
            accelerator_time=amount(3),
            cpu_time=amount(9),
            size_bytes=float(rng.randint(0, 2)),
            transfer_time=amount(3) if v in senders else 0.0,
            supported=cpus == 0 or rng.random() < 0.85,
        )
        for v in range(nodes)
    ]
    problem = PlacementProblem(
        tuple(drawn), tuple(edges), accelerators, cpus, memory_bytes, f"random-dag-{nodes}-{seed}", None
    )
    return _loosen_colours(_with_backward(problem, rng), rng) if training else problem


def _assemble(
    name: str,
    rng: random.Random,
    count: int,
    edges: Sequence[Edge],
    cluster: _Cluster,
    training: bool,
    free: set[int] | None = None,
) -> PlacementProblem:
    """Draw times and sizes: work of 0.5 to 5 ms, CPUs 5 to 20 times slower, transfers of 0 to 1 ms."""
    senders = {u for u, _ in edges}
    nodes = []
    for v in range(count):
        is_free = free is not None and v in free
        work = 0.0 if is_free else round(rng.uniform(0.5, 5.0), 3)
        nodes.append(
            Node(
                v,
                accelerator_time=work,
                cpu_time=round(work * rng.uniform(5, 20), 3),
                size_bytes=float(rng.randint(1, 64) * 2**20),
                transfer_time=round(rng.uniform(0.0, 1.0), 3) if v in senders else 0.0,
            )
        )
    unique = tuple(dict.fromkeys(edges))
    problem = PlacementProblem(
        tuple(nodes), unique, cluster.accelerators, cluster.cpus, cluster.memory_bytes, name, "ms"
    )
    return _with_backward(problem, rng) if training else problem


def _with_backward(problem: PlacementProblem, rng: random.Random) -> PlacementProblem:
    """A backward node for each forward node, twice its work, mirrored edges, one colour per pair."""
    count = len(problem.nodes)
    forward = [replace(node, color=f"c{node.id}") for node in problem.nodes]
    edges: list[tuple[NodeId, NodeId]] = list(problem.edges)
    edges += [(f"b{v}", f"b{u}") for u, v in problem.edges]
    edges += [(node.id, f"b{node.id}") for i, node in enumerate(problem.nodes) if not problem.successors[i]]
    readers = {source for source, _ in edges}
    backward = [
        Node(
            f"b{node.id}",
            accelerator_time=2 * node.accelerator_time,
            cpu_time=2 * node.cpu_time,
            size_bytes=node.size_bytes,
            transfer_time=round(rng.uniform(0.0, 1.0), 3) if f"b{node.id}" in readers else 0.0,
            supported=node.supported,
            backward=True,
            color=node.color,
        )
        for node in reversed(forward)
    ]
    assert len(backward) == count
    return problem.replace(nodes=(*forward, *backward), edges=tuple(edges))


def _loosen_colours(problem: PlacementProblem, rng: random.Random) -> PlacementProblem:
    """A tenth of the backward nodes lose their colour, one in twenty gets that of another pair."""
    colors = [node.color for node in problem.nodes if node.color is not None]
    nodes = []
    for node in problem.nodes:
        if node.backward and rng.random() < 0.1:
            node = replace(node, color=None)
        elif node.backward and rng.random() < 0.05:
            node = replace(node, color=rng.choice(colors))
        nodes.append(node)
    return problem.replace(nodes=tuple(nodes))


def _generator(name: str, build: Callable[..., PlacementProblem], *own: Parameter) -> Generator:
    changed = {parameter.name for parameter in own}
    title = (build.__doc__ or "").strip().splitlines()[0]
    return Generator(name, title, build, (*(p for p in COMMON if p.name not in changed), *own))


GENERATORS: Mapping[str, Generator] = {
    generator.name: generator
    for generator in (
        _generator("chain", chain),
        _generator(
            "series-parallel", series_parallel, Parameter("branches", "int", 4, "how many chains a block has at most")
        ),
        _generator(
            "blocks",
            blocks,
            Parameter("branches", "int", 4, "how many chains a block has"),
            Parameter("length", "int", 9, "how many nodes a chain has"),
        ),
        _generator(
            "layered",
            layered,
            Parameter("width", "int", 4, "nodes in a layer"),
            Parameter("density", "float", 0.4, "share of possible edges between two layers"),
        ),
        _generator(
            "dnn",
            dnn,
            Parameter("training", "flag", True, "add the backward pass"),
            Parameter("skip", "float", 0.15, "share of nodes with a skip connection"),
        ),
        _generator(
            "heterogeneous",
            heterogeneous,
            Parameter("cpus", "int", 2, "how many CPUs"),
            Parameter("unsupported", "float", 0.1, "share of nodes that need a CPU"),
        ),
        _generator(
            "random-dag",
            random_dag,
            Parameter("nodes", "int", 7, "how many forward nodes"),
            Parameter("accelerators", "int", 2, "how many accelerators"),
            Parameter("density", "float", 0.4, "share of possible edges"),
            Parameter("ties", "flag", True, "whole numbers, so that many plans have equal values"),
        ),
    )
}
