"""From tables to stages: for each value of a table, the search for the decision that attains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .combinations import Combinations, Entry, after_child, block_combinations, combinations_at, of_branches, of_row
from .kernel import NEVER
from .nodes import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector, drop_one, series_children
from .tables import Tables

# The stages right before a part: the configuration of each, and the samples in flight that it holds.
Want = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One stage: its operators, number of its configuration, devices and samples in flight."""

    operators: tuple[int, ...]
    configuration: int
    devices: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class _Join:
    """A stage of a configuration that takes the end of a branch, from its child `cut` on, and goes on after it."""

    node: SeriesNode
    absorption: Absorption
    entry: Entry
    end: int
    cut: int
    own: int
    held: int
    below: Entry
    """How the stage looks from above."""

    @property
    def parallel(self) -> ParallelNode:
        child = self.node.children[self.absorption.position]
        assert isinstance(child, ParallelNode)
        return child

    @property
    def others(self) -> Vector:
        """The branches that remain."""
        return drop_one(self.parallel.total, self.absorption.kind)


def suits(needs: Entry, want: Want) -> bool:
    return all(needs[own] <= held for own, held in want)


def _possible(combinations: Combinations, devices: int, want: Want) -> bool:
    return any(suits(needs, want) for needs in combinations_at(combinations, devices))


