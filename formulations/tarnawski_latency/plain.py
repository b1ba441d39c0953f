"""The latency IP as in the paper, node by node, for teaching.

Device 0 is the pool of CPUs; devices 1, ... are the subgraphs of the accelerators, q after q.

(1) every node is on one device; unsupported nodes are on 0; memory and colocation count per accelerator
(2) in[u, i] >= x[v, i] - x[u, i],  out[u, i] >= x[u, i] - x[v, i] for each arc (u, v)
(3) z[v, i] >= x[v, i],  z[v, i] <= z[u, i],  z[v, i] <= x[v, i] - x[u, i] + 1: each subgraph is contiguous
(4) lat[v] >= lat[u],  lat[v] >= lat[u] + p_cpu[v] x[v, 0]
(5) start[i] >= lat[u] - M (1 - in[u, i])
(6) fin[i] = start[i] + load[i],  start[i] >= fin[i - 1] on one accelerator
(7) lat[v] >= fin[i] - M (1 - x[v, i])

One family is added, (8): places in a common order. Without it, subgraphs whose load is 0 may wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..contract import FLOAT_ROOM
from ..placement_memory import memory_row
from ..quick_pyomo import pyo
from ..tarnawski.plain import add_contiguity, add_transfers, number_rows
from .atoms import Atoms, Staged

# The numbers above, which rows carry in exported models.
EQUATIONS = {
    "placement": "1",
    **dict.fromkeys(("receive", "send"), "2"),
    **dict.fromkeys(("inside", "reached", "no_return"), "3"),
    "results": "4",
    "received": "5",
    "clock": "6",
    "finished": "7",
    "order": "8",
}


def build(atoms: Atoms, *, cutoff: float | None = None) -> Any:
    """A Pyomo model; atoms are single nodes. M: all work on the CPUs, as printed, where that is a plan, with room for
    float solvers; never more than the cut-off, since nothing ends later."""
    nodes, slots = range(atoms.nodes), range(1, atoms.accelerators * atoms.pieces + 1)
    big = math.fsum(atoms.cpu_times) * (1 + FLOAT_ROOM) if atoms.has_cpu else atoms.worst_value()
    limit = big if cutoff is None else cutoff
    big = min(big, limit)
    model = pyo.ConcreteModel("ip-tarnawski-latency, plain")
    model.x = pyo.Var(nodes, [0, *slots], domain=pyo.Binary)
    model.x.doc = "[v, i] is node v in subgraph i? 0 is the pool of CPUs"
    model.total = pyo.Var(bounds=(0, limit), doc="the latency of one sample")
    model.objective = pyo.Objective(expr=model.total)
    _placement(model, atoms, slots)
    add_transfers(model, sorted({u for u, _ in atoms.arcs}), atoms.arcs, slots)
    add_contiguity(model, nodes, atoms.arcs, slots)
    _times(model, atoms, slots, big)
    _order(model, atoms, slots)
    number_rows(model, EQUATIONS)
    return model


def read(values: Mapping[str, float], atoms: Atoms) -> Staged:
    """The plan of a solution: its stages are the subgraphs, empty ones included."""
    count = atoms.accelerators * atoms.pieces
    stage_of = tuple(
        next((s - 1 for s in range(1, count + 1) if values.get(f"x[{v},{s}]", 0.0) > 0.5), None)
        for v in range(atoms.nodes)
    )
    return Staged(stage_of, tuple(s // atoms.pieces for s in range(count)))


def write(staged: Staged, atoms: Atoms) -> dict[str, float]:
    """Values of x for a plan: each stage is the next subgraph of its accelerator."""
    used: dict[int, int] = {}
    slot_of = []
    for device in staged.device_of:
        slot_of.append(1 + device * atoms.pieces + used.get(device, 0))
        used[device] = used.get(device, 0) + 1
    values: dict[str, float] = {}
    for v, stage in enumerate(staged.stage_of):
        mine = 0 if stage is None else slot_of[stage]
        values |= {f"x[{v},{s}]": float(s == mine) for s in range(atoms.accelerators * atoms.pieces + 1)}
    return values


def columns(atoms: Atoms, v: int, i: int) -> list[str]:
    """The variables of which one is 1 where accelerator i holds node v."""
    return [f"x[{v},{1 + i * atoms.pieces + q}]" for q in range(atoms.pieces)]


def _placement(model: Any, atoms: Atoms, slots: range) -> None:
    model.placement = pyo.ConstraintList()
    model.placement.doc = "each node in one subgraph or on the CPUs; support, memory and colocation of accelerators"
    for v in range(atoms.nodes):
        model.placement.add(sum(model.x[v, s] for s in (0, *slots)) == 1)
        if not atoms.has_cpu:
            model.x[v, 0].fix(0)
        if not atoms.allowed[v]:
            for s in slots:
                model.x[v, s].fix(0)
    for i in range(atoms.accelerators):
        mine = slots[i * atoms.pieces : (i + 1) * atoms.pieces]
        if atoms.memory is not None and any(atoms.sizes):
            held = ((size, model.x[v, s]) for v, size in enumerate(atoms.sizes) for s in mine)
            model.placement.add(memory_row(held, atoms.memory))
        for first, *others in atoms.classes:
            for v in others:
                model.placement.add(sum(model.x[v, s] - model.x[first, s] for s in mine) == 0)


def _times(model: Any, atoms: Atoms, slots: range, big: float) -> None:
    nodes, cost = range(atoms.nodes), atoms.transfer_times
    senders = sorted({u for u, _ in atoms.arcs})
    model.lat = pyo.Var(nodes, domain=pyo.NonNegativeReals, doc="[v] when the result of node v is in host memory")
    model.start = pyo.Var(slots, domain=pyo.NonNegativeReals, doc="[i] when subgraph i starts")
    model.fin = pyo.Var(slots, domain=pyo.NonNegativeReals, doc="[i] when subgraph i ends")
    model.results = pyo.ConstraintList(doc="a result waits for what it is made of, and the sample for all results")
    model.received = pyo.ConstraintList(doc="a subgraph waits for what it receives")
    model.clock = pyo.ConstraintList()
    model.clock.doc = "a subgraph ends after its work and transfers, and starts after the one before it"
    model.finished = pyo.ConstraintList(doc="the result of a node waits for its subgraph")
    for v in nodes:
        model.results.add(model.lat[v] >= atoms.cpu_times[v] * model.x[v, 0])
        model.results.add(model.total >= model.lat[v])
    for u, v in atoms.arcs:
        model.results.add(model.lat[v] >= model.lat[u] + atoms.cpu_times[v] * model.x[v, 0])
    for i in slots:
        work = sum(time * model.x[v, i] for v, time in enumerate(atoms.accelerator_times))
        moved = sum(cost[u] * (model.comm_in[u, i] + model.comm_out[u, i]) for u in senders)
        model.clock.add(model.fin[i] == model.start[i] + work + moved)
        if (i - 1) % atoms.pieces:
            model.clock.add(model.start[i] >= model.fin[i - 1])
        for u in senders:
            model.received.add(model.start[i] >= model.lat[u] - big * (1 - model.comm_in[u, i]))
        for v in nodes:
            model.finished.add(model.lat[v] >= model.fin[i] - big * (1 - model.x[v, i]))


def _order(model: Any, atoms: Atoms, slots: range) -> None:
    """A subgraph has one place; what waits stands behind it."""
    last = atoms.nodes
    model.place = pyo.Var(range(atoms.nodes), bounds=(0, last), doc="[v] place of node v in a common order")
    model.slot_place = pyo.Var(slots, bounds=(0, last), doc="[i] place of subgraph i in that order")
    model.order = pyo.ConstraintList(doc="ours: subgraphs do not wait for each other in a circle")
    for u, v in atoms.arcs:
        model.order.add(model.place[v] >= model.place[u])
        for i in slots:
            apart = model.x[u, i] - model.x[v, i]
            model.order.add(model.place[v] >= model.place[u] + 1 - (last + 1) * (1 - apart))
    for i in slots:
        if (i - 1) % atoms.pieces:
            model.order.add(model.slot_place[i] >= model.slot_place[i - 1])
        for v in range(atoms.nodes):
            model.order.add(model.place[v] >= model.slot_place[i] - last * (1 - model.x[v, i]))
            model.order.add(model.place[v] <= model.slot_place[i] + last * (1 - model.x[v, i]))
