"""Seeded small placement problems in which a limit decides: memory, support, devices, or the training structure."""

from __future__ import annotations

import random
from dataclasses import replace

from problems.placements import random_placement

from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.planners.contract import Request
from pipeplan.planners.placement.brute_force import PLANNER as BRUTE_FORCE


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
