"""Small problems of every kind with the numbers and shapes that lead methods astray: the one home of nasty inputs.

Zero times, ties, decimals whose sums meet the memory to the last digit or miss it by a hair or by the next float, sizes
of more digits than whole numbers hold, magnitudes from 1e-9 to 1e12 in one problem, sentinels (1e9, 1e12, 1e16, 1e30)
that people write for "forbidden", CPUs alone, colour classes, devices of two types, more devices than nodes, graphs in
several parts, without edges, of one node. All are small enough for the enumerations in `tests/oracles`. The same
seed is the same problem. `scaled`, `renamed` and `better` make the problems whose optima are known from that of another
one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from oracles.schedule import is_settled
from oracles.training import configurations
from problems.graph_pipelines import series_parallel_arcs
from problems.schedules import random_schedule

from pipeplan import ChainProblem, InputError, Node, PlacementProblem, ScheduleDevice, ScheduleProblem
from pipeplan.instances.base.amounts import as_written, exact_sum
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.registry import Problem, kind_of
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.problem import Gpu, Level, TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration

Arc = tuple[int, int]

SENTINELS = (1e9, 1e12, 1e16, 1e30)
"""What stands for "never do this" in files."""

TIMES: Mapping[str, tuple[float, ...]] = {
    "whole": (1.0, 2.0, 3.0, 5.0, 7.0),
    "ties": (1.0, 1.0, 1.0, 2.0),
    "tenths": (0.1, 0.2, 0.3, 0.7, 1.1, 2.3),
    "digits": (0.123456789, 1.000000001, 0.999999999, 2.718281828, 3.1, 4.412),
    "thirds": (0.3333333333333333, 0.6666666666666666, 1.0),
    "far apart": (1e-9, 3e-9, 1e6, 2e6),
    "spread": (1e-9, 3e-6, 2e-3, 1.0, 4e3, 7e6, 1e9, 2e12),
}
SIZES: Mapping[str, tuple[float, ...]] = {
    "whole": (1, 2, 3, 4),
    "ties": (1, 1, 2),
    "tenths": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.1),
    "thirds": (1 / 3, 2 / 3, 1 / 9, 0.1111111111111111, 0.2, 0.7),
    "bytes": (2**33, 2**33 - 1, 2**33 + 1, 2**33 + 17, 2**33 + 1000, 2**32, 2**30, 1),
    "too many digits": (0.12345678901234567, 98765.43210987654, 1e-7, 33333.333333333336),
    "next to nothing": (0.1, 0.3, 1.3, 1e-9),
    "spread": (1e-9, 2e-3, 1.0, 4e3, 1e12),
}
"""Whole numbers that floats add up exactly cannot hold "too many digits"."""


class Numbers:
    """Amounts of one flavour: zeros often, and in one of four tables sentinels (one, or all of them) now and then."""

    def __init__(self, rng: random.Random, table: Mapping[str, Sequence[float]], zeros: float = 0.25) -> None:
        self.rng, self.zeros = rng, zeros
        self.values = table[rng.choice((*table,))]
        self.sentinels = rng.choice((SENTINELS, *((sentinel,) for sentinel in SENTINELS)))
        self.forbidden = rng.choice((0.15, 0.3)) if rng.random() < 0.25 else 0.0

    def __call__(self) -> float:
        if self.rng.random() < self.forbidden:
            return self.rng.choice(self.sentinels)
        return 0.0 if self.rng.random() < self.zeros else self.rng.choice(self.values)


def limit_at(rng: random.Random, sums: Iterable[Fraction]) -> float | None:
    """A memory that some of the sums meet exactly, or miss by a hair; at times no limit, or nothing at all."""
    candidates = sorted(set(sums) - {Fraction(0)})
    if not candidates or rng.random() < 0.15:
        return rng.choice((None, None, 0.0))
    chosen = rng.choice(candidates)
    way = rng.random()
    if way < 0.5:
        return float(chosen)
    if way < 0.75:
        return math.nextafter(float(chosen), rng.choice((0, math.inf)))
    return float(chosen * (1 + rng.choice((-1, 1)) * rng.choice((Fraction(1, 10**10), Fraction(1, 10**7)))))


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
        return (
            [(0, v) for v in range(1, count)] if rng.random() < 0.5 else [(u, count - 1) for u in range(count - 1)]
        )
    return [pair for pair in pairs if rng.random() < (0.8 if shape == "dense" else 0.4)]


def ids(rng: random.Random, count: int) -> list[int | str]:
    """Whole numbers, texts, or both: 1 and "1" are two ids."""
    names: list[int | str] = [*range(count)]
    if rng.random() < 0.3:
        names = [name if rng.random() < 0.5 else f"{rng.choice(range(count))} {name}" for name in names]
    rng.shuffle(names)
    return names


def chain(rng: random.Random) -> ChainProblem:
    """Two or three different times, so that few instants matter; times of a sentinel's size among them."""
    layers = rng.choice((1, 2, 2, 3))
    palette = rng.choice(
        ((1.0, 2.0), (1.0, 2.0, 3.0), (0.1, 0.2), (0.1, 0.2, 0.3), (1e-9, 1.0), (1.0, 1e9), (0.7,))
    )

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


