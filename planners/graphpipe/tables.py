"""One question of the search: can all stages keep below a target, and what must the first ones hold in flight?

The state of the dynamic program is a part of the decomposition together with what comes right after it (the
configuration of those stages and their in-flight samples); its value, for each configuration of the part's own first
stages and each number of devices, is the least number of samples that those must hold. Fewer are never worse for what
comes before, so this is all that has to be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .configurations import NEVER, Menu
from .nodes import Absorption, LeafNode, ParallelNode, PricedNode, SeriesNode, Vector

Entry = tuple[int, int] | None
"""What comes after: number of its configuration and its samples in flight; None: nothing."""


def combine(left: Any, right: Any) -> Any:
    """Two parts side by side: devices add up, the larger need counts. Arrays [configuration, devices]."""
    size = left.shape[-1]
    lead = right.shape[:-1]
    padded = np.concatenate([np.full((*lead, size - 1), NEVER), right], axis=-1)
    shifted = np.lib.stride_tricks.sliding_window_view(padded, size, axis=-1)[..., ::-1]
    return np.maximum(left[..., None, :], shifted).min(axis=-1)


def drop_one(vector: Vector, kind: int) -> Vector:
    return tuple(n - (place == kind) for place, n in enumerate(vector))


def minus(vector: Vector, other: Vector) -> Vector:
    return tuple(a - b for a, b in zip(vector, other, strict=True))


class Tables:
    """All states at one target, each computed when it is first asked for."""

    def __init__(self, menu: Menu, target: float, chosen: slice = slice(None)) -> None:
        """`chosen`: which of the priced configurations are those of the menu."""
        self.menu, self.target, self.chosen = menu, target, chosen
        self.size = menu.devices + 1
        self._caps: dict[int, Any] = {}
        self._rows: dict[Any, tuple[Any, Any]] = {}
        self._states: dict[Any, dict[Vector, Any]] = {}
        self._groups: dict[int, list[tuple[Vector, Any]]] = {}
        self._ends: dict[Any, Any] = {}

    def caps(self, owner: PricedNode | Absorption) -> Any:
        """The most samples that each stage may hold; 0 where it is too slow or does not fit."""
        key = id(owner.prices)
        if key not in self._caps:
            self._caps[key] = owner.prices.within(self.target, self.chosen)
        return self._caps[key]

    def own_need(self, entry: Entry) -> Any:
        """Samples in flight of a stage of each configuration right before `entry`."""
        return self.menu.alone if entry is None else self.menu.above(*entry)

    def never(self) -> Any:
        return np.full((len(self.menu.configurations), self.size), NEVER)

    def table(self, node: PricedNode, entry: Entry) -> Any:
        """[own configuration, devices used exactly] -> samples in flight of the first stages."""
        if isinstance(node, ParallelNode):
            return self.branches(node, entry, node.total)
        count = len(node.children) if isinstance(node, SeriesNode) else 1
        return self.rows(node, entry, count)[0][0]

    # ---- series ------------------------------------------------------------------------------------------

    def rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        """For the children before `end`: values [first child, configuration, devices], and needs.

        needs[i] is what a stage that ends right before child i has to hold. [end] stands for `entry` itself.
        """
        key = id(node.prices), entry, end
        if key not in self._rows:
            self._rows[key] = self._fill_rows(node, entry, end)
        return self._rows[key]

    def _fill_rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        values = np.full((end + 1, len(self.menu.configurations), self.size), NEVER)
        needs = values.copy()
        needs[end, :, 0] = self.own_need(entry)
        caps = self.caps(node) if isinstance(node, SeriesNode) else self.caps(node)[None, None]
        absorbed = node.absorbed if isinstance(node, SeriesNode) else ()
        for i in range(end - 1, -1, -1):
            row = values[i]
            self._stages_from(row, caps[i, i:end], needs[i + 1 :])
            if isinstance(node, SeriesNode):
                self._split_child(row, node.children[i], entry, None if i == end - 1 else values[i + 1])
                for absorption in absorbed:
                    if absorption.position == i:
                        self._absorb(row, node, absorption, needs, end)
            needs[i] = self._need_above(row)
        return values, needs

    def _stages_from(self, row: Any, caps: Any, needs: Any) -> None:
        """The first stage is a run of children: caps [last, configuration, degree], needs [last, ...]."""
        for g, d in enumerate(self.menu.degrees):
            if d >= self.size:
                break
            useful = caps[:, :, g].any(axis=1)
            if useful.any():
                held = needs[useful, :, : self.size - d]
                best = np.where(held <= caps[useful, :, g, None], held, NEVER).min(axis=0)
                np.minimum(row[:, d:], best, out=row[:, d:])

    def _need_above(self, row: Any) -> Any:
        """What a stage before the row's has to hold, whichever configuration the row's stages have."""
        return np.min([self.menu.above(lower, row[lower]) for lower in range(len(row))], axis=0)

    def _split_child(self, row: Any, child: PricedNode, entry: Entry, below: Any) -> None:
        """The child is divided within itself; `below` is the row after it, None where `entry` comes next."""
        if isinstance(child, LeafNode):
            return
        if below is None:
            np.minimum(row, self.table(child, entry), out=row)
            return
        for lower in range(len(below)):
            self._spread(row, child, lower, below[lower])

    def _spread(self, row: Any, child: PricedNode, lower: int, below: Any) -> None:
        for held in np.unique(below[below < NEVER]).tolist():
            start = np.where(below == held, 0, NEVER)
            part = self.table(child, (lower, held))
            np.minimum(row, combine(np.broadcast_to(start, part.shape), part), out=row)

    def _absorb(self, row: Any, node: SeriesNode, absorption: Absorption, needs: Any, end: int) -> None:
        """The first stage below the branches takes the end of one of them as well."""
        starts = self.absorbing_stages(absorption, needs, end)
        for (cut, own, held), start in starts.items():
            rest = self.beside(node, absorption, cut, (own, held))
            np.minimum(row, combine(np.broadcast_to(start, rest.shape), rest), out=row)

    def absorbing_stages(self, absorption: Absorption, needs: Any, end: int) -> dict[tuple[int, int, int], Any]:
        """(cut, configuration, samples held) -> 0 at each number of devices that the stage and what follows can use."""
        caps = self.caps(absorption)
        starts: dict[tuple[int, int, int], Any] = {}
        last = end - absorption.position - 1
        for cut, run, own, g in np.argwhere(caps[:, :last] > 0).tolist():
            d = self.menu.degrees[g]
            after = needs[absorption.position + 2 + run][own]
            for used in np.flatnonzero(after[: max(0, self.size - d)] <= caps[cut, run, own, g]).tolist():
                key = cut, own, int(after[used])
                starts.setdefault(key, np.full(self.size, NEVER))[used + d] = 0
        return starts

    def beside(self, node: SeriesNode, absorption: Absorption, cut: int, entry: Entry) -> Any:
        """The other branches, and what is left of the absorbed one."""
        parallel = node.children[absorption.position]
        assert isinstance(parallel, ParallelNode)
        others = self.branches(parallel, entry, drop_one(parallel.total, absorption.kind))
        if not cut:
            return others
        branch = parallel.kinds[absorption.kind]
        assert isinstance(branch, SeriesNode)
        key = id(branch.prices), id(parallel), entry, cut
        if key not in self._ends:
            self._ends[key] = combine(others, self.rows(branch, entry, cut)[0][0])
        return self._ends[key]

    # ---- parallel ----------------------------------------------------------------------------------------

    def branches(self, node: ParallelNode, entry: Entry, wanted: Vector) -> Any:
        """The value for so many branches of each kind."""
        states = self._states.setdefault((id(node.prices), entry), {})
        if wanted not in states:
            for vector in self._missing(node, states, wanted):
                states[vector] = self._branches(node, entry, states, vector)
        return states[wanted]

    def _missing(self, node: ParallelNode, states: dict[Vector, Any], wanted: Vector) -> list[Vector]:
        """Choices of branches that remain after some blocks, the smallest first."""
        found, pending = {wanted}, [wanted]
        while pending:
            vector = pending.pop()
            for block in self.blocks(node, vector):
                rest = minus(vector, block)
                if rest not in found and rest not in states:
                    found.add(rest)
                    pending.append(rest)
        return sorted(found, key=sum)

    def blocks(self, node: ParallelNode, vector: Vector) -> list[Vector]:
        """What may hold the first of the branches: that branch alone, or a stage of several branches."""
        first = next((kind for kind, n in enumerate(vector) if n), None)
        if first is None:
            return []
        alone = tuple(int(kind == first) for kind in range(len(vector)))
        groups = [
            group
            for group, _ in self.groups(node)
            if group[first] and not any(group[:first]) and all(g <= n for g, n in zip(group, vector, strict=True))
        ]
        return [alone, *groups]

    def groups(self, node: ParallelNode) -> list[tuple[Vector, Any]]:
        """Choices of several branches that can be one stage at this target, with their caps."""
        key = id(node.prices)
        if key not in self._groups:
            caps = self.caps(node)
            useful = np.flatnonzero(caps.reshape(len(caps), -1).any(axis=1))
            self._groups[key] = [(node.vectors[n], caps[n]) for n in useful.tolist()]
        return self._groups[key]

    def _branches(self, node: ParallelNode, entry: Entry, states: dict[Vector, Any], vector: Vector) -> Any:
        value = self.never()
        if not any(vector):
            value[:, 0] = 0
            return value
        for block in self.blocks(node, vector):
            rest = states[minus(vector, block)]
            value = np.minimum(value, combine(self.block(node, entry, block), rest))
        return value

    def block(self, node: ParallelNode, entry: Entry, block: Vector) -> Any:
        """One branch with stages of its own, or one stage of several branches."""
        if sum(block) == 1:
            return self.table(node.kinds[block.index(1)], entry)
        key = id(node.prices), entry, block
        if key not in self._ends:
            caps = dict(self.groups(node))[block]
            value, need = self.never(), self.own_need(entry)
            for g, d in enumerate(self.menu.degrees):
                if d < self.size:
                    value[:, d] = np.where(need <= caps[:, g], need, NEVER)
            self._ends[key] = value
        return self._ends[key]
