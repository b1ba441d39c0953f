"""Some of the ideals, where all are too many: those of a beam that keeps what cuts little.

Every family that holds the empty set and the whole gives plans, hence an upper bound. Good plans end their
stages where little is transferred, so a few thousand ideals with small cuts often hold an optimal one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....instances.base.graph import adjacency
from .lattice import WORD, Lattice, arranged, has, held, holding, ideals_of_orders, words
from .model import Model


def beam(model: Model, orders: list[list[int]], wanted: int, tick: Callable[[], None] = lambda: None) -> Lattice:
    """About `wanted` ideals: all prefixes of the orders, and of each size those with the smallest cuts."""
    import numpy as np

    chains = ideals_of_orders(model, orders)
    width = max(1, wanted // model.count)
    nets_at = adjacency(model.count, ((g, e) for e, (pins, _, _) in enumerate(model.nets) for g in pins))
    nets_of = [np.array(nets, dtype=np.int64) for nets in nets_at]
    state = _State.start(model)
    found = [chains.bits]
    for _ in range(model.count):
        state = _grown(model, state, nets_of, width)
        found.append(state.bits)
        tick()
    return arranged(model, np.unique(np.concatenate(found), axis=0), complete=False)


class _State:
    """Ideals of one size: their groups, and how many pins of each net they hold."""

    def __init__(self, bits: Any, inside: Any, cut: Any) -> None:
        self.bits, self.inside, self.cut = bits, inside, cut

    @classmethod
    def start(cls, model: Model) -> _State:
        import numpy as np

        nets = len(model.nets)
        return cls(np.zeros((1, words(model)), np.uint64), np.zeros((1, nets), np.uint32), np.zeros(1))


def _grown(model: Model, state: _State, nets_of: list[Any], width: int) -> _State:
    """One group more, in all ways; the `width` smallest cuts stay."""
    import numpy as np

    costs = np.array([cost for _, cost, _ in model.nets])
    sizes = np.array([len(pins) for pins, _, _ in model.nets], dtype=np.uint32)
    some, every = np.bitwise_or.reduce(state.bits), np.bitwise_and.reduce(state.bits)
    parents, groups, cuts = [], [], []
    for g in range(model.count):
        if has(every, g) or not all(has(some, u) for u in model.predecessors[g]):
            continue
        rows = holding(state.bits, model.predecessors[g])
        rows = rows[held(state.bits[rows], g) == 0]
        if len(rows):
            nets = nets_of[g]
            inside = state.inside[np.ix_(rows, nets)]
            opens, closes = inside == 0, inside + 1 == sizes[nets]
            parents.append(rows)
            groups.append(np.full(len(rows), g))
            cuts.append(state.cut[rows] + (costs[nets] * (opens * 1.0 - closes)).sum(axis=1))
    parent, group, cut = np.concatenate(parents), np.concatenate(groups), np.concatenate(cuts)
    kept = np.argsort(cut, kind="stable")[: 4 * width]
    bits = state.bits[parent[kept]]
    bits[np.arange(len(kept)), group[kept] // WORD] |= np.uint64(1) << (group[kept] % WORD).astype(np.uint64)
    _, first = np.unique(bits, axis=0, return_index=True)
    first = np.sort(first)[:width]
    chosen = kept[first]
    inside = state.inside[parent[chosen]]
    for x, g in enumerate(group[chosen]):
        inside[x, nets_of[g]] += 1
    return _State(bits[first], inside, cut[chosen])
