"""The contracted problem as the dynamic program sees it (groups, kinds of devices, nets), and its ideals.

A *kind* is a type of accelerator or the CPUs. A *net* is a transfer: a stage on an accelerator that holds some but
not all of its pins pays the cost. A *stage* is the difference of two ideals, which are the closed sets of `arcs`.
Programs for other problems take `ideal_bits` and `sums` from here: these know nothing of placements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...instances.base.amounts import WholeAmounts
from ...instances.base.graph import adjacency
from ...instances.placement.problem import PlacementProblem
from .groups import FAR, Groups, Net, contract, sums_by_part


@dataclass(frozen=True)
class Kind:
    """Devices that are all alike."""

    count: int
    times: tuple[tuple[float, ...], ...]
    """times[part][g]; parts: one, or forward and backward (gpipe). Times of groups that the kind does not support only
    serve as weights, and are at most the least time elsewhere (`weighed`)."""
    supported: tuple[bool, ...]
    capacity: float
    """Memory of a device in the unit of the sizes; infinite where there is no limit."""
    pays: bool
    """Does it pay transfers? CPUs do not."""
    type: int | None = None
    """Position among the problem's other types; None: the base type, or CPUs."""
    true_capacity: int | None = None
    """The capacity in the unit of the true sizes, where there are such and a limit."""

    @cached_property
    def work(self) -> tuple[float, ...]:
        """Time of each group, all parts together."""
        return tuple(math.fsum(part[g] for part in self.times) for g in range(len(self.supported)))


