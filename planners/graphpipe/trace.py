"""From tables to stages: the decisions behind a value, found again by asking which of them attains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .kernel import NEVER
from .nodes import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector, minus, series_children
from .tables import Entry, Tables, drop_one


@dataclass(frozen=True, slots=True)
class Decision:
    """One stage: its operators, number of its configuration, devices and samples in flight."""

    operators: tuple[int, ...]
    configuration: int
    devices: int
    in_flight: int


class Trace:
    """Reads plans out of tables that hold them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.degrees = tables.menu.degrees

    def stages(self, node: PricedNode, entry: Entry, own: int, devices: int) -> Iterator[Decision]:
        """Stages of the state's value; the state is possible."""
        if isinstance(node, ParallelNode):
            yield from self._parallel(node, entry, own, devices, node.total, [list(group) for group in node.members])
        else:
            yield from self._row(node, entry, len(series_children(node)), 0, own, devices)

    # ---- series ------------------------------------------------------------------------------------------

    def _row(
        self, node: LeafNode | SeriesNode, entry: Entry, end: int, i: int, own: int, devices: int
    ) -> Iterator[Decision]:
        """Children i to end - 1."""
        if i == end:
            return
        values, needs = self.tables.rows(node, entry, end)
        goal = int(values[i, own, devices])
        found = self._run(node, end, i, own, devices, goal, needs)
        if found is not None:
            last, d = found
            members = tuple(v for child in series_children(node)[i : last + 1] for v in child.operators)
            yield Decision(members, own, d, goal)
            yield from self._below(node, entry, end, last + 1, own, goal, devices - d)
            return
        assert isinstance(node, SeriesNode), "a leaf is one stage"
        yield from self._divided(node, entry, end, i, own, devices, goal)

    def _run(
        self, node: LeafNode | SeriesNode, end: int, i: int, own: int, devices: int, goal: int, needs: Any
    ) -> tuple[int, int] | None:
        """The last child and the devices of a first stage that holds `goal` samples."""
        caps = self.tables.caps(node) if isinstance(node, SeriesNode) else self.tables.caps(node)[None, None]
        for last in range(end - 1, i - 1, -1):
            for g, d in enumerate(self.degrees):
                if d <= devices and needs[last + 1, own, devices - d] == goal <= caps[i, last, own, g]:
                    return last, d
        return None

    def _below(
        self, node: LeafNode | SeriesNode, entry: Entry, end: int, i: int, own: int, held: int, devices: int
    ) -> Iterator[Decision]:
        """What comes after a stage that holds `held` samples in configuration `own`."""
        if i == end:
            return
        values, _ = self.tables.rows(node, entry, end)
        for lower in range(len(values[i])):
            below = int(values[i, lower, devices])
            if below < NEVER and self.tables.menu.above(lower, below)[own] == held:
                yield from self._row(node, entry, end, i, lower, devices)
                return
        raise AssertionError("a need comes from a row")

    def _divided(
        self, node: SeriesNode, entry: Entry, end: int, i: int, own: int, devices: int, goal: int
    ) -> Iterator[Decision]:
        """Child i is divided within itself, or its branches end in a stage that goes on after them."""
        for used, lower, after in self._successors(node, entry, end, i + 1):
            child = node.children[i]
            if isinstance(child, LeafNode) or used > devices:
                continue
            if self.tables.table(child, after)[own, devices - used] == goal:
                yield from self.stages(child, after, own, devices - used)
                yield from self._row(node, entry, end, i + 1, lower, used)
                return
        for absorption in node.absorbed:
            if absorption.position == i:
                found = self._absorbing(node, absorption, entry, end, own, devices, goal)
                if found is not None:
                    yield from found
                    return
        raise AssertionError("a value comes from a decision")

    def _successors(self, node: SeriesNode, entry: Entry, end: int, i: int) -> Iterator[tuple[int, int, Entry]]:
        """Devices of children i to end - 1, their first configuration, and how they look from above."""
        if i == end:
            yield 0, 0, entry
            return
        values, _ = self.tables.rows(node, entry, end)
        for lower, row in enumerate(values[i]):
            for used, held in enumerate(row.tolist()):
                if held < NEVER:
                    yield used, lower, (lower, held)

    def _absorbing(
        self, node: SeriesNode, absorption: Absorption, entry: Entry, end: int, own: int, devices: int, goal: int
    ) -> Iterator[Decision] | None:
        _, needs = self.tables.rows(node, entry, end)
        starts = self.tables.absorbing_stages(absorption, needs, end)
        for (cut, stage, held), start in starts.items():
            rest = self.tables.beside(node, absorption, cut, (stage, held))
            for used in range(devices + 1):
                if start[used] == 0 and rest[own, devices - used] == goal:
                    return self._absorbed(node, absorption, entry, end, (cut, stage, held), own, used, devices - used)
        return None

    def _absorbed(
        self,
        node: SeriesNode,
        absorption: Absorption,
        entry: Entry,
        end: int,
        chosen: tuple[int, int, int],
        own: int,
        used: int,
        devices: int,
    ) -> Iterator[Decision]:
        """`used` devices for the absorbing stage and what follows, `devices` for what stands beside and above it."""
        cut, stage, held = chosen
        parallel = node.children[absorption.position]
        assert isinstance(parallel, ParallelNode)
        pools = [list(group) for group in parallel.members]
        branch = pools[absorption.kind].pop()
        inner: Entry = (stage, held)
        yield from self._absorbing_stage(node, absorption, entry, end, chosen, used, branch)
        others, count = self._share(parallel, absorption, cut, inner, own, devices)
        yield from self._parallel(parallel, inner, own, others, count, pools)
        if cut:
            assert isinstance(branch, SeriesNode)
            yield from self._row(branch, inner, cut, 0, own, devices - others)

    def _absorbing_stage(
        self,
        node: SeriesNode,
        absorption: Absorption,
        entry: Entry,
        end: int,
        chosen: tuple[int, int, int],
        used: int,
        branch: PricedNode,
    ) -> Iterator[Decision]:
        cut, stage, held = chosen
        _, needs = self.tables.rows(node, entry, end)
        caps = self.tables.caps(absorption)
        first = absorption.position + 1
        for run in range(end - first):
            for g, d in enumerate(self.degrees):
                if d <= used and needs[first + run + 1, stage, used - d] == held <= caps[cut, run, stage, g]:
                    parts = (*series_children(branch)[cut:], *node.children[first : first + run + 1])
                    yield Decision(tuple(v for part in parts for v in part.operators), stage, d, held)
                    yield from self._below(node, entry, end, first + run + 1, stage, held, used - d)
                    return
        raise AssertionError("a start comes from a stage")

    def _share(
        self, parallel: ParallelNode, absorption: Absorption, cut: int, entry: Entry, own: int, devices: int
    ) -> tuple[int, Vector]:
        """Devices of the other branches beside what is left of the absorbed one."""
        count = drop_one(parallel.total, absorption.kind)
        if not cut:
            return devices, count
        branch = parallel.kinds[absorption.kind]
        assert isinstance(branch, SeriesNode)
        left = self.tables.rows(branch, entry, cut)[0][0][own]
        others = self.tables.branches(parallel, entry, count)[own]
        return min(range(devices + 1), key=lambda n: max(others[n], left[devices - n])), count

    # ---- parallel ----------------------------------------------------------------------------------------

    def _parallel(
        self, node: ParallelNode, entry: Entry, own: int, devices: int, vector: Vector, pools: list[list[PricedNode]]
    ) -> Iterator[Decision]:
        """So many branches of each kind, taken from the pools."""
        while any(vector):
            block, count = self._first_block(node, entry, own, devices, vector)
            taken = [pool.pop() for pool, number in zip(pools, block, strict=True) for _ in range(number)]
            if len(taken) == 1:
                yield from self.stages(taken[0], entry, own, count)
            else:
                held = int(self.tables.own_need(entry)[own])
                yield Decision(tuple(v for branch in taken for v in branch.operators), own, count, held)
            vector, devices = minus(vector, block), devices - count

    def _first_block(
        self, node: ParallelNode, entry: Entry, own: int, devices: int, vector: Vector
    ) -> tuple[Vector, int]:
        choices = node.choices
        blocks, states = self.tables.branch_tables(node, entry)
        here = choices.states.index(vector)
        goal = states[here, own, devices]
        for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
            for count in range(devices + 1):
                if max(blocks[block, own, count], states[rest, own, devices - count]) <= goal:
                    return choices.blocks[block], count
        raise AssertionError("a value comes from a block")
