"""What a stage costs: time per sample, and how many samples it can hold in flight, for all choices of a menu at once.

Written from the definition of the problem, without the referee's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.graph_pipeline.problem import GraphPipelineProblem
from .configurations import Menu, synchronisation
from .memory import whole_graph_memory

# Bytes of weights, number and bytes of boundary tensors; and memory in whole units: fixed, and for a sample in flight.
Facts = tuple[tuple[float, float, float], tuple[int, int]]


@dataclass(frozen=True)
class Priced:
    """Arrays over [..., configuration, degree]."""

    time_per_sample: Any
    """Infinite where the degree does not divide the micro-batch."""
    most_in_flight: Any
    """Samples; 0: the stage does not fit at all."""

    def within(self, target: float, chosen: slice = slice(None)) -> Any:
        """The most samples in flight, 0 where the stage is slower than the target; for the chosen configurations."""
        times = self.time_per_sample[..., chosen, :]
        return np.where(times <= target, self.most_in_flight[..., chosen, :], 0)

    def times(self, chosen: slice = slice(None)) -> Any:
        """Times of all stages that fit."""
        times = self.time_per_sample[..., chosen, :]
        return times[(self.most_in_flight[..., chosen, :] > 0) & np.isfinite(times)]


class Boundary:
    """The tensors that enter or leave a growing set of operators, each counted once per direction."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._outside: dict[int, int] = {}
        """Consumers outside of each operator inside."""
        self._read: set[int] = set()
        self.weight = 0.0
        self.fixed = self.stash = self.amount = self.tensors = 0

    def add(self, vertex: int) -> None:
        costs = self._costs
        if vertex in self._read:
            self._read.remove(vertex)
            self._count(vertex, -1)
        for u in costs.predecessors[vertex]:
            if u in self._outside:
                self._outside[u] -= 1
                if not self._outside[u]:
                    self._count(u, -1)
            elif u not in self._read:
                self._read.add(u)
                self._count(u, 1)
        left = sum(w not in self._outside for w in costs.successors[vertex])
        self._outside[vertex] = left
        if left:
            self._count(vertex, 1)
        self.weight += costs.weights[vertex]
        self.fixed += costs.memory.fixed[vertex]
        self.stash += costs.memory.stashes[vertex]

    def _count(self, producer: int, sign: int) -> None:
        """Count a tensor. The amount is a whole number: a float would keep the rounding error of a large tensor."""
        self.tensors += sign
        self.amount += sign * self._costs.whole_outputs[producer]

    def facts(self) -> Facts:
        amount = self.amount / self._costs.output_parts
        return (self.weight, float(self.tensors), amount), (self.fixed, self.stash)