@dataclass(frozen=True)
class Model:
    """Groups in a topological order of `arcs`; kinds with at least one device, accelerators first."""

    members: tuple[tuple[int, ...], ...]
    kinds: tuple[Kind, ...]
    sizes: tuple[float, ...]
    """Whole numbers, so that all sums and their differences are exact."""
    nets: tuple[Net, ...]
    arcs: tuple[tuple[int, int], ...]
    parts: int
    true_sizes: tuple[int, ...] | None
    """Exact sizes where `sizes` had to be rounded."""

    @property
    def count(self) -> int:
        return len(self.members)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(self.count, ((v, u) for u, v in self.arcs))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each group, the bit mask of itself and of all groups to which `arcs` lead from it."""
        below = [1 << v for v in range(self.count)]
        for v in range(self.count - 1, -1, -1):
            for u in self.predecessors[v]:
                below[u] |= below[v]
        return tuple(below)


def build(problem: PlacementProblem, objective: str = "max-load", sizes: WholeAmounts | None = None) -> Model:
    """Contract colour classes and cycles, then merge groups that cost nothing into a neighbour.

    `sizes`: of the nodes, and memories; None: rounded so that no plan that fits is lost.
    """
    whole = problem.whole_sizes if sizes is None else sizes
    groups = contract(problem, True, objective, whole)
    model = Model(
        members=groups.members,
        kinds=weighed(
            # More devices than groups stay idle.
            [
                replace(kind, count=min(kind.count, groups.count))
                for kind in _kinds(problem, groups, whole)
                if kind.count
            ]
        ),
        sizes=groups.sizes,
        true_sizes=None
        if whole.exact or sizes is not None
        else tuple(sum(problem.exact_sizes.amounts[i] for i in members) for members in groups.members),
        nets=groups.nets,
        arcs=_reduced(groups.count, groups.arcs),
        parts=groups.parts,
    )
    return merge_free(_without_idle_memory(model))


def _without_idle_memory(model: Model) -> Model:
    """The model without sizes where a device of any kind could hold everything, so that sizes decide nothing."""
    total = sum(model.sizes)
    if any(kind.capacity < total for kind in model.kinds):
        return model
    if model.true_sizes is not None and any(
        kind.true_capacity is not None and kind.true_capacity < sum(model.true_sizes) for kind in model.kinds
    ):
        return model
    return replace(
        model,
        sizes=(0.0,) * model.count,
        true_sizes=None,
        kinds=tuple(replace(kind, capacity=math.inf) for kind in model.kinds),
    )


def weighed(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """The kinds with times of groups that they do not support lowered to the least time on a kind that does.

    Bounds and the order of ideals use times on the first kind as weights. The bounds hold for any weights, but one that
    is far too large drowns the others.
    """
    least = [
        min((kind.work[g] for kind in kinds if kind.supported[g]), default=0.0)
        for g in range(len(kinds[0].supported))
    ]

    def lowered(kind: Kind) -> Kind:
        if all(ok or work <= most for ok, work, most in zip(kind.supported, kind.work, least, strict=True)):
            return kind
        shares = [
            1.0 if ok or work <= most else most / work
            for ok, work, most in zip(kind.supported, kind.work, least, strict=True)
        ]
        return replace(
            kind,
            times=tuple(
                tuple(time * share for time, share in zip(part, shares, strict=True)) for part in kind.times
            ),
        )

    return tuple(map(lowered, kinds))


def _kinds(problem: PlacementProblem, groups: Groups, whole: WholeAmounts) -> list[Kind]:
    everywhere = (True,) * groups.count
    true = problem.exact_sizes.limits[0]
    base = Kind(problem.accelerators, groups.times, groups.supported, groups.capacity, True, true_capacity=true)
    others = [_other_kind(problem, groups, t, whole.limits[1 + t]) for t in range(len(problem.other_types))]
    return [base, *others, Kind(problem.cpus, groups.cpu_times, everywhere, math.inf, False)]


def _other_kind(problem: PlacementProblem, groups: Groups, t: int, memory: int | None) -> Kind:
    """Accelerators of a further type: times and support of their own, transfers as everywhere."""
    kind = problem.other_types[t]
    time_of = [problem.time_on(i, t) for i in range(len(problem.nodes))]
    times = sums_by_part(problem, groups.members, groups.parts, [time or 0.0 for time in time_of])
    supported = tuple(
        all(time_of[i] is not None for i in members) and problem.holds(members, t) for members in groups.members
    )
    capacity = math.inf if memory is None else float(memory)
    return Kind(kind.count, times, supported, capacity, True, t, problem.exact_sizes.limits[1 + t])


def _reduced(count: int, arcs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The arcs without those that a longer path replaces; `arcs` lead from lower to higher numbers."""
    after = adjacency(count, arcs)
    below = [1 << v for v in range(count)]
    kept = []
    for u in range(count - 1, -1, -1):
        reached = 0
        for v in sorted(after[u]):  # nearest first: what it leads to needs no arc of its own
            if not reached >> v & 1:
                kept.append((u, v))
                reached |= below[v]
        below[u] |= reached
    return tuple(sorted(kept))


# ---- groups that cost nothing ----------------------------------------------------------------------------


def merge_free(model: Model) -> Model:
    """Merge a group without work or size into its only predecessor (or only successor), where no load can rise.

    Let v cost nothing on any device and u be its only predecessor. Moving v from its stage X to the stage Y of u
    keeps the order valid. Before, X and Y both paid the net {u, v}, afterwards neither does; nets that hold both
    can only become uncut; nets at v without u can become cut, for X and Y each, at most once. So where the
    latter cost no more than {u, v}, no load rises, and some optimal plan has u and v together.
    """
    sizes = model.sizes if model.true_sizes is None else model.true_sizes
    after = adjacency(model.count, model.arcs)
    nets_of = adjacency(model.count, ((g, e) for e, (pins, _, _) in enumerate(model.nets) for g in pins))

    def is_free(v: int) -> bool:
        costs = sizes[v] or any(kind.work[v] for kind in model.kinds)
        return not costs and all(kind.supported[v] for kind in model.kinds)

    def saves(v: int, u: int, part: int) -> bool:
        """Do the nets at v without u cost no more than the net {u, v}?"""
        nets = [(pins, cost) for pins, cost, paid in (model.nets[e] for e in nets_of[v]) if paid == part]
        lost = math.fsum(cost for pins, cost in nets if u not in pins)
        return lost <= math.fsum(cost for pins, cost in nets if u in pins and len(pins) == 2)

    leader, hosts = list(range(model.count)), set[int]()
    for v in filter(is_free, range(model.count)):
        for near in (model.predecessors[v], after[v]):
            able = len(near) == 1 and v not in hosts and leader[v] == v and leader[near[0]] == near[0]
            if able and all(saves(v, near[0], part) for part in range(model.parts)):
                leader[v] = near[0]
                hosts.add(near[0])
    return merge_free(_merged(model, leader)) if hosts else model


