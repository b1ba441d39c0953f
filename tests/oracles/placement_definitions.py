"""The placement problem's definitions, spelled out by enumeration: slow, plain, sharing no code with the referee."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import NodeId, PlacementProblem

# ---- loads -----------------------------------------------------------------------------------------------


def load_parts(problem: PlacementProblem, device: Device) -> dict[str, float]:
    """The load formula, in exact arithmetic, rounded once at the end."""
    inside, nodes = set(device.nodes), {node.id: node for node in problem.nodes}
    cpu = device.type == "cpu"
    incoming = {u for u, v in problem.edges if u not in inside and v in inside and not cpu}
    outgoing = {u for u, v in problem.edges if u in inside and v not in inside and not cpu}
    work = {i: Fraction(nodes[i].cpu_time if cpu else nodes[i].accelerator_time) for i in inside}
    cost = {i: Fraction(node.transfer_time) for i, node in nodes.items()}

    def share(backward: bool) -> Fraction:
        terms = [*work.items(), *((u, cost[u]) for u in incoming), *((u, cost[u]) for u in outgoing)]
        return sum((time for i, time in terms if nodes[i].backward == backward), Fraction(0))

    exact = {
        "compute": sum(work.values(), Fraction(0)),
        "transfer_in": sum((cost[u] for u in incoming), Fraction(0)),
        "transfer_out": sum((cost[u] for u in outgoing), Fraction(0)),
        "forward_load": share(False),
        "backward_load": share(True),
        "load": share(False) + share(True),
        "size_bytes": sum((Fraction(nodes[i].size_bytes) for i in inside), Fraction(0)),
    }
    return {name: float(value) for name, value in exact.items()}


# ---- rules -----------------------------------------------------------------------------------------------


def broken_rules(problem: PlacementProblem, plan: PlacementPlan, contiguity: str = "none") -> set[str]:
    """Names of the rules that the plan breaks."""
    checks = {
        "assignment": _assigned(problem, plan),
        "devices": _known_devices(problem, plan),
        "memory": _fits(problem, plan),
        "support": _supported(problem, plan),
        "colocation": _together(problem, plan),
        "contiguity-device": contiguity != "device" or _each_device_contiguous(problem, plan),
        "contiguity-chain": contiguity != "chain" or _chain_order_exists(problem, plan),
        "subgraphs": _pieces_can_run(problem, plan),
    }
    return {rule for rule, kept in checks.items() if not kept}


def _assigned(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    return Counter(i for device in plan.devices for i in device.nodes) == Counter(node.id for node in problem.nodes)


def _known_devices(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    types = Counter(str(device.type) for device in plan.devices)
    names = [device.name for device in plan.devices]
    return (
        set(types) <= {"accelerator", "cpu"}
        and types["accelerator"] <= problem.accelerators
        and types["cpu"] <= problem.cpus
        and len(names) == len(set(names))
    )


def _fits(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    if problem.memory_bytes is None:
        return True
    limit = Fraction(repr(problem.memory_bytes))
    return all(
        sum(Fraction(repr(node.size_bytes)) for node in problem.nodes if node.id in device.nodes) <= limit
        for device in plan.devices
        if device.type == "accelerator"
    )


def _supported(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    return not any(
        node.id in device.nodes and not node.supported
        for node in problem.nodes
        for device in plan.devices
        if device.type == "accelerator"
    )


def place_of_nodes(problem: PlacementProblem, plan: PlacementPlan) -> dict[NodeId, object]:
    """Where each node counts: at the first device that lists it; one that is listed nowhere stands alone."""
    return {
        node.id: next((d for d, device in enumerate(plan.devices) if node.id in device.nodes), ("alone", node.id))
        for node in problem.nodes
    }


def _together(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    place = place_of_nodes(problem, plan)
    return not any(
        a.color is not None and a.color == b.color and place[a.id] != place[b.id]
        for a, b in itertools.combinations(problem.nodes, 2)
        if isinstance(place[a.id], int) and isinstance(place[b.id], int)
    )


def all_paths(problem: PlacementProblem) -> Iterator[tuple[NodeId, ...]]:
    """Every path of the graph, as node ids."""

    def extend(path: tuple[NodeId, ...]) -> Iterator[tuple[NodeId, ...]]:
        yield path
        for u, v in set(problem.edges):
            if u == path[-1]:
                yield from extend((*path, v))

    for node in problem.nodes:
        yield from extend((node.id,))


def contiguous(problem: PlacementProblem, inside: set[NodeId]) -> bool:
    """No path u -> .. -> v -> .. -> w with u and w inside and v outside."""
    return not any(
        u in inside and v not in inside and w in inside
        for path in all_paths(problem)
        for u, v, w in itertools.combinations(path, 3)
    )


def _each_device_contiguous(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    place = place_of_nodes(problem, plan)
    return all(
        contiguous(problem, {node.id for node in problem.nodes if place[node.id] == d and not node.backward})
        for d in range(len(plan.devices))
    )


def chain_constraints(problem: PlacementProblem) -> set[tuple[NodeId, NodeId]]:
    """Pairs (u, v) with stage(u) <= stage(v)."""
    nodes = {node.id: node for node in problem.nodes}
    with_forward = {node.color for node in problem.nodes if not node.backward and node.color is not None}
    orphan = {node.id for node in problem.nodes if node.backward and node.color not in with_forward}
    pairs = set()
    for u, v in problem.edges:
        if not nodes[u].backward and not nodes[v].backward:
            pairs.add((u, v))
        if nodes[u].backward and nodes[v].backward and orphan & {u, v}:
            pairs.add((v, u))
    return pairs


def orders_as_chain(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[tuple[object, ...]]:
    """Every order of the places that hold nodes in which no constraint points backwards."""
    place = place_of_nodes(problem, plan)
    steps = {(place[u], place[v]) for u, v in chain_constraints(problem)}
    for order in itertools.permutations(dict.fromkeys(place.values())):
        if all(order.index(before) <= order.index(after) for before, after in steps):
            yield order


def _chain_order_exists(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    return next(orders_as_chain(problem, plan), None) is not None


# ---- pieces and latency ----------------------------------------------------------------------------------


def _pieces_can_run(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    for device in plan.devices:
        if device.subgraphs is not None:
            listed = Counter(i for piece in device.subgraphs for i in piece)
            if listed != Counter(set(device.nodes)):
                return False
    return all(_device_can_run(problem, device) for device in plan.devices) and _all_can_run(problem, plan)


def _device_can_run(problem: PlacementProblem, device: Device) -> bool:
    """Can the accelerator, alone in a world of single nodes, run its pieces in order?"""
    if device.subgraphs is None or device.type != "accelerator":
        return True
    return _runs_through(problem, [[set(piece) for piece in device.subgraphs]])


def _all_can_run(problem: PlacementProblem, plan: PlacementPlan) -> bool:
    place = place_of_nodes(problem, plan)
    queues = [
        [{i for i in piece if place.get(i) == d} for piece in device.subgraphs]
        for d, device in enumerate(plan.devices)
        if device.subgraphs is not None and device.type == "accelerator"
    ]
    return _runs_through(problem, queues)


def _runs_through(problem: PlacementProblem, queues: list[list[set[NodeId]]]) -> bool:
    """Run whatever can run until nothing can: single nodes, and the first waiting piece of each queue."""
    queues = [[piece for piece in queue if piece] for queue in queues]
    grouped = {i for queue in queues for piece in queue for i in piece}
    singles: list[set[NodeId]] = [{node.id} for node in problem.nodes if node.id not in grouped]
    done: set[NodeId] = set()

    def ready(piece: set[NodeId]) -> bool:
        return all(u in done or u in piece for u, v in problem.edges if v in piece)

    while True:
        runnable = [piece for piece in singles if ready(piece)] + [q[0] for q in queues if q and ready(q[0])]
        if not runnable:
            return not singles and not any(queues)
        for piece in runnable:
            done |= piece
        singles = [piece for piece in singles if piece not in runnable]
        queues = [queue[1:] if queue and queue[0] in runnable else queue for queue in queues]


def finish_times(problem: PlacementProblem, plan: PlacementPlan) -> Mapping[NodeId, float]:
    """The latency definition as a recursion; every accelerator with nodes states its subgraphs, and they can run."""
    nodes = {node.id: node for node in problem.nodes}
    queues = {
        device.name: [frozenset(piece) for piece in device.subgraphs or () if piece]
        for device in plan.devices
        if device.type == "accelerator"
    }
    home = {i: (name, n) for name, queue in queues.items() for n, piece in enumerate(queue) for i in piece}
    memo: dict[object, float] = {}

    def finish_of_piece(name: str, n: int) -> float:
        if (name, n) not in memo:
            piece = queues[name][n]
            waits = [finish_of_node(u) for u, v in problem.edges if v in piece and u not in piece]
            waits += [finish_of_piece(name, n - 1)] if n else []
            alone = Device(name, "accelerator", tuple(piece))
            memo[name, n] = max(waits, default=0.0) + load_parts(problem, alone)["load"]
        return memo[name, n]

    def finish_of_node(i: NodeId) -> float:
        if i in home:
            return finish_of_piece(*home[i])
        if ("node", i) not in memo:
            before = max((finish_of_node(u) for u, v in problem.edges if v == i), default=0.0)
            memo["node", i] = before + nodes[i].cpu_time
        return memo["node", i]

    return {i: finish_of_node(i) for i in nodes}


def fewest_convex_pieces(problem: PlacementProblem, inside: set[NodeId]) -> int:
    """Length of the shortest chain of convex pieces of a set: every way to number its nodes is tried."""
    paths = list(all_paths(problem))
    pairs = {(path[a], path[b]) for path in paths for a, b in itertools.combinations(range(len(path)), 2)}
    ordered = sorted(inside, key=repr)
    for count in range(1, len(ordered) + 1):
        for numbers in itertools.product(range(count), repeat=len(ordered)):
            number = dict(zip(ordered, numbers, strict=True))
            if any(number[u] > number[v] for u, v in pairs if u in number and v in number):
                continue
            if all(contiguous(problem, {i for i in inside if number[i] == n}) for n in range(count)):
                return count
    return 0
