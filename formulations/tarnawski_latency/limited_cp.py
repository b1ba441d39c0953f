"""The max-load problem within a limit on the latency, as a CP-SAT model, built inside a worker from integers.

It is the latency model with the limit as its cut-off, so that all of its rows and cuts hold, and with the throughput
problem's objective: the largest load of a device. Three things are new. A load is that of a whole device, which pays
nothing for what its own pieces hand to each other. The pool is divided among the CPUs, since each has a load of its
own. And contiguous plans need an order of all devices, CPUs among them, in which no arc leads back.

All times have the same steps, rounded down, so every true plan stays feasible at an integer value that is no larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...instances.placement.problem import PlacementProblem
from ..native import NativeBuilt, add_rows
from ..tarnawski.reductions import Reduced
from . import cp
from .atoms import Atoms

# Share of the limit: loads that are smaller than it do not make the steps finer.
FINEST = 1e-3


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits within which plans are sought, in the problem's time unit."""

    latency: float
    cutoff: float
    """The largest load that is asked for."""
    load: float
    """Lower bound on the largest load of any plan."""
    least_latency: float = 0.0


def payload(
    problem: PlacementProblem, atoms: Atoms, limits: Limits, reduced: Reduced, *, contiguous: bool, step: float
) -> dict[str, Any]:
    """Plain integers for `build`; `step`: relative to the cut-off."""
    share = min(1.0, max(limits.cutoff / limits.latency, FINEST))
    data = cp.payload(atoms, cutoff=limits.latency, lower_bound=limits.least_latency, precision=step * share)
    scale = data["scale"]
    atom = [atoms.atom_of[members[0]] for members in reduced.groups.members]
    # In whole steps: no device has more, and no solver counts as far as costs that no plan within the limit pays.
    work: int = sum(map(max, data["work"], data["cpu_work"]))
    moved: int = sum(data["transfer"])
    return {
        **data,
        "cpus": problem.cpus,
        "contiguous": contiguous,
        "load_cutoff": min(math.floor(limits.cutoff * scale * (1 + 1e-12)), work + 2 * moved),
        "load_lower_bound": max(0, math.floor(limits.load * scale) - cp.ROUNDED_PER_NODE * atoms.nodes),
        "on_accelerators": [atom[g] for g in reduced.pinned],
        "conflicts": [[atom[g], atom[h]] for g, h in reduced.conflicts],
    }


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return add_rows(LimitedBuilder(data).build(), data)


class LimitedBuilder(cp.LatencyBuilder):
    """The latency model with the largest load as its objective. `c[a][j]`: atom a is on CPU j."""

    def objective(self) -> None:
        data = self.data
        self.largest = self.integer(
            "load", data["load_lower_bound"], max(data["load_lower_bound"], data["load_cutoff"])
        )
        self.model.add(self.largest <= data["load_cutoff"])
        if self.on is None:
            for p in self.stages:
                self.model.add(self.largest >= self.load(p))
        else:
            for i in range(data["accelerators"]):
                self.model.add(self.largest >= self.load_of(i))
        self.pool()
        self.known()
        if data["contiguous"]:
            self.chain()
        self.model.minimize(self.largest)

    def load_of(self, i: int) -> Any:
        """Load of an accelerator with several pieces: each tensor is read or sent once, none between its own pieces."""
        data, held = self.data, [self.held[a][i] for a in self.data["atom_of"]]
        terms = [work * held[v] for v, work in enumerate(data["work"]) if work]
        for u in sorted({u for u, _ in self.arcs if data["transfer"][u]}):
            reads, sends = self.flag(f"devin[{u},{i}]"), self.flag(f"devout[{u},{i}]")
            for v in (v for source, v in self.arcs if source == u):
                self.model.add_bool_or(reads, held[v].Not(), held[u])
                self.model.add_bool_or(sends, held[u].Not(), held[v])
            terms += [data["transfer"][u] * reads, data["transfer"][u] * sends]
        return sum(terms)

    def pool(self) -> None:
        """Each atom of the pool is on one CPU, a class on a single one; CPUs are named in the order of first atoms."""
        model, cpus = self.model, range(self.data["cpus"])
        self.c = [[self.flag(f"c[{a},{j}]") for j in cpus] for a in self.atoms]
        for a in self.atoms:
            model.add(sum(self.c[a]) == self.cpu[a])
            for j in cpus[1:]:
                model.add_bool_or(self.c[a][j].Not(), *(self.c[b][j - 1] for b in range(a)))
        for first, *others in self.data["classes"]:
            for a in others:
                for j in cpus:
                    model.add(self.c[a][j] == self.c[first][j])
        for j in cpus:
            held = [self.c[a][j] for a in self.data["atom_of"]]
            model.add(self.largest >= sum(work * held[v] for v, work in enumerate(self.data["cpu_work"]) if work))

    def known(self) -> None:
        """Rows for what no CPU can take, and for what no accelerator can hold together."""
        for a in self.data["on_accelerators"]:
            self.model.add(self.cpu[a] == 0)
        for a, b in self.data["conflicts"]:
            for one, other in zip(self.held[a], self.held[b], strict=True):
                self.model.add_bool_or(one.Not(), other.Not())

    def start_order(self) -> None:
        """In a chain, stages are numbered by their places instead, which may start in another order."""
        if not self.data["contiguous"]:
            super().start_order()

    def chain(self) -> None:
        """Devices have different ranks, and along an arc the rank of the device never falls."""
        model, count = self.model, len(self.stages) + self.data["cpus"]
        ranks = [model.new_int_var(0, count - 1, f"rank[{d}]") for d in range(count)]
        model.add_all_different(ranks)
        for p in self.stages[1:]:
            model.add(ranks[p] > ranks[p - 1])
        rank = [model.new_int_var(0, count - 1, f"r[{a}]") for a in self.atoms]
        for a in self.atoms:
            for d, here in enumerate([*self.x[a], *self.c[a]]):
                model.add(rank[a] == ranks[d]).only_enforce_if(here)
        for a, b in sorted({(self.data["atom_of"][u], self.data["atom_of"][v]) for u, v in self.arcs}):
            if a != b:
                model.add(rank[a] <= rank[b])
