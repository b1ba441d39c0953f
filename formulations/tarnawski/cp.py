"""Native CP-SAT models of the throughput problem, built inside a worker from integers.

All costs are rounded down and the cut-off with them, so every plan whose true value is at most the cut-off
stays feasible with an integer value that is no larger: an infeasibility proof and every bound hold for the
true data. Sizes are whole numbers already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..native import NativeBuilder, NativeBuilt, Steps, add_rows, integer_memory
from .reductions import Reduced, accelerator_allowed, cpu_allowed


def payload(
    reduced: Reduced, contiguous: bool, cutoff: float, lower_bound: float, precision: float
) -> dict[str, Any]:
    """Plain integers for `build`; see `Steps` for the precision."""
    groups, steps = reduced.groups, Steps.below(cutoff, precision)
    costs = steps.floor(net.cost for net in groups.nets)
    sizes, memory = integer_memory(groups.sizes, groups.memory)
    return {
        "contiguous": contiguous,
        "accelerators": groups.accelerators,
        "cpus": groups.cpus,
        "scale": steps.scale,
        "cutoff": steps.cutoff,
        "lower_bound": max(0, math.floor(lower_bound * steps.scale) - groups.count - len(groups.nets)),
        "times": [steps.floor(part) for part in groups.times],
        "cpu_times": [steps.floor(part) for part in groups.cpu_times],
        "sizes": sizes,
        "memory": memory,
        "accelerator_allowed": [accelerator_allowed(groups, g, cutoff) for g in range(groups.count)],
        "cpu_allowed": [cpu_allowed(groups, g, cutoff) for g in range(groups.count)],
        "nets": [(list(net.pins), cost, net.part) for net, cost in zip(groups.nets, costs, strict=True)],
        "arcs": [list(arc) for arc in groups.arcs],
        "pinned": list(reduced.pinned),
        "conflicts": [list(pair) for pair in reduced.conflicts],
    }


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker: the contiguous (stage) model or the non-contiguous (device) model."""
    return add_rows(_Builder(data).build(), data)