def _merged(model: Model, leader: Sequence[int]) -> Model:
    """The model with each group in its leader, whose place is behind all that comes before either of them."""
    kept = sorted(set(leader))
    number = {g: i for i, g in enumerate(kept)}
    members: list[tuple[int, ...]] = [() for _ in kept]
    for g in sorted(range(model.count), key=lambda g: leader[g] != g):
        members[number[leader[g]]] += model.members[g]

    def pick(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[g] for g in kept)

    costs: dict[tuple[tuple[int, ...], int], float] = {}
    for pins, cost, part in model.nets:
        moved = tuple(sorted({number[leader[g]] for g in pins}))
        if len(moved) > 1:
            costs[moved, part] = costs.get((moved, part), 0.0) + cost
    arcs = {(number[leader[u]], number[leader[v]]) for u, v in model.arcs if leader[u] != leader[v]}
    return replace(
        model,
        members=tuple(members),
        kinds=tuple(
            replace(kind, times=tuple(map(pick, kind.times)), supported=pick(kind.supported))
            for kind in model.kinds
        ),
        sizes=pick(model.sizes),
        true_sizes=None if model.true_sizes is None else pick(model.true_sizes),
        nets=tuple((pins, cost, part) for (pins, part), cost in costs.items()),
        arcs=_reduced(len(kept), sorted(arcs)),
    )


# ---- The ideals of the stage order as arrays ----------------------------------------------------------------------
# The ideals of the stage order (sets that hold with each group all groups that come before it), as arrays.
#
# They are sorted by a whole-number key that grows strictly with inclusion, so that every ideal stands behind all
# ideals that it contains, whatever rounding and groups without work do. With I' inside I, and O(X) the nets that X
# cuts, the transfers of the stage I \ I' are
#
#     cut(I \ I') = cut(I) + cut(I') - sum over e in O(I) and O(I') of w_e (1 + [no pin of e in I \ I'])
#
# because a net that both cut is counted twice on the right, and is to be paid once if the stage holds a pin of it,
# and not at all otherwise. So it is enough to know, for each net and each ideal, how many pins are inside.


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


def all_ideals(model: Model, limit: int, tick: Callable[[], None] = lambda: None) -> Lattice:
    """Every ideal, or `TooManyIdealsError`. `tick` is called now and then: it may raise."""
    return arranged(model, ideal_bits(model.predecessors, limit, tick), complete=True)


def ideal_bits(predecessors: Sequence[Sequence[int]], limit: int, tick: Callable[[], None] = lambda: None) -> Any:
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
        tick()
    return store[:count]


