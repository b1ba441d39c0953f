"""Whole needs of a part: where several stages end right before it, what one plan of the part asks of all of them.

An *offer* is a tuple of needs, one for each configuration of a stage before, with the bit set of the numbers of devices
for which some plan of the part has these needs or less. Of offers only those are kept that no other one makes useless.
Such junctions, where branches follow branches, are rare, and with one configuration the tables say it all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from .configurations import Menu
from .kernel import NEVER
from .nodes import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector, drop_one, series_children

Entry = tuple[int, ...]
"""What comes after a part: the samples that a stage of each configuration right before it holds."""

Offers = dict[Entry, int]


class Tables(Protocol):
    """What offers are made from: the states of the dynamic program, which asks for offers where it needs them."""

    menu: Menu
    size: int
    offers: dict[Any, Offers]
    block_offers: dict[Any, list[Offers]]

    def rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]: ...
    def entry(self, configuration: int, held: int) -> Entry: ...
    def usable_groups(self, node: ParallelNode, entry: Entry) -> Any: ...
    def absorbing_stages(self, absorption: Absorption, needs: Any, end: int) -> dict[tuple[int, int, int], Any]: ...


def after_child(tables: Tables, node: SeriesNode, entry: Entry, values: Any, needs: Any, i: int) -> Offers:
    """What comes after child i, which is divided, as offers."""
    end = len(values) - 1
    if i + 1 == end:
        return {entry: 1}
    return _of_place(tables, node, entry, values, needs, i + 1)


def of_row(tables: Tables, node: PricedNode, entry: Entry, end: int, i: int) -> Offers:
    """Of the children from i to end - 1 of a leaf or a series."""
    assert not isinstance(node, ParallelNode)
    if i == end:
        return {entry: 1}
    values, needs = tables.rows(node, entry, end)
    return _of_place(tables, node, entry, values, needs, i)


def of_branches(tables: Tables, node: ParallelNode, entry: Entry, wanted: Vector) -> Offers:
    """Of so many branches of each kind."""
    key = id(node.prices), entry, wanted
    if key not in tables.offers:
        tables.offers[key] = _of_branches(tables, node, entry, wanted)
    return tables.offers[key]


def _of_branches(tables: Tables, node: ParallelNode, entry: Entry, wanted: Vector) -> Offers:
    if not any(wanted):
        return {(0,) * len(entry): 1}
    choices, found = node.choices, Offers()
    here, blocks = choices.states.index(wanted), block_offers(tables, node, entry)
    for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
        others = of_branches(tables, node, entry, choices.states[rest])
        merge(found, beside(tables, blocks[block], others))
    return undominated(found)


def block_offers(tables: Tables, node: ParallelNode, entry: Entry) -> list[Offers]:
    """One branch of each kind, then groups that are one stage."""
    key = id(node.prices), entry
    if key not in tables.block_offers:
        tables.block_offers[key] = _block_offers(tables, node, entry)
    return tables.block_offers[key]


def _block_offers(tables: Tables, node: ParallelNode, entry: Entry) -> list[Offers]:
    found = [of_row(tables, kind, entry, len(series_children(kind)), 0) for kind in node.kinds]
    usable = tables.usable_groups(node, entry)
    for group in usable:
        offers = Offers()
        for own, g in np.argwhere(group).tolist():
            merge(offers, {tables.entry(own, entry[own]): 1 << tables.menu.degrees[g]})
        found.append(offers)
    return found


def _of_place(tables: Tables, node: LeafNode | SeriesNode, entry: Entry, values: Any, needs: Any, i: int) -> Offers:
    if len(entry) == 1:
        return _distinct(needs[i, 0], lambda need: (need,))
    found = Offers()
    for own, row in enumerate(values[i]):
        merge(found, _distinct(row, partial(tables.entry, own)))
    child = series_children(node)[i]
    if isinstance(node, SeriesNode) and isinstance(child, ParallelNode):
        for below, used in after_child(tables, node, entry, values, needs, i).items():
            merge(found, shifted(tables, of_branches(tables, child, below, child.total), used))
        for absorption in node.absorbed:
            if absorption.position == i:
                merge(found, _absorbed(tables, node, child, absorption, needs))
    return undominated(found)


def _distinct(row: Any, entry_of: Callable[[int], Entry]) -> Offers:
    found = Offers()
    for d, held in enumerate(row.tolist()):
        if held < NEVER:
            merge(found, {entry_of(held): 1 << d})
    return found


def _absorbed(tables: Tables, node: SeriesNode, parallel: ParallelNode, absorption: Absorption, needs: Any) -> Offers:
    found = Offers()
    for (cut, own, held), start in tables.absorbing_stages(absorption, needs, len(needs) - 1).items():
        below = tables.entry(own, held)
        rest = of_branches(tables, parallel, below, drop_one(parallel.total, absorption.kind))
        if cut:
            rest = beside(tables, rest, of_row(tables, parallel.kinds[absorption.kind], below, cut, 0))
        used = sum(1 << d for d in np.flatnonzero(start == 0).tolist())
        merge(found, shifted(tables, rest, used))
    return found


# ---- sums and sets of offers -------------------------------------------------------------------------------


def merge(found: Offers, more: Offers) -> None:
    for needs, used in more.items():
        found[needs] = found.get(needs, 0) | used


def beside(tables: Tables, left: Offers, right: Offers) -> Offers:
    """Two parts side by side: devices add up, the larger need counts."""
    found = Offers()
    for needs, used in left.items():
        for others, more in right.items():
            total = added(tables, used, more)
            if total:
                merge(found, {tuple(map(max, needs, others)): total})
    return found


def shifted(tables: Tables, offers: Offers, used: int) -> Offers:
    """With any of these numbers of devices more."""
    moved = {needs: added(tables, own, used) for needs, own in offers.items()}
    return {needs: total for needs, total in moved.items() if total}


def added(tables: Tables, left: int, right: int) -> int:
    """All sums of two numbers of devices, as far as there are so many."""
    total = 0
    for d in range(right.bit_length()):
        if right >> d & 1:
            total |= left << d
    return total & ((1 << tables.size) - 1)


def undominated(offers: Offers) -> Offers:
    """Without numbers of devices for which another offer asks no more of any stage."""
    kept = Offers()
    for needs, used in sorted(offers.items(), key=lambda item: (sum(item[0]), item[0])):
        for others, more in kept.items():
            if used & more and all(map(int.__le__, others, needs)):
                used &= ~more
        if used:
            kept[needs] = used
    return kept


def offers_at(offers: Offers, devices: int) -> list[Entry]:
    return [needs for needs, used in offers.items() if used >> devices & 1]
