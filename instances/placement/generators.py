"""Seeded random placement problems. The same arguments give the same problem, on every machine and Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..base.checks import check_amount, check_count
from ..base.errors import InputError
from ..base.kind import Generator, Parameter
from .problem import Node, NodeId, PlacementProblem

Edge = tuple[NodeId, NodeId]
COMMON = (
    Parameter("nodes", "int", 40, "how many forward nodes"),
    Parameter("accelerators", "int", 4, "how many accelerators"),
    Parameter("cpus", "int", 1, "how many CPUs"),
    Parameter("memory_bytes", "float", None, "memory of an accelerator; none: no limit"),
    Parameter("training", "flag", False, "add the backward pass"),
    Parameter("seed", "int", 0, "seed of all random numbers"),
)
# A larger number of nodes is refused before anything of that size is made.
MAX_GENERATED = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments that every family of placements takes: the values of `COMMON`."""

    nodes: int
    accelerators: int
    cpus: int
    memory_bytes: float | None
    training: bool
    seed: int

    def start(self) -> random.Random:
        """Check the number of nodes and the seed, and return the source of all random numbers."""
        check_count("nodes", self.nodes)
        if not 1 <= self.nodes <= MAX_GENERATED:
            raise InputError("nodes", f"is {self.nodes}", f"give a whole number from 1 to {MAX_GENERATED}")
        check_count("seed", self.seed)
        return random.Random(self.seed)

    def called(self, family: str) -> str:
        return f"{family}-{self.nodes}-{self.seed}"

    def problem(
        self, nodes: Iterable[Node], edges: Iterable[Edge], name: str, time_unit: str | None
    ) -> PlacementProblem:
        return PlacementProblem(
            tuple(nodes), tuple(edges), self.accelerators, self.cpus, self.memory_bytes, name, time_unit
        )


def _family(name: str, *new: Parameter) -> Callable[[Callable[..., PlacementProblem]], Generator[PlacementProblem]]:
    """Make a generator of a function of `Asked` and further parameters; one with a common name has another default."""
    changed = {parameter.name for parameter in new}
    parameters = (*(p for p in COMMON if p.name not in changed), *new)
    common = [parameter.name for parameter in COMMON]

    def generator(draw: Callable[..., PlacementProblem]) -> Generator[PlacementProblem]:
        def build(**arguments: Any) -> PlacementProblem:
            asked = Asked(**{key: arguments.pop(key) for key in common})
            return draw(asked, **arguments)

        title = (draw.__doc__ or "").strip().splitlines()[0]
        return Generator(name, title, build, parameters)

    return generator


def _check_share(field: str, value: float) -> None:
    check_amount(field, value)
    if value > 1:
        raise InputError(field, f"is {value}, more than everything", "give a share from 0 to 1")


def _check_positive(field: str, value: int) -> None:
    check_count(field, value)
    if value < 1:
        raise InputError(field, f"is {value}", "give a whole number >= 1")


@_family("chain")
def chain(asked: Asked) -> PlacementProblem:
    """One node after the other."""
    rng, nodes = asked.start(), asked.nodes
    edges = [(v - 1, v) for v in range(1, nodes)]
    return _assemble(asked, rng, asked.called("chain"), edges)


@_family("series-parallel", Parameter("branches", "int", 4, "how many chains a block has at most"))
def series_parallel(asked: Asked, branches: int) -> PlacementProblem:
    """Blocks in series; a block forks into up to `branches` chains that join again."""
    rng, nodes = asked.start(), asked.nodes
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
    return _assemble(asked, rng, asked.called("series-parallel"), edges)


@_family(
    "blocks",
    Parameter("branches", "int", 4, "how many chains a block has"),
    Parameter("length", "int", 9, "how many nodes a chain has"),
)
def blocks(asked: Asked, branches: int, length: int) -> PlacementProblem:
    """Equal blocks in series: many ideals, (length + 1) ** branches for each block.

    A block is `branches` chains of `length` nodes and a node in which they join; what is left over is a chain.
    """
    rng, nodes = asked.start(), asked.nodes
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
    return _assemble(asked, rng, f"blocks-{nodes}-{branches}x{length}-{asked.seed}", edges)