def holding(rows: Any, groups: Sequence[int]) -> Any:
    """Positions of the rows that hold all of these groups."""
    fits = np.ones(len(rows), dtype=bool)
    for word in sorted({g // WORD for g in groups}):
        mask = np.uint64(sum(1 << g % WORD for g in groups if g // WORD == word))
        fits &= (rows[:, word] & mask) == mask
    return np.flatnonzero(fits)


def arranged(model: Model, bits: Any, complete: bool) -> Lattice:
    """The lattice of these ideals, which need not be in any order: sorted by the key, with a row for each net."""
    work = model.kinds[0].work
    total = sum(work) or 1.0
    # What each group adds to the key: its work on the first kind, and 1, so that no group adds nothing.
    steps = [int(value / total * KEY_STEPS) + 1 for value in work]
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


def _spans(model: Model, steps: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each group, the least key of an ideal with it, and the greatest key of one without it."""
    above = [1 << v for v in range(model.count)]
    for v in range(model.count):
        for u in model.predecessors[v]:
            above[v] |= above[u]

    def weights(masks: Sequence[int]) -> Any:
        rows = b"".join(mask.to_bytes(8 * words(model), "little") for mask in masks)
        return sums(np.frombuffer(rows, np.uint64).reshape(len(masks), -1), steps, np.int64)

    return weights(above).tolist(), (sum(steps) - weights(model.descendants)).tolist()


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
    families = []
    for order in orders:
        chain = np.zeros((model.count + 1, words(model)), dtype=np.uint64)
        for place, g in enumerate(order):
            chain[place + 1] = chain[place]
            chain[place + 1, g // WORD] |= np.uint64(1 << g % WORD)
        families.append(chain)
    width = max(1, wanted // model.count)
    nets_at = adjacency(model.count, ((g, e) for e, (pins, _, _) in enumerate(model.nets) for g in pins))
    nets_of = [np.array(nets, dtype=np.int64) for nets in nets_at]
    nets = len(model.nets)
    state = _State(np.zeros((1, words(model)), np.uint64), np.zeros((1, nets), np.uint32), np.zeros(1))
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


# ---- Costs that are far above all others --------------------------------------------------------------------------
# Costs that are far above all others, such as a "forbidden" that is written as a time of 1e12.
#
# The program takes differences of sums over ideals for the loads of stages; in floats 1e16 + 1 is 1e16. So it first
# runs on a problem without costs above a limit (`within`). Plans of value at most the limit are the same there and
# have the same values, since a device that pays such a cost has a greater load, whatever the number. If the best of
# them is within the limit it is the best of all. If not, every plan is above the limit, and a run with a greater
# limit loses no digits that matter.


# Relative: twice what one addition of floats may lose.
STEP = 2.0**-52


def first_limit(model: Model, bound: float) -> float:
    """The first limit: far above the optimum in all but strange problems, and above 0 where the bound is 0."""
    return FAR * (bound or min((cost for cost in _costs(model) if cost > 0), default=0.0))


def next_limit(model: Model, limit: float, value: float | None) -> float:
    """The limit after one that no plan keeps: a better plan than `value` pays one of the costs that were left out."""
    left_out = min((cost for cost in _costs(model) if cost > limit), default=math.inf)
    return FAR * max(limit, min(left_out, math.inf if value is None else value))


def within(model: Model, limit: float) -> Model:
    """The model without costs that make every plan that pays them worse than the limit; if it has none, itself.

    A group whose time is too long for a kind is not supported there. Transfers, which have no such mark, are cut to an
    amount that is still too much.
    """
    if all(cost <= limit for cost in _costs(model)):
        return model
    nets = tuple((pins, min(cost, 2 * limit), part) for pins, cost, part in model.nets)
    kinds = []
    for kind in model.kinds:
        near = tuple(ok and work <= limit for ok, work in zip(kind.supported, kind.work, strict=True))
        kinds.append(replace(kind, supported=near))
    return replace(model, kinds=weighed(kinds), nets=nets)


def _costs(model: Model) -> list[float]:
    """All that a device may pay at once: the work of a group, or a transfer."""
    works = (work for kind in model.kinds for ok, work in zip(kind.supported, kind.work, strict=True) if ok)
    return [*works, *(cost for _, cost, _ in model.nets)]


def rounding(lattice: Lattice) -> float:
    """By how much rounding may make the loads of stages wrong: they are differences of sums over ideals."""
    model = lattice.model
    work = max(sum(kind.work) for kind in model.kinds)
    cut = float(lattice.cut.sum(axis=0).max())
    return STEP * ((model.count / 8 + 16) * work + 3 * len(model.nets) * cut)
