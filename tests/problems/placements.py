"""Seeded small placement problems: with everything that makes planning hard, or such that a limit decides."""

from __future__ import annotations

import random
from dataclasses import replace

from pipeplan import Device, Node, PlacementPlan, PlacementProblem, Request
from pipeplan.planners.placement.brute_force import PLANNER as BRUTE_FORCE


def random_placement(seed: int, layers: int = 5, training: bool | None = None) -> PlacementProblem:
    """Branches, colours, orphans, nodes that only a CPU can run, tight memory, classes on cycles; seldom infeasible."""
    rng = random.Random(seed)
    training = rng.random() < 0.5 if training is None else training
    cpus = rng.randrange(3)
    forward = [f"f{i}" for i in range(layers)]
    edges = [(u, v) for i, u in enumerate(forward) for v in forward[i + 1 :] if rng.random() < 0.45]
    colors: dict[str, str] = {}
    backward: list[str] = []
    if training:
        backward = [f"b{i}" for i in range(layers) if rng.random() < 0.8] + ["orphan"] * (rng.random() < 0.5)
        colors = {name: name[1:] for b in backward if b != "orphan" for name in ("f" + b[1:], b)}
        edges += [("b" + v[1:], "b" + u[1:]) for u, v in edges if {"b" + u[1:], "b" + v[1:]} <= set(backward)]
        edges += [(u, b) for u in forward for b in backward if rng.random() < 0.1]
        edges += [("orphan", b) for b in backward[:-1] if "orphan" in backward and rng.random() < 0.4]
    for name in forward:
        if rng.random() < 0.15:
            colors[name] = "shared"
    return _problem(rng, forward, backward, edges, colors, cpus)


def _problem(
    rng: random.Random,
    forward: list[str],
    backward: list[str],
    edges: list[tuple[str, str]],
    colors: dict[str, str],
    cpus: int,
) -> PlacementProblem:
    senders = {u for u, _ in edges}
    nodes = []
    for name in (*forward, *backward):
        work = float(rng.randrange(1, 10))
        nodes.append(
            Node(
                name,
                accelerator_time=work,
                cpu_time=work * rng.choice((0.5, 2, 5)),
                size_bytes=float(rng.randrange(4)),
                transfer_time=rng.choice((0.0, 0.5, 1.0, 3.0)) if name in senders else 0.0,
                supported=not cpus or rng.random() < 0.9,
                backward=name in backward,
                color=colors.get(name),
            )
        )
    accelerators = rng.randrange(0 if cpus else 1, 4)
    size = sum(node.size_bytes for node in nodes)
    memory = rng.choice((None, size, size / max(1, accelerators) + 2)) if cpus else None
    if not cpus and rng.random() < 0.5:
        largest = max(sum(n.size_bytes for n in nodes if n.color == node.color) for node in nodes)
        memory = max(largest, 3.0, size / accelerators + 1)
    return PlacementProblem(
        tuple(nodes), tuple(edges), accelerators, cpus, memory, name=f"random {rng.random():.6f}"
    )


def optimum(problem: PlacementProblem, objective: str = "max-load") -> float | None:
    """The best chain of stages, found by trying all; None where there is none."""
    options = {"objective": objective, "non_contiguous": False, "device_contiguity": False}
    return BRUTE_FORCE.plan(Request(problem, options)).claimed


def limited_placement(seed: int) -> PlacementProblem:
    """A random problem, made harder where its best plan without limits is most comfortable."""
    rng = random.Random(seed)
    free = relaxed(_with_free_nodes(random_placement(seed, layers=rng.choice((4, 5, 6))), rng))
    way = ("memory", "support", "both", "ties")[seed % 4]
    problem = free.replace(cpus=max(0, free.cpus - 1)) if free.accelerators or free.cpus > 1 else free
    if way in ("support", "both") and problem.cpus:
        problem = _without_support(problem, rng)
    if way in ("memory", "both") and problem.accelerators:
        classes = [sum(problem.nodes[i].size_bytes for i in held) for held in problem.color_classes]
        share = sum(classes) / (problem.accelerators + problem.cpus)
        least = 0.0 if problem.cpus else max(classes)
        problem = problem.replace(memory_bytes=max(least, float(round(share * rng.uniform(0.7, 1.2))), 1.0))
    if way == "ties":
        problem = problem.replace(
            nodes=tuple(
                replace(n, accelerator_time=float(n.accelerator_time > 0), cpu_time=3.0) for n in problem.nodes
            )
        )
    return problem


def relaxed(problem: PlacementProblem) -> PlacementProblem:
    """Without limits: any memory, every node supported, one CPU more."""
    nodes = tuple(replace(node, supported=True) for node in problem.nodes)
    return problem.replace(nodes=nodes, memory_bytes=None, cpus=problem.cpus + 1)


def _with_free_nodes(problem: PlacementProblem, rng: random.Random) -> PlacementProblem:
    """A third of all problems get nodes that cost nothing."""
    if rng.random() > 1 / 3:
        return problem
    free = {"accelerator_time": 0.0, "cpu_time": 0.0, "size_bytes": 0.0}
    return problem.replace(nodes=tuple(replace(n, **free) if rng.random() < 0.3 else n for n in problem.nodes))


def _without_support(problem: PlacementProblem, rng: random.Random) -> PlacementProblem:
    barred = rng.randrange(len(problem.nodes))
    return problem.replace(
        nodes=tuple(replace(n, supported=n.supported and i != barred) for i, n in enumerate(problem.nodes))
    )


def split(*devices: str) -> PlacementPlan:
    """split("ab", "c|d", "!e"): devices A, B, ... in this order; | parts the pieces of one, ! marks a CPU."""
    return PlacementPlan(
        tuple(
            Device(
                "ABCDEFG"[d],
                "cpu" if "!" in word else "accelerator",
                tuple(word.replace("|", "").strip("!")),
                tuple(tuple(piece) for piece in word.split("|")) if "|" in word else None,
            )
            for d, word in enumerate(devices)
        )
    )
