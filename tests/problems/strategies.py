"""Hypothesis strategies: placement problems of every kind that the door lets in; and small ones with plans, valid ones,
arbitrary ones, and mutations of both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from pipeplan import Device, InputError, PlacementPlan
from pipeplan.instances.base.checks import MAX_WHOLE_ID
from pipeplan.instances.placement.problem import Node, NodeId, PlacementProblem

halves = st.integers(0, 12).map(lambda n: n / 2)
"""Amounts whose sums are exact in any order."""

rough = st.floats(0, 1e6)
"""Amounts whose sums are not."""


class Case(NamedTuple):
    """A problem and a plan for it."""

    problem: PlacementProblem
    plan: PlacementPlan


@st.composite
def small_problems(
    draw: st.DrawFn,
    max_nodes: int = 6,
    amounts: st.SearchStrategy[float] = halves,
    training: bool | None = None,
    min_nodes: int = 1,
) -> PlacementProblem:
    """Forward nodes, then backward nodes, with edges from earlier to later ones; there is always a CPU."""
    count = draw(st.integers(min_nodes, max_nodes))
    forward = count if training is False else draw(st.integers(0 if training is None else 1, count))
    ids: list[NodeId] = [i if draw(st.booleans()) else f"n{i}" for i in range(count)]
    pairs = [(u, v) for u in range(count) for v in range(u + 1, count)]
    least = draw(st.integers(min_nodes - 1, 8))
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=least, max_size=max(9, 2 * max_nodes))) if pairs else []
    read = {u for u, _ in chosen}
    nodes = tuple(
        Node(
            id=ids[i],
            accelerator_time=draw(amounts),
            cpu_time=draw(amounts),
            size_bytes=draw(amounts),
            transfer_time=draw(amounts) if i in read else 0.0,
            supported=draw(st.integers(0, 4)) > 0,
            backward=i >= forward,
            color=draw(st.sampled_from([None, None, None, "red", 7])),
        )
        for i in range(count)
    )
    edges = tuple((ids[u], ids[v]) for u, v in chosen)
    memory = draw(st.none() | amounts)
    return PlacementProblem(nodes, edges, draw(st.integers(0, 3)), draw(st.integers(1, 2)), memory)


@st.composite
def assignments(draw: st.DrawFn, problem: PlacementProblem) -> PlacementPlan:
    """Every node on exactly one device, whatever it costs and breaks; now and then with pieces."""
    devices = st.integers(0, problem.accelerators + problem.cpus - 1)
    plan = PlacementPlan.from_assignment(problem, {node.id: draw(devices) for node in problem.nodes})
    return draw(with_pieces(plan)) if draw(st.booleans()) else plan


@st.composite
def with_pieces(draw: st.DrawFn, plan: PlacementPlan) -> PlacementPlan:
    """Some devices get their nodes cut into pieces, mostly (not always) in an order in which they can run."""
    return PlacementPlan(tuple(replace(d, subgraphs=draw(st.none() | pieces(d.nodes))) for d in plan.devices))


@st.composite
def pieces(draw: st.DrawFn, held: tuple[NodeId, ...]) -> tuple[tuple[NodeId, ...], ...]:
    """The nodes in their own order, or any other, cut at random places."""
    order = list(held) if draw(st.booleans()) else draw(st.permutations(held))
    cuts = sorted(draw(st.sets(st.integers(0, len(order)), max_size=3)))
    bounds = [0, *cuts, len(order)]
    return tuple(tuple(order[a:b]) for a, b in pairwise(bounds))


@st.composite
def cases(draw: st.DrawFn, max_nodes: int = 6, amounts: st.SearchStrategy[float] = halves) -> Case:
    """Any problem with any assignment."""
    problem = draw(small_problems(max_nodes, amounts))
    return Case(problem, draw(assignments(problem)))


@st.composite
def unlimited_cases(draw: st.DrawFn, max_nodes: int = 6) -> Case:
    """Any assignment to some of three accelerators that take everything: only the order of devices can be wrong."""
    problem = draw(small_problems(max_nodes, min_nodes=4, training=draw(st.sampled_from([None, False]))))
    nodes = tuple(replace(node, supported=True) for node in problem.nodes)
    problem = problem.replace(nodes=nodes, memory_bytes=None, accelerators=3)
    owner = {node.id: draw(st.integers(0, 2)) for node in nodes}
    return Case(problem, PlacementPlan.from_assignment(problem, owner))


@st.composite
def valid_cases(draw: st.DrawFn, max_nodes: int = 6, chain: bool = True) -> Case:
    """A problem with a plan that breaks no rule; with `chain`, under every notion of contiguity.

    The plan comes first: forward nodes get stages that never fall, backward ones stages that never rise;
    then the problem is made so that it allows the plan.
    """
    problem = draw(small_problems(max_nodes))
    count = problem.accelerators + problem.cpus
    stages = [draw(st.integers(0, count - 1)) for _ in problem.nodes]
    if chain:
        forward = sum(not node.backward for node in problem.nodes)
        stages = sorted(stages[:forward]) + sorted(stages[forward:], reverse=True)
    device_of_stage = draw(st.permutations(range(count)))
    owner = {node.id: device_of_stage[stage] for node, stage in zip(problem.nodes, stages, strict=True)}
    plan = PlacementPlan.from_assignment(problem, owner)
    return Case(draw(allowing(problem, owner)), plan)


@st.composite
def allowing(draw: st.DrawFn, problem: PlacementProblem, owner: dict[NodeId, int]) -> PlacementProblem:
    """The problem with colours, support and memory changed so that it allows the assignment."""
    k = problem.accelerators
    colored: set[tuple[NodeId | None, int]] = set()
    nodes = []
    for node in problem.nodes:
        d = owner[node.id]
        # A colour belongs to the first device that holds a node of it.
        keeps = all(color != node.color or device == d for color, device in colored)
        colored.add((node.color, d))
        nodes.append(replace(node, color=node.color if keeps else None, supported=node.supported or d < k))
    used = [sum(node.size_bytes for node in nodes if owner[node.id] == d) for d in range(k)]
    spare = draw(st.sampled_from([0.0, 0.5, 10.0]))
    memory = None if problem.memory_bytes is None else max(used, default=0.0) + spare
    return problem.replace(nodes=tuple(nodes), memory_bytes=memory)


# ---- mutations -------------------------------------------------------------------------------------------


@st.composite
def mutated_plans(draw: st.DrawFn, case: Case) -> PlacementPlan:
    """One to three changes, each of any kind."""
    plan = case.plan
    for _ in range(draw(st.integers(1, 3))):
        plan = draw(_changed_plan(case.problem, plan))
    return plan


@st.composite
def mutated_problems(draw: st.DrawFn, case: Case) -> PlacementProblem:
    """One to three changes; the result is a valid problem with the same nodes."""
    problem = case.problem
    for _ in range(draw(st.integers(1, 3))):
        try:
            problem = draw(_changed_problem(problem))
        except InputError:
            assume(False)
    return problem


def with_device(plan: PlacementPlan, d: int, **changes: object) -> PlacementPlan:
    """The plan with one device changed."""
    devices = list(plan.devices)
    devices[d] = replace(devices[d], **changes)  # type: ignore[arg-type]
    return PlacementPlan(tuple(devices))


def without(plan: PlacementPlan, node_id: NodeId) -> PlacementPlan:
    return PlacementPlan(
        tuple(
            replace(
                device,
                nodes=tuple(i for i in device.nodes if i != node_id),
                subgraphs=device.subgraphs
                and tuple(tuple(i for i in piece if i != node_id) for piece in device.subgraphs),
            )
            for device in plan.devices
        )
    )


def added(plan: PlacementPlan, d: int, node_id: NodeId) -> PlacementPlan:
    """The node on device d as well, in its last piece where it has pieces."""
    device = plan.devices[d]
    subgraphs = device.subgraphs and (*device.subgraphs[:-1], (*device.subgraphs[-1], node_id))
    return with_device(plan, d, nodes=(*device.nodes, node_id), subgraphs=subgraphs)


PLAN_CHANGES = (
    *("move", "swap", "drop", "duplicate", "invent", "name", "type"),
    *("order of devices", "order of nodes", "one more device", "pieces", "order of pieces"),
)


@st.composite
def _changed_plan(draw: st.DrawFn, problem: PlacementProblem, plan: PlacementPlan) -> PlacementPlan:
    d, node_id = draw(st.integers(0, len(plan.devices) - 1)), draw(st.sampled_from(problem.nodes)).id
    device = plan.devices[d]
    match draw(st.sampled_from(PLAN_CHANGES)):
        case "move":
            return added(without(plan, node_id), d, node_id)
        case "swap":
            return _swapped(plan, node_id, draw(st.sampled_from(problem.nodes)).id)
        case "drop":
            return without(plan, node_id)
        case "duplicate":
            return added(plan, d, node_id)
        case "invent":
            return added(plan, d, draw(st.sampled_from(["ghost", 99])))
        case "name":
            return with_device(
                plan, d, name=draw(st.sampled_from([*(other.name for other in plan.devices), "new"]))
            )
        case "type":
            return with_device(plan, d, type=draw(st.sampled_from(["accelerator", "cpu", "gpu"])))
        case "order of devices":
            return PlacementPlan(tuple(draw(st.permutations(plan.devices))))
        case "order of nodes":
            return with_device(plan, d, nodes=tuple(draw(st.permutations(device.nodes))))
        case "one more device":
            kind = draw(st.sampled_from(["accelerator", "cpu"]))
            return PlacementPlan((*plan.devices, Device(f"extra{len(plan.devices)}", kind, ())))
        case "pieces":
            return with_device(plan, d, subgraphs=draw(pieces(device.nodes)))
        case _:
            return with_device(plan, d, subgraphs=tuple(draw(st.permutations(device.subgraphs or ()))))


def _swapped(plan: PlacementPlan, a: NodeId, b: NodeId) -> PlacementPlan:
    exchange = {a: b, b: a}

    def swapped(ids: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        return tuple(exchange.get(i, i) for i in ids)

    return PlacementPlan(
        tuple(
            replace(d, nodes=swapped(d.nodes), subgraphs=d.subgraphs and tuple(map(swapped, d.subgraphs)))
            for d in plan.devices
        )
    )


def with_node(problem: PlacementProblem, i: int, **changes: object) -> PlacementProblem:
    """The problem with one node changed."""
    nodes = list(problem.nodes)
    nodes[i] = replace(nodes[i], **changes)  # type: ignore[arg-type]
    return problem.replace(nodes=tuple(nodes))


@st.composite
def _changed_problem(draw: st.DrawFn, problem: PlacementProblem) -> PlacementProblem:
    positions = st.integers(0, len(problem.nodes) - 1)
    match draw(st.sampled_from(["memory", "devices", "edge", "node"])):
        case "memory":
            return problem.replace(memory_bytes=draw(st.none() | halves))
        case "devices":
            return problem.replace(accelerators=draw(st.integers(0, 3)), cpus=draw(st.integers(0, 2)))
        case "edge":
            u, v = sorted((draw(positions), draw(positions)))
            return problem.replace(edges=(*problem.edges, (problem.nodes[u].id, problem.nodes[v].id)))
        case _:
            changes = {"color": st.sampled_from([None, "red", 7]), "size_bytes": halves}
            changes |= dict.fromkeys(("supported", "backward"), st.booleans())
            name = draw(st.sampled_from([*changes]))
            return with_node(problem, draw(positions), **{name: draw(changes[name])})


# ---- any problem ---------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Everything but half characters: control characters, right-to-left marks and emoji included."""

