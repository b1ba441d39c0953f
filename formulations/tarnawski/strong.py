"""The strong throughput IP as a Pyomo model: groups and nets, for any MIP solver.

Load of an accelerator at position j, part q:

    sum_g p[q, g] a[g, j] + sum_e C[e] cut[e, j] <= T[q]
    cut[e, j] >= a[g, j] - all[e, j]   for every pin g of e,   all[e, j] <= a[g, j]   for every pin g of e

`a[g, j]`: group g is on the accelerator at position j; for nets with two pins `all` is not needed. This is
tighter than the paper's arcs on nets with many readers, since every pair of pins counts, not only
source and reader. `T[q]` are minimised in sum; the cut-off bounds the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..contract import FLOAT_ROOM
from ..placement_memory import memory_row
from ..quick_pyomo import pyo
from .groups import GroupProblem
from .reductions import Reduced, accelerator_allowed, cpu_allowed


def build_by_device(reduced: Reduced, *, cutoff: float, lower_bound: float) -> Any:
    """Non-contiguous splits: positions are devices, accelerators first; x[g, j] for allowed pairs only."""
    groups = reduced.groups
    accelerators = range(groups.accelerators)
    cpus = range(groups.accelerators, groups.accelerators + groups.cpus)
    rank = {g: r for r, g in enumerate(reduced.pinned[: groups.accelerators])}

    def allowed(g: int, j: int) -> bool:
        if j in cpus:
            return cpu_allowed(groups, g, cutoff)
        return accelerator_allowed(groups, g, cutoff) and j <= rank.get(g, j)

    model = pyo.ConcreteModel("ip-tarnawski, non-contiguous")
    pairs = [(g, j) for g in range(groups.count) for j in (*accelerators, *cpus) if allowed(g, j)]
    model.x = pyo.Var(pairs, domain=pyo.Binary, doc="[g, j] is group g on device j? Accelerators first, then CPUs")
    _loads(model, groups, cutoff, lower_bound)
    _assignment(model, groups, {(g, j): model.x[g, j] for g, j in pairs})
    on_accelerator = {(g, j): model.x[g, j] for g, j in pairs if j in accelerators}
    on_cpu = {(g, j): model.x[g, j] for g, j in pairs if j in cpus}
    _accelerator_constraints(model, groups, accelerators, on_accelerator, reduced.conflicts)
    _cpu_constraints(model, groups, cpus, on_cpu)
    return model


def build_by_stage(reduced: Reduced, *, cutoff: float, lower_bound: float) -> Any:
    """Contiguous splits: positions are stages in pipeline order, w[j] = 1 where stage j is a CPU.

    x[g, j] = y[g, j] - y[g, j+1] with y[g, j] = [stage(g) >= j]; every arc u -> v gives y[u, j] <= y[v, j].
    a[g, j] and c[g, j] split x[g, j] by the kind of the stage, which needs no big constant. Stages are
    ordered, so no two solutions differ by renaming devices alone.
    """
    groups = reduced.groups
    last = groups.accelerators + groups.cpus
    positions = range(last)
    all_groups = range(groups.count)
    model = pyo.ConcreteModel("ip-tarnawski, contiguous")
    model.x = pyo.Var(all_groups, positions, domain=pyo.Binary, doc="[g, j] is group g at stage j?")
    model.y = pyo.Var(all_groups, range(1, last), bounds=(0, 1), doc="[g, j] is group g at stage j or a later one?")
    _loads(model, groups, cutoff, lower_bound)
    _assignment(model, groups, {(g, j): model.x[g, j] for g in all_groups for j in positions})

    def reached(g: int, j: int) -> Any:
        return 1 if j == 0 else 0 if j == last else model.y[g, j]

    model.stage = pyo.Constraint(
        all_groups, positions, rule=lambda m, g, j: m.x[g, j] == reached(g, j) - reached(g, j + 1)
    )
    model.stage.doc = "(T16) [g, j] x is the step of y"
    model.order = pyo.Constraint(list(groups.arcs), range(1, last), rule=lambda m, u, v, j: m.y[u, j] <= m.y[v, j])
    model.order.doc = "(T18) [u, v, j] along an arc stages never go back"
    if not groups.cpus:
        forbidden = [g for g in all_groups if not accelerator_allowed(groups, g, cutoff)]
        model.support = pyo.Constraint(forbidden, positions, rule=lambda m, g, j: m.x[g, j] == 0)
        model.support.doc = "(T2) [g, j] groups that no accelerator takes are on none"
        at = {(g, j): model.x[g, j] for g in all_groups for j in positions}
        _accelerator_constraints(model, groups, positions, at, ())
        return model
    model.w = pyo.Var(positions, domain=pyo.Binary, doc="[j] is stage j a CPU?")
    model.cpu_count = pyo.Constraint(expr=sum(model.w[j] for j in positions) == groups.cpus)
    model.cpu_count.doc = "(T19) as many stages are CPUs as there are CPUs"
    fast = [g for g in all_groups if accelerator_allowed(groups, g, cutoff)]
    slow = [g for g in all_groups if cpu_allowed(groups, g, cutoff)]
    model.a = pyo.Var(fast, positions, bounds=(0, 1))
    model.a.doc = "[g, j] is group g at stage j, and is that an accelerator?"
    model.c = pyo.Var(slow, positions, bounds=(0, 1), doc="[g, j] is group g at stage j, and is that a CPU?")

    def split(m: Any, g: int, j: int) -> Any:
        return sum(part[g, j] for part in (m.a, m.c) if (g, j) in part)

    model.kind = pyo.Constraint(
        all_groups,
        positions,
        rule=lambda m, g, j: m.x[g, j] == split(m, g, j),
        doc="(T20) [g, j] x is the sum of a and c",
    )
    model.accelerator_stage = pyo.Constraint(fast, positions, rule=lambda m, g, j: m.a[g, j] <= 1 - m.w[j])
    model.accelerator_stage.doc = "(T21) [g, j] a is 0 where the stage is a CPU"
    model.cpu_stage = pyo.Constraint(slow, positions, rule=lambda m, g, j: m.c[g, j] <= m.w[j])
    model.cpu_stage.doc = "(T22) [g, j] c is 0 where the stage is an accelerator"
    _accelerator_constraints(model, groups, positions, {(g, j): model.a[g, j] for g in fast for j in positions}, ())
    _cpu_constraints(model, groups, positions, {(g, j): model.c[g, j] for g in slow for j in positions})
    return model


def _loads(model: Any, groups: GroupProblem, cutoff: float, lower_bound: float) -> None:
    model.T = pyo.Var(range(groups.parts), bounds=(0, cutoff))
    model.T.doc = "[q] the largest load of an accelerator or CPU; for gpipe T[0] forward and T[1] backward"
    model.range = pyo.Constraint(expr=(lower_bound * (1 - FLOAT_ROOM), sum(model.T[q] for q in model.T), cutoff))
    model.range.doc = "(T9) the sum of T lies between the bound that is known and the largest value asked for"
    model.objective = pyo.Objective(expr=sum(model.T[q] for q in model.T))


def _assignment(model: Any, groups: GroupProblem, at: dict[tuple[int, int], Any]) -> None:
    """Every group is on exactly one device that may take it."""
    by_group: list[list[Any]] = [[] for _ in range(groups.count)]
    for (g, _), variable in at.items():
        by_group[g].append(variable)
    model.assignment = pyo.Constraint(
        range(groups.count),
        rule=lambda m, g: sum(by_group[g]) == 1 if by_group[g] else pyo.Constraint.Infeasible,
        doc="(T1) [g] each group is at one position",
    )


def _accelerator_constraints(
    model: Any,
    groups: GroupProblem,
    positions: Iterable[int],
    at: dict[tuple[int, int], Any],
    conflicts: Sequence[tuple[int, int]],
) -> None:
    """Loads with transfers, memory, and pairs that cannot meet."""
    positions = list(positions)
    nets = range(len(groups.nets))
    model.cut = pyo.Var(nets, positions, bounds=(0, 1))
    model.cut.doc = "[e, j] does position j pay for net e, that is, hold some of its pins and not all?"
    wide = [
        (e, j)
        for e in nets
        for j in positions
        if len(groups.nets[e].pins) > 2 and all((g, j) in at for g in groups.nets[e].pins)
    ]
    model.all = pyo.Var(wide, bounds=(0, 1), doc="[e, j] does position j hold all pins of net e?")
    wide_set = set(wide)
    model.all_pins = pyo.Constraint(
        [(e, j, g) for e, j in wide for g in groups.nets[e].pins], rule=lambda m, e, j, g: m.all[e, j] <= at[g, j]
    )
    model.all_pins.doc = "(T10) [e, j, g] `all` is 0 where pin g is elsewhere"

    def held(e: int, j: int, g: int) -> Any:
        """What must be 1 for pin g not to cut net e at j: the other pin, or `all`."""
        pins = groups.nets[e].pins
        if len(pins) == 2:
            return at.get((pins[0] if g == pins[1] else pins[1], j), 0)
        return model.all[e, j] if (e, j) in wide_set else 0

    model.net_cut = pyo.Constraint(
        [(e, j, g) for e in nets for j in positions for g in groups.nets[e].pins if (g, j) in at],
        rule=lambda m, e, j, g: m.cut[e, j] >= at[g, j] - held(e, j, g),
        doc="(T11) [e, j, g] position j pays where it holds pin g and not all pins",
    )
    by_position = _by_position(positions, at)

    def load(m: Any, q: int, j: int) -> Any:
        work = sum(groups.times[q][g] * v for g, v in by_position[j] if groups.times[q][g])
        transfers = sum(net.cost * m.cut[e, j] for e, net in enumerate(groups.nets) if net.part == q)
        return work + transfers - m.T[q] <= 0

    model.accelerator_load = pyo.Constraint(range(groups.parts), positions, rule=load)
    model.accelerator_load.doc = "(T12) [q, j] work and transfers of an accelerator are at most T"
    memory = groups.memory
    if memory is not None and sum(groups.sizes) > memory:
        model.memory = pyo.Constraint(
            [j for j in positions if any(groups.sizes[g] for g, _ in by_position[j])],
            rule=lambda m, j: memory_row(((groups.sizes[g], v) for g, v in by_position[j]), memory),
            doc="(T4) [j] what an accelerator holds fits its memory, in whole units",
        )
    model.conflict = pyo.Constraint(
        [(g, h, j) for g, h in conflicts for j in positions if (g, j) in at and (h, j) in at],
        rule=lambda m, g, h, j: at[g, j] + at[h, j] <= 1,
        doc="(T13) [g, h, j] two groups that no accelerator can hold together within the largest value",
    )


def _cpu_constraints(
    model: Any, groups: GroupProblem, positions: Iterable[int], at: dict[tuple[int, int], Any]
) -> None:
    by_position = _by_position(positions, at)

    def load(m: Any, q: int, j: int) -> Any:
        terms = [groups.cpu_times[q][g] * v for g, v in by_position[j] if groups.cpu_times[q][g]]
        return sum(terms) - m.T[q] <= 0 if terms else pyo.Constraint.Skip

    model.cpu_load = pyo.Constraint(range(groups.parts), list(by_position), rule=load)
    model.cpu_load.doc = "(T8) [q, j] work of a CPU is at most T"


def _by_position(positions: Iterable[int], at: dict[tuple[int, int], Any]) -> dict[int, list[tuple[int, Any]]]:
    """The groups that may be at each position, with their variables."""
    groups_at: dict[int, list[tuple[int, Any]]] = {j: [] for j in positions}
    for (g, j), variable in at.items():
        groups_at[j].append((g, variable))
    return groups_at
