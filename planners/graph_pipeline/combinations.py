"""Whole needs of a part: where several stages end right before it, what one plan of the part asks of all of them.

A *combination* is a tuple of needs, one for each configuration of a stage before, with the bit set of the numbers of
devices for which some plan of the part has these needs or less. Combinations that others make useless are dropped.
Such junctions, where branches follow branches, are rare, and with one configuration the tables alone suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .kernel import NEVER
from .nodes import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector, drop_one, series_children

if TYPE_CHECKING:
    from .tables import Tables

# What comes after a part: the samples that a stage of each configuration right before it holds.
Entry = tuple[int, ...]

Combinations = dict[Entry, int]


def after_child(tables: Tables, node: SeriesNode, entry: Entry, values: Any, needs: Any, i: int) -> Combinations:
    """Combinations of what comes after child i, which is divided."""
    end = len(values) - 1
    if i + 1 == end:
        return {entry: 1}
    return _of_place(tables, node, entry, values, needs, i + 1)


def of_row(tables: Tables, node: PricedNode, entry: Entry, end: int, i: int) -> Combinations:
    """Combinations of the children from i to end - 1 of a leaf or a series."""
    assert not isinstance(node, ParallelNode)
    if i == end:
        return {entry: 1}
    values, needs = tables.rows(node, entry, end)
    return _of_place(tables, node, entry, values, needs, i)


def of_branches(tables: Tables, node: ParallelNode, entry: Entry, wanted: Vector) -> Combinations:
    """Combinations of the `wanted` number of branches of each kind."""
    key = id(node.prices), entry, wanted
    if key not in tables.combinations:
        tables.combinations[key] = _of_branches(tables, node, entry, wanted)
    return tables.combinations[key]


def _of_branches(tables: Tables, node: ParallelNode, entry: Entry, wanted: Vector) -> Combinations:
    if not any(wanted):
        return {(0,) * len(entry): 1}
    choices, combinations = node.choices, Combinations()
    here, blocks = choices.states.index(wanted), block_combinations(tables, node, entry)
    for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
        others = of_branches(tables, node, entry, choices.states[rest])
        merge(combinations, beside(tables, blocks[block], others))
    return undominated(combinations)


def block_combinations(tables: Tables, node: ParallelNode, entry: Entry) -> list[Combinations]:
    """Combinations of each block: first one branch of each kind, then groups of branches that are one stage."""
    key = id(node.prices), entry
    if key not in tables.block_combinations:
        tables.block_combinations[key] = _block_combinations(tables, node, entry)
    return tables.block_combinations[key]


def _block_combinations(tables: Tables, node: ParallelNode, entry: Entry) -> list[Combinations]:
    blocks = [of_row(tables, kind, entry, len(series_children(kind)), 0) for kind in node.kinds]
    usable = tables.usable_groups(node, entry)
    for group in usable:
        combinations = Combinations()
        for own, g in np.argwhere(group).tolist():
            merge(combinations, {tables.entry(own, entry[own]): 1 << tables.menu.degrees[g]})
        blocks.append(combinations)
    return blocks


def _of_place(
    tables: Tables, node: LeafNode | SeriesNode, entry: Entry, values: Any, needs: Any, i: int
) -> Combinations:
    """Combinations of the children from i on, by the tables of the row."""
    if len(entry) == 1:
        return _distinct(needs[i, 0], lambda need: (need,))
    combinations = Combinations()
    for own, row in enumerate(values[i]):
        merge(combinations, _distinct(row, partial(tables.entry, own)))
    child = series_children(node)[i]
    if isinstance(node, SeriesNode) and isinstance(child, ParallelNode):
        for below, used in after_child(tables, node, entry, values, needs, i).items():
            merge(combinations, shifted(tables, of_branches(tables, child, below, child.total), used))
        for absorption in node.absorbed:
            if absorption.position == i:
                merge(combinations, _absorbed(tables, node, child, absorption, needs))
    return undominated(combinations)


def _distinct(row: Any, entry_of: Callable[[int], Entry]) -> Combinations:
    """The numbers of devices in a row of a table, gathered by what a stage before would hold."""
    combinations = Combinations()
    for d, held in enumerate(row.tolist()):
        if held < NEVER:
            merge(combinations, {entry_of(held): 1 << d})
    return combinations


def _absorbed(
    tables: Tables, node: SeriesNode, parallel: ParallelNode, absorption: Absorption, needs: Any
) -> Combinations:
    """Combinations of the branches, one of which ends in a stage that goes on after them, and of what follows."""
    combinations = Combinations()
    for (cut, own, held), start in tables.absorbing_stages(absorption, needs, len(needs) - 1).items():
        below = tables.entry(own, held)
        rest = of_branches(tables, parallel, below, drop_one(parallel.total, absorption.kind))
        if cut:
            rest = beside(tables, rest, of_row(tables, parallel.kinds[absorption.kind], below, cut, 0))
        used = sum(1 << d for d in np.flatnonzero(start == 0).tolist())
        merge(combinations, shifted(tables, rest, used))
    return combinations


# ---- sums and sets of combinations -------------------------------------------------------------------------------


def merge(combinations: Combinations, more: Combinations) -> None:
    for needs, used in more.items():
        combinations[needs] = combinations.get(needs, 0) | used


def beside(tables: Tables, left: Combinations, right: Combinations) -> Combinations:
    """Two parts side by side: devices add up, the larger need counts."""
    combinations = Combinations()
    for needs, used in left.items():
        for others, more in right.items():
            total = added(tables, used, more)
            if total:
                merge(combinations, {tuple(map(max, needs, others)): total})
    return combinations


def shifted(tables: Tables, combinations: Combinations, used: int) -> Combinations:
    """The combinations, each with any of these numbers of devices added."""
    moved = {needs: added(tables, own, used) for needs, own in combinations.items()}
    return {needs: total for needs, total in moved.items() if total}


def added(tables: Tables, left: int, right: int) -> int:
    """All sums of two numbers of devices, one from each bit set, up to the number of all devices."""
    total = 0
    for d in range(right.bit_length()):
        if right >> d & 1:
            total |= left << d
    return total & ((1 << tables.size) - 1)


def undominated(combinations: Combinations) -> Combinations:
    """The combinations without numbers of devices for which another one asks no more of any stage."""
    kept = Combinations()
    for needs, used in sorted(combinations.items(), key=lambda item: (sum(item[0]), item[0])):
        for others, more in kept.items():
            if used & more and all(map(int.__le__, others, needs)):
                used &= ~more
        if used:
            kept[needs] = used
    return kept


def combinations_at(combinations: Combinations, devices: int) -> list[Entry]:
    return [needs for needs, used in combinations.items() if used >> devices & 1]
