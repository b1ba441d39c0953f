"""Small problems of every kind with the numbers and shapes that lead methods astray: the one home of nasty inputs.

Zero times, ties, decimals whose sums meet the memory to the last digit or miss it by a hair, magnitudes from 1e-9 to
1e12 in one problem, sentinels (1e9, 1e12, 1e16) that people write for "forbidden", CPUs alone, colour classes, more
devices than nodes, graphs in several parts, without edges, of one node. All are small enough for the enumerations in
`*_brute_force.py`. The same seed is the same problem. `scaled`, `renamed` and `better` make the problems whose optima
are known from that of another one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipeplan.instances.amounts import as_written, exact_sum
from pipeplan.instances.chain import ChainProblem
from pipeplan.instances.errors import InputError
from pipeplan.instances.graph_pipeline import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.kinds import Problem
from pipeplan.instances.placement import Node, PlacementProblem
from pipeplan.instances.staging import Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.variants import variants

Arc = tuple[int, int]

SENTINELS = (1e9, 1e12, 1e16)
"""What stands for "never do this" in files."""

TIMES: Mapping[str, tuple[float, ...]] = {
    "whole": (1.0, 2.0, 3.0, 5.0, 7.0),
    "ties": (1.0, 1.0, 1.0, 2.0),
    "tenths": (0.1, 0.2, 0.3, 0.7, 1.1, 2.3),
    "digits": (0.123456789, 1.000000001, 0.999999999, 2.718281828, 3.1),
    "thirds": (0.3333333333333333, 0.6666666666666666, 1.0),
    "spread": (1e-9, 3e-6, 2e-3, 1.0, 4e3, 7e6, 1e9, 2e12),
}
SIZES: Mapping[str, tuple[float, ...]] = {
    "whole": (1, 2, 3, 4),
    "ties": (1, 1, 2),
    "tenths": (0.1, 0.2, 0.3, 0.7, 1.1),
    "bytes": (2**33, 2**33 + 17, 2**33 + 1000, 2**30, 1),
    "spread": (1e-9, 2e-3, 1.0, 4e3, 1e12),
}


class Numbers:
    """Amounts of one flavour: zeros often, a sentinel now and then where the flavour is "sentinels"."""

    def __init__(self, rng: random.Random, table: Mapping[str, Sequence[float]], zeros: float = 0.25) -> None:
        self.rng, self.zeros = rng, zeros
        flavour = rng.choice((*table, "sentinels"))
        self.sentinel = rng.choice(SENTINELS) if flavour == "sentinels" else None
        self.values = table["tenths" if flavour == "sentinels" else flavour]

    def __call__(self) -> float:
        if self.sentinel is not None and self.rng.random() < 0.15:
            return self.sentinel
        return 0.0 if self.rng.random() < self.zeros else self.rng.choice(self.values)


def limit_at(rng: random.Random, sums: Iterable[Fraction]) -> float | None:
    """A memory that some of the sums meet exactly, or miss by a hair; at times no limit, or nothing at all."""
    candidates = sorted(set(sums) - {Fraction(0)})
    if not candidates or rng.random() < 0.15:
        return rng.choice((None, None, 0.0))
    chosen = rng.choice(candidates)
    return float(
        chosen * rng.choice((1, 1, 1, 1 - Fraction(1, 10**10), 1 - Fraction(1, 10**7), 1 + Fraction(1, 10**7)))
    )


def some_sums(rng: random.Random, amounts: Sequence[float], count: int = 8) -> Iterator[Fraction]:
    for _ in range(count):
        yield exact_sum(rng.sample(amounts, rng.randint(1, len(amounts))))


def arcs(rng: random.Random, count: int) -> list[Arc]:
    """From lower to higher positions: none, a row, several parts, a star, or any."""
    pairs = list(itertools.combinations(range(count), 2))
    shape = rng.choice(("none", "row", "parts", "star", "any", "any", "dense"))
    if shape == "none":
        return []
    if shape == "row":
        return [(u, u + 1) for u in range(count - 1)]
    if shape == "parts":
        return [(u, v) for u, v in pairs if u % 2 == v % 2 and rng.random() < 0.7]
    if shape == "star":
        return [(0, v) for v in range(1, count)] if rng.random() < 0.5 else [(u, count - 1) for u in range(count - 1)]
    return [pair for pair in pairs if rng.random() < (0.8 if shape == "dense" else 0.4)]


def ids(rng: random.Random, count: int) -> list[int | str]:
    """Whole numbers, texts, or both: 1 and "1" are two ids."""
    names: list[int | str] = [*range(count)]
    if rng.random() < 0.3:
        names = [name if rng.random() < 0.5 else f"{rng.choice(range(count))} {name}" for name in names]
    rng.shuffle(names)
    return names


# ---- placements ------------------------------------------------------------------------------------------


def placement(rng: random.Random, most_nodes: int = 6, most_accelerators: int = 4) -> PlacementProblem:
    count = rng.choice((1, *range(2, most_nodes + 1), *range(3, most_nodes + 1)))
    edges, names = arcs(rng, count), ids(rng, count)
    cpus = rng.choice((0, 0, 1, 1, 2))
    accelerators = rng.choice((0, *range(1, most_accelerators + 1))) if cpus else rng.randint(1, most_accelerators)
    backward = count - rng.randrange(count) if rng.random() < 0.4 else count
    colors = rng.choice(((None,), (None, None, "a"), (None, "a", 7)))
    times, transfers, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.4), Numbers(rng, SIZES, 0.3)
    if rng.random() < 0.6:
        transfers = times  # otherwise the magnitudes of the two have nothing to do with each other
    senders = {u for u, _ in edges}
    nodes = tuple(
        Node(
            names[v],
            accelerator_time=times(),
            cpu_time=times(),
            size_bytes=sizes(),
            transfer_time=transfers() if v in senders else 0.0,
            supported=not cpus or rng.random() < 0.85,
            backward=v >= backward,
            color=rng.choice(colors),
        )
        for v in range(count)
    )
    memory = limit_at(rng, some_sums(rng, [node.size_bytes for node in nodes]))
    return PlacementProblem(nodes, tuple((names[u], names[v]) for u, v in edges), accelerators, cpus, memory)


def latency(rng: random.Random) -> PlacementProblem:
    """With few nodes: pieces multiply the plans."""
    problem = placement(rng, most_nodes=5, most_accelerators=2)
    return problem if len(problem.nodes) > 2 or rng.random() < 0.5 else problem.replace(accelerators=3)


# ---- chains ----------------------------------------------------------------------------------------------


def chain(rng: random.Random) -> ChainProblem:
    """Two or three different times, so that few instants matter; times of a sentinel's size among them."""
    layers = rng.choice((1, 2, 2, 3))
    palette = rng.choice(((1.0, 2.0), (1.0, 2.0, 3.0), (0.1, 0.2), (0.1, 0.2, 0.3), (1e-9, 1.0), (1.0, 1e9), (0.7,)))

    def times(count: int, zeros: float) -> tuple[float, ...]:
        return tuple(0.0 if rng.random() < zeros else rng.choice(palette) for _ in range(count))

    sizes = Numbers(rng, SIZES, 0.2)
    forward, backward = times(layers, 0.2), times(layers, 0.2)
    if not any((*forward, *backward)):
        backward = (*backward[:-1], palette[0])
    moved = rng.random()
    problem = ChainProblem(
        forward,
        backward,
        activations=tuple(sizes() for _ in range(2 * layers + 1)),
        weights=tuple(sizes() for _ in range(layers)),
        gpus=rng.choice((1, 2, 2, 2, 3)),
        transfer_times=times(2 * layers - 1, 0.5) if moved < 0.5 else None,
        duplex=rng.choice(("half", "full")),
        weight_copies=rng.choice((1.0, 3.0, 2.5, 0.1)),
        memory_mode=rng.choice(("reserved", "inputs", "weights")),
    )
    return problem.replace(memory_bytes=limit_at(rng, _chain_sums(rng, problem)))