@_family(
    "layered",
    Parameter("width", "int", 4, "nodes in a layer"),
    Parameter("density", "float", 0.4, "share of possible edges between two layers"),
)
def layered(asked: Asked, width: int, density: float) -> PlacementProblem:
    """Layers of `width` nodes; each node reads one or more of the layer before it."""
    rng, nodes = asked.start(), asked.nodes
    _check_positive("width", width)
    _check_share("density", density)
    edges: list[Edge] = []
    for v in range(width, nodes):
        first = v // width * width - width
        sources = [u for u in range(first, first + width) if rng.random() < density]
        edges += [(u, v) for u in sources or [rng.randrange(first, first + width)]]
    return _assemble(asked, rng, asked.called("layered"), edges)


@_family(
    "dnn",
    Parameter("training", "flag", True, "add the backward pass"),
    Parameter("skip", "float", 0.15, "share of nodes with a skip connection"),
)
def dnn(asked: Asked, skip: float) -> PlacementProblem:
    """An operator graph as frameworks export it: a spine with branches, skip connections and weights as free nodes.

    With training, some backward nodes have no forward partner (orphans) and some pairs have no common colour.
    """
    rng, nodes = asked.start(), asked.nodes
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
    problem = _assemble(asked, rng, asked.called("dnn"), edges, free=weights)
    return _loosen_colours(problem, rng) if asked.training else problem


@_family(
    "heterogeneous",
    Parameter("cpus", "int", 2, "how many CPUs"),
    Parameter("unsupported", "float", 0.1, "share of nodes that need a CPU"),
)
def heterogeneous(asked: Asked, unsupported: float) -> PlacementProblem:
    """CPUs matter: some nodes run nowhere else, some run faster there, most run much slower."""
    rng = asked.start()
    _check_share("unsupported", unsupported)
    if asked.cpus < 1:
        raise InputError("cpus", f"is {asked.cpus}", "give at least one CPU for the nodes that need one")
    base = series_parallel(**{**asdict(asked), "training": False})
    changed = tuple(
        replace(
            node,
            supported=rng.random() >= unsupported,
            cpu_time=round(node.accelerator_time * rng.choice((0.3, 1.0, 3.0, 20.0, 50.0)), 3),
        )
        for node in base.nodes
    )
    problem = base.replace(nodes=changed, name=asked.called("heterogeneous"))
    return with_backward(problem, _any_transfer(rng)) if asked.training else problem


@_family(
    "random-dag",
    Parameter("nodes", "int", 7, "how many forward nodes"),
    Parameter("accelerators", "int", 2, "how many accelerators"),
    Parameter("density", "float", 0.4, "share of possible edges"),
    Parameter("ties", "flag", True, "whole numbers, so that many plans have equal values"),
)
def random_dag(asked: Asked, density: float, ties: bool) -> PlacementProblem:
    """Tiny problems with awkward cases (zero costs, ties, unsupported nodes), to be compared with enumeration."""
    rng, nodes = asked.start(), asked.nodes
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
            supported=asked.cpus == 0 or rng.random() < 0.85,
        )
        for v in range(nodes)
    ]
    problem = asked.problem(drawn, edges, asked.called("random-dag"), None)
    return _loosen_colours(with_backward(problem, _any_transfer(rng)), rng) if asked.training else problem


def _assemble(
    asked: Asked, rng: random.Random, name: str, edges: Sequence[Edge], free: Collection[int] = ()
) -> PlacementProblem:
    """Draw times and sizes: work of 0.5 to 5 ms, CPUs 5 to 20 times slower, transfers of 0 to 1 ms."""
    senders = {u for u, _ in edges}
    nodes = []
    for v in range(asked.nodes):
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
    problem = asked.problem(nodes, dict.fromkeys(edges), name, "ms")
    return with_backward(problem, _any_transfer(rng)) if asked.training else problem


def with_backward(problem: PlacementProblem, transfer: Callable[[Node], float]) -> PlacementProblem:
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
            transfer_time=transfer(node) if f"b{node.id}" in readers else 0.0,
            supported=node.supported,
            backward=True,
            color=node.color,
        )
        for node in reversed(forward)
    ]
    assert len(backward) == count
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


GENERATORS: Mapping[str, Generator[PlacementProblem]] = {
    generator.name: generator
    for generator in (chain, series_parallel, blocks, layered, dnn, heterogeneous, random_dag)
}