class Trace:
    """Reads plans out of tables that hold them.

    Each method is asked only for what is possible: a part with exactly `devices` devices, before `entry`, after `want`.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.degrees = tables.menu.degrees

    def stages(self, node: PricedNode, entry: Entry, want: Want, devices: int) -> Iterator[Decision]:
        """The stages of a part."""
        if isinstance(node, ParallelNode):
            yield from self._parallel(
                node, entry, want, devices, node.total, [list(group) for group in node.members]
            )
        else:
            yield from self._row(node, entry, len(series_children(node)), 0, want, devices)

    # ---- what is possible --------------------------------------------------------------------------------

    def _can_row(self, node: PricedNode, entry: Entry, end: int, want: Want, devices: int) -> bool:
        assert not isinstance(node, ParallelNode)
        if len(want) == 1:
            ((own, held),) = want
            return bool(self.tables.rows(node, entry, end)[1][0, own, devices] <= held)
        return _possible(of_row(self.tables, node, entry, end, 0), devices, want)

    def _can_branches(self, node: ParallelNode, entry: Entry, vector: Vector, want: Want, devices: int) -> bool:
        if len(want) == 1:
            ((own, held),) = want
            return bool(self.tables.branches(node, entry, vector)[own, devices] <= held)
        return _possible(of_branches(self.tables, node, entry, vector), devices, want)

    def _can_block(self, node: ParallelNode, entry: Entry, block: int, want: Want, devices: int) -> bool:
        if len(want) == 1:
            ((own, held),) = want
            return bool(self.tables.branch_tables(node, entry)[0][block, own, devices] <= held)
        return _possible(block_combinations(self.tables, node, entry)[block], devices, want)

    # ---- series ------------------------------------------------------------------------------------------

    def _row(
        self, node: LeafNode | SeriesNode, entry: Entry, end: int, i: int, want: Want, devices: int
    ) -> Iterator[Decision]:
        """The stages of children i to end - 1."""
        if i == end:
            return
        values, needs = self.tables.rows(node, entry, end)
        for own, held in enumerate(values[i, :, devices].tolist()):
            if held < NEVER and suits(self.tables.entry(own, held), want):
                last, d = self._run(node, end, i, own, devices, held, needs)
                members = tuple(v for child in series_children(node)[i : last + 1] for v in child.operators)
                yield Decision(members, own, d, held)
                yield from self._row(node, entry, end, last + 1, ((own, held),), devices - d)
                return
        assert isinstance(node, SeriesNode), "a leaf is one stage"
        yield from self._divided(node, entry, end, i, want, devices)

    def _run(
        self, node: LeafNode | SeriesNode, end: int, i: int, own: int, devices: int, held: int, needs: Any
    ) -> tuple[int, int]:
        """The last child and the devices of a first stage that holds `held` samples."""
        caps = self.tables.caps(node) if isinstance(node, SeriesNode) else self.tables.caps(node)[None, None]
        for last in range(end - 1, i - 1, -1):
            for g, d in enumerate(self.degrees):
                if d <= devices and needs[last + 1, own, devices - d] == held <= caps[i, last, own, g]:
                    return last, d
        raise AssertionError("a value comes from a run")

    def _divided(
        self, node: SeriesNode, entry: Entry, end: int, i: int, want: Want, devices: int
    ) -> Iterator[Decision]:
        """The stages where child i is divided, or one of its branches ends in a stage that goes on after them."""
        child = node.children[i]
        assert isinstance(child, ParallelNode), "a leaf begins a run"
        values, needs = self.tables.rows(node, entry, end)
        below_child = after_child(self.tables, node, entry, values, needs, i)
        for below, counts in below_child.items():
            for used in (d for d in range(devices + 1) if counts >> d & 1):
                if self._can_branches(child, below, child.total, want, devices - used):
                    yield from self.stages(child, below, want, devices - used)
                    yield from self._row(node, entry, end, i + 1, tuple(enumerate(below)), used)
                    return
        for absorption in node.absorbed:
            if absorption.position == i:
                decisions = self._absorbing(node, absorption, entry, end, want, devices)
                if decisions is not None:
                    yield from decisions
                    return
        raise AssertionError("a value comes from a decision")

    # ---- joins -------------------------------------------------------------------------------------------

    def _absorbing(
        self, node: SeriesNode, absorption: Absorption, entry: Entry, end: int, want: Want, devices: int
    ) -> Iterator[Decision] | None:
        """The stages where a branch ends in a stage that goes on after the join; None: that is not possible."""
        _, needs = self.tables.rows(node, entry, end)
        starts = self.tables.absorbing_stages(absorption, needs, end)
        for (cut, own, held), start in starts.items():
            join = _Join(node, absorption, entry, end, cut, own, held, self.tables.entry(own, held))
            for used in np.flatnonzero(start[: devices + 1] == 0).tolist():
                others = self._share(join, want, devices - used)
                if others is not None:
                    return self._absorbed(join, want, used, others, devices)
        return None

    def _share(self, join: _Join, want: Want, devices: int) -> int | None:
        """Number of devices for the other branches beside what is left of the absorbed one; None: no number suits."""
        branch = join.parallel.kinds[join.absorption.kind]
        for others in range(devices + 1) if join.cut else (devices,):
            if self._can_branches(join.parallel, join.below, join.others, want, others) and (
                not join.cut or self._can_row(branch, join.below, join.cut, want, devices - others)
            ):
                return others
        return None

    def _absorbed(self, join: _Join, want: Want, used: int, others: int, devices: int) -> Iterator[Decision]:
        """The stages, with `used` devices for the absorbing stage and what follows, and `others` for other branches."""
        pools = [list(group) for group in join.parallel.members]
        branch = pools[join.absorption.kind].pop()
        yield from self._absorbing_stage(join, used, branch)
        yield from self._parallel(join.parallel, join.below, want, others, join.others, pools)
        if join.cut:
            assert isinstance(branch, SeriesNode)
            yield from self._row(branch, join.below, join.cut, 0, want, devices - used - others)

    def _absorbing_stage(self, join: _Join, used: int, branch: PricedNode) -> Iterator[Decision]:
        node, own, held = join.node, join.own, join.held
        _, needs = self.tables.rows(node, join.entry, join.end)
        caps = self.tables.caps(join.absorption)
        first = join.absorption.position + 1
        for run in range(join.end - first):
            for g, d in enumerate(self.degrees):
                if d <= used and needs[first + run + 1, own, used - d] == held <= caps[join.cut, run, own, g]:
                    parts = (*series_children(branch)[join.cut :], *node.children[first : first + run + 1])
                    yield Decision(tuple(v for part in parts for v in part.operators), own, d, held)
                    yield from self._row(node, join.entry, join.end, first + run + 1, ((own, held),), used - d)
                    return
        raise AssertionError("a start comes from a stage")

    # ---- parallel ----------------------------------------------------------------------------------------

    def _parallel(
        self,
        node: ParallelNode,
        entry: Entry,
        want: Want,
        devices: int,
        vector: Vector,
        pools: list[list[PricedNode]],
    ) -> Iterator[Decision]:
        """The stages of `vector` branches of each kind, which are taken from the pools."""
        while any(vector):
            number, count, vector = self._first_block(node, entry, want, devices, vector)
            block = node.choices.blocks[number]
            taken = [pool.pop() for pool, n in zip(pools, block, strict=True) for _ in range(n)]
            if len(taken) == 1:
                yield from self.stages(taken[0], entry, want, count)
            else:
                own = self._group(node, entry, want, number - len(node.kinds), count)
                yield Decision(tuple(v for branch in taken for v in branch.operators), own, count, entry[own])
            devices -= count

    def _first_block(
        self, node: ParallelNode, entry: Entry, want: Want, devices: int, vector: Vector
    ) -> tuple[int, int, Vector]:
        """The number of a possible first block, its devices, and the branches that are left."""
        choices = node.choices
        here = choices.states.index(vector)
        for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
            left = choices.states[rest]
            for count in range(devices + 1):
                if self._can_block(node, entry, block, want, count) and self._can_branches(
                    node, entry, left, want, devices - count
                ):
                    return block, count, left
        raise AssertionError("a value comes from a block")

    def _group(self, node: ParallelNode, entry: Entry, want: Want, group: int, devices: int) -> int:
        """The configuration of a stage of several branches."""
        usable = self.tables.usable_groups(node, entry)[group, :, self.degrees.index(devices)]
        return next(
            own for own in np.flatnonzero(usable).tolist() if suits(self.tables.entry(own, entry[own]), want)
        )
