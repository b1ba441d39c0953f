"""Form (ii): stages by number, every product of decisions a variable of its own.

For graphs that are too wide to list their suffix sets, on two devices; else for teaching and for cross-checks, on tiny
instances. Its size is layers times stages times settings, however wide the graph is.

Stages i = 0, 1, .. in execution order; a setting c is (t, d, q): degrees, and micro-batches in flight that the memory
is reserved for. x[v, i]: layer v is in stage i; z[i]: stage i is used; w[i, c]: it has setting c; u[v, i, c, X]: and v
runs there in its X-th configuration; f, h: and pays for an edge that comes in, goes out; s[i]: sum of the data-parallel
degrees from stage i on; T: the largest load, in units of `unit`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...instances.base.checks import NodeId
from ...instances.base.errors import InputError
from ...instances.base.quantities import several
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import Configuration
from ..quick_pyomo import pyo
from .flush import add_flush, counts_of
from .links import TRIPS
from .stages import StageBook

# The largest load in units: on the grid below, the whole numbers in a row of loads are too small for lost digits.
LARGEST_LOAD = 2.0**10

# Largest number in rows of memory: up to it, a row that solvers hold to be met within about 1e-6 is met.
LARGEST_NUMBER = 1e6

# The most variables u; where there are more, the columns are the better model by far.
MAX_CHOICES = 50_000


# Steps into which integer solvers divide a load that is as large as the bound.
GRID_STEPS = 2**24


def load_unit(floor: float, highest: float) -> float:
    """What loads are counted in: about the largest one of a good plan, so that absolute tolerances are relative ones.

    A floor far below the highest load that the model knows says little of good plans, and would make for huge
    numbers: then the highest load is the unit. It shrinks with every plan that is found.
    """
    return floor if floor * LARGEST_LOAD > highest else highest or 1.0


class Setting(NamedTuple):
    """Degrees of a stage, and the micro-batches in flight that its memory is reserved for."""

    t: int
    d: int
    q: int
    kind: int = 0
    """Number of the type of its devices."""


class CompactModel:
    """What stages may choose from, and the Pyomo model of it with what the translations need."""

    def __init__(self, book: StageBook, floor: float, cutoff: float | None, flushed: bool = False) -> None:
        self.book = book
        self.problem = book.problem
        self.layers = range(len(self.problem.layers))
        self.degree_limit = min(self.problem.devices, self.problem.micro_batches)
        self.stages = range(min(len(self.layers), self.degree_limit))
        self.settings = [
            Setting(t, d, q, kind)
            for kind in range(len(self.problem.types))
            for t in self.problem.degrees
            for d in book.replicas(t, kind)
            for q in self._in_flight(d, kind)
        ]
        self.most = book.worst_load if cutoff is None else cutoff
        self.unit = load_unit(floor, self.most)
        # Rounded up, or a plan as good as the cut-off would be lost on the grid.
        self.bounds = (floor / self.unit, math.ceil(self.most / self.unit * GRID_STEPS) / GRID_STEPS)
        step, batches = 1.0 / GRID_STEPS, self.problem.micro_batches
        self.counts = counts_of(self.degree_limit, batches, floor, cutoff, self.unit, step) if flushed else ()
        self.choices = self._choices()

    @property
    def homeless(self) -> NodeId | None:
        """A layer without any choice: then there is no model."""
        placed = {v for v, _, _, _ in self.choices}
        return next((layer.id for v, layer in enumerate(self.problem.layers) if v not in placed), None)

    def build(self) -> None:
        self.model = pyo.ConcreteModel("mip-piper, compact")
        self._variables()
        self._assignment()
        self._stage_settings()
        self._resources()
        self._memory()
        self._cut_edges()
        self._loads()
        if self.counts:
            self._flush()

    def _flush(self) -> None:
        """Rows of flushes; a stage that is not used counts as one with copies enough."""
        model, most = self.model, self.degree_limit
        degrees = [sum(s.d * model.w[i, c] for c, s in enumerate(self.settings)) for i in self.stages]
        each = [degrees[i] + most * (1 - model.z[i]) for i in self.stages]
        add_flush(model, sum(degrees), each, self.counts, self.unit, self.problem.micro_batches, most)

    def _in_flight(self, d: int, kind: int) -> range:
        """Numbers of micro-batches in flight to tell apart; without a memory limit just one."""
        most = -(-self.degree_limit // d)
        return range(most, most + 1) if self.book.limits[kind] is None else range(1, most + 1)

    def _choices(self) -> list[tuple[int, int, int, int]]:
        """(v, i, c, X) that fit into the memory and are within the highest load, alone in a stage."""
        choices = [
            (v, i, c, number)
            for c, setting in enumerate(self.settings)
            for v in self.layers
            for number, way in enumerate(self._ways(v, setting))
            if (limit := self.limit(setting)) is None or self.memory(v, c, number) <= limit
            if self._work(way, setting) <= self.most * (1 + SAFETY)
            for i in self.stages
        ]
        if len(choices) > MAX_CHOICES:
            raise InputError(
                "variant",
                f"compact would need {several(len(choices), 'choice')}, more than {MAX_CHOICES}",
                "give --variant columns, which is far smaller unless the graph is wide, or coarsen the graph",
            )
        return choices

    def _ways(self, v: int, setting: Setting) -> tuple[Configuration, ...]:
        return tuple(self.problem.layers[v].configurations.get(setting.t, ()))

    def way(self, v: int, c: int, number: int) -> Configuration:
        return self._ways(v, self.settings[c])[number]

    def memory(self, v: int, c: int, number: int) -> int:
        """Memory of a layer's configuration, in whole units."""
        setting = self.settings[c]
        each, fixed = self.book.memory.held(v, setting.t, setting.d)[number]
        return each * setting.q + fixed

    def limit(self, setting: Setting) -> int | None:
        """What layers may take of a device, in whole units; None: there is no limit."""
        return self.book.limit(setting.kind, setting.t, setting.d)

    def _work(self, way: Configuration, setting: Setting) -> float:
        """What a layer adds to the load of its stage."""
        time = way.time / self.problem.types[setting.kind].speed
        return (time + self.book.sync_time(setting.d) * way.weight_bytes) / setting.d

    # ---- the model --------------------------------------------------------------------------------------

    def _variables(self) -> None:
        model, settings = self.model, range(len(self.settings))
        model.x = pyo.Var(self.layers, self.stages, domain=pyo.Binary)
        model.z = pyo.Var(self.stages, domain=pyo.Binary)
        model.w = pyo.Var(self.stages, settings, domain=pyo.Binary)
        model.u = pyo.Var(self.choices, domain=pyo.Binary)
        self.incoming = self._paid(incoming=True)
        self.outgoing = self._paid(incoming=False)
        model.f = pyo.Var(list(self.incoming), bounds=(0, 1))
        model.h = pyo.Var(list(self.outgoing), bounds=(0, 1))
        model.s = pyo.Var(self.stages, bounds=(0, self.degree_limit))
        model.T = pyo.Var(bounds=self.bounds)
        model.objective = pyo.Objective(expr=self.unit * model.T)

    def _paid(self, incoming: bool) -> dict[tuple[int, int, int, int, int], float]:
        """(edge, v, i, c, X) -> what the edge costs the stage of its end v, where it leads in or out."""
        paid = {}
        by_layer: list[list[tuple[int, Any]]] = [[] for _ in self.layers]
        for e, (arc, edge) in enumerate(zip(self.problem.arcs, self.problem.edges, strict=True)):
            by_layer[arc[1] if incoming else arc[0]].append((e, edge))
        for v, i, c, number in self.choices:
            way = self.way(v, c, number)
            for e, edge in by_layer[v]:
                gathered = way.gather_in.get(edge.source, 0.0) if incoming else way.gather_out.get(edge.target, 0.0)
                cost = TRIPS * (edge.bytes + gathered) / self.settings[c].d / self.problem.bandwidth
                if cost:  # twice the highest load is as forbidden as more
                    paid[e, v, i, c, number] = min(cost, 2 * self.most)
        return paid

    def _assignment(self) -> None:
        model = self.model
        model.eq_1 = pyo.Constraint(self.layers, rule=lambda m, v: sum(m.x[v, i] for i in self.stages) == 1)
        arcs = list(dict.fromkeys(self.problem.arcs))
        model.eq_2 = pyo.Constraint(
            arcs,
            list(self.stages)[:-1],
            rule=lambda m, a, b, i: sum(m.x[b, j] for j in range(i + 1)) <= sum(m.x[a, j] for j in range(i + 1)),
        )

    def _stage_settings(self) -> None:
        model, settings = self.model, range(len(self.settings))
        model.eq_3_one_setting = pyo.Constraint(
            self.stages, rule=lambda m, i: sum(m.w[i, c] for c in settings) == m.z[i]
        )
        model.eq_3_used = pyo.Constraint(self.layers, self.stages, rule=lambda m, v, i: m.x[v, i] <= m.z[i])
        model.eq_3_filled = pyo.Constraint(
            self.stages, rule=lambda m, i: m.z[i] <= sum(m.x[v, i] for v in self.layers)
        )
        model.eq_3_order = pyo.Constraint(list(self.stages)[1:], rule=lambda m, i: m.z[i] <= m.z[i - 1])
        numbers: dict[tuple[int, int, int], list[int]] = {}
        for v, i, c, number in self.choices:
            numbers.setdefault((v, i, c), []).append(number)
        model.eq_4_one_way = pyo.Constraint(
            self.layers,
            self.stages,
            rule=lambda m, v, i: (
                sum(m.u[v, i, c, n] for c in settings for n in numbers.get((v, i, c), ())) == m.x[v, i]
            ),
        )
        model.eq_4_of_setting = pyo.Constraint(
            list(numbers), rule=lambda m, v, i, c: sum(m.u[v, i, c, n] for n in numbers[v, i, c]) <= m.w[i, c]
        )

    def _resources(self) -> None:
        model, problem = self.model, self.problem
        used = [(i, c, setting) for i in self.stages for c, setting in enumerate(self.settings)]
        degrees = sum(setting.d * model.w[i, c] for i, c, setting in used)
        model.eq_5_devices = pyo.Constraint(
            sorted({setting.kind for setting in self.settings}),
            rule=lambda m, kind: (
                sum(setting.t * setting.d * m.w[i, c] for i, c, setting in used if setting.kind == kind)
                <= problem.types[kind].devices
            ),
        )
        batches = problem.micro_batches
        model.eq_5_degrees = pyo.Constraint(
            expr=degrees == batches if problem.exact_batches else degrees <= batches
        )
        model.eq_6_suffix = pyo.Constraint(
            self.stages,
            rule=lambda m, i: m.s[i] == sum(setting.d * m.w[j, c] for j, c, setting in used if j >= i),
        )
        # A stage that is not used comes after all others, so its sum is 0.
        model.eq_6_in_flight = pyo.Constraint(
            self.stages,
            rule=lambda m, i: m.s[i] <= sum(setting.d * setting.q * m.w[j, c] for j, c, setting in used if j == i),
        )

    def _memory(self) -> None:
        limited = {c: limit for c, s in enumerate(self.settings) if (limit := self.limit(s)) is not None}
        needs = {(v, c, n): self.memory(v, c, n) for v, _, c, n in self.choices if c in limited}
        if not needs:
            return
        unit = math.gcd(*needs.values()) or 1
        needs = {key: need // unit for key, need in needs.items()}
        limits = {c: limit // unit for c, limit in limited.items()}
        # Half a unit more changes nothing where rows are whole numbers that solvers tell apart, and keeps them from
        # losing a stage that fills the memory; of larger numbers, more than their tolerance.
        scale = min(1.0, LARGEST_NUMBER / max(*limits.values(), 1))
        rooms = {c: limit * scale + max(0.5 * scale, 1e-6 * limit * scale) for c, limit in limits.items()}
        by_stage: dict[int, list[tuple[int, int, int]]] = {i: [] for i in self.stages}
        for v, i, c, n in self.choices:
            if needs.get((v, c, n)):
                by_stage[i].append((v, c, n))
        self.model.eq_7 = pyo.Constraint(
            [i for i in self.stages if by_stage[i]],
            rule=lambda m, i: (
                sum(needs[v, c, n] * scale * m.u[v, i, c, n] for v, c, n in by_stage[i])
                <= sum(room * m.w[i, c] for c, room in rooms.items())
            ),
        )

    def _cut_edges(self) -> None:
        arcs = self.problem.arcs
        self.model.eq_8_incoming = pyo.Constraint(
            list(self.incoming),
            rule=lambda m, e, v, i, c, n: m.f[e, v, i, c, n] >= m.u[v, i, c, n] - m.x[arcs[e][0], i],
        )
        self.model.eq_8_outgoing = pyo.Constraint(
            list(self.outgoing),
            rule=lambda m, e, v, i, c, n: m.h[e, v, i, c, n] >= m.u[v, i, c, n] - m.x[arcs[e][1], i],
        )

    def _loads(self) -> None:
        model, unit = self.model, self.unit
        terms: dict[int, list[Any]] = {i: [] for i in self.stages}
        device_time = []
        for v, i, c, n in self.choices:
            setting = self.settings[c]
            work = self._work(self.way(v, c, n), setting)
            if work:
                terms[i].append(work / unit * model.u[v, i, c, n])
                speed = self.problem.types[setting.kind].speed
                device_time.append(setting.t * setting.d * speed * work / unit * model.u[v, i, c, n])
        for paid, variable in ((self.incoming, model.f), (self.outgoing, model.h)):
            for key, cost in paid.items():
                terms[key[2]].append(cost / unit * variable[key])
        model.eq_9 = pyo.Constraint(
            self.stages, rule=lambda m, i: sum(terms[i]) <= m.T if terms[i] else pyo.Constraint.Skip
        )
        if device_time:
            capacity = sum(kind.devices * kind.speed for kind in self.problem.types)
            model.cut_devices = pyo.Constraint(expr=sum(device_time) <= capacity * model.T)
