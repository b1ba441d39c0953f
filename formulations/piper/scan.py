"""Loops over all stages of a large lattice, for compilation: which of them can be in a plan within a limit?

No stage is stored: each is computed anew from sums over the two sets that it lies between. What is computed is a
relaxation: every layer at its fastest, with its least transfers, weights and memory, each from another configuration
if need be. So a stage that is left out is in no plan, while one that is kept may turn out to be too slow or too large.

Shortest paths do the rest. In the first pass, from the end of the network: the fewest devices, and the fewest replicas,
with which each set can be run. In the second, from its beginning: the same for what is outside of each set. A stage is
kept if it is short enough with the shortest ways before and behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# More devices than there are.
FAR = 1 << 40


class Layers(NamedTuple):
    """Sums are over the layers of each set, a row for each tensor-parallel degree: float[degrees, sets]."""

    bits: Any
    """uint64[sets, words], by size: a set stands behind all that it contains"""
    tail: Any
    head: Any
    """the two ends of each edge"""
    into: Any
    out_of: Any
    """float[degrees, edges]: what the stage of its head, and that of its tail, pays for an edge that is cut"""
    time: Any
    weight: Any
    time_rest: Any
    weight_rest: Any
    """what is left of times and weights where one number is not enough for their sum"""
    fine: bool
    """does any number need its rest, since one number is not enough for the sum?"""
    per_batch: Any
    """in whole units of memory: exact"""
    fixed: Any
    missing: Any
    """how many layers do not offer the degree"""
    enter: Any
    """all edges from outside into a set, as the stage in front of them pays"""
    leave: Any
    """the same as the stage behind them pays"""
    degree: Any
    replicas: Any
    """int64: numbers of replicas that may be chosen, ascending"""
    at_least: Any
    """by number, the place of the first of `replicas` that is no smaller"""
    sync: Any
    """float[replicas]: time per byte of weights that is synchronised, times the replicas"""
    memory: float
    devices: int
    batches: int
    """the largest sum of replicas"""


class Reach(NamedTuple):
    """Shortest ways, by set: to run it, and to run what is outside of it."""

    devices_in: Any
    replicas_in: Any
    devices_out: Any
    replicas_out: Any


def holds(x: Layers, j: int, v: int) -> Any:
    """Does set j hold layer v?"""
    return (x.bits[j, v >> 6] >> np.uint64(v & 63)) & np.uint64(1)


def contains(x: Layers, j: int, i: int) -> bool:
    """Does set j contain set i?"""
    inside = True
    for w in range(x.bits.shape[1]):
        inside = inside and not x.bits[i, w] & ~x.bits[j, w]
    return inside


def borders(x: Layers) -> None:
    """Fill `enter` and `leave`."""
    for j in range(x.bits.shape[0]):
        for e in range(x.tail.shape[0]):
            if holds(x, j, x.head[e]) and not holds(x, j, x.tail[e]):
                for a in range(x.degree.shape[0]):
                    x.enter[a, j] += x.into[a, e]
                    x.leave[a, j] += x.out_of[a, e]


def crossing(x: Layers, j: int, edges: Any) -> int:
    """Write the edges that lead into set j from outside to `edges`, and return their number."""
    count = 0
    for e in range(x.tail.shape[0]):
        if holds(x, j, x.head[e]) and not holds(x, j, x.tail[e]):
            edges[count] = e
            count += 1
    return count


def fewest_by_time(x: Layers, i: int, j: int, a: int, limit: float, most: int) -> int:
    """Number of replicas that the stage between two sets needs for its time without transfers; above `most` if too
    many."""
    if x.missing[a, j] - x.missing[a, i] > 0.5:
        return most + 1
    need = (x.time[a, j] - x.time[a, i]) / limit
    if x.fine:
        need += (x.time_rest[a, j] - x.time_rest[a, i]) / limit
    return most + 1 if need > most else max(1, int(np.ceil(need)))


def fewest_replicas(
    x: Layers, i: int, j: int, a: int, limit: float, least: int, most: int, carried: int, edges: Any, count: int
) -> int:
    """The fewest replicas, from `least` to `most`, with which the stage keeps the limit and fits the memory; 0: none.

    `carried`: the fewest replicas of all later stages. `edges`: those that lead into set j.
    """
    time, weight = x.time[a, j] - x.time[a, i], x.weight[a, j] - x.weight[a, i]
    if x.fine:
        time += x.time_rest[a, j] - x.time_rest[a, i]
        weight += x.weight_rest[a, j] - x.weight_rest[a, i]
    time += x.enter[a, j] + x.leave[a, i]
    for n in range(count):
        e = edges[n]
        if holds(x, i, x.head[e]):  # passes by: neither end is in the stage
            time -= x.into[a, e] + x.out_of[a, e]
    if time > limit * most:
        return 0
    per_batch, fixed = x.per_batch[a, j] - x.per_batch[a, i], x.fixed[a, j] - x.fixed[a, i]
    for n in range(x.at_least[max(least, int(np.ceil(time / limit)))], x.replicas.shape[0]):
        d = x.replicas[n]
        if d > most:
            return 0
        if time + x.sync[n] * weight <= limit * d and fixed + per_batch * ((carried + 2 * d - 1) // d) <= x.memory:
            return int(d)
    return 0


def reach_from_the_end(x: Layers, limit: float, rest_devices: Any, rest_replicas: Any, r: Reach) -> bool:
    """First pass; False where no plan keeps the limit. `rest_*`: what layers outside of each set take at least."""
    r.devices_in[:], r.replicas_in[:] = FAR, FAR
    r.devices_in[0] = r.replicas_in[0] = 0
    edges = np.empty(x.tail.shape[0], dtype=np.int64)
    last = x.bits.shape[0] - 1
    for j in range(1, last + 1):
        room, left = x.devices - rest_devices[j], x.batches - rest_replicas[j]
        if room < 1 or left < 1:
            continue
        count = crossing(x, j, edges)
        for i in range(j):
            carried = r.replicas_in[i]
            if r.devices_in[i] >= room or carried >= left or not contains(x, j, i):
                continue
            for a in range(x.degree.shape[0]):
                t = x.degree[a]
                most = min((room - r.devices_in[i]) // t, left - carried)
                d = fewest_by_time(x, i, j, a, limit, most)
                if d > most or (r.devices_in[i] + d * t >= r.devices_in[j] and carried + d >= r.replicas_in[j]):
                    continue
                d = fewest_replicas(x, i, j, a, limit, d, most, carried, edges, count)
                if d:
                    r.devices_in[j] = min(r.devices_in[j], r.devices_in[i] + d * t)
                    r.replicas_in[j] = min(r.replicas_in[j], carried + d)
    return bool(r.devices_in[last] < FAR)


def reach_from_the_beginning(x: Layers, limit: float, r: Reach, smaller: Any, larger: Any) -> int:
    """Second pass: write the stages that are left, as pairs of sets, to `smaller` and `larger`, and return their
    number; -1 where there is no room for all of them."""
    r.devices_out[:], r.replicas_out[:] = FAR, FAR
    last = x.bits.shape[0] - 1
    r.devices_out[last] = r.replicas_out[last] = 0
    edges = np.empty(x.tail.shape[0], dtype=np.int64)
    found = 0
    for j in range(last, 0, -1):
        room, left = x.devices - r.devices_out[j], x.batches - r.replicas_out[j]
        if r.devices_in[j] > room or r.replicas_in[j] > left:
            continue
        count = crossing(x, j, edges)
        for i in range(j):
            carried = r.replicas_in[i]
            if r.devices_in[i] >= room or carried >= left or not contains(x, j, i):
                continue
            kept = False
            for a in range(x.degree.shape[0]):
                t = x.degree[a]
                most = min((room - r.devices_in[i]) // t, left - carried)
                d = fewest_by_time(x, i, j, a, limit, most)
                if d > most:
                    continue
                d = fewest_replicas(x, i, j, a, limit, d, most, carried, edges, count)
                if d:
                    kept = True
                    r.devices_out[i] = min(r.devices_out[i], r.devices_out[j] + d * t)
                    r.replicas_out[i] = min(r.replicas_out[i], r.replicas_out[j] + d)
            if kept:
                if found == smaller.shape[0]:
                    return -1
                smaller[found], larger[found] = i, j
                found += 1
    return found