def _chain_sums(rng: random.Random, problem: ChainProblem) -> Iterator[Fraction]:
    """Weights of some layers with one to three copies of some of their activations."""
    for _ in range(8):
        held = rng.sample(range(problem.layers), rng.randint(1, problem.layers))
        weights = as_written(problem.weight_copies) * exact_sum(problem.weights[layer] for layer in held)
        kept = exact_sum(rng.randint(1, 3) * as_written(problem.activations[layer]) for layer in held)
        extra = exact_sum(rng.sample(problem.activations, rng.randint(0, 2)))
        yield weights + kept + (extra if problem.memory_mode == "reserved" else 0)


# ---- stagings --------------------------------------------------------------------------------------------


def staging(rng: random.Random, most_layers: int = 4) -> StagingProblem:
    count = rng.randint(1, most_layers)
    edges, names = arcs(rng, count), ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)
    devices = rng.randint(1, 4)

    def way(v: int, t: int, number: int) -> Configuration:
        near_in = [names[u] for u, w in edges if w == v and rng.random() < 0.3]
        near_out = [names[w] for u, w in edges if u == v and rng.random() < 0.3]
        return Configuration(
            f"{t}.{number}",
            times(),
            weight_bytes=bytes_(),
            memory_per_batch=sizes(),
            memory_fixed=sizes(),
            gather_in={name: bytes_() for name in near_in},
            gather_out={name: bytes_() for name in near_out},
        )

    def ways(v: int) -> dict[int, tuple[Configuration, ...]]:
        degrees = [t for t in (1, 2, 3) if rng.random() < (0.9 if t == 1 else 0.4)] or [2]
        return {t: tuple(way(v, t, number) for number in range(rng.choice((1, 1, 2)))) for t in degrees}

    layers = tuple(Layer(names[v], ways(v)) for v in range(count))
    return StagingProblem(
        layers,
        tuple(Edge(names[u], names[v], bytes_()) for u, v in edges),
        devices,
        bandwidth=rng.choice((1.0, 0.1, 3.0, 1e9, 1e-3)),
        micro_batches=rng.choice((1, 2, 3, 4, 6)),
        exact_batches=rng.random() < 0.2,
        memory_bytes=limit_at(rng, _staging_sums(rng, layers)),
    )


