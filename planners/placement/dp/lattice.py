"""The ideals of the stage order (sets that hold with each group all groups that come before it), as arrays.

They are sorted by a whole-number key that grows strictly with inclusion, so that every ideal stands behind all
ideals that it contains, whatever rounding and groups without work do. With I' inside I, and O(X) the nets that X
cuts, the transfers of the stage I \\ I' are

    cut(I \\ I') = cut(I) + cut(I') - sum over e in O(I) and O(I') of w_e (1 + [no pin of e in I \\ I'])

because a net that both cut is counted twice on the right, and is to be paid once if the stage holds a pin of it,
and not at all otherwise. So it is enough to know, for each net and each ideal, how many pins are inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....instances.base.graph import adjacency
from .model import Model

# Resolution of the key: all work together.
KEY_STEPS = 2**40

# Bits of a machine word.
WORD = 64

# Ideals, or downsets of other planners, that a user may ask for: more need more memory than there is.
MOST_IDEALS = 10_000_000


class TooManyIdealsError(Exception):
    """More ideals than allowed; `count` were made before giving up."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True)
class Row:
    """One net: `inside[j - start]` of its pins are in ideal j, for start <= j < end; nowhere else is it cut."""

    cost: float
    part: int
    pins: int
    start: int
    end: int
    inside: Any


@dataclass(frozen=True)
class Lattice:
    """Ideals 0 (empty) to count - 1 (everything), or a family of them that holds these two."""

    model: Model
    bits: Any
    """uint64[count, words]: the groups of each ideal, as bits"""
    key: Any
    rows: tuple[Row, ...]
    cut: Any
    """cut[part, ideal]: the cost of the nets that each ideal cuts, by part"""
    complete: bool
    """Are these all ideals?"""

    @property
    def count(self) -> int:
        return len(self.key)

    def part(self, kept: Any) -> Lattice:
        """Only these ideals, ascending, first and last among them: its plans are plans of the whole."""
        rows = []
        for row in self.rows:
            start, end = (int(place) for place in np.searchsorted(kept, (row.start, row.end)))
            rows.append(Row(row.cost, row.part, row.pins, start, end, row.inside[kept[start:end] - row.start]))
        return Lattice(self.model, self.bits[kept], self.key[kept], tuple(rows), self.cut[:, kept], complete=False)

    def prefix(self, values: Sequence[float]) -> Any:
        """The sum of a group's values over each ideal."""
        return sums(self.bits, values)

    def groups_between(self, smaller: int, larger: int) -> list[int]:
        """The groups of the stage between two ideals."""
        return [g for g in range(self.model.count) if has(self.bits[larger], g) and not has(self.bits[smaller], g)]