def whole_chain(seed: int, batches: int = 1) -> ChainProblem:
    """In whole numbers: short times, many of them 0, empty tensors, mostly with so little memory that it decides.

    Small enough for the enumeration of all instants, `batches` of them in a period.
    """
    draw = random.Random(seed)
    layers = draw.choice((1, 2, 2, 3)) if batches == 1 else draw.choice((1, 2))
    longest = 2 if layers < 3 else 1
    times: tuple[int, ...] = ()
    while not any(times):
        times = tuple(draw.choice((0, 0, 1, longest)) for _ in range(2 * layers))
    return ChainProblem(
        forward=times[:layers],
        backward=times[layers:],
        activations=tuple(draw.randint(0, 3) for _ in range(2 * layers + 1)),
        weights=tuple(draw.randint(0, 1) for _ in range(layers)),
        gpus=draw.choice((1, 2, 2)),
        memory_bytes=draw.randint(0, 9) if draw.random() < 0.95 else None,
        transfer_times=tuple(draw.choice((0, 0, 1)) for _ in range(2 * layers - 1)),
        duplex=draw.choice(("half", "full")),
        weight_copies=1,
        memory_mode=draw.choice(("reserved", "inputs", "reserved", "weights")),
        exclusive_buffers=batches == 1 and draw.random() < 0.25,
        name=f"whole {seed}",
        time_unit=None,
    )


def graph_pipeline(rng: random.Random, most_operators: int = 5) -> GraphPipelineProblem:
    count = rng.randint(1, most_operators)
    edges = series_parallel_arcs(count, rng) if rng.random() < 0.4 else arcs(rng, count)
    names = ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)

    def curve() -> TimeCurve:
        points = rng.choice(((1.0,), (2.0,), (0.5, 1.0), (1.0, 4.0), (1.0, 2.0, 4.0)))
        return TimeCurve(points, tuple(sorted(times() for _ in points)))

    mini_batch = rng.choice((1, 2, 4, 6, 8))
    operators = tuple(Operator(name, curve(), curve(), sizes(), sizes(), bytes_()) for name in names)
    copies, workspace = rng.choice((2.0, 1.0, 2.5, 0.1)), rng.choice((0.0, 0.0, sizes()))
    sums = list(_graph_sums(rng, operators, mini_batch, copies, workspace))
    problem = GraphPipelineProblem(
        operators, tuple((names[u], names[v]) for u, v in edges), mini_batch, devices=rng.choice((1, 2, 2, 3, 4)),
        memory_bytes=limit_at(rng, sums),
        link=rng.choice((Link(), Link(8.0, 0.1), Link(0.3), Link(1e9, 0.0), Link(0.1, 1e-9))), weight_copies=copies,
        workspace_bytes=workspace,
    )  # fmt: skip
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


MOST_DIGITS = 7
LARGEST = 4
"""Times of random schedules are whole numbers up to it; each becomes an amount of a palette, as does each size."""
MOST_TOGETHER = 12
"""So much a block of them takes at most."""


def schedule(rng: random.Random) -> ScheduleProblem:
    """All micro-batches, so that makespan, span and period are asked for; drawn again where one has no least value."""
    while True:
        made = random_schedule(
            rng.choice((1, 2, 2, 3)), rng.choice((2, 3, 3, 4)), rng.choice((1, 2, 2, 3)), rng.randrange(10**9)
        )
        problem = _with_memory(rng, _with_times(rng, made))
        if problem is not None and sum(problem.loads) and is_settled(problem):
            return problem