def _staging_sums(rng: random.Random, layers: Sequence[Layer]) -> Iterator[Fraction]:
    for _ in range(8):
        held = rng.sample(layers, rng.randint(1, len(layers)))
        in_flight = rng.randint(1, 4)
        chosen = [rng.choice(rng.choice([ways for ways in layer.configurations.values() if ways])) for layer in held]
        yield exact_sum(in_flight * as_written(way.memory_per_batch) + as_written(way.memory_fixed) for way in chosen)


def levels(rng: random.Random) -> StagingProblem:
    """Two levels, mostly; three layers at most."""
    flat = staging(rng, most_layers=3).replace(exact_batches=False)
    shape = rng.choice(((2, 2), (1, 2), (2, 1), (3,), (1, 1, 2), (1, 3)))
    total = 1
    for devices in shape:
        total *= devices
    found = tuple(StagingLevel(devices, flat.bandwidth * rng.choice((1, 2, 10))) for devices in shape)
    return flat.replace(devices=total, levels=found)


# ---- graph pipelines -------------------------------------------------------------------------------------


def graph_pipeline(rng: random.Random) -> GraphPipelineProblem:
    count = rng.randint(1, 5)
    edges, names = arcs(rng, count), ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)

    def curve() -> TimeCurve:
        points = rng.choice(((1.0,), (2.0,), (0.5, 1.0), (1.0, 2.0, 4.0)))
        return TimeCurve(points, tuple(sorted(times() for _ in points)))

    mini_batch = rng.choice((1, 2, 4, 6, 8))
    operators = tuple(Operator(name, curve(), curve(), sizes(), sizes(), bytes_()) for name in names)
    copies, workspace = rng.choice((2.0, 1.0, 0.1)), rng.choice((0.0, 0.0, sizes()))
    sums = list(_graph_sums(rng, operators, mini_batch, copies, workspace))
    problem = GraphPipelineProblem(
        operators,
        tuple((names[u], names[v]) for u, v in edges),
        mini_batch,
        devices=rng.choice((1, 2, 2, 3, 4)),
        memory_bytes=limit_at(rng, sums),
        link=rng.choice((Link(), Link(8.0, 0.1), Link(1e9, 0.0), Link(0.1, 1e-9))),
        weight_copies=copies,
        workspace_bytes=workspace,
    )
    if rng.random() < 0.7:
        return problem
    return problem.replace(node_link=rng.choice((Link(), Link(2.0, 0.3))), devices_per_node=rng.randint(1, 2))