class Costs:
    """Prices sets of operators of one problem for one menu."""

    def __init__(self, problem: GraphPipelineProblem, menu: Menu, inside: bool = False) -> None:
        """`inside`: where memory cannot be counted exactly, take one so much smaller that what fits surely fits."""
        self.problem, self.menu = problem, menu
        memory = whole_graph_memory(problem, menu.degrees)
        self.memory = memory.inside() if inside else memory
        self._limits = np.array([self.memory.limits[d] for d in menu.degrees], dtype=np.int64)
        self.predecessors = [tuple(set(us)) for us in problem.predecessors]
        self.successors = [tuple(set(vs)) for vs in problem.successors]
        self.weights = [operator.weight_bytes for operator in problem.operators]
        self.outputs = [operator.output_bytes for operator in problem.operators]
        ratios = [float(amount).as_integer_ratio() for amount in self.outputs]
        self.output_parts = max((parts for _, parts in ratios), default=1)  # powers of two
        self.whole_outputs = [number * (self.output_parts // parts) for number, parts in ratios]
        arcs = [(u, v) for v, us in enumerate(self.predecessors) for u in us]
        self._tails, self._heads = np.array(arcs, dtype=np.int64).reshape(-1, 2).T
        self._readers = np.bincount(self._tails, minlength=len(self.outputs))
        self._b = np.array([[float(c.b)] for c in menu.configurations])
        self._d = np.array([[float(d) for d in menu.degrees]])
        self._divides = self._b % self._d == 0
        self._sync_rate, self._sync_latency = synchronisation(problem, menu.degrees)
        self.work = self._work()

    def _work(self) -> Any:
        """Forward and backward time of each operator for one micro-batch: [operator, configuration, degree]."""
        shares = self._b / self._d
        distinct, inverse = np.unique(shares, return_inverse=True)
        curves: dict[Any, int] = {}
        rows: list[list[float]] = []
        kinds = []
        for operator in self.problem.operators:
            key = (operator.forward, operator.backward)
            if key not in curves:
                curves[key] = len(rows)
                rows.append([operator.forward(q) + operator.backward(q) for q in distinct.tolist()])
            kinds.append(curves[key])
        return np.array(rows)[kinds][:, inverse.reshape(-1)].reshape(len(kinds), *shares.shape)

    def price(self, work: Any, facts: Any, held: Any) -> Priced:
        """`work` is [..., configuration, degree]; `facts` [..., 3] and `held` [..., 2]: see `Facts`."""
        problem = self.problem
        table = np.asarray(facts, dtype=float)[..., None, None, :]
        weight, tensors, amount = (table[..., n] for n in range(3))
        link = problem.boundary_link
        per_byte = 0.0 if link.bandwidth is None else 1 / link.bandwidth
        transfers = 2 * (tensors * link.latency_s + amount * per_byte * self._b / self._d)
        sync = weight * self._sync_rate + self._sync_latency
        time = (work + transfers) / self._b + sync / problem.mini_batch
        return Priced(np.where(self._divides, time, np.inf), self._most_in_flight(held))

    def least_time(self, chosen: slice = slice(None)) -> float:
        """No plan has a shorter time per sample: the work alone, spread evenly over all devices."""
        spent = np.where(self._divides, self.work / self._b * self._d, np.inf)[:, chosen]
        return float(spent.min(axis=(1, 2)).sum() / self.menu.devices)

    def _most_in_flight(self, held: Any) -> Any:
        """The most samples in flight for each configuration and degree, along the last two axes; 0 where the
        stage does not fit."""
        batch = self.problem.mini_batch
        table = np.asarray(held, dtype=np.int64)[..., None, None, :]
        fixed, stash = table[..., 0], table[..., 1]
        room = self._limits - fixed * self.menu.degree_array
        samples = np.where(stash > 0, np.minimum(room // np.maximum(stash, 1), batch), batch)
        return np.where(self._divides & (room >= 0), samples, 0)

    def price_set(self, group: Iterable[int]) -> Priced:
        """Prices of one set: arrays over [configuration, degree]."""
        boundary, members = Boundary(self), list(group)
        for v in members:
            boundary.add(v)
        return self.price(self.work[members].sum(axis=0), *boundary.facts())

    def price_sets(self, groups: Sequence[Sequence[int]]) -> Priced:
        """Prices of many sets, along a first axis."""
        inside = np.zeros((len(groups), len(self.weights)))
        for row, group in zip(inside, groups, strict=True):
            row[list(group)] = 1.0
        # A tensor crosses the border where its producer is inside and not all its readers are, or the other way round.
        readers_inside = np.zeros_like(inside.T)
        np.add.at(readers_inside, self._tails, inside.T[self._heads])
        read = readers_inside.T
        crosses = np.where(inside > 0, read < self._readers, read > 0)
        outputs = np.array(self.outputs)
        facts = [inside @ np.array(self.weights), crosses.sum(axis=1), crosses @ outputs]
        amounts = np.array([self.memory.fixed, self.memory.stashes], dtype=np.int64)
        held = inside.astype(np.int64) @ amounts.T
        work = (inside @ self.work.reshape(len(self.weights), -1)).reshape(len(groups), *self.work.shape[1:])
        return self.price(work, np.stack(facts, axis=1), held)
