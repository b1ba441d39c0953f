"""The mixed-integer program of a periodic schedule of a given period, from the same data as the CP-SAT model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyomo.environ as pyo


def build(data: Mapping[str, Any]) -> Any:
    """A Pyomo model; it has nothing to minimise."""
    return _Program(data).build()


class _Program:
    """One method per family of rows; blocks by their positions in the problem."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.period, self.times, self.most = data["period"], data["times"], data["most"]
        blocks, anchor = range(len(self.times)), data["anchor"]
        model = self.model = pyo.ConcreteModel("periodic")
        model.s = pyo.Var(blocks, bounds=lambda _, b: (0, 0 if b == anchor else self.period - 1))
        model.h = pyo.Var(
            blocks, domain=pyo.Integers, bounds=lambda _, b: (0, 0) if b == anchor else (-self.most, self.most)
        )
        model.w = pyo.Var([*data["pairs"], *data["instants"]], domain=pyo.Binary)
        model.g = pyo.Var(data["instants"], domain=pyo.Binary)
        model.late = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        model.counted = pyo.Var(pyo.Any, domain=pyo.Integers, dense=False)
        model.rows = pyo.ConstraintList()
        model.objective = pyo.Objective(expr=data["value"])

    def build(self) -> Any:
        self.order_pairs()
        self.order_instants()
        self.keep_edges()
        for a, b, if_first, if_later in self.data["distances"]:
            apart = self.model.h[b] - self.model.h[a]
            self.add(apart >= if_later - (if_later - if_first) * self.before(a, b))
        for number, device in enumerate(self.data["memory"]):
            self.memory(device)
            if device["early"]:
                self.warm_up_and_drain(number, device)
        return self.model

    def add(self, row: Any) -> None:
        """A row without variables is true, and says nothing, or false: then no schedule keeps it."""
        if row is False:
            row = self.model.h[self.data["anchor"]] >= 1
        if row is not True:
            self.model.rows.add(row)

    def before(self, a: int, b: int) -> Any:
        """1 where block a comes before b within the period."""
        return self.model.w[a, b] if (a, b) in self.model.w else 1 - self.model.w[b, a]

    def order_pairs(self) -> None:
        """One after the other, around the period, either way."""
        s, w, period = self.model.s, self.model.w, self.period
        for a, b in self.data["pairs"]:
            self.add(s[b] - s[a] >= self.times[a] - period * (1 - w[a, b]))
            self.add(s[a] - s[b] >= self.times[b] - period * w[a, b])

    def order_instants(self) -> None:
        """Blocks without time may share an instant; then the earlier micro-batch comes first, of one micro-batch a."""
        s, h, w, g = self.model.s, self.model.h, self.model.w, self.model.g
        far = 2 * self.most + 1
        for a, b in self.data["instants"]:
            self.add(h[a] - h[b] >= -far * (1 - g[a, b]))
            self.add(h[a] - h[b] <= -1 + far * g[a, b])
            self.add(s[b] - s[a] >= 1 - g[a, b] - self.period * (1 - w[a, b]))
            self.add(s[b] - s[a] <= -g[a, b] + self.period * w[a, b])

    def keep_edges(self) -> None:
        s, h, period = self.model.s, self.model.h, self.period
        for a, b, least, offset in self.data["edges"]:
            if a != b:
                self.add(s[b] - s[a] + period * (h[b] - h[a] + offset) >= least)
            else:
                self.add(period * offset >= least)

    def memory(self, device: Mapping[str, Any]) -> None:
        changes, h = device["changes"], self.model.h

        def others(b: int) -> Any:
            return sum(change * (self.before(a, b) - h[a]) for a, change in changes.items() if a != b)

        for b, workspace in device["at"] if device["room"] is not None else ():
            own = changes.get(b, 0) * (int(changes.get(b, 0) > 0) - h[b])
            self.add(workspace + own + others(b) <= device["room"])
        if device["early"]:
            for b, change in changes.items():
                if change < 0:
                    self.add(change * (1 - h[b]) + others(b) >= -device["standing"])

    def warm_up_and_drain(self, number: int, device: Mapping[str, Any]) -> None:
        """See the CP-SAT model: events of micro-batches that there are not are left out."""
        changes, gives = device["changes"], {b: c for b, c in device["changes"].items() if c < 0}
        full = {} if device["room"] is None else dict(device["at"])
        for b in sorted({*full, *gives}):
            for n in range(-2 * self.most, 2 * self.most):
                others = sum(changes[a] * self.counted(number, n, a, b) for a in changes if a != b)
                own = n + 1 if n >= 0 else min(0, n + 1)
                change = changes.get(b, 0)
                if b in full:
                    self.add(full[b] + change * (own if change > 0 else own - 1) + others <= device["room"])
                if b in gives:
                    self.add(change * own + others >= -device["standing"])

    def counted(self, number: int, n: int, a: int, b: int) -> Any:
        """How often a has changed the memory when b of micro-batch n starts: the larger, or at the end the smaller,
        of 0 and what the steady state says."""
        model, far = self.model, 6 * self.most
        events = n + model.h[b] - model.h[a] + self.before(a, b)
        counted, late = model.counted[number, n, a, b], model.late[number, n, a, b]
        counted.setlb(0 if n >= 0 else -far)
        counted.setub(far if n >= 0 else 0)
        sign = 1 if n >= 0 else -1
        self.add(sign * (counted - events) >= 0)
        self.add(sign * (counted - events) <= far * (1 - late))
        self.add(sign * counted <= far * late)
        return counted
