"""The decomposition with prices: which sets of operators may be a stage, and what each of them costs.

The family of stages: a leaf; a run of children of a series node; any choice of children of a parallel node; and, where
joins are free, the end of one branch of a parallel node together with a run of what comes right after the node (the
operator that joins the branches need not be a stage of its own). All of these are convex.

Branches that cannot be told apart (equal operators, same neighbours outside) are one kind, of which only numbers count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ...instances.graph_pipeline.series_parallel import Leaf, Series, Tree, operators
from .costs import Boundary, Costs, Facts, Priced

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
        return _without(self.costs.price(runs, facts, memory), np.arange(count)[:, None] > np.arange(count))

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
        rest = minus(total, block)
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


def minus(vector: Vector, other: Vector) -> Vector:
    return tuple(a - b for a, b in zip(vector, other, strict=True))


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


def _without(prices: Priced, barred: Any) -> Priced:
    """The prices with barred sets as stages that never fit."""
    barred = barred[..., None, None]
    return Priced(np.where(barred, np.inf, prices.time_per_sample), np.where(barred, 0, prices.most_in_flight))


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
