"""The throughput IP as published (specification, section 2, "The published IP"), node by node, for teaching.

Contiguity here is the published notion, asked of every device alone: a split may pass whose devices wait
for each other in a circle. The strong variant asks for a chain of stages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ...instances.placement.problem import Node, PlacementProblem
from ..contract import FLOAT_ROOM
from ..memory import memory_row


def build(
    problem: PlacementProblem,
    *,
    contiguous: bool,
    objective: str,
    cutoff: float | None = None,
) -> Any:
    """A Pyomo model; x[v, i]: node v is on device i, accelerators first. All index sets are positions."""
    import pyomo.environ as pyo

    nodes = problem.nodes
    accelerators = range(problem.accelerators)
    devices = range(problem.accelerators + problem.cpus)
    arcs = [(u, v) for u, v in problem.arcs if nodes[u].transfer_time]
    senders = sorted({u for u, _ in arcs})
    parts = range(2 if objective == "gpipe" else 1)
    limit = worst_value(problem) if cutoff is None else cutoff
    barred = {v for members in problem.color_classes if not _takes(problem, members) for v in members}

    def cost(time: float) -> float:
        """What is paid at once and is more than twice the limit is too much, however much more it is."""
        return min(time, 2 * limit) if limit > 0 else time

    model = pyo.ConcreteModel("ip-tarnawski, plain")
    model.x = pyo.Var(range(len(nodes)), devices, domain=pyo.Binary)
    model.T = pyo.Var(parts, bounds=(0, limit))
    if cutoff is not None:
        model.cutoff = pyo.Constraint(expr=sum(model.T[q] for q in parts) <= cutoff)
    model.objective = pyo.Objective(expr=sum(model.T[q] for q in parts))
    model.assignment = pyo.Constraint(range(len(nodes)), rule=lambda m, v: sum(m.x[v, i] for i in devices) == 1)
    model.support = pyo.Constraint(sorted(barred), accelerators, rule=lambda m, v, i: m.x[v, i] == 0)
    same_device = [pair for members in problem.color_classes for pair in pairwise(members)]
    model.colocation = pyo.Constraint(same_device, devices, rule=lambda m, u, v, i: m.x[u, i] == m.x[v, i])
    sizes, memory = problem.whole_sizes.amounts, problem.whole_sizes.limits[0]
    if memory is not None and any(sizes):
        model.memory = pyo.Constraint(
            accelerators, rule=lambda m, i: memory_row(((size, m.x[v, i]) for v, size in enumerate(sizes)), memory)
        )
    # Does accelerator i receive (send) the output of u?
    model.comm_in = pyo.Var(senders, accelerators, bounds=(0, 1))
    model.comm_out = pyo.Var(senders, accelerators, bounds=(0, 1))
    model.receive = pyo.Constraint(arcs, accelerators, rule=lambda m, u, v, i: m.comm_in[u, i] >= m.x[v, i] - m.x[u, i])
    model.send = pyo.Constraint(arcs, accelerators, rule=lambda m, u, v, i: m.comm_out[u, i] >= m.x[u, i] - m.x[v, i])
    if contiguous:
        _contiguity(model, problem, devices)

    def counts(v: int, q: int) -> bool:
        return len(parts) == 1 or nodes[v].backward == bool(q)

    def accelerator_load(m: Any, q: int, i: int) -> Any:
        here = [v for v, n in enumerate(nodes) if counts(v, q) and n.accelerator_time and v not in barred]
        work = sum(cost(nodes[v].accelerator_time) * m.x[v, i] for v in here)
        moved = [(cost(nodes[u].transfer_time), u) for u in senders if counts(u, q)]
        transfers = sum(time * (m.comm_in[u, i] + m.comm_out[u, i]) for time, u in moved)
        return work + transfers - m.T[q] <= 0

    def cpu_load(m: Any, q: int, i: int) -> Any:
        work = sum(cost(n.cpu_time) * m.x[v, i] for v, n in enumerate(nodes) if counts(v, q) and n.cpu_time)
        return work - m.T[q] <= 0

    model.accelerator_load = pyo.Constraint(parts, accelerators, rule=accelerator_load)
    model.cpu_load = pyo.Constraint(parts, [i for i in devices if i not in accelerators], rule=cpu_load)
    return model


def _contiguity(model: Any, problem: PlacementProblem, devices: range) -> None:
    """z[v, i] >= x[v, i]; along a forward edge a path that has left device i may not come back."""
    import pyomo.environ as pyo

    forward = [v for v, node in enumerate(problem.nodes) if not node.backward]
    edges = [(u, v) for u, v in problem.arcs if not problem.nodes[v].backward]
    model.z = pyo.Var(forward, devices, bounds=(0, 1))
    model.inside = pyo.Constraint(forward, devices, rule=lambda m, v, i: m.z[v, i] >= m.x[v, i])
    model.reached = pyo.Constraint(edges, devices, rule=lambda m, u, v, i: m.z[v, i] <= m.z[u, i])
    model.no_return = pyo.Constraint(edges, devices, rule=lambda m, u, v, i: m.z[v, i] <= m.x[v, i] - m.x[u, i] + 1)


def _takes(problem: PlacementProblem, members: Sequence[int]) -> bool:
    """Can an accelerator take a colour class?"""
    return problem.accelerators > 0 and all(problem.nodes[i].supported for i in members) and problem.holds(members)


def worst_value(problem: PlacementProblem) -> float:
    """No split costs more than all work where it takes longest, and every transfer paid in and out; with room for
    float solvers, for a split may cost just that."""

    def worst(node: Node) -> float:
        fast = node.accelerator_time if problem.accelerators and node.supported else 0.0
        return max(fast, node.cpu_time if problem.cpus else 0.0) + 2 * node.transfer_time

    return math.fsum(map(worst, problem.nodes)) * (1 + FLOAT_ROOM) or 1.0
