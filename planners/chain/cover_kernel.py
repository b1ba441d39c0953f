"""All partitions of a chain into sets of layers that may be on GPUs: an exact cover, in plain loops over arrays.

A set is a number whose bits are its layers. The walk reads a table of pairs that cannot be together. Pairs are noted
there while the walk is on, so a pair is only examined when a partition needs it. Compiled where numba is at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .anneal_kernel import Tables

# What `go_on` returns: a partition is chosen, no other is left, or the steps are used up.
FOUND, DONE, PAUSED = 1, 0, -1
# What `list_sets` returns where there are more sets than it has room for.
TOO_MANY = -1
# Nodes of the search for sets, for each set that is wanted; beyond them the sets count as too many.
NODES_PER_SET = 40


class Covers(NamedTuple):
    """What may be chosen, as arrays."""

    sets: Any
    loads: Any
    """The load of each set."""
    apart: Any
    """Bit j of row i: sets i and j cannot be on GPUs together."""
    areas: Any
    """The area of each set, rounded down to a unit."""
    room: int
    """Room for the areas of a partition, beside the areas of layers that are in no set."""
    layer_loads: Any
    """The load of each layer that is in sets. These are all layers or the first ones."""
    gpus: int
    period: int


class Walk(NamedTuple):
    """One walk, to be resumed: for each number of sets that are chosen, which sets may follow and which were tried."""

    depth: Any
    """One number: how deep the walk is, from 0 on; negative at its end."""
    chosen: Any
    open: Any
    """Row d: sets that may follow the first d ones."""
    counts: Any
    ways: Any
    """Row d: those of them with the layer that was picked."""
    ways_counts: Any
    at: Any
    """Cell d: how many sets of row d of `ways` were tried."""


# ---- sets --------------------------------------------------------------------------------------------------


def areas_of(tables: Tables) -> Any:
    """For each layer, a lower bound on the size times time that one batch occupies; weights and slots do not count."""
    tasks = len(tables.durations)
    layers = tasks // 2
    areas = np.zeros(layers, dtype=np.int64)
    for layer in range(layers):
        last = tasks - 1 - layer
        areas[layer] = tables.activations[layer] * tables.durations[layer : last + 1].sum()
        if not tables.inputs_only:
            areas[layer] += tables.activations[layer + 1] * tables.durations[layer]
            areas[layer] += (tables.activations[last] + tables.activations[last + 1]) * tables.durations[last]
    return areas


def list_sets(tables: Tables, layers: int, period: int, least: int, found: Any) -> int:
    """Sets of the first layers with a load from `least` to the period, for which Little's law leaves room.

    A row of `found` gets a set and its area. Returns the number of sets, or TOO_MANY where there are more sets than
    rows or the search takes too many nodes.
    """
    tasks = len(tables.durations)
    areas = areas_of(tables)
    loads = tables.durations[:layers] + tables.durations[tasks - layers :][::-1]
    stack = np.zeros((layers + 2, 4), dtype=np.int64)  # next layer, members, load, area
    top, count, nodes = 1, 0, 0
    while top:
        top -= 1
        layer, members, load, area = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        nodes += 1
        if nodes > NODES_PER_SET * len(found):
            return TOO_MANY
        if layer == layers:
            if members and load >= least:
                if count == len(found):
                    return TOO_MANY
                found[count, 0], found[count, 1] = members, area
                count += 1
            continue
        before = layer > 0 and members >> (layer - 1) & 1 == 1
        slot = 0
        if layer and not tables.inputs_only:
            slot = period * (tables.activations[layer] + tables.activations[tasks - layer])
        if load + loads[layer:].sum() < least:
            continue
        for inside in range(2):
            more = area + (slot if before != (inside == 1) else 0)
            if inside:
                more += areas[layer] + period * tables.weights[layer]
                if load + loads[layer] > period:
                    continue
            if more > period * tables.memory:
                continue
            stack[top, 0] = layer + 1
            stack[top, 1] = members | inside << layer
            stack[top, 2] = load + inside * loads[layer]
            stack[top, 3] = more
            top += 1
    return count


# ---- partitions --------------------------------------------------------------------------------------------


def are_apart(covers: Covers, i: int, j: int) -> bool:
    return bool(covers.apart[i, j >> 3] >> (j & 7) & 1)


def put_apart(covers: Covers, i: int, j: int) -> None:
    covers.apart[i, j >> 3] |= 1 << (j & 7)
    covers.apart[j, i >> 3] |= 1 << (i & 7)


def begin(covers: Covers, walk: Walk, root: int) -> None:
    """Start a walk over the partitions with the set of this number, or, if it is negative, over all partitions."""
    walk.depth[0] = 0
    walk.counts[0] = len(covers.sets)
    for i in range(len(covers.sets)):
        walk.open[0, i] = i
    walk.at[0] = 0
    if root >= 0:
        walk.ways[0, 0] = root
        walk.ways_counts[0] = 1
    else:
        pick(covers, walk, 0, (1 << len(covers.layer_loads)) - 1)


def follow(covers: Covers, walk: Walk, depth: int) -> bool:
    """List the sets that may follow those chosen up to `depth`, and pick a layer; False: they lead nowhere."""
    missing = (1 << len(covers.layer_loads)) - 1
    for d in range(depth + 1):
        missing &= ~covers.sets[walk.chosen[d]]
    left = covers.gpus - depth - 1
    load = 0
    for layer in range(len(covers.layer_loads)):
        if missing >> layer & 1:
            load += covers.layer_loads[layer]
    least = load - (left - 1) * covers.period
    last = walk.chosen[depth]
    count, union = 0, 0
    for k in range(walk.counts[depth]):
        i = walk.open[depth, k]
        members = covers.sets[i]
        if members & ~missing or covers.loads[i] < least or are_apart(covers, last, i):
            continue
        if left == 1 and members != missing:
            continue
        walk.open[depth + 1, count] = i
        union |= members
        count += 1
    walk.counts[depth + 1] = count
    return union == missing and pick(covers, walk, depth + 1, missing)


def pick(covers: Covers, walk: Walk, depth: int, missing: int) -> bool:
    """List the ways to go on, the sets with the layer that is in the fewest sets; False: a layer is in none."""
    best, fewest = -1, len(covers.sets) + 1
    for layer in range(len(covers.layer_loads)):
        if missing >> layer & 1 == 0:
            continue
        count = 0
        for k in range(walk.counts[depth]):
            count += covers.sets[walk.open[depth, k]] >> layer & 1
        if count < fewest:
            best, fewest = layer, count
    count = 0
    for k in range(walk.counts[depth]):
        if covers.sets[walk.open[depth, k]] >> best & 1:
            walk.ways[depth, count] = walk.open[depth, k]
            count += 1
    walk.ways_counts[depth] = count
    walk.at[depth] = 0
    return count > 0


def go_on(covers: Covers, walk: Walk, steps: int) -> int:
    """Walk to the next partition, which is then `chosen` up to `depth`: FOUND; or DONE, or PAUSED after `steps`."""
    while walk.depth[0] >= 0:
        depth = walk.depth[0]
        if walk.at[depth] == walk.ways_counts[depth]:
            walk.depth[0] -= 1
            continue
        steps -= 1
        if steps < 0:
            return PAUSED
        i = walk.ways[depth, walk.at[depth]]
        walk.at[depth] += 1
        covered, area, fits = covers.sets[i], covers.areas[i], True
        for d in range(depth):
            fits = fits and not are_apart(covers, walk.chosen[d], i)
            covered |= covers.sets[walk.chosen[d]]
            area += covers.areas[walk.chosen[d]]
        if not fits or area > covers.room:
            continue
        walk.chosen[depth] = i
        if covered == (1 << len(covers.layer_loads)) - 1:
            return FOUND
        if depth + 1 < covers.gpus and follow(covers, walk, depth):
            walk.depth[0] += 1
    return DONE