def cheapest(lattice: Lattice, wanted: int, spans: int) -> Any:
    """Positions of about `wanted` ideals that cut little, as many from each of `spans` equal shares of the work."""
    share = (lattice.key * spans) // (int(lattice.key[-1]) + 1)
    cut = lattice.cut.sum(axis=0)
    order = np.lexsort((cut, share))
    starts = np.searchsorted(share, np.arange(spans))  # sorted by key, hence by share
    rank = np.empty(lattice.count, dtype=np.int64)
    rank[order] = np.arange(lattice.count)
    kept = rank - starts[share] < max(1, wanted // spans)
    kept[0] = kept[-1] = True
    return np.flatnonzero(kept)


def bytes_per_ideal(model: Model) -> int:
    """Roughly the bytes that one ideal takes, tables of the search included."""
    return 8 * words(model) + len(model.nets) + 120


def words(model: Model) -> int:
    return (model.count + WORD - 1) // WORD


def all_ideals(model: Model, limit: int, tick: Callable[[int], None] = lambda count: None) -> Lattice:
    """Every ideal, or `TooManyIdealsError`. `tick` hears how many there are, now and then."""
    return arranged(model, ideal_bits(model.predecessors, limit, tick), complete=True)


def ideal_bits(
    predecessors: Sequence[Sequence[int]], limit: int, tick: Callable[[int], None] = lambda count: None
) -> Any:
    """All ideals as rows of bits; `predecessors` of each element, which come before it in number.

    Elements are added in their order; every ideal of the first ones that holds the predecessors of the next one
    gives one more with it. So each ideal is made exactly once. Those made before the last predecessor came cannot
    hold it and are not looked at.
    """
    store = np.zeros((1024, (len(predecessors) + WORD - 1) // WORD), dtype=np.uint64)
    made_from = np.zeros(len(predecessors) + 1, dtype=np.int64)
    count = 1
    for v, before in enumerate(predecessors):
        made_from[v] = count
        first = max((int(made_from[u]) for u in before), default=0)
        parents = first + holding(store[first:count], before)
        if count + len(parents) > limit:
            raise TooManyIdealsError(count)
        while count + len(parents) > len(store):
            store = np.concatenate([store, np.zeros_like(store)])
        new = store[count : count + len(parents)]
        new[:] = store[parents]
        new[:, v // WORD] |= np.uint64(1 << v % WORD)
        count += len(parents)
        tick(count)
    return store[:count]


def holding(rows: Any, groups: Sequence[int]) -> Any:
    """Positions of the rows that hold all of these groups."""
    fits = np.ones(len(rows), dtype=bool)
    for word in sorted({g // WORD for g in groups}):
        mask = np.uint64(sum(1 << g % WORD for g in groups if g // WORD == word))
        fits &= (rows[:, word] & mask) == mask
    return np.flatnonzero(fits)


def closed_sets(needed: Sequence[int], most: int) -> list[int] | None:
    """All sets, as bits, that hold with each member what it needs, smaller ones first; None: more than `most`."""
    seen, ordered = {0}, [0]
    for members in ordered:
        for v, others in enumerate(needed):
            larger = members | 1 << v
            if larger != members and not others & ~members and larger not in seen:
                seen.add(larger)
                ordered.append(larger)
                if len(ordered) > most:
                    return None
    return ordered


def ideals_of_orders(model: Model, orders: Sequence[Sequence[int]]) -> Lattice:
    """The prefixes of some topological orders: a family on which the program quickly finds a plan."""
    families = []
    for order in orders:
        chain = np.zeros((model.count + 1, words(model)), dtype=np.uint64)
        for place, g in enumerate(order):
            chain[place + 1] = chain[place]
            chain[place + 1, g // WORD] |= np.uint64(1 << g % WORD)
        families.append(chain)
    return arranged(model, np.unique(np.concatenate(families), axis=0), complete=False)


def arranged(model: Model, bits: Any, complete: bool) -> Lattice:
    """The lattice of these ideals, which need not be in any order: sorted by the key, with a row for each net."""
    steps = _key_steps(model)
    key = sums(bits, steps, np.int64)
    order = np.argsort(key, kind="stable")
    bits, key = np.ascontiguousarray(bits[order]), key[order]
    least, most = _spans(model, steps)
    rows = tuple(_row(bits, key, net, least, most) for net in model.nets)
    cut = np.zeros((model.parts, len(key)))
    for row in rows:
        open_here = (row.inside > 0) & (row.inside < row.pins)
        cut[row.part, row.start : row.end] += row.cost * open_here
    return Lattice(model, bits, key, rows, cut, complete)


def _key_steps(model: Model) -> list[int]:
    """What each group adds to the key: its work on the first kind, and 1, so that no group adds nothing."""
    work = model.kinds[0].work
    total = sum(work) or 1.0
    return [int(value / total * KEY_STEPS) + 1 for value in work]


def _spans(model: Model, steps: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each group, the least key of an ideal with it, and the greatest key of one without it."""
    above = [1 << v for v in range(model.count)]
    for v in range(model.count):
        for u in model.predecessors[v]:
            above[v] |= above[u]
    total = sum(steps)
    return (
        [_weight(mask, steps) for mask in above],
        [total - _weight(mask, steps) for mask in model.descendants],
    )


def _weight(mask: int, steps: Sequence[int]) -> int:
    """The key of a set of groups, given as a bit mask."""
    total = 0
    while mask:
        low = mask & -mask
        total += steps[low.bit_length() - 1]
        mask ^= low
    return total


def has(ideal: Any, g: int) -> bool:
    """Does the row of bits hold g?"""
    return bool(int(ideal[g // WORD]) >> (g % WORD) & 1)


def held(bits: Any, g: int) -> Any:
    """For each row of bits, 1 where it holds g, else 0."""
    return ((bits[:, g // WORD] >> np.uint64(g % WORD)) & np.uint64(1)).astype(np.uint8)


def _row(
    bits: Any, key: Any, net: tuple[tuple[int, ...], float, int], least: Sequence[int], most: Sequence[int]
) -> Row:
    """The row of a net. Only ideals with a key in a certain range can hold some of its pins and lack others."""
    pins, cost, part = net
    low = int(np.searchsorted(key, min(least[g] for g in pins), "left"))
    high = int(np.searchsorted(key, max(most[g] for g in pins), "right"))
    inside: Any = np.zeros(max(0, high - low), dtype=np.uint8 if len(pins) < 256 else np.uint32)
    for g in pins:
        inside += held(bits[low:high], g)
    open_here = np.flatnonzero((inside > 0) & (inside < len(pins)))
    if not len(open_here):
        return Row(cost, part, len(pins), 0, 0, inside[:0])
    start, end = int(open_here[0]), int(open_here[-1]) + 1
    return Row(cost, part, len(pins), low + start, low + end, inside[start:end].copy())


def sums(bits: Any, values: Sequence[float], dtype: Any = float) -> Any:
    """For each row of bits, the sum of the `values` of its members: one table look-up for each byte."""
    total = np.zeros(len(bits), dtype=dtype)
    octets = bits.view(np.uint8).reshape(len(bits), -1) if len(bits) else bits
    choices = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(dtype)
    padded = np.zeros(bits.shape[1] * WORD, dtype=dtype)
    padded[: len(values)] = values
    for place in range(0, len(values), 8):
        if padded[place : place + 8].any():
            total += (choices @ padded[place : place + 8])[octets[:, place // 8]]
    return total


# ---- A family of ideals, where all are too many: those of a beam that keeps ideals with small cuts ---------
# Every family that holds the empty set and the whole gives plans, hence an upper bound. Good plans end their
# stages where little is transferred, so a few thousand ideals with small cuts often hold an optimal one.


def beam(model: Model, orders: list[list[int]], wanted: int, tick: Callable[[], None] = lambda: None) -> Lattice:
    """About `wanted` ideals: all prefixes of the orders, and of each size those with the smallest cuts."""
    chains = ideals_of_orders(model, orders)
    width = max(1, wanted // model.count)
    nets_at = adjacency(model.count, ((g, e) for e, (pins, _, _) in enumerate(model.nets) for g in pins))
    nets_of = [np.array(nets, dtype=np.int64) for nets in nets_at]
    nets = len(model.nets)
    state = _State(np.zeros((1, words(model)), np.uint64), np.zeros((1, nets), np.uint32), np.zeros(1))
    families = [chains.bits]
    for _ in range(model.count):
        state = _grown(model, state, nets_of, width)
        families.append(state.bits)
        tick()
    return arranged(model, np.unique(np.concatenate(families), axis=0), complete=False)


class _State(NamedTuple):
    """Ideals of one size: their groups, how many pins of each net they hold, and what they cut."""

    bits: Any
    inside: Any
    cut: Any


def _grown(model: Model, state: _State, nets_of: list[Any], width: int) -> _State:
    """The ideals with one group more; about the `width` with the smallest cuts are kept."""
    costs = np.array([cost for _, cost, _ in model.nets])
    sizes = np.array([len(pins) for pins, _, _ in model.nets], dtype=np.uint32)
    union, common = np.bitwise_or.reduce(state.bits), np.bitwise_and.reduce(state.bits)
    parents, groups, cuts = [], [], []
    for g in range(model.count):
        if has(common, g) or not all(has(union, u) for u in model.predecessors[g]):
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