any_ids = st.integers(-MAX_WHOLE_ID, MAX_WHOLE_ID) | st.integers(0, 9) | st.sampled_from("0123456789") | texts
any_amounts = st.floats(0, 1e100, allow_subnormal=True) | st.integers(0, 10**12)


@st.composite
def placement_problems(draw: st.DrawFn, max_nodes: int = 8) -> PlacementProblem:
    """Any valid problem: ids of both types, colours, backward nodes, doubled edges, CPUs or none."""
    cpus = draw(st.integers(0, 3))
    accelerators = draw(st.integers(0 if cpus else 1, 4))
    node_ids = draw(st.lists(any_ids, min_size=1, max_size=max_nodes, unique_by=lambda i: (type(i), i)))
    first_backward = draw(st.integers(0, len(node_ids)))
    pairs = [(u, v) for u in range(len(node_ids)) for v in range(u + 1, len(node_ids))]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=12)) if pairs else []
    read = {u for u, _ in chosen}
    nodes = [
        Node(
            id=node_id,
            accelerator_time=draw(any_amounts),
            cpu_time=draw(any_amounts),
            size_bytes=draw(any_amounts),
            transfer_time=draw(any_amounts) if i in read else 0,
            supported=draw(st.booleans()) if cpus else True,
            backward=i >= first_backward,
            color=draw(st.none() | any_ids),
            name=draw(st.none() | texts),
        )
        for i, node_id in enumerate(node_ids)
    ]
    return PlacementProblem(
        nodes=tuple(nodes), edges=tuple((node_ids[u], node_ids[v]) for u, v in chosen), accelerators=accelerators,
        cpus=cpus, memory_bytes=draw(st.none() | any_amounts) if cpus else None, name=draw(texts),
        time_unit=draw(st.sampled_from(["s", "ms", None])),
    )  # fmt: skip
