"""Random placement problems. The same arguments give the same problem, on every machine and Python.

Lessons 5, 7 and 11 plan them, and so do tests and benchmarks. Published tables name their inputs by name and seed, so
these functions must go on to draw the same: `tests/instances/placement/test_random_placements.py` compares hashes.
Every function takes the arguments of `Cluster` besides its own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from pipeplan.instances.placement.problem import Node, NodeId, PlacementProblem

Edge = tuple[NodeId, NodeId]


class Cluster(TypedDict, total=False):
    """The devices, and what runs on them; what is left out has a default."""

    accelerators: int
    """4 by default."""
    cpus: int
    """1 by default."""
    memory_bytes: float | None
    """Memory of an accelerator; no limit by default."""
    training: bool
    """Is there a backward pass? Usually not."""


def chain(nodes: int = 40, seed: int = 0, **cluster: Unpack[Cluster]) -> PlacementProblem:
    """One node after the other."""
    edges = list(itertools.pairwise(range(nodes)))
    return _with_times(f"chain-{nodes}-{seed}", random.Random(seed), nodes, edges, **cluster)


def series_parallel(
    nodes: int = 40, seed: int = 0, branches: int = 4, **cluster: Unpack[Cluster]
) -> PlacementProblem:
    """Blocks in series; a block forks into up to `branches` chains that join again."""
    rng = random.Random(seed)
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
    return _with_times(f"series-parallel-{nodes}-{seed}", rng, nodes, edges, **cluster)


def blocks(
    nodes: int = 40, seed: int = 0, branches: int = 4, length: int = 9, **cluster: Unpack[Cluster]
) -> PlacementProblem:
    """Equal blocks in series: many ideals, (length + 1) ** branches for each block.

    A block is `branches` chains of `length` nodes and a node in which they join; what is left over is a chain.
    """
    edges: list[Edge] = []
    last = 0
    while last + branches * length + 1 < nodes:
        join = last + branches * length + 1
        for branch in range(branches):
            row = [last, *range(last + 1 + branch * length, last + 1 + (branch + 1) * length), join]
            edges += itertools.pairwise(row)
        last = join
    edges += [(v - 1, v) for v in range(last + 1, nodes)]
    return _with_times(f"blocks-{nodes}-{branches}x{length}-{seed}", random.Random(seed), nodes, edges, **cluster)


def layered(
    nodes: int = 40, seed: int = 0, width: int = 4, density: float = 0.4, **cluster: Unpack[Cluster]
) -> PlacementProblem:
    """Layers of `width` nodes; each node reads one or more of the layer before it, each with the chance `density`."""
    rng = random.Random(seed)
    edges: list[Edge] = []
    for v in range(width, nodes):
        first = v // width * width - width
        sources = [u for u in range(first, first + width) if rng.random() < density]
        edges += [(u, v) for u in sources or [rng.randrange(first, first + width)]]
    return _with_times(f"layered-{nodes}-{seed}", rng, nodes, edges, **cluster)


def dnn(nodes: int = 40, seed: int = 0, skip: float = 0.15, **cluster: Unpack[Cluster]) -> PlacementProblem:
    """An operator graph as frameworks export it: a spine with branches, skip connections and weights as free nodes.

    A share `skip` of the nodes has a skip connection. Here training is the default; then some backward nodes have no
    forward partner (orphans) and some pairs have no common colour.
    """
    rng = random.Random(seed)
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
    training = cluster.setdefault("training", True)
    problem = _with_times(f"dnn-{nodes}-{seed}", rng, nodes, edges, weights, **cluster)
    return _loosen_colours(problem, rng) if training else problem


def heterogeneous(
    nodes: int = 40, seed: int = 0, unsupported: float = 0.1, cpus: int = 2, **cluster: Unpack[Cluster]
) -> PlacementProblem:
    """CPUs matter: a share `unsupported` of the nodes runs nowhere else, some run faster there, most much slower."""
    rng, training = random.Random(seed), cluster.pop("training", False)
    base = series_parallel(nodes, seed, cpus=cpus, **cluster)
    changed = tuple(
        replace(
            node,
            supported=rng.random() >= unsupported,
            cpu_time=round(node.accelerator_time * rng.choice((0.3, 1.0, 3.0, 20.0, 50.0)), 3),
        )
        for node in base.nodes
    )
    problem = base.replace(nodes=changed, name=f"heterogeneous-{nodes}-{seed}")
    return with_backward(problem, _any_transfer(rng)) if training else problem


def random_dag(
    nodes: int = 7,
    seed: int = 0,
    density: float = 0.4,
    ties: bool = True,
    accelerators: int = 2,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
) -> PlacementProblem:
    """Tiny problems with awkward cases (zero costs, ties, unsupported nodes), to be compared with enumeration.

    Each possible edge is there with the chance `density`. With `ties` times are whole numbers, so that many plans have
    equal values.
    """
    rng = random.Random(seed)
    edges = [edge for edge in itertools.combinations(range(nodes), 2) if rng.random() < density]
    senders = {u for u, _ in edges}

    def amount(high: int) -> float:
        return float(rng.randint(0, high)) if ties else round(rng.uniform(0, high), 3)

    drawn = tuple(
        Node(
            v,
            accelerator_time=amount(3),
            cpu_time=amount(9),
            size_bytes=float(rng.randint(0, 2)),
            transfer_time=amount(3) if v in senders else 0.0,
            supported=cpus == 0 or rng.random() < 0.85,
        )
        for v in range(nodes)
    )
    name = f"random-dag-{nodes}-{seed}"
    problem = PlacementProblem(drawn, tuple(edges), accelerators, cpus, memory_bytes, name, None)
    return _loosen_colours(with_backward(problem, _any_transfer(rng)), rng) if training else problem


def _with_times(
    name: str,
    rng: random.Random,
    count: int,
    edges: Sequence[Edge],
    free: Collection[int] = (),
    *,
    accelerators: int = 4,
    cpus: int = 1,
    memory_bytes: float | None = None,
    training: bool = False,
) -> PlacementProblem:
    """Draw times and sizes: work of 0.5 to 5 ms, CPUs 5 to 20 times slower, transfers of 0 to 1 ms."""
    senders = {u for u, _ in edges}
    nodes = []
    for v in range(count):
        work = 0.0 if v in free else round(rng.uniform(0.5, 5.0), 3)
        nodes.append(
            Node(
                v,
                accelerator_time=work,
                cpu_time=round(work * rng.uniform(5, 20), 3),
                size_bytes=float(rng.randint(1, 64) * 2**20),
                transfer_time=round(rng.uniform(0.0, 1.0), 3) if v in senders else 0.0,
            )
        )
    different = tuple(dict.fromkeys(edges))
    problem = PlacementProblem(tuple(nodes), different, accelerators, cpus, memory_bytes, name, "ms")
    return with_backward(problem, _any_transfer(rng)) if training else problem


def with_backward(problem: PlacementProblem, transfer: Callable[[Node], float]) -> PlacementProblem:
    """A backward node for each forward node, twice its work, mirrored edges, one colour per pair."""
    forward = [replace(node, color=f"c{node.id}") for node in problem.nodes]
    edges: list[Edge] = list(problem.edges)
    edges += [(f"b{v}", f"b{u}") for u, v in problem.edges]
    edges += [(node.id, f"b{node.id}") for i, node in enumerate(problem.nodes) if not problem.successors[i]]
    readers = {source for source, _ in edges}
    backward = [
        Node(
            f"b{node.id}",
            accelerator_time=2 * node.accelerator_time,
            cpu_time=2 * node.cpu_time,
            size_bytes=node.size_bytes,
            transfer_time=transfer(node) if f"b{node.id}" in readers else 0.0,
            supported=node.supported,
            backward=True,
            color=node.color,
        )
        for node in reversed(forward)
    ]
    return problem.replace(nodes=(*forward, *backward), edges=tuple(edges))


def _any_transfer(rng: random.Random) -> Callable[[Node], float]:
    return lambda node: round(rng.uniform(0.0, 1.0), 3)


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


FAMILIES: Mapping[str, Callable[..., PlacementProblem]] = {
    "chain": chain,
    "series-parallel": series_parallel,
    "blocks": blocks,
    "layered": layered,
    "dnn": dnn,
    "heterogeneous": heterogeneous,
    "random-dag": random_dag,
}
