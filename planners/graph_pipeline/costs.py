"""Prices of sets of operators, written from the definition of the problem, without the referee's code.

First memory in whole numbers, so that loops may add and compare it without slack (see `instances/base/amounts`), then
time per sample and samples in flight for all choices of a menu at once, then the decomposition with prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.amounts import as_written, whole_amounts
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Leaf, Series, Tree, operators
from .configurations import Menu, synchronisation

# Sums stay below this, so that 64 bits hold them.
MOST = 2**62


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """A stage on d devices with i samples in flight fits where d x fixed + i x stashes <= limits[d], in a unit of ours.

    `exact`: it fits by the true sizes if and only if it fits here. Otherwise all that fits by them fits here, too.
    """

    fixed: tuple[int, ...]
    """What each device holds of each operator's weights."""
    stashes: tuple[int, ...]
    """What all devices of a stage hold of each operator for a sample in flight."""
    limits: Mapping[int, int]
    """Memory of all devices of a stage less their workspace, by their number; below 0: nothing fits."""
    exact: bool
    hair: int
    """More than rounding has taken off what any stage holds."""

    def inside(self) -> GraphMemory:
        """The memory less `hair`: what fits into this one fits by the true sizes."""
        if self.exact:
            return self
        return replace(self, limits={d: limit - self.hair for d, limit in self.limits.items()})


def whole_graph_memory(problem: GraphPipelineProblem, degrees: Iterable[int], most: int = MOST) -> GraphMemory:
    """The memory for stages with these numbers of devices; what any of them holds stays below `most`."""
    degrees, count = tuple(degrees), len(problem.operators)
    nothing = (0,) * count
    if problem.memory_bytes is None:
        return GraphMemory(nothing, nothing, dict.fromkeys(degrees, 0), True, 0)
    room = as_written(problem.memory_bytes) - as_written(problem.workspace_bytes)
    if room < 0:
        return GraphMemory(nothing, nothing, dict.fromkeys(degrees, -1), True, 0)
    copies = as_written(problem.weight_copies)
    amounts = [copies * as_written(x.weight_bytes) for x in problem.operators]
    amounts += [as_written(x.stash_bytes) for x in problem.operators]
    repeated = max(*degrees, problem.mini_batch)
    whole = whole_amounts(amounts, [d * room for d in degrees], most, repeated)
    limits = {d: limit for d, limit in zip(degrees, whole.limits, strict=True) if limit is not None}
    return GraphMemory(whole.amounts[:count], whole.amounts[count:], limits, whole.exact, 2 * count * repeated)


# ---- What a stage costs -------------------------------------------------------------------------------------------
# What a stage costs: time per sample, and how many samples it can hold in flight, for all choices of a menu at once.
#
# Written from the definition of the problem, without the referee's code.