def _with_times(rng: random.Random, problem: ScheduleProblem) -> ScheduleProblem:
    """Multiples of one decimal, or decimals that have nothing in common, of so many digits; a sentinel now and then."""
    digits = rng.randint(1, MOST_DIGITS)
    unit = Fraction(rng.randint(1, 10**digits - 1), 10 ** rng.randint(0, digits))
    if rng.random() < 0.5:
        palette = [float(unit * count) for count in range(LARGEST + 1)]
    else:
        palette = [0.0, *(float(Fraction(rng.randint(1, 10**digits - 1), 10**digits)) for _ in range(LARGEST))]
    if rng.random() < 0.1:
        palette[-1] = rng.choice(SENTINELS[:2])
    blocks = tuple(replace(block, time=palette[int(block.time)]) for block in problem.blocks)
    edges = tuple(replace(edge, lag=palette[int(edge.lag)]) for edge in problem.edges)
    return problem.replace(blocks=blocks, edges=edges)


def _with_memory(rng: random.Random, problem: ScheduleProblem) -> ScheduleProblem | None:
    """Sizes of one flavour; what is taken and given back by one block is its difference, perhaps not in the file."""
    flavour = rng.choice([name for name in SIZES if name != "spread"])
    sizes = [0.0, *rng.choices(SIZES[flavour], k=MOST_TOGETHER)]

    def size(amount: float) -> float:
        return sizes[int(amount)] if amount >= 0 else -sizes[int(-amount)]

    try:
        problem = problem.replace(
            blocks=tuple(
                replace(
                    block,
                    memory={name: size(amount) for name, amount in block.memory.items()},
                    workspace={name: size(amount) for name, amount in block.workspace.items()},
                )
                for block in problem.blocks
            )
        )
    except InputError:  # several changes of one block no longer sum to nothing
        return None
    return problem.replace(devices=tuple(_device_with_memory(rng, problem, device) for device in problem.devices))


def _device_with_memory(rng: random.Random, problem: ScheduleProblem, device: ScheduleDevice) -> ScheduleDevice:
    """Its memory is met by what some runs hold at once, or missed by a hair."""
    standing = rng.choice(
        (0.0, 0.0, max((block.memory.get(device.name, 0.0) for block in problem.blocks), default=0.0))
    )
    standing = max(standing, 0.0)
    limit = None if rng.random() < 0.3 else limit_at(rng, _schedule_sums(rng, problem, device.name, standing))
    return replace(device, memory=limit, standing=standing)


def _schedule_sums(
    rng: random.Random, problem: ScheduleProblem, device: str, standing: float
) -> Iterator[Fraction]:
    taken = [block.memory.get(device, 0.0) for block in problem.blocks if block.memory.get(device, 0.0) > 0]
    needs = [max(b.memory.get(device, 0.0), 0.0) + b.workspace.get(device, 0.0) for b in problem.blocks]
    for _ in range(6):
        runs = rng.sample(taken, rng.randint(min(1, len(taken)), len(taken)))
        yield as_written(standing) + exact_sum(runs) * rng.randint(1, 2) + as_written(max(needs))


def staging(rng: random.Random, most_layers: int = 4) -> StagingProblem:
    count = rng.randint(1, most_layers)
    edges, names = arcs(rng, count), ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)
    devices = rng.randint(1, 4)

    def way(v: int, t: int, number: int) -> Configuration:
        near_in = [names[u] for u, w in edges if w == v and rng.random() < 0.3]
        near_out = [names[w] for u, w in edges if u == v and rng.random() < 0.3]
        return Configuration(
            f"{t}.{number}", times(), weight_bytes=bytes_(), memory_per_batch=sizes(), memory_fixed=sizes(),
            gather_in={name: bytes_() for name in near_in}, gather_out={name: bytes_() for name in near_out},
        )  # fmt: skip

    def ways(v: int) -> dict[int, tuple[Configuration, ...]]:
        degrees = [t for t in (1, 2, 3) if rng.random() < (0.9 if t == 1 else 0.4)] or [2]
        return {t: tuple(way(v, t, number) for number in range(rng.choice((1, 1, 2, 3)))) for t in degrees}

    layers = tuple(Layer(names[v], ways(v)) for v in range(count))
    return StagingProblem(
        layers,
        tuple(Edge(names[u], names[v], bytes_()) for u, v in edges),
        devices,
        bandwidth=rng.choice((1.0, 0.1, 3.0, 300.0, 1e9, 1e-3)),
        micro_batches=rng.choice((1, 2, 3, 4, 6, 7)),
        memory_bytes=limit_at(rng, _staging_sums(rng, layers)),
    )


