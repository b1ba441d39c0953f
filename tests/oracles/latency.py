"""Every plan of a tiny latency problem, judged by definitions that share no code with models and planners.

`random_latency_placement` makes problems with memory, colours, nodes that only CPUs run, and backward nodes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from oracles.placement_definitions import broken_rules, finish_times

from pipeplan import Device, Node, PlacementPlan, PlacementProblem


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


def latency_by_definition(problem: PlacementProblem, choice: Sequence[tuple[int, int] | None]) -> float | None:
    """Nodes in pieces of accelerators, or in the pool of CPUs; None where a rule is broken."""
    ids = [node.id for node in problem.nodes]
    held = {slot: tuple(i for i, own in zip(ids, choice, strict=True) if own == slot) for slot in choice}
    devices = []
    for d in range(problem.accelerators):
        pieces = tuple(held[slot] for slot in sorted(slot for slot in held if slot and slot[0] == d))
        devices.append(Device(f"acc{d}", "accelerator", tuple(itertools.chain(*pieces)), pieces))
    if None in held:
        devices.append(Device("cpus", "cpu", held[None]))
    plan = PlacementPlan(tuple(devices))
    return None if broken_rules(problem, plan) else max(finish_times(problem, plan).values())