# Bytes of weights, number and bytes of boundary tensors; and memory in whole units: fixed, and for a sample in
# flight.
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
        # The most samples in flight; 0 where the stage does not fit.
        table, batch = np.asarray(held, dtype=np.int64)[..., None, None, :], problem.mini_batch
        fixed, stash = table[..., 0], table[..., 1]
        room = self._limits - fixed * self.menu.degree_array
        samples = np.where(stash > 0, np.minimum(room // np.maximum(stash, 1), batch), batch)
        most = np.where(self._divides & (room >= 0), samples, 0)
        return Priced(np.where(self._divides, time, np.inf), most)

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


# ---- The decomposition with prices --------------------------------------------------------------------------------
# The decomposition with prices: which sets of operators may be a stage, and what each of them costs.
#
# The family of stages: a leaf; a run of children of a series node; any choice of children of a parallel node; and,
# where joins are free, the end of one branch of a parallel node together with a run of what comes right after the
# node (the operator that joins the branches need not be a stage of its own). All of these are convex.
#
# Branches that cannot be told apart (equal operators, same neighbours outside) are one kind, of which only numbers
# count.


# Choices of branches, at most; where there are more, only branches of kinds that follow each other share a stage.
MOST_VECTORS = 1024

# Number of branches of each kind.
Vector = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LeafNode:
    operators: tuple[int, ...]
    prices: Priced
    """Prices of the leaf, the one set that it has."""


@dataclass(frozen=True, eq=False)
class SeriesNode:
    operators: tuple[int, ...]
    children: tuple[PricedNode, ...]
    prices: Priced
    """[first, last, configuration, degree]: runs of children; no stage where last < first."""
    absorbed: tuple[Absorption, ...] = ()


@dataclass(frozen=True, eq=False)
class Choices:
    """How branches are divided into blocks: each block takes the first branch that is left, and perhaps others."""

    blocks: tuple[Vector, ...]
    """Blocks: one branch of each kind, then groups of several that may be one stage."""
    states: tuple[Vector, ...]
    """Sets of branches that may be left, small ones first; the first is the empty one."""
    moves: Any
    """Rows (state, block, state that remains), in the order of states."""


@dataclass(frozen=True, eq=False)
class ParallelNode:
    operators: tuple[int, ...]
    kinds: tuple[PricedNode, ...]
    members: tuple[tuple[PricedNode, ...], ...]
    """The branches of each kind; the first of them is the kind's representative."""
    choices: Choices
    prices: Priced
    """[group]: the blocks after those of one branch."""
    complete: bool = True
    """False: there were too many groups to list."""

    @property
    def total(self) -> Vector:
        return tuple(map(len, self.members))


PricedNode = LeafNode | SeriesNode | ParallelNode


@dataclass(frozen=True, eq=False)
class Absorption:
    """Stages that take the end of one branch and the children after the parallel node.

    `prices` are [cut, last]: the branch from its child `cut` on, with the children `position + 1` to `last`.
    """

    position: int
    kind: int
    cuts: int
    prices: Priced = field(repr=False)


def series_children(node: PricedNode) -> tuple[PricedNode, ...]:
    """The children in a row; a leaf is a row of one."""
    return node.children if isinstance(node, SeriesNode) else (node,)


class NodeBuilder:
    """Turns a tree into priced nodes."""

    def __init__(self, costs: Costs, free_joins: bool = True) -> None:
        self.costs, self.free_joins = costs, free_joins

    def build(self, tree: Tree) -> PricedNode:
        if isinstance(tree, Leaf):
            return LeafNode(tree.operators, self.costs.price_set(tree.operators))
        if isinstance(tree, Series):
            return self._series(tree)
        return self._parallel(tree)

    # ---- series ------------------------------------------------------------------------------------------

    def _series(self, tree: Tree) -> SeriesNode:
        assert isinstance(tree, Series)
        children = tuple(self.build(child) for child in tree.children)
        absorbed = []
        if self.free_joins:
            for position, child in enumerate(children[:-1]):
                if isinstance(child, ParallelNode):
                    absorbed += [self._absorption(children, position, kind) for kind in range(len(child.kinds))]
        return SeriesNode(operators(tree), children, self._runs(children), tuple(absorbed))

    def _runs(self, children: tuple[PricedNode, ...]) -> Priced:
        """Work of runs as differences of prefix sums; boundaries grow child by child."""
        count = len(children)
        work = np.array([self.costs.work[list(child.operators)].sum(axis=0) for child in children])
        facts, memory = np.zeros((count, count, 3)), np.zeros((count, count, 2), dtype=np.int64)
        runs = np.zeros((count, count, *work.shape[1:]))
        for first in range(count):
            runs[first, first:] = np.cumsum(work[first:], axis=0)
            grown = list(self._grow(children[first:]))
            facts[first, first:], memory[first, first:] = [row for row, _ in grown], [row for _, row in grown]
        priced = self.costs.price(runs, facts, memory)
        barred = (np.arange(count)[:, None] > np.arange(count))[..., None, None]  # never a stage
        return Priced(np.where(barred, np.inf, priced.time_per_sample), np.where(barred, 0, priced.most_in_flight))

    def _grow(self, children: tuple[PricedNode, ...], begin: tuple[int, ...] = ()) -> Iterator[Facts]:
        """Facts of the operators `begin` together with the first child, the first two children, and so on."""
        boundary = Boundary(self.costs)
        for v in begin:
            boundary.add(v)
        for child in children:
            for v in child.operators:
                boundary.add(v)
            yield boundary.facts()

    def _absorption(self, children: tuple[PricedNode, ...], position: int, kind: int) -> Absorption:
        """Prices of the stages that take the end of a branch of this kind and the children behind its node."""
        parallel = children[position]
        assert isinstance(parallel, ParallelNode)
        branch = series_children(parallel.kinds[kind])
        tail = children[position + 1 :]
        tail_work = np.cumsum([self.costs.work[list(child.operators)].sum(axis=0) for child in tail], axis=0)
        grown, work = [], []
        for cut in range(len(branch)):
            begin = tuple(v for child in branch[cut:] for v in child.operators)
            grown.append(list(self._grow(tail, begin)))
            work.append(tail_work + self.costs.work[list(begin)].sum(axis=0))
        facts, memory = ([[pair[n] for pair in row] for row in grown] for n in range(2))
        return Absorption(position, kind, len(branch), self.costs.price(np.array(work), facts, memory))

    # ---- parallel ----------------------------------------------------------------------------------------

    def _parallel(self, tree: Tree) -> ParallelNode:
        """The node with its branches by kind, and with prices of all groups of branches that may be a stage."""
        assert not isinstance(tree, Leaf)
        alike: dict[Any, list[Tree]] = {}
        for child in tree.children:
            alike.setdefault(self._signature(child), []).append(child)
        members = tuple(tuple(self._copies(branches)) for branches in alike.values())
        total = tuple(map(len, members))
        complete = math.prod(n + 1 for n in total) <= MOST_VECTORS
        groups = list(product(*(range(n + 1) for n in total)) if complete else _runs_of_kinds(total))
        groups = [group for group in groups if sum(group) > 1]
        sets = [
            [
                v
                for taken, branches in zip(group, members, strict=True)
                for x in branches[:taken]
                for v in x.operators
            ]
            for group in groups
        ]
        kinds = tuple(branches[0] for branches in members)
        prices = self.costs.price_sets(sets)
        return ParallelNode(operators(tree), kinds, members, _choices(total, groups), prices, complete)

    def _copies(self, group: list[Tree]) -> Iterator[PricedNode]:
        """The first branch is priced; the others are the same with other operators."""
        first = self.build(group[0])
        yield first
        for tree in group[1:]:
            yield renamed(first, dict(zip(first.operators, operators(tree), strict=True)))

    def _signature(self, tree: Tree) -> Any:
        """Equal for branches that differ in the names of their operators alone."""
        inside = {v: place for place, v in enumerate(operators(tree))}
        rows = []
        for v in inside:
            operator = self.costs.problem.operators[v]
            facts = (operator.forward, operator.backward, operator.weight_bytes, operator.stash_bytes)
            sides = [
                frozenset((u in inside, inside.get(u, u)) for u in neighbours)
                for neighbours in (self.costs.predecessors[v], self.costs.successors[v])
            ]
            rows.append((facts, operator.output_bytes, *sides))
        return _shape(tree), tuple(rows)


def _runs_of_kinds(total: Vector) -> Iterator[Vector]:
    """Groups that take some branches of one kind, all branches of the kinds after it up to a last kind, and no others.

    `total` is the number of branches of each kind.
    """
    for first, number in enumerate(total):
        for last in range(first, len(total)):
            for taken in range(1, number + 1):
                yield (*(0,) * first, taken, *total[first + 1 : last + 1], *(0,) * (len(total) - last - 1))


def _choices(total: Vector, groups: list[Vector]) -> Choices:
    """All states that are reached from all branches, or from all but one, if each block takes the first branch left."""
    kinds = len(total)
    alone = [tuple(int(place == kind) for place in range(kinds)) for kind in range(kinds)]
    blocks = np.array([*alone, *groups], dtype=np.int64).reshape(-1, kinds)
    firsts = (blocks > 0).argmax(axis=1)
    seen, pending, moves = {total}, [total], []
    for block in alone:
        rest = tuple(a - b for a, b in zip(total, block, strict=True))
        seen.add(rest)
        pending.append(rest)
    while pending:
        state = pending.pop()
        left = np.array(state, dtype=np.int64) - blocks
        first = next((kind for kind, n in enumerate(state) if n), -1)
        able = np.flatnonzero((firsts == first) & (left >= 0).all(axis=1))
        for number, rest in zip(able.tolist(), map(tuple, left[able].tolist()), strict=True):
            moves.append((state, number, rest))
            if rest not in seen:
                seen.add(rest)
                pending.append(rest)
    states = tuple(sorted(seen, key=lambda state: (sum(state), state)))
    place = {state: n for n, state in enumerate(states)}
    rows = sorted({(place[state], number, place[rest]) for state, number, rest in moves})
    return Choices(tuple(map(tuple, blocks.tolist())), states, np.array(rows, dtype=np.int64).reshape(-1, 3))


def drop_one(vector: Vector, kind: int) -> Vector:
    return tuple(n - (place == kind) for place, n in enumerate(vector))


def _shape(tree: Tree) -> Any:
    if isinstance(tree, Leaf):
        return len(tree.operators)
    return type(tree).__name__, tuple(_shape(child) for child in tree.children)


def renamed(node: PricedNode, names: dict[int, int]) -> PricedNode:
    """A copy of the node on other operators; its prices are shared."""
    new = tuple(names[v] for v in node.operators)
    if isinstance(node, LeafNode):
        return LeafNode(new, node.prices)
    if isinstance(node, SeriesNode):
        return SeriesNode(new, tuple(renamed(child, names) for child in node.children), node.prices, node.absorbed)
    members = tuple(tuple(renamed(child, names) for child in group) for group in node.members)
    kinds = tuple(group[0] for group in members)
    return ParallelNode(new, kinds, members, node.choices, node.prices, node.complete)


def all_nodes(node: PricedNode) -> Iterator[PricedNode]:
    """The node and all nodes below it; of each kind of branch only the representative."""
    yield node
    below = () if isinstance(node, LeafNode) else node.children if isinstance(node, SeriesNode) else node.kinds
    for child in below:
        yield from all_nodes(child)


def all_prices(root: PricedNode) -> Iterator[Priced]:
    """The prices of every set that may be a stage."""
    for node in all_nodes(root):
        yield node.prices
        if isinstance(node, SeriesNode):
            yield from (absorption.prices for absorption in node.absorbed)