def _staging_sums(rng: random.Random, layers: Sequence[Layer]) -> Iterator[Fraction]:
    for _ in range(8):
        held = rng.sample(layers, rng.randint(1, len(layers)))
        in_flight = rng.randint(1, 4)
        chosen = [
            rng.choice(rng.choice([ways for ways in layer.configurations.values() if ways])) for layer in held
        ]
        yield exact_sum(
            in_flight * as_written(way.memory_per_batch) + as_written(way.memory_fixed) for way in chosen
        )


def types(rng: random.Random) -> StagingProblem:
    return on_two_types(rng, staging(rng, most_layers=3))


def on_two_types(rng: random.Random, problem: StagingProblem) -> StagingProblem:
    """Its devices in two makes, one of which may be faster, have other memory or be missing."""
    first, memory = rng.randint(0, problem.devices), problem.memory_bytes
    kinds = (
        DeviceType("one", first, rng.choice((0.5, 1.0, 2.0)), memory),
        DeviceType("two", problem.devices - first, 1.0, rng.choice((None, memory, 0.7))),
    )
    return problem.replace(device_types=kinds, memory_bytes=None)


SHAPES = ((2, 2), (1, 2), (2, 1), (3,), (1, 1, 2), (1, 3), (1, 1))
"""How many devices stand in each device of the next level."""


def levels(rng: random.Random, most_devices: int = 4) -> StagingProblem:
    """Two levels, mostly; three layers at most."""
    flat = staging(rng, most_layers=3)
    shape = rng.choice([shape for shape in SHAPES if math.prod(shape) <= most_devices])
    found = tuple(
        StagingLevel(devices, times_power(flat.bandwidth, rng.choice((-1, 0, 0, 1)))) for devices in shape
    )
    return flat.replace(devices=math.prod(shape), levels=found)


FRAMEWORKS = ("megatron", "torchtitan", "deepspeed")
BYTES = {name: SIZES[name] for name in ("whole", "ties", "bytes")}
LOOKED_AT = 30
"""Configurations of which one fills the memory."""


def training(rng: random.Random) -> TrainingProblem:
    """Two or three layers on one or two GPUs."""
    devices = rng.choice((1, 2, 2))
    seconds, palette = Numbers(rng, TIMES), BYTES[rng.choice((*BYTES,))]

    def sizes() -> float:
        return rng.choice((0, *palette))

    degrees = (1, 2) if devices == 2 and rng.random() < 0.3 else (1,)
    layers = tuple(
        OwnLayer(
            f"layer {i}",
            rng.choice((0, 1, 7, 1000, 10**6 + 1)),
            sizes(),
            sizes(),
            _measured_times(rng, seconds, degrees),
        )
        for i in range(rng.choice((1, 2, 2, 3)))
    )
    problem = TrainingProblem(
        model=Model("own", own=layers),
        gpu=Gpu("nasty", None, {"bf16": rng.choice((1.0, 1e12))}, rng.choice((0.1, 1e12))),
        devices=devices,
        levels=(Level(devices, rng.choice((0.1, 1.0, 1e9)), rng.choice((0.0, 1e-9, 0.1))),),
        batch=devices * rng.choice((1, 2, 2)),
        sequence=1,
        framework=rng.choice(FRAMEWORKS),
        reserve_bytes=sizes(),
        sequence_parallel=False,
    )
    limit = limit_at(rng, _fullest(rng, problem))
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=limit))


def _measured_times(rng: random.Random, seconds: Numbers, degrees: tuple[int, ...]) -> tuple[MeasuredTime, ...]:
    """Forward passes always take a time."""
    return tuple(
        MeasuredTime(t, b, seconds() or rng.choice((1e-9, 0.1)), seconds(), seconds())
        for t in degrees
        for b in (1, 2)
    )


def _fullest(rng: random.Random, problem: TrainingProblem) -> Iterator[Fraction]:
    """What the fullest ranks of some configurations hold, and a little less than the least of them."""
    plans = list(configurations(problem))
    held = [
        as_written(max(rank.bytes for rank in evaluate_configuration(problem, plan).memory))
        for plan in rng.sample(plans, min(len(plans), LOOKED_AT))
    ]
    yield from held
    if held:
        yield min(held) * Fraction(9, 10)


MAKERS: Mapping[str, Callable[..., Problem]] = {
    "placement": placement, "latency": latency, "chain": chain, "staging": staging, "types": types,
    "levels": levels, "graph-pipeline": graph_pipeline, "schedule": schedule, "training": training,
}  # fmt: skip
KINDS = tuple(MAKERS)


