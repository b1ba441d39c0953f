"""The throughput IP as published, node by node, for teaching.

Contiguity here is the published notion, asked of every device alone: a split may pass whose devices wait
for each other in a circle. The strong variant asks for a chain of stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...instances.placement.problem import PlacementProblem
from ..placement_memory import memory_row
from ..quick_pyomo import pyo
from .groups import accelerator_takes
from .reductions import worst_value

Arcs = Sequence[tuple[int, int]]

# Section 5.3 calls contiguity constraint (16); the numbers of other rows are not printed outside of the appendix.
EQUATIONS = dict.fromkeys(("inside", "reached", "no_return"), "16")


def build(problem: PlacementProblem, *, contiguous: bool, objective: str, cutoff: float | None = None) -> Any:
    """A Pyomo model; x[v, i]: node v is on device i, accelerators first. All index sets are positions."""
    nodes = problem.nodes
    accelerators = range(problem.accelerators)
    devices = range(problem.accelerators + problem.cpus)
    arcs = [(u, v) for u, v in problem.arcs if nodes[u].transfer_time]
    senders = sorted({u for u, _ in arcs})
    parts = range(2 if objective == "gpipe" else 1)
    limit = worst_value(problem) if cutoff is None else cutoff
    barred = {v for members in problem.color_classes if not accelerator_takes(problem, members) for v in members}

    def cost(time: float) -> float:
        """The time, capped at twice the limit: a device that pays more at once makes a worse plan anyway."""
        return min(time, 2 * limit) if limit > 0 else time

    model = pyo.ConcreteModel("ip-tarnawski, plain")
    model.x = pyo.Var(range(len(nodes)), devices, domain=pyo.Binary)
    model.x.doc = "[v, i] is node v on device i? Accelerators first, then CPUs"
    model.T = pyo.Var(parts, bounds=(0, limit))
    model.T.doc = "[q] the largest load of a device; for gpipe T[0] forward and T[1] backward"
    if cutoff is not None:
        model.cutoff = pyo.Constraint(expr=sum(model.T[q] for q in parts) <= cutoff)
        model.cutoff.doc = "(T9) only plans up to a value are asked for"
    model.objective = pyo.Objective(expr=sum(model.T[q] for q in parts))
    model.assignment = pyo.Constraint(range(len(nodes)), rule=lambda m, v: sum(m.x[v, i] for i in devices) == 1)
    model.assignment.doc = "(T1) [v] each node is on one device"
    model.support = pyo.Constraint(sorted(barred), accelerators, rule=lambda m, v, i: m.x[v, i] == 0)
    model.support.doc = "(T2) [v, i] nodes that no accelerator takes are on none"
    same_device = [pair for members in problem.color_classes for pair in pairwise(members)]
    model.colocation = pyo.Constraint(same_device, devices, rule=lambda m, u, v, i: m.x[u, i] == m.x[v, i])
    model.colocation.doc = "(T3) [u, v, i] nodes that must share a device do"
    sizes, memory = problem.whole_sizes.amounts, problem.whole_sizes.limits[0]
    if memory is not None and any(sizes):
        model.memory = pyo.Constraint(
            accelerators, rule=lambda m, i: memory_row(((size, m.x[v, i]) for v, size in enumerate(sizes)), memory)
        )
        model.memory.doc = "(T4) [i] what an accelerator holds fits its memory, in whole units"
    add_transfers(model, senders, arcs, accelerators)
    if contiguous:
        forward = [v for v, node in enumerate(nodes) if not node.backward]
        add_contiguity(model, forward, [(u, v) for u, v in problem.arcs if not nodes[v].backward], devices)
        number_rows(model, EQUATIONS)

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
    model.accelerator_load.doc = "(T7) [q, i] work and transfers of an accelerator are at most T"
    model.cpu_load = pyo.Constraint(parts, [i for i in devices if i not in accelerators], rule=cpu_load)
    model.cpu_load.doc = "(T8) [q, i] work of a CPU is at most T"
    return model


def add_transfers(model: Any, senders: Sequence[int], arcs: Arcs, places: Sequence[int]) -> None:
    """Does place i (an accelerator, or a piece of one) receive, or send, the output of u?"""
    model.comm_in = pyo.Var(senders, places, bounds=(0, 1))
    model.comm_in.doc = "[u, i] does device (or piece) i receive the output of node u?"
    model.comm_out = pyo.Var(senders, places, bounds=(0, 1))
    model.comm_out.doc = "[u, i] does device (or piece) i send the output of node u?"
    model.receive = pyo.Constraint(arcs, places, rule=lambda m, u, v, i: m.comm_in[u, i] >= m.x[v, i] - m.x[u, i])
    model.receive.doc = "(T5) [u, v, i] i receives what u made for v where v is on i and u is not"
    model.send = pyo.Constraint(arcs, places, rule=lambda m, u, v, i: m.comm_out[u, i] >= m.x[u, i] - m.x[v, i])
    model.send.doc = "(T6) [u, v, i] i sends what u made for v where u is on i and v is not"


def add_contiguity(model: Any, nodes: Sequence[int], arcs: Arcs, places: Sequence[int]) -> None:
    """z[v, i] >= x[v, i]; along an arc a path that has left place i may not come back."""
    model.z = pyo.Var(nodes, places, bounds=(0, 1))
    model.z.doc = "[v, i] is v on i, or may a path still come to i from here?"
    model.inside = pyo.Constraint(nodes, places, rule=lambda m, v, i: m.z[v, i] >= m.x[v, i])
    model.inside.doc = "[v, i] z is 1 where x is"
    model.reached = pyo.Constraint(arcs, places, rule=lambda m, u, v, i: m.z[v, i] <= m.z[u, i])
    model.reached.doc = "[u, v, i] along an arc z never grows"
    model.no_return = pyo.Constraint(arcs, places, rule=lambda m, u, v, i: m.z[v, i] <= m.x[v, i] - m.x[u, i] + 1)
    model.no_return.doc = "[u, v, i] a path that has left i does not come back"


# Maps the name of a block of rows to the number of its equation, as the paper prints it.
Equations = Mapping[str, str]


def number_rows(model: Any, equations: Equations) -> None:
    """Put the numbers of equations into the names of rows: `eq_16_inside[...]` in the place of `inside[...]`."""
    for name, number in equations.items():
        block = model.component(name)
        model.del_component(block)
        model.add_component(f"eq_{number}_{name}", block)
