"""The strong latency model in Pyomo: the stages of `cp`, as rows for any MIP solver.

    done[v] >= done[u] + p_cpu[v] cpu[v]                      results in host memory, for every arc (u, v)
    start[p] >= done[u] - M (1 - reads[u, p])                 a stage waits for all that it reads
    finish[p] >= start[p] + load[p],  done[v] >= finish[p] - M (1 - x[v, p])
    f[v] >= f[u] + work[v] + c[u] (off[u, v] + onto[u, v])     the second clock: paths with their transfers, no M

An M is the cut-off, or what the longest path before or behind a node leaves of it.
"""

from __future__ import annotations

from typing import Any

from ..contract import FLOAT_ROOM
from ..placement_memory import memory_row
from .atoms import Atoms
from .path_bound import joined_arcs


def build(atoms: Atoms, *, cutoff: float, lower_bound: float) -> Any:
    """A Pyomo model; x[a, p]: atom a is in stage p, cpu[a]: it is on the CPUs."""
    return _Builder(atoms, cutoff, min(lower_bound, cutoff)).build()


class _Builder:
    def __init__(self, atoms: Atoms, cutoff: float, lower_bound: float) -> None:
        from ..quick_pyomo import pyo

        self.atoms, self.cutoff, self.pyo = atoms, cutoff, pyo
        self.nodes, self.stages = range(atoms.nodes), range(atoms.stages)
        self.senders = sorted({u for u, _ in atoms.arcs})
        least = atoms.least_times()
        self.head = atoms.finish_times(least)
        self.tail = [t - least[v] for v, t in enumerate(atoms.times_to_end(least))]
        model = self.model = pyo.ConcreteModel("ip-tarnawski-latency, strong")
        time = {"bounds": (0, cutoff)}
        model.x = pyo.Var(range(atoms.count), self.stages, domain=pyo.Binary, doc="[a, p] is atom a in stage p?")
        model.cpu = pyo.Var(range(atoms.count), domain=pyo.Binary, doc="[a] is atom a on the CPUs?")
        model.total = pyo.Var(bounds=(lower_bound * (1 - FLOAT_ROOM), cutoff), doc="the latency of one sample")
        model.start = pyo.Var(self.stages, **time, doc="[p] when stage p starts")
        model.finish = pyo.Var(self.stages, **time, doc="[p] when stage p ends")
        # A stage hands over when all of it is finished, so what it needs no more may be late.
        model.done = pyo.Var(self.nodes, bounds=lambda m, v: (self._low(v), cutoff))
        model.done.doc = "[v] when the result of node v is in host memory"
        model.f = pyo.Var(self.nodes, bounds=lambda m, v: (self._low(v), self._high(v)))
        model.f.doc = "[v] second clock: no path with its transfers takes longer to node v"
        model.objective = pyo.Objective(expr=model.total)

    def _low(self, v: int) -> float:
        return max(0.0, min(self.head[v] * (1 - FLOAT_ROOM), self._high(v)))

    def _high(self, v: int) -> float:
        return max(0.0, self.cutoff - self.tail[v] * (1 - FLOAT_ROOM))

    def build(self) -> Any:
        self.placement()
        self.stage_order()
        if self.atoms.pieces == 1:
            held = [{a: self.model.x[a, p] for a in range(self.atoms.count)} for p in self.stages]
        else:
            held = self.devices()
        self.begin("memory", "(1c) what an accelerator holds fits its memory, in whole units")
        for parts in held:
            self.memory(parts)
        self.transfers()
        self.clock()
        self.second_clock()
        self.cuts()
        return self.model

    def begin(self, block: str, doc: str) -> None:
        """Start a block of rows, to which `row` adds; `doc` says what they are, with their numbers on the page."""
        self.block = self.pyo.ConstraintList(doc=doc)
        self.model.add_component(block, self.block)

    def row(self, expression: Any) -> None:
        """Add a row, unless it turned out to be true without any variable."""
        if expression is not True:
            self.block.add(expression)

    def placement(self) -> None:
        self.begin("placement", "(1a) [a] each atom is in one stage or on the CPUs")
        atoms, model = self.atoms, self.model
        for a in range(atoms.count):
            self.row(sum(model.x[a, p] for p in self.stages) + model.cpu[a] == 1)
            if not atoms.has_cpu:
                model.cpu[a].fix(0)
            if not atoms.allowed[a]:
                for p in self.stages:
                    model.x[a, p].fix(0)

    def stage_order(self) -> None:
        """y[v, p] = [place(v) >= p]; integral by itself once x is."""
        self.begin("stage_order", "(L1 to L4) y counts stages, x is its step, and along an arc places do not fall")
        atoms, model, last = self.atoms, self.model, self.atoms.stages
        model.y = self.pyo.Var(self.nodes, range(1, last + 1), bounds=(0, 1))
        model.y.doc = "[v, p] is node v in stage p or behind it?"

        def y(v: int, p: int) -> Any:
            return 1 if p == 0 else 0 if p > last else model.y[v, p]

        for v in self.nodes:
            a = atoms.atom_of[v]
            for p in self.stages:
                if p:
                    self.row(model.y[v, p + 1] <= model.y[v, p])
                    self.row(model.x[a, p] <= y(v, p))
                self.row(model.x[a, p] <= 1 - y(v, p + 1))
        for u, v in atoms.arcs:
            a, b = atoms.atom_of[u], atoms.atom_of[v]
            for p in range(1, last + 1):
                self.row(model.y[u, p] <= model.y[v, p])
                if a != b:
                    self.row(model.x[a, p - 1] + model.cpu[b] - 1 <= model.y[v, p])

    # ---- devices ----------------------------------------------------------------------------------------

    def memory(self, held: dict[int, Any]) -> None:
        limit, sizes = self.atoms.memory, self.atoms.sizes
        if limit is not None and sum(sizes) > limit:
            self.row(memory_row(((sizes[a], at) for a, at in held.items()), limit))

    def devices(self) -> list[dict[int, Any]]:
        """d[p, i]: stage p runs on accelerator i; h[a, i]: atom a is there. Returns h, by accelerator and atom.

        Accelerators are named in the order of their first stages.
        """
        self.begin("devices", "(L7 to L13) each stage has one accelerator, with its atoms; stages run one by one")
        atoms, model, devices = self.atoms, self.model, range(self.atoms.accelerators)
        model.d = self.pyo.Var(self.stages, devices, domain=self.pyo.Binary)
        model.d.doc = "[p, i] does stage p run on accelerator i?"
        model.h = self.pyo.Var(range(atoms.count), devices, bounds=(0, 1), doc="[a, i] is atom a on accelerator i?")
        for p in self.stages:
            self.row(sum(model.d[p, i] for i in devices) == 1)
            for i in devices:
                if i > p:
                    model.d[p, i].fix(0)
                elif i:
                    self.row(model.d[p, i] <= sum(model.d[r, i - 1] for r in range(p)))
                for r in range(p):
                    slack = self.cutoff * (2 - model.d[p, i] - model.d[r, i])
                    self.row(model.start[p] >= model.finish[r] - slack)
        for a in range(atoms.count):
            self.row(sum(model.h[a, i] for i in devices) + model.cpu[a] == 1)
            for p in self.stages:
                for i in devices:
                    self.row(model.h[a, i] >= model.x[a, p] + model.d[p, i] - 1)
        for i in devices:
            self.row(sum(model.d[p, i] for p in self.stages) <= atoms.pieces)
            for first, *others in atoms.classes:
                for a in others:
                    self.row(model.h[a, i] == model.h[first, i])
        return [{a: model.h[a, i] for a in range(atoms.count)} for i in devices]

    # ---- transfers and times ----------------------------------------------------------------------------

    def transfers(self) -> None:
        """same[a, b, p] is 0 unless atoms a and b are both in stage p; what crosses its border is read or sent."""
        self.begin("transfers", "(L14, L16) `same` says that both are in a stage; what crosses its border is moved")
        atoms, model = self.atoms, self.model
        pairs = sorted({(atoms.atom_of[u], atoms.atom_of[v]) for u, v in atoms.arcs})
        model.same = self.pyo.Var([pair for pair in pairs if pair[0] != pair[1]], self.stages, bounds=(0, 1))
        model.same.doc = "[a, b, p] are atoms a and b both in stage p?"
        model.reads = self.pyo.Var(self.senders, self.stages, bounds=(0, 1))
        model.reads.doc = "[u, p] does stage p read the output of node u?"
        model.sends = self.pyo.Var(self.senders, self.stages, bounds=(0, 1))
        model.sends.doc = "[u, p] does stage p send the output of node u?"
        for a, b in pairs:
            for p in self.stages if a != b else ():
                self.row(model.same[a, b, p] <= model.x[a, p])
                self.row(model.same[a, b, p] <= model.x[b, p])
        for u, v in atoms.arcs:
            a, b = atoms.atom_of[u], atoms.atom_of[v]
            for p in self.stages if a != b else ():
                self.row(model.reads[u, p] >= model.x[b, p] - model.same[a, b, p])
                self.row(model.sends[u, p] >= model.x[a, p] - model.same[a, b, p])

    def together(self, u: int, v: int) -> Any:
        a, b = self.atoms.atom_of[u], self.atoms.atom_of[v]
        return 1 - self.model.cpu[a] if a == b else sum(self.model.same[a, b, p] for p in self.stages)

    def moved(self, flags: Any, p: int) -> Any:
        cost = self.atoms.transfer_times
        return sum(cost[u] * flags[u, p] for u in self.senders if cost[u])

    def crossing(self, arc: tuple[int, int], side: int) -> Any:
        """Is the arc's tensor moved off the source's accelerator (side 0), or on to the target's (side 1)?"""
        return 1 - self.model.cpu[self.atoms.atom_of[arc[side]]] - self.together(*arc)

    def clock(self) -> None:
        self.begin("clock", "(4a to 7, 9, L5, L6) stages wait for what they read, results for their stages")
        atoms, model = self.atoms, self.model
        for p in self.stages:
            work = sum(t * model.x[atoms.atom_of[v], p] for v, t in enumerate(atoms.accelerator_times) if t)
            load = work + self.moved(model.reads, p) + self.moved(model.sends, p)
            self.row(model.finish[p] >= model.start[p] + load)
            self.row(model.total >= model.finish[p])
            if p:
                self.row(model.start[p] >= model.start[p - 1])
            for u in self.senders:
                self.row(model.start[p] >= model.done[u] - self.cutoff * (1 - model.reads[u, p]))
        for v in self.nodes:
            a = atoms.atom_of[v]
            self.row(model.total >= model.done[v])
            self.row(model.done[v] >= atoms.cpu_times[v] * model.cpu[a])
            for p in self.stages:
                room = max(0.0, self.cutoff - self._low(v))
                self.row(model.done[v] >= model.finish[p] - room * (1 - model.x[a, p]))
        for u, v in atoms.arcs:
            self.row(model.done[v] >= model.done[u] + atoms.cpu_times[v] * model.cpu[atoms.atom_of[v]])

    def second_clock(self) -> None:
        self.begin("second_clock", "(L18 to L21) implied: no result is there before the longest path to it")
        atoms, model = self.atoms, self.model
        for v in self.nodes:
            a, work = atoms.atom_of[v], atoms.accelerator_times[v]
            self.row(model.f[v] >= self.work(v))
            self.row(model.done[v] >= model.f[v])
            for p in self.stages:
                inside = model.start[p] + self.moved(model.reads, p) + work
                room = max(0.0, self.cutoff + work - self._low(v))
                self.row(model.f[v] >= inside - room * (1 - model.x[a, p]))
                behind = model.f[v] + self.moved(model.sends, p)
                self.row(model.finish[p] >= behind - self._high(v) * (1 - model.x[a, p]))
        for u, v in atoms.arcs:
            cost = atoms.transfer_times[u]
            off, onto = self.crossing((u, v), 0), self.crossing((u, v), 1)
            self.row(model.f[v] >= model.f[u] + self.work(v) + cost * (off + onto))
            if cost:
                self.row(model.done[u] >= model.f[u] + cost * off)

    def work(self, v: int) -> Any:
        atoms = self.atoms
        time = atoms.accelerator_times[v]
        return time + (atoms.cpu_times[v] - time) * self.model.cpu[atoms.atom_of[v]]

    def cuts(self) -> None:
        self.begin("cuts", "(L22) implied: what every good plan joins is joined")
        for u, v in joined_arcs(self.atoms, self.cutoff):
            self.row(self.together(u, v) == 1)