def nasty(kind: str, seed: int, **limits: int) -> Any:
    """Of a kind, within limits that its maker takes; what the door does not let in is drawn again (a class that fits
    nowhere, say)."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        try:
            return MAKERS[kind](rng, **limits).replace(name=f"nasty {kind} {seed}")
        except InputError:
            continue


AMOUNTS = {
    "time": """accelerator_time cpu_time transfer_time transfer_times forward backward time seconds lag latency_s
        latency_seconds forward_seconds backward_seconds update_seconds launch_seconds collective_seconds
        step_seconds""",
    "size": """size_bytes memory_bytes activations weights memory_per_batch memory_fixed memory workspace standing
        workspace_bytes weight_bytes stash_bytes output_bytes""",
    "rate": "bandwidth flops memory_rate",
    "share": "Efficiencies.memory",
    "bytes": "Configuration.weight_bytes Gpu.memory_bytes OwnLayer.stash_bytes OwnLayer.output_bytes",
}
"""Fields that hold amounts of each unit, of all records or of one; shares and bytes stay."""
UNITS = {field: unit for unit, names in AMOUNTS.items() for field in names.split()}


def times_power(amount: float, power: int) -> float:
    """Of the decimal as it is written: 0.1 becomes 100.0, and 3e-7 becomes 0.3."""
    return float(as_written(amount) * Fraction(10) ** power)


def scaled(problem: Problem, time_power: int = 0, memory_power: int = 0) -> Problem:
    """All times multiplied by a power of ten, all sizes by another one, as decimals: optima follow the times.

    Where an amount has more than 15 digits the last one may change, and what just fits with it. Sizes of trainings are
    counts of parameters too, whose unit is the byte: they stay.
    """
    # The bytes that are sent between stages keep their unit.
    rate_power = (0 if isinstance(problem, StagingProblem | TrainingProblem) else memory_power) - time_power
    powers = {"time": time_power, "size": memory_power, "rate": rate_power}
    return _changed(problem, {unit: partial(times_power, power=power) for unit, power in powers.items()})


def in_fifteen_digits(problem: Problem) -> Any:
    """Rounded so that no digit is lost in any unit: what fits is the same in all of them."""
    return _changed(problem, dict.fromkeys(("time", "size", "rate"), lambda amount: float(f"{amount:.15g}")))


def _changed(value: Any, changes: Mapping[str, Callable[[float], float]], unit: str | None = None) -> Any:
    """With every amount in it changed as those of its unit are; None and truth values are none."""
    if is_dataclass(value):
        unit_of = {
            field.name: UNITS.get(f"{type(value).__name__}.{field.name}", UNITS.get(field.name))
            for field in fields(value)
        }
        return replace(
            value, **{name: _changed(getattr(value, name), changes, unit) for name, unit in unit_of.items()}
        )
    if isinstance(value, tuple):
        return tuple(_changed(entry, changes, unit) for entry in value)
    if isinstance(value, Mapping):
        return {key: _changed(entry, changes, unit) for key, entry in value.items()}
    return changes[unit](value) if unit in changes and value is not None and not isinstance(value, bool) else value


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
    if isinstance(problem, ScheduleProblem):  # the order of blocks in the file decides between those at one instant
        name = _names(rng, [block.id for block in problem.blocks])
        blocks = tuple(replace(block, id=str(name[block.id])) for block in problem.blocks)
        waits = [
            replace(edge, source=str(name[edge.source]), target=str(name[edge.target])) for edge in problem.edges
        ]
        return problem.replace(blocks=blocks, edges=tuple(_shuffled(rng, waits)))
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
    memory, field = getattr(problem, "memory_bytes", None), kind_of(problem).cluster.get("devices")
    if memory:
        yield "twice the memory", kind_of(problem).with_memory(problem, 2 * memory)
    if isinstance(problem, ScheduleProblem):
        more = (replace(device, memory=device.memory and 2 * device.memory) for device in problem.devices)
        yield "twice the memory", problem.replace(devices=tuple(more))
    if getattr(problem, "bandwidth", None):
        yield "faster links", problem.replace(bandwidth=1.1 * problem.bandwidth)
    # Of graph pipelines and trainings all devices must be used, so that one more may hurt.
    if field and not problem.extensions and not isinstance(problem, GraphPipelineProblem | TrainingProblem):
        yield "one more device", problem.replace(**{field: getattr(problem, field) + 1})
