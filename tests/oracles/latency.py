"""Every plan of a tiny latency problem, judged by definitions that share no code with models and planners.

`random_latency_placement` makes problems with memory, colours, nodes that only CPUs run, and backward nodes.
"""

from __future__ import annotations

import itertools
import random

from pipeplan.instances.base.amounts import fits
from pipeplan.instances.placement.problem import Node, PlacementProblem


def random_latency_placement(seed: int, nodes: int = 5) -> PlacementProblem:
    """One or two accelerators, mostly with CPUs, mostly with tight memory; zero times occur."""
    rng = random.Random(seed)
    backward = rng.randrange(3) if rng.random() < 0.4 else 0
    edges = [(u, v) for u in range(nodes) for v in range(u + 1, nodes) if rng.random() < 0.5]
    senders = {u for u, _ in edges}
    colors = [rng.choice("ab") if rng.random() < 0.35 else None for _ in range(nodes)]
    cpus = rng.randrange(3) if rng.random() < 0.8 else 1
    made = []
    for i in range(nodes):
        work = float(rng.randrange(5))
        made.append(
            Node(
                i,
                accelerator_time=work,
                cpu_time=work * rng.choice((0.5, 2, 3)) + rng.randrange(2),
                size_bytes=float(rng.randrange(4)),
                transfer_time=rng.choice((0.0, 0.5, 1.0, 3.0)) if i in senders else 0.0,
                supported=cpus == 0 or rng.random() < 0.85,
                backward=i >= nodes - backward,
                color=colors[i],
            )
        )
    size = sum(node.size_bytes for node in made)
    largest = max(sum(n.size_bytes for n in made if n.color == m.color) for m in made)
    memory = rng.choice((None, size / 2, size)) if cpus else max(size / 2, largest)
    return PlacementProblem(tuple(made), tuple(edges), rng.randrange(1, 3), cpus, memory, name=f"latency {seed}")


def best_latency(problem: PlacementProblem, pieces: int) -> float | None:
    """The least latency of all assignments of nodes to pieces and to the pool; None: there is no plan."""
    slots = [None] * (problem.cpus > 0) + list(itertools.product(range(problem.accelerators), range(pieces)))
    best: float | None = None
    for choice in itertools.product(slots, repeat=len(problem.nodes)):
        used = [slot[0] for slot in choice if slot is not None]
        if used and sorted(set(used), key=used.index) != list(range(len(set(used)))):
            continue  # accelerators are alike: the first used is called 0
        value = latency_by_definition(problem, choice)
        if value is not None and (best is None or value < best):
            best = value
    return best


def latency_by_definition(problem: PlacementProblem, choice: tuple[tuple[int, int] | None, ...]) -> float | None:
    """Section 4 of the specification, by repeated relaxation; None where a rule is broken or nothing can start."""
    nodes = problem.nodes
    for i, slot in enumerate(choice):
        if slot is not None and not nodes[i].supported:
            return None
        for j in range(i):
            tied = nodes[i].color is not None and nodes[i].color == nodes[j].color
            if tied and (slot and slot[0]) != (choice[j] and choice[j][0]):
                return None
    pieces = {slot: [i for i in range(len(nodes)) if choice[i] == slot] for slot in set(choice) if slot is not None}
    for d in range(problem.accelerators):
        sizes = (nodes[i].size_bytes for slot, held in pieces.items() if slot[0] == d for i in held)
        if not fits(sizes, problem.memory_bytes):
            return None
    finish: dict[int, float] = {}
    waiting = set(pieces) | {i for i, slot in enumerate(choice) if slot is None}
    while waiting:
        ready = [unit for unit in waiting if _start(problem, pieces, waiting, finish, unit) is not None]
        if not ready:
            return None  # they wait for each other
        for unit in ready:
            start = _start(problem, pieces, waiting, finish, unit)
            assert start is not None
            held = pieces[unit] if isinstance(unit, tuple) else [unit]
            length = _load(problem, held) if isinstance(unit, tuple) else nodes[unit].cpu_time
            finish |= dict.fromkeys(held, start + length)
        waiting -= set(ready)
    return max(finish.values())


def _start(problem, pieces, waiting, finish, unit):  # type: ignore[no-untyped-def]
    held = pieces[unit] if isinstance(unit, tuple) else [unit]
    before = {u for i in held for u in problem.predecessors[i]} - set(held)
    if isinstance(unit, tuple):
        earlier = [slot for slot in pieces if slot[0] == unit[0] and slot[1] < unit[1]]
        if any(slot in waiting for slot in earlier):
            return None
        before |= {i for slot in earlier for i in pieces[slot]}
    if not before <= finish.keys():
        return None
    return max((finish[u] for u in before), default=0.0)


def _load(problem: PlacementProblem, held: list[int]) -> float:
    inside = set(held)
    read = {u for i in held for u in problem.predecessors[i]} - inside
    sent = {i for i in held if set(problem.successors[i]) - inside}
    work = sum(problem.nodes[i].accelerator_time for i in held)
    return work + sum(problem.nodes[u].transfer_time for u in (*read, *sent))
