"""The latency problem as a CP-SAT model, built inside a worker from integers.

Pieces are *stages* in one common order: every wait (for data, or for the piece before on the same accelerator) leads
from an earlier stage to a later one. A node on the CPUs stands between stages. So no circle is possible, and the names
of accelerators, which are alike, hardly matter: with one piece each, stage p is accelerator p.

Strength comes from a second clock. `f[v]` is when v is done inside its piece, work taken in topological order; along an
arc it grows by the work of v and by both transfers where they are paid. That is linear in the placement, without any
big-M, so the linear relaxation prices paths with the transfers that memory forces on them.

Times are rounded down, so every true plan stays feasible at an integer value that is no larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..native import NativeBuilder, NativeBuilt, Steps, add_rows, integer_memory
from .atoms import Atoms
from .path_bound import joined_arcs

# Rounded numbers per node: its work, the tensor that it reads and the tensor that it sends.
ROUNDED_PER_NODE = 3


def payload(atoms: Atoms, *, cutoff: float, lower_bound: float, precision: float) -> dict[str, Any]:
    """Plain integers for `build`; see `Steps` for the precision."""
    steps = Steps.below(cutoff, precision)
    sizes, memory = integer_memory(atoms.sizes, atoms.memory)
    return {
        "scale": steps.scale,
        "cutoff": steps.cutoff,
        "lower_bound": max(0, math.floor(lower_bound * steps.scale) - ROUNDED_PER_NODE * atoms.nodes),
        "atom_of": list(atoms.atom_of),
        "atoms": atoms.count,
        "classes": [list(members) for members in atoms.classes],
        "allowed": list(atoms.allowed),
        "sizes": sizes,
        "memory": memory,
        "arcs": [list(arc) for arc in atoms.arcs],
        "work": steps.floor(atoms.accelerator_times),
        "cpu_work": steps.floor(atoms.cpu_times),
        "transfer": steps.floor(atoms.transfer_times),
        "joined": [list(arc) for arc in joined_arcs(atoms, cutoff)],
        "accelerators": atoms.accelerators,
        "pieces": atoms.pieces,
        "stages": atoms.stages,
        "has_cpu": atoms.has_cpu,
    }


def rounding(atoms: Atoms, data: Mapping[str, Any]) -> float:
    """By how much the model may say too little of a plan: every cost is less than a step too small."""
    return float(ROUNDED_PER_NODE * atoms.nodes / data["scale"])


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return add_rows(LatencyBuilder(data).build(), data)


class LatencyBuilder(NativeBuilder):
    """One method per family of constraints; `x[a][p]`: atom a is in stage p; `cpu[a]`: it is on the CPUs."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.atoms = range(data["atoms"])
        self.nodes = range(len(data["atom_of"]))
        self.stages = range(data["stages"])
        self.arcs: list[tuple[int, int]] = [(u, v) for u, v in data["arcs"]]
        self.x = [[self.flag(f"x[{a},{p}]") for p in self.stages] for a in self.atoms]
        self.cpu = [self.flag(f"cpu[{a}]") for a in self.atoms]
        self.at = [self.x[a] for a in data["atom_of"]]
        self.on_cpu = [self.cpu[a] for a in data["atom_of"]]

    def time(self, name: str) -> Any:
        return self.integer(name, 0, self.data["cutoff"])

    def build(self) -> NativeBuilt:
        self.placement()
        self.stage_order()
        self.devices()
        self.transfers()
        self.clock()
        self.paths()
        self.model.minimize(self.total)
        return NativeBuilt(self.model, self.variables, self.data["scale"])

    def placement(self) -> None:
        for a in self.atoms:
            self.model.add_exactly_one([*self.x[a], self.cpu[a]])
            if not self.data["has_cpu"]:
                self.model.add(self.cpu[a] == 0)
            if not self.data["allowed"][a]:
                for variable in self.x[a]:
                    self.model.add(variable == 0)

    def stage_order(self) -> None:
        """y[v][p] = [place(v) >= p], 1 <= p <= stages; what left stage p for the CPUs stands at p + 1 or later."""
        model, last = self.model, len(self.stages)
        y = [[True, *(self.flag(f"y[{v},{p}]") for p in range(1, last + 1)), False] for v in self.nodes]
        for v in self.nodes:
            for p in range(2, last + 1):
                model.add_implication(y[v][p], y[v][p - 1])
            for p in self.stages:
                if p:
                    model.add_implication(self.at[v][p], y[v][p])
                model.add_implication(self.at[v][p], y[v][p + 1].Not())
        for u, v in self.arcs:
            for p in range(1, last + 1):
                model.add_implication(y[u][p], y[v][p])
                if self.data["atom_of"][u] != self.data["atom_of"][v]:
                    model.add_bool_or(self.at[u][p - 1].Not(), self.on_cpu[v].Not(), y[v][p])

    # ---- devices ----------------------------------------------------------------------------------------

    def devices(self) -> None:
        """Rows of memory; with several pieces per accelerator also those that say which stage runs where."""
        if self.data["pieces"] == 1:
            self.on = None
            for p in self.stages:
                self.memory_of([(self.x[a][p], a) for a in self.atoms])
            return
        model, devices = self.model, range(self.data["accelerators"])
        self.on = [[self.flag(f"d[{p},{i}]") for i in devices] for p in self.stages]
        for p in self.stages:
            model.add_exactly_one(self.on[p])
            for i in devices:  # devices are named in the order of their first stage
                if i > p:
                    model.add(self.on[p][i] == 0)
                elif i:
                    model.add_bool_or(self.on[p][i].Not(), *(self.on[r][i - 1] for r in range(p)))
        held = [[self.flag(f"h[{a},{i}]") for i in devices] for a in self.atoms]
        for i in devices:
            model.add(sum(self.on[p][i] for p in self.stages) <= self.data["pieces"])
            self.memory_of([(held[a][i], a) for a in self.atoms])
        for a in self.atoms:
            model.add_exactly_one([*held[a], self.cpu[a]])
            for p in self.stages:
                for i in devices:
                    model.add_bool_or(self.x[a][p].Not(), self.on[p][i].Not(), held[a][i])
        for members in self.data["classes"]:
            for a in members[1:]:
                for i in devices:
                    model.add(held[a][i] == held[members[0]][i])

    def memory_of(self, held: Sequence[tuple[Any, int]]) -> None:
        sizes = self.data["sizes"]
        if sizes is not None:
            self.model.add(sum(sizes[a] * variable for variable, a in held if sizes[a]) <= self.data["memory"])

    # ---- transfers and times ----------------------------------------------------------------------------

    def transfers(self) -> None:
        """same[u, v][p]: both in stage p; reads[u][p], sends[u][p]: stage p takes the output of u in, or out.

        The page on latency numbers rows in the order in which they are added.
        """
        model, senders = self.model, sorted({u for u, _ in self.arcs})
        self.reads = {u: [self.flag(f"in[{u},{p}]") for p in self.stages] for u in senders}
        self.sends = {u: [self.flag(f"out[{u},{p}]") for p in self.stages] for u in senders}
        self.same: dict[tuple[int, int], list[Any]] = {}
        pairs: dict[tuple[int, int], list[Any]] = {}
        for u, v in self.arcs:
            key = (self.data["atom_of"][u], self.data["atom_of"][v])
            if key[0] == key[1]:
                self.same[u, v] = self.at[u]
                continue
            if key not in pairs:
                pairs[key] = [self.flag(f"s[{key[0]},{key[1]},{p}]") for p in self.stages]
                for p in self.stages:
                    model.add_implication(pairs[key][p], self.x[key[0]][p])
                    model.add_implication(pairs[key][p], self.x[key[1]][p])
                    model.add_bool_or(pairs[key][p], self.x[key[0]][p].Not(), self.x[key[1]][p].Not())
            self.same[u, v] = pairs[key]
            for p in self.stages:
                model.add_bool_or(self.reads[u][p], self.at[v][p].Not(), pairs[key][p])
                model.add_bool_or(self.sends[u][p], self.at[u][p].Not(), pairs[key][p])
        self.crossing = {arc: self.crossings(arc) for arc in self.arcs}

    def crossings(self, arc: tuple[int, int]) -> tuple[Any, Any]:
        """Is the arc's tensor moved off the source's accelerator, and on to the target's?"""
        u, v = arc
        if self.data["atom_of"][u] == self.data["atom_of"][v]:
            return 0, 0
        out, into = self.flag(f"off[{u},{v}]"), self.flag(f"onto[{u},{v}]")
        self.model.add_exactly_one([self.on_cpu[u], *self.same[arc], out])
        self.model.add_exactly_one([self.on_cpu[v], *self.same[arc], into])
        return out, into

    def clock(self) -> None:
        """start, finish of stages; t[v]: when the result of v is in host memory."""
        data, model = self.data, self.model
        self.total = self.time("T")
        self.start = [self.time(f"start[{p}]") for p in self.stages]
        self.finish = [self.time(f"finish[{p}]") for p in self.stages]
        self.done = [self.time(f"t[{v}]") for v in self.nodes]
        model.add(self.total >= data["lower_bound"])
        for p in self.stages:
            model.add(self.finish[p] >= self.start[p] + self.load(p))
            model.add(self.total >= self.finish[p])
            for u, reads in self.reads.items():
                model.add(self.start[p] >= self.done[u]).only_enforce_if(reads[p])
        self.start_order()
        for v in self.nodes:
            model.add(self.total >= self.done[v])
            model.add(self.done[v] >= data["cpu_work"][v]).only_enforce_if(self.on_cpu[v])
            for p in self.stages:
                model.add(self.done[v] >= self.finish[p]).only_enforce_if(self.at[v][p])
        for u, v in self.arcs:
            model.add(self.done[v] >= self.done[u])
            model.add(self.done[v] >= self.done[u] + data["cpu_work"][v]).only_enforce_if(self.on_cpu[v])
        if self.on is not None:
            self.one_at_a_time(self.on)

    def start_order(self) -> None:
        """Stages are numbered as they start."""
        for p in self.stages[1:]:
            self.model.add(self.start[p] >= self.start[p - 1])

    def one_at_a_time(self, on: Sequence[Sequence[Any]]) -> None:
        """Stages of one accelerator run in their order."""
        for p in self.stages:
            for r in range(p):
                for i in range(self.data["accelerators"]):
                    both = [on[p][i], on[r][i]]
                    self.model.add(self.start[p] >= self.finish[r]).only_enforce_if(both)

    def load(self, p: int) -> Any:
        data = self.data
        terms = [data["work"][v] * self.at[v][p] for v in self.nodes if data["work"][v]]
        return sum(terms) + self.moved(self.reads, p) + self.moved(self.sends, p)

    def moved(self, flags: Mapping[int, Sequence[Any]], p: int) -> Any:
        cost = self.data["transfer"]
        return sum(cost[u] * moves[p] for u, moves in flags.items() if cost[u])

    def paths(self) -> None:
        """The second clock: f[v] along arcs, and where it meets the first."""
        data, model = self.data, self.model
        clock = [self.time(f"f[{v}]") for v in self.nodes]
        for v in self.nodes:
            work, extra = data["work"][v], data["cpu_work"][v] - data["work"][v]
            model.add(clock[v] >= work + extra * self.on_cpu[v])
            model.add(self.done[v] >= clock[v])
            for p in self.stages:
                inside = self.start[p] + self.moved(self.reads, p) + work
                model.add(clock[v] >= inside).only_enforce_if(self.at[v][p])
                model.add(self.finish[p] >= clock[v] + self.moved(self.sends, p)).only_enforce_if(self.at[v][p])
        for u, v in self.arcs:
            work, extra = data["work"][v], data["cpu_work"][v] - data["work"][v]
            cost = data["transfer"][u]
            out, into = self.crossing[u, v]
            model.add(clock[v] >= clock[u] + work + extra * self.on_cpu[v] + cost * out + cost * into)
            if cost:
                model.add(self.done[u] >= clock[u] + cost * out)
        for u, v in data["joined"]:
            model.add_exactly_one(self.same[u, v])
