"""Placement with several types of accelerators: every plan of a tiny problem, and its value by definition.

The enumeration and `value_by_definition` share no code with the referee and none with any planner.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from oracles.placement_definitions import chain_constraints

from pipeplan import Device, InputError, PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, Node, NodeId, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify

Block = tuple[NodeId, ...]
"""Nodes that share a device."""


# ---- every plan ------------------------------------------------------------------------------------------


def all_plans(problem: PlacementProblem, contiguous: bool = True) -> Iterator[PlacementPlan]:
    """Every plan, up to the names of identical devices, that keeps colours together and counts devices right.

    With `contiguous` only chains of stages. Memory and support are left to the referee.
    """
    constraints = chain_constraints(problem) if contiguous else set()
    classes = [tuple(problem.nodes[i].id for i in members) for members in problem.color_classes]
    room: dict[str | None, int] = {None: problem.accelerators, **{t.name: t.count for t in problem.other_types}}
    for blocks in _partitions(classes, constraints):
        held = [_flat(block) for block in blocks]
        for kinds in itertools.product(("cpu", *room), repeat=len(blocks)):
            enough = kinds.count("cpu") <= problem.cpus
            if enough and all(kinds.count(name) <= count for name, count in room.items()):
                yield PlacementPlan(tuple(map(_device, range(len(held)), held, kinds)))


def _device(number: int, nodes: Block, kind: str | None) -> Device:
    if kind == "cpu":
        return Device(f"cpu{number}", "cpu", nodes)
    return Device(f"acc{number}", "accelerator", nodes, accelerator_type=kind)


def _partitions(
    classes: Sequence[Block], constraints: set[tuple[NodeId, NodeId]]
) -> Iterator[tuple[tuple[Block, ...], ...]]:
    """Every partition of the classes whose parts can be put in a row against which no constraint points."""
    for partition in _set_partitions(list(classes)):
        if _can_stand_in_a_row([set(_flat(part)) for part in partition], constraints):
            yield tuple(map(tuple, partition))


def _set_partitions(items: list[Block]) -> Iterator[list[list[Block]]]:
    if not items:
        yield []
        return
    for rest in _set_partitions(items[1:]):
        yield [[items[0]], *rest]
        for n, part in enumerate(rest):
            yield [*rest[:n], [items[0], *part], *rest[n + 1 :]]


def _can_stand_in_a_row(parts: list[set[NodeId]], constraints: set[tuple[NodeId, NodeId]]) -> bool:
    """Take away parts that nothing else must precede until none is left."""
    while parts:
        free = [
            part
            for part in parts
            if not any(
                v in part and any(u in other for other in parts if other is not part) for u, v in constraints
            )
        ]
        if not free:
            return False
        parts = [part for part in parts if part not in free]
    return True


def _flat(block: Sequence[Block]) -> Block:
    return tuple(node_id for members in block for node_id in members)


# ---- values ----------------------------------------------------------------------------------------------


def best_value(problem: PlacementProblem, objective: str = "max-load", contiguous: bool = True) -> float | None:
    """The least referee value of all plans that the referee accepts; None: it accepts none."""
    rule = "chain" if contiguous else "none"
    accepted = (plan for plan in all_plans(problem, contiguous) if not verify(problem, plan, contiguity=rule))
    return min((evaluate(problem, plan).objective(objective) for plan in accepted), default=None)


def value_by_definition(problem: PlacementProblem, plan: PlacementPlan, objective: str = "max-load") -> float:
    """The objective in exact arithmetic, device by device."""
    loads = [_load(problem, device) for device in plan.devices]
    if objective == "gpipe":
        return float(max(forward for forward, _ in loads) + max(backward for _, backward in loads))
    return float(max(forward + backward for forward, backward in loads))


def _time(problem: PlacementProblem, device: Device, node_id: NodeId) -> Fraction:
    node = next(node for node in problem.nodes if node.id == node_id)
    if device.type == "cpu":
        return Fraction(node.cpu_time)
    names = [other.name for other in problem.other_types]
    if device.accelerator_type is None or not node.other_times:
        return Fraction(node.accelerator_time)
    time = node.other_times[names.index(device.accelerator_type)]
    assert time is not None
    return Fraction(time)


def _load(problem: PlacementProblem, device: Device) -> tuple[Fraction, Fraction]:
    """Forward and backward: work, and on accelerators each tensor that comes in or leaves, once."""
    nodes, held = {node.id: node for node in problem.nodes}, set(device.nodes)
    crossing = {u for u, v in problem.edges if (u in held) != (v in held)} if device.type != "cpu" else set()

    def side(backward: bool) -> Fraction:
        work = (_time(problem, device, i) for i in held if nodes[i].backward == backward)
        cut = (Fraction(nodes[u].transfer_time) for u in crossing if nodes[u].backward == backward)
        return sum((*work, *cut), Fraction(0))

    return side(False), side(True)


# ---- tiny problems ---------------------------------------------------------------------------------------


def tiny_types(seed: int) -> PlacementProblem:
    """Two to five nodes on one or two other types, sometimes without any accelerator of the base type; what cannot be
    placed at all is drawn again."""
    rng = random.Random(f"types {seed}")
    while True:
        others = tuple(
            AcceleratorType(f"type{t}", rng.randint(1, 2), rng.choice((None, 4.0, 8.0)))
            for t in range(rng.randint(1, 2))
        )
        nodes, edges = _training(rng) if rng.random() < 0.5 else _inference(rng)
        accelerators, cpus = rng.choice((0, 1, 1, 2)), rng.choice((0, 0, 1))
        drawn, memory = tuple(_drawn(rng, nodes, edges, len(others), cpus)), rng.choice((None, None, 4.0, 8.0))
        try:
            return PlacementProblem(
                drawn, tuple(edges), accelerators, cpus, memory, f"types {seed}", other_types=others
            )
        except InputError:
            continue


def _inference(rng: random.Random) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """Colours of the nodes, and edges."""
    names = [f"f{i}" for i in range(rng.randint(2, 5))]
    colors = {name: "shared" if rng.random() < 0.15 else None for name in names}
    return colors, [(u, v) for u, v in itertools.combinations(names, 2) if rng.random() < 0.5]


def _training(rng: random.Random) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """One to three forward nodes and their backward nodes, some of them without a partner (orphans)."""
    forward = [f"f{i}" for i in range(rng.randint(1, 3))]
    backward = [f"b{i}" for i in range(len(forward)) if rng.random() < 0.8][: 5 - len(forward)] or ["b0"]
    colors: dict[str, str | None] = dict.fromkeys((*forward, *backward))
    for b in backward:
        if rng.random() < 0.8:
            colors[b] = colors["f" + b[1:]] = "c" + b[1:]
    edges = [(u, v) for u, v in itertools.combinations(forward, 2) if rng.random() < 0.6]
    edges += [("b" + v[1:], "b" + u[1:]) for u, v in edges if {"b" + u[1:], "b" + v[1:]} <= set(backward)]
    edges += [(u, b) for u in forward for b in backward if rng.random() < 0.3]
    return colors, edges


def _drawn(
    rng: random.Random, colors: dict[str, str | None], edges: list[tuple[str, str]], types: int, cpus: int
) -> Iterator[Node]:
    senders = {u for u, _ in edges}
    for name, color in colors.items():
        work = float(rng.randrange(8))
        other_times = tuple(rng.choice((None, *(float(rng.randrange(8)) for _ in range(5)))) for _ in range(types))
        yield Node(
            name,
            accelerator_time=work,
            cpu_time=work * rng.choice((0.5, 2.0, 5.0)),
            size_bytes=float(rng.randrange(4)),
            transfer_time=rng.choice((0.0, 0.5, 1.0, 3.0)) if name in senders else 0.0,
            supported=not (cpus or types) or rng.random() < 0.85,
            backward=name.startswith("b"),
            color=color,
            other_times=other_times if rng.random() < 0.7 else (),
        )
