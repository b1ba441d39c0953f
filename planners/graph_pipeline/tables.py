"""Whole needs of a part: where several stages end right before it, what one plan of the part asks of all of them.

A *combination* is a tuple of needs, one for each configuration of a stage before, with the bit set of the numbers of
devices for which some plan of the part has these needs or less. Combinations that others make useless are dropped.
Such junctions, where branches follow branches, are rare, and with one configuration the tables alone suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from . import kernel
from .configurations import Menu
from .costs import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector, drop_one, series_children
from .kernel import NEVER

# What comes after a part: the samples that a stage of each configuration right before it holds.
Entry = tuple[int, ...]

Combinations = dict[Entry, int]

Made = TypeVar("Made")


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

    def compute() -> Combinations:
        if not any(wanted):
            return {(0,) * len(entry): 1}
        choices, combinations = node.choices, Combinations()
        here, blocks = choices.states.index(wanted), block_combinations(tables, node, entry)
        for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
            others = of_branches(tables, node, entry, choices.states[rest])
            merge(combinations, beside(tables, blocks[block], others))
        return combinations

    return tables.once(("branches", id(node.prices), entry, wanted), compute)


def block_combinations(tables: Tables, node: ParallelNode, entry: Entry) -> list[Combinations]:
    """Combinations of each block: first one branch of each kind, then groups of branches that are one stage."""

    def compute() -> list[Combinations]:
        blocks = [of_row(tables, kind, entry, len(series_children(kind)), 0) for kind in node.kinds]
        for group in tables.usable_groups(node, entry):
            combinations = Combinations()
            for own, g in np.argwhere(group).tolist():
                merge(combinations, {tables.entry(own, entry[own]): 1 << tables.menu.degrees[g]})
            blocks.append(combinations)
        return blocks

    return tables.once(("blocks", id(node.prices), entry), compute)


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
    return combinations


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


# ---- The tables of one question -----------------------------------------------------------------------------------
# One question of the search: can all stages keep below a target, and what must a stage before them hold in flight?
#
# The state of the dynamic program is a part of the decomposition together with what comes right after it, of which
# only this matters: how many samples a stage of each configuration right before it would hold. Its value, for each
# configuration of a stage right before the part and each number of devices, is the least number of samples that this
# stage must hold. Fewer are never worse, so this is all that has to be kept: a part is followed upwards either by one
# stage, or by branches of which several end right there. These see one and the same plan of the part, so before them
# all combinations of needs that a plan can have are told apart.


def machine_code() -> SimpleNamespace:
    """The inner loops as machine code; the module `kernel` has them as plain Python."""
    from ...instances.base.compiled import compiled

    names = ("fill_rows", "relax_rows", "put_beside", "branch_states")
    return SimpleNamespace(**{name: compiled(kernel, name) for name in names})


class Tables:
    """All states at one target, each computed when it is first asked for."""

    def __init__(
        self,
        menu: Menu,
        target: float,
        chosen: slice = slice(None),
        loops: Any = kernel,
        most_held: int | None = None,
    ) -> None:
        """`chosen`: which of the priced configurations are those of the menu; `most_held`: samples, by any stage."""
        self.menu, self.target, self.chosen, self.loops = menu, target, chosen, loops
        self.most_held = menu.mini_batch if most_held is None else most_held
        self.size = menu.devices + 1
        self.nothing: Entry = tuple(menu.alone.tolist())
        self._known: dict[Any, Any] = {}
        self.entry = cache(self._entry)

    def once(self, key: tuple[Any, ...], compute: Callable[[], Made]) -> Made:
        """What is computed when it is first asked for, and kept."""
        if key not in self._known:
            self._known[key] = compute()
        made: Made = self._known[key]
        return made

    def caps(self, owner: PricedNode | Absorption) -> Any:
        """The most samples that each stage may hold; 0 where it is too slow or does not fit."""
        within = owner.prices.within
        return self.once(
            ("caps", id(owner.prices)), lambda: np.minimum(within(self.target, self.chosen), self.most_held)
        )

    def _entry(self, configuration: int, held: int) -> Entry:
        """The samples that a stage of each configuration holds right before a stage that holds `held`."""
        return tuple(self.menu.above(configuration, held).tolist())

    def never(self) -> Any:
        """[configuration, devices]: nothing is possible."""
        return np.full((len(self.menu.configurations), self.size), NEVER)

    def table(self, node: PricedNode, entry: Entry) -> Any:
        """[configuration of a stage right before the node, devices of the node exactly] -> its samples in flight."""
        if isinstance(node, ParallelNode):
            return self.branches(node, entry, node.total)
        count = len(node.children) if isinstance(node, SeriesNode) else 1
        return self.rows(node, entry, count)[1][0]

    # ---- series ------------------------------------------------------------------------------------------

    def rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        """For the children before `end`: values and needs, [first child, configuration, devices].

        values[i] is what one first stage of that configuration has to hold, where child i begins a run; needs[i] is
        what a stage of that configuration that ends right before child i has to hold. [end] stands for `entry` itself.
        """
        return self.once(("rows", id(node.prices), entry, end), lambda: self._fill_rows(node, entry, end))

    def _fill_rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        values = kernel.no_state(end + 1, len(self.menu.configurations), self.size)
        needs = values.copy()
        needs[end, :, 0] = entry
        if isinstance(node, LeafNode):
            self._fill(values, needs, self.caps(node)[None, None], 0, 0)
        elif all(isinstance(child, LeafNode) for child in node.children):
            self._fill(values, needs, self.caps(node), end - 1, 0)
        else:
            self._fill_mixed(values, needs, node, entry)
        return values, needs

    def _fill(self, values: Any, needs: Any, caps: Any, begin: int, stop: int) -> None:
        menu = self.menu
        degrees, extra = menu.degree_array, menu.extra
        self.loops.fill_rows(values, needs, caps, degrees, extra, menu.sizes, menu.mini_batch, begin, stop)

    def _fill_mixed(self, values: Any, needs: Any, node: SeriesNode, entry: Entry) -> None:
        """Fill rows where children may be divided, and branches may end in a stage that goes on after them."""
        end = len(values) - 1
        caps = self.caps(node)
        for i in range(end - 1, -1, -1):
            self._fill(values, needs, caps, i, i)
            child = node.children[i]
            if isinstance(child, LeafNode):
                continue
            for below, used in after_child(self, node, entry, values, needs, i).items():
                self._put_before(needs[i], self.start(used), self.table(child, below))
            for absorption in node.absorbed:
                if absorption.position == i:
                    self._absorb(needs[i], node, absorption, needs, end)

    def start(self, used: int) -> Any:
        """[devices]: 0 at the numbers of devices in a bit set, NEVER at all others."""
        return np.array([0 if used >> d & 1 else NEVER for d in range(self.size)])

    def _put_before(self, row: Any, start: Any, part: Any) -> None:
        """Lower `row` to the values of a part, at its devices plus any number of devices at which `start` is 0."""
        self.loops.put_beside(np.broadcast_to(start, part.shape).copy(), part, row)

    def _absorb(self, row: Any, node: SeriesNode, absorption: Absorption, needs: Any, end: int) -> None:
        """Lower `row` by plans whose first stage below the branches takes the end of one of them as well."""
        starts = self.absorbing_stages(absorption, needs, end)
        for (cut, own, held), start in starts.items():
            rest = self.beside(node, absorption, cut, self.entry(own, held))
            self._put_before(row, start, rest)

    def absorbing_stages(self, absorption: Absorption, needs: Any, end: int) -> dict[tuple[int, int, int], Any]:
        """(cut, configuration, samples held) -> 0 at each number of devices that the stage and what follows can use.

        For each number of devices, the stage holds as few samples as it can: more are never better for what is before.
        """
        last = end - absorption.position - 1
        caps = self.caps(absorption)[:, :last]
        after = needs[absorption.position + 2 : absorption.position + 2 + last]
        least = kernel.no_state(len(caps), len(self.menu.configurations), self.size)
        self.loops.relax_rows(least, caps, self.menu.degree_array, after)
        starts: dict[tuple[int, int, int], Any] = {}
        for cut, own in np.argwhere((least < NEVER).any(axis=2)).tolist():
            row = least[cut, own]
            for held in sorted(set(row[row < NEVER].tolist())):
                starts[cut, own, held] = np.where(row == held, 0, NEVER)
        return starts

    def beside(self, node: SeriesNode, absorption: Absorption, cut: int, entry: Entry) -> Any:
        """The values of the other branches together with what is left of the absorbed one."""
        parallel = node.children[absorption.position]
        assert isinstance(parallel, ParallelNode)
        others = self.branches(parallel, entry, drop_one(parallel.total, absorption.kind))
        if not cut:
            return others
        branch = parallel.kinds[absorption.kind]
        assert isinstance(branch, SeriesNode)

        def compute() -> Any:
            both = self.never()
            self.loops.put_beside(others, self.rows(branch, entry, cut)[1][0], both)
            return both

        return self.once(("beside", id(branch.prices), id(parallel.prices), entry, cut), compute)

    # ---- parallel ----------------------------------------------------------------------------------------

    def branches(self, node: ParallelNode, entry: Entry, wanted: Vector) -> Any:
        """The values of the `wanted` number of branches of each kind, as in `table`."""
        return self.branch_tables(node, entry)[1][node.choices.states.index(wanted)]

    def branch_tables(self, node: ParallelNode, entry: Entry) -> tuple[Any, Any]:
        """Values of the blocks and of the states."""

        def compute() -> tuple[Any, Any]:
            choices = node.choices
            blocks = np.stack([*(self.table(kind, entry) for kind in node.kinds), *self._groups(node, entry)])
            states = kernel.no_state(len(choices.states), *blocks.shape[1:])
            states[0, :, 0] = 0
            useful = blocks[choices.moves[:, 1]].min(axis=(1, 2)) < NEVER
            self.loops.branch_states(choices.moves[useful], blocks, states)
            return blocks, states

        return self.once(("states", id(node.prices), entry), compute)

    def _groups(self, node: ParallelNode, entry: Entry) -> Any:
        """[group, configuration of a stage right before, devices]: values of stages of several branches."""
        usable = self.usable_groups(node, entry)
        values = kernel.no_state(len(usable), *self.never().shape)
        for own in range(len(self.menu.configurations)):
            above = np.array(self.entry(own, entry[own]))[:, None]
            for g, d in enumerate(self.menu.degrees):
                if d < self.size:
                    better = np.minimum(values[:, :, d], above.T)
                    values[:, :, d] = np.where(usable[:, own, g, None], better, values[:, :, d])
        return values

    def usable_groups(self, node: ParallelNode, entry: Entry) -> Any:
        """[group, configuration, degree]: may it be a stage right before `entry`?"""
        return np.array(entry)[:, None] <= self.caps(node)