def _graph_sums(
    rng: random.Random, operators: Sequence[Operator], mini_batch: int, copies: float, workspace: float
) -> Iterator[Fraction]:
    for _ in range(8):
        held = rng.sample(operators, rng.randint(1, len(operators)))
        samples = Fraction(rng.randint(1, mini_batch), rng.choice((1, 1, 2, 3)))
        weights = as_written(copies) * exact_sum(operator.weight_bytes for operator in held)
        yield weights + samples * exact_sum(operator.stash_bytes for operator in held) + as_written(workspace)


# ---- all of them -----------------------------------------------------------------------------------------

MAKERS: Mapping[str, Callable[[random.Random], Problem]] = {
    "placement": placement,
    "latency": latency,
    "chain": chain,
    "staging": staging,
    "levels": levels,
    "graph-pipeline": graph_pipeline,
}
KINDS = tuple(MAKERS)


def nasty(kind: str, seed: int) -> Problem:
    """What the door does not let in (a class that fits nowhere, say) is drawn again."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        try:
            return MAKERS[kind](rng).replace(name=f"nasty {kind} {seed}")
        except InputError:
            continue


# ---- the same problem in other units ---------------------------------------------------------------------


def times_power(amount: float, power: int) -> float:
    """Of the decimal as it is written: 0.1 becomes 100.0, and 3e-7 becomes 0.3."""
    return float(as_written(amount) * Fraction(10) ** power)


def scaled(problem: Problem, time_power: int = 0, memory_power: int = 0) -> Problem:
    """All times multiplied by a power of ten, all sizes by another one, as decimals: optima follow the times."""

    def time(amount: Any) -> Any:
        return None if amount is None else times_power(amount, time_power)

    def size(amount: Any) -> Any:
        return None if amount is None else times_power(amount, memory_power)

    if isinstance(problem, PlacementProblem):
        nodes = tuple(
            replace(
                node,
                accelerator_time=time(node.accelerator_time),
                cpu_time=time(node.cpu_time),
                transfer_time=time(node.transfer_time),
                size_bytes=size(node.size_bytes),
            )
            for node in problem.nodes
        )
        return problem.replace(nodes=nodes, memory_bytes=size(problem.memory_bytes))
    if isinstance(problem, ChainProblem):
        return problem.replace(
            forward=tuple(map(time, problem.forward)),
            backward=tuple(map(time, problem.backward)),
            activations=tuple(map(size, problem.activations)),
            weights=tuple(map(size, problem.weights)),
            memory_bytes=size(problem.memory_bytes),
            transfer_times=None if problem.transfer_times is None else tuple(map(time, problem.transfer_times)),
            bandwidth=_rate(problem.bandwidth, memory_power - time_power),
        )
    if isinstance(problem, StagingProblem):
        return problem.replace(
            layers=tuple(_scaled_layer(layer, time, size) for layer in problem.layers),
            memory_bytes=size(problem.memory_bytes),
            bandwidth=_rate(problem.bandwidth, -time_power),
            levels=tuple(replace(level, bandwidth=_rate(level.bandwidth, -time_power)) for level in problem.levels),
        )
    assert isinstance(problem, GraphPipelineProblem)

    def link(old: Link) -> Link:
        return Link(_rate(old.bandwidth, memory_power - time_power), time(old.latency_s))

    return problem.replace(
        operators=tuple(_scaled_operator(operator, time, size) for operator in problem.operators),
        memory_bytes=size(problem.memory_bytes),
        workspace_bytes=size(problem.workspace_bytes),
        link=link(problem.link),
        node_link=None if problem.node_link is None else link(problem.node_link),
    )


def _rate(rate: float | None, power: int) -> Any:
    return None if rate is None else times_power(rate, power)


def _scaled_layer(layer: Layer, time: Callable[[Any], Any], size: Callable[[Any], Any]) -> Layer:
    """Bytes that are sent keep their unit: the bandwidth follows the times alone."""

    def scale(way: Configuration) -> Configuration:
        return replace(
            way,
            time=time(way.time),
            memory_per_batch=size(way.memory_per_batch),
            memory_fixed=size(way.memory_fixed),
        )

    return replace(layer, configurations={t: tuple(map(scale, ways)) for t, ways in layer.configurations.items()})


def _scaled_operator(operator: Operator, time: Callable[[Any], Any], size: Callable[[Any], Any]) -> Operator:
    def scale(curve: TimeCurve) -> TimeCurve:
        return replace(curve, seconds=tuple(map(time, curve.seconds)))

    return replace(
        operator,
        forward=scale(operator.forward),
        backward=scale(operator.backward),
        weight_bytes=size(operator.weight_bytes),
        stash_bytes=size(operator.stash_bytes),
        output_bytes=size(operator.output_bytes),
    )


# ---- the same problem with other names, and better ones --------------------------------------------------


def renamed(problem: Problem, seed: int) -> Problem:
    """Ids and their order shuffled; chains have neither."""
    rng = random.Random(seed)
    if isinstance(problem, PlacementProblem):
        name = _names(rng, [node.id for node in problem.nodes])
        nodes = [replace(node, id=name[node.id]) for node in problem.nodes]
        edges = [(name[u], name[v]) for u, v in problem.edges]
        return problem.replace(nodes=tuple(_shuffled(rng, nodes)), edges=tuple(_shuffled(rng, edges)))
    if isinstance(problem, StagingProblem):
        name = _names(rng, [layer.id for layer in problem.layers])
        layers = [_renamed_layer(layer, name) for layer in problem.layers]
        tensors = [Edge(name[edge.source], name[edge.target], edge.bytes) for edge in problem.edges]
        return problem.replace(layers=tuple(_shuffled(rng, layers)), edges=tuple(_shuffled(rng, tensors)))
    if isinstance(problem, GraphPipelineProblem):
        name = _names(rng, [operator.id for operator in problem.operators])
        operators = [replace(operator, id=name[operator.id]) for operator in problem.operators]
        edges = [(name[u], name[v]) for u, v in problem.edges]
        return problem.replace(operators=tuple(_shuffled(rng, operators)), edges=tuple(_shuffled(rng, edges)))
    return problem


def _names(rng: random.Random, old: Sequence[int | str]) -> dict[int | str, int | str]:
    return dict(zip(old, (f"x{number}" for number in rng.sample(range(100), len(old))), strict=True))


def _shuffled(rng: random.Random, entries: Sequence[Any]) -> list[Any]:
    return rng.sample(entries, len(entries))


def _renamed_layer(layer: Layer, name: Mapping[int | str, int | str]) -> Layer:
    def change(way: Configuration) -> Configuration:
        return replace(
            way,
            gather_in={name[key]: amount for key, amount in way.gather_in.items()},
            gather_out={name[key]: amount for key, amount in way.gather_out.items()},
        )

    return Layer(name[layer.id], {t: tuple(map(change, ways)) for t, ways in layer.configurations.items()})


def better(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """More of one thing each, in a measure that matters to this problem: the optimum is no worse."""
    memory = problem.memory_bytes or 1.0
    for variant in variants(problem, memory_bytes=memory):
        yield variant.change, variant.problem