class _Builder(NativeBuilder):
    """One method per family of constraints; `x[g, j]`: group g is at position j.

    Contiguous: positions are stages in pipeline order and w[j] says which of them are CPUs.
    Non-contiguous: positions are devices, accelerators first.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.groups = range(len(data["times"][0]))
        self.parts = range(len(data["times"]))
        self.accelerators = data["accelerators"]
        self.positions = range(data["accelerators"] + data["cpus"])
        self.x = [[self.flag(f"x[{g},{j}]") for j in self.positions] for g in self.groups]

    def build(self) -> NativeBuilt:
        data, model = self.data, self.model
        for row in self.x:
            model.add_exactly_one(row)
        if data["contiguous"]:
            self.stage_order()
            is_cpu = self.cpu_stages()
        else:
            is_cpu = [None] * len(self.positions)
            self.break_device_symmetry()
        names = ["T"] if len(self.parts) == 1 else [f"T[{part}]" for part in self.parts]
        self.loads = [self.integer(name, 0, data["cutoff"]) for name in names]
        total = sum(self.loads)
        model.add(total >= data["lower_bound"])
        model.add(total <= data["cutoff"])
        for j in self.positions:
            if data["contiguous"] and data["cpus"]:
                self.accelerator(j, is_cpu[j].Not())
                self.cpu(j, is_cpu[j])
                self.kinds(j, is_cpu[j])
            elif j < self.accelerators:
                self.accelerator(j)
            else:
                self.cpu(j)
        self.conflicts(is_cpu)
        model.minimize(total)
        return NativeBuilt(model, self.variables, data["scale"])

    def cpu_stages(self) -> list[Any]:
        """w[j]: stage j is a CPU; as many stages as there are CPUs, whatever they hold."""
        if not self.data["cpus"]:
            return [None] * len(self.positions)
        is_cpu = [self.flag(f"w[{j}]") for j in self.positions]
        self.model.add(sum(is_cpu) == self.data["cpus"])
        return is_cpu

    def stage_order(self) -> None:
        """y[g, j] = [stage(g) >= j]; an arc u -> v gives y[u, j] <= y[v, j]."""
        model, last = self.model, len(self.positions)
        y = [[self.flag(f"y[{g},{j}]") for j in range(1, last)] for g in self.groups]
        for g, row in enumerate(y):
            chain = [1, *row, 0]
            for j in self.positions:
                model.add(self.x[g][j] == chain[j] - chain[j + 1])
            for later, earlier in zip(row[1:], row, strict=False):
                model.add_implication(later, earlier)
        for u, v in self.data["arcs"]:
            for before, after in zip(y[u], y[v], strict=True):
                model.add_implication(before, after)

    def break_device_symmetry(self) -> None:
        """Accelerators are alike: the r-th of a list of groups that need one uses the first r of them."""
        for r, g in enumerate(self.data["pinned"][: self.accelerators]):
            for j in range(r + 1, self.accelerators):
                self.model.add(self.x[g][j] == 0)

    def kinds(self, j: int, is_cpu: Any) -> None:
        """Stage j is a CPU or an accelerator: groups that cannot be on the one need the other."""
        for g in self.groups:
            if not self.data["accelerator_allowed"][g]:
                self.model.add_implication(self.x[g][j], is_cpu)
            if not self.data["cpu_allowed"][g]:
                self.model.add_implication(self.x[g][j], is_cpu.Not())

    def accelerator(self, j: int, *only_if: Any) -> None:
        """load <= T in each part, and memory."""
        data, at = self.data, [row[j] for row in self.x]
        for part in self.parts:
            terms = [cost * at[g] for g, cost in enumerate(data["times"][part]) if cost]
            for e, (pins, cost, net_part) in enumerate(data["nets"]):
                if cost and net_part == part:
                    terms.append(cost * self.net_is_cut(e, j, [at[g] for g in pins]))
            if terms:
                self.require(sum(terms) <= self.loads[part], *only_if)
        if data["sizes"] is not None:
            self.require(sum(s * at[g] for g, s in enumerate(data["sizes"]) if s) <= data["memory"], *only_if)
        if not (data["contiguous"] and data["cpus"]):
            self.forbid(j, data["accelerator_allowed"])

    def cpu(self, j: int, *only_if: Any) -> None:
        """CPUs pay for work alone."""
        for part in self.parts:
            terms = [cost * self.x[g][j] for g, cost in enumerate(self.data["cpu_times"][part]) if cost]
            if terms:
                self.require(sum(terms) <= self.loads[part], *only_if)
        if not (self.data["contiguous"] and self.data["cpus"]):
            self.forbid(j, self.data["cpu_allowed"])

    def forbid(self, j: int, allowed: Sequence[bool]) -> None:
        for g in self.groups:
            if not allowed[g]:
                self.model.add(self.x[g][j] == 0)

    def net_is_cut(self, e: int, j: int, at: Sequence[Any]) -> Any:
        """q[e, j] is true if position j holds some but not all pins; l[e, j] may be true only if it holds all."""
        cut = self.flag(f"q[{e},{j}]")
        if len(at) == 2:
            self.model.add_bool_or(cut, at[0].Not(), at[1])
            self.model.add_bool_or(cut, at[1].Not(), at[0])
        else:
            whole = self.flag(f"l[{e},{j}]")
            for pin in at:
                self.model.add_implication(whole, pin)
                self.model.add_bool_or(cut, pin.Not(), whole)
        return cut

    def conflicts(self, is_cpu: Sequence[Any]) -> None:
        """Pairs that no accelerator can hold together under the cut-off."""
        for g, h in self.data["conflicts"]:
            for j in self.positions:
                apart = [self.x[g][j].Not(), self.x[h][j].Not()]
                if is_cpu[j] is not None:
                    self.model.add_bool_or(*apart, is_cpu[j])
                elif j < self.accelerators:
                    self.model.add_bool_or(*apart)
