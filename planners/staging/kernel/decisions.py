"""Decisions about a limit: can everything be placed so that no load exceeds it?"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import TIME, TIME_REST, WEIGHT, WEIGHT_REST, Cluster, Layers, Table
from .knapsack import optimal_knapsack, settle_knapsack
from .quick import passing_tables, quick_last, stage_at

# More than any number of devices and any sum of degrees: there is no plan.
NONE = 1 << 30

# What a knapsack is: see `decide`.
GREEDY, EXACT, RELAXED = 0, 1, 2


def decide(
    x: Layers, t: Table, c: Cluster, mode: int, limit: float, rest_work: Any, front_size: Any, front: Any
) -> tuple[int, int]:
    """Can everything be placed with all loads within the limit? Fills, for each downset, the front of its plans.

    front[j, n]: (devices, sum of degrees, pair, degree's number, replicas, place in the source's front), by more
    devices and smaller sums; fewer of both are always as good, because loads never fall with the sum. For the same
    reason a stage takes the least number of replicas that keeps the limit. Returns the size of the last front, and
    how many knapsacks were left undecided. `mode` says what a knapsack is: the published greedy, the optimum, or a
    relaxation that no choice is below.
    """
    devices, batches, replicas, sync, degree = c
    downsets, degrees, count = rest_work.shape[0], degree.shape[0], replicas.shape[0]
    most = replicas[count - 1]
    pair_source, row, tabled = t.pair_source, t.row, t.row.shape[0] > 0
    prefix, enter, leave, octets, fine = x.prefix, x.enter, x.leave, x.octets, x.fine
    best = np.empty((devices + 1, 5), dtype=np.int64)
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    least = np.full(downsets, NONE, dtype=np.int64)  # devices, of the first plan in a front
    sparest = np.full(downsets, NONE, dtype=np.int64)  # sum of degrees, of the last plan in a front
    upto = np.empty(devices + 1, dtype=np.int64)  # least sum on so many devices or fewer
    table = np.empty((degrees, octets.shape[1], 256))
    active = np.empty(octets.shape[1], dtype=np.int64)
    enough = np.searchsorted(replicas, np.arange(most + 2))
    per_time = (1 - 1e-12) / limit if limit > 0.0 else 0.0
    hair = 1e-10 * rest_work[0]
    undecided = 0
    front_size[0] = 1
    front[0, 0, :] = 0
    least[0] = sparest[0] = 0
    for j in range(1, downsets):
        front_size[j] = 0
        kept = np.ceil(rest_work[j] * per_time)
        if kept >= devices:
            continue  # asked of the float, which may be too large for a whole number
        room = devices - int(kept)
        best[:, 0] = NONE
        upto[:] = NONE
        bytes_active = -1
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = pair_source[p]
            free = room - least[i]
            if free < 1 or np.ceil((rest_work[i] - rest_work[j] - hair) * per_time) > free:
                continue
            r = row[p] if tabled else -1
            for tau in range(degrees):
                if r >= 0:
                    base, weight = t.base[r, tau], t.weight[r, tau]
                    fastest, last, start = t.fastest[r, tau], t.last[r, tau], t.extra_start[r, tau]
                else:
                    base = prefix[tau, TIME, j] - prefix[tau, TIME, i]
                    if fine:
                        base += prefix[tau, TIME_REST, j] - prefix[tau, TIME_REST, i]
                    if base > limit * most:
                        continue
                    d = max(1, int(np.ceil(base * per_time)))
                    if d * degree[tau] > free or upto[least[i] + d * degree[tau]] <= sparest[i] + d:
                        continue
                    last = quick_last(x, i, j, tau)
                    if last < 1:
                        continue
                    if bytes_active < 0:
                        bytes_active = passing_tables(x, j, table, active)
                    base += enter[tau, j] + leave[tau, i]
                    for a in range(bytes_active):
                        base -= table[tau, active[a], octets[i, active[a]]]
                    weight = prefix[tau, WEIGHT, j] - prefix[tau, WEIGHT, i] if x.only[tau] < 0 else 0.0
                    if fine and x.only[tau] < 0:
                        weight += prefix[tau, WEIGHT_REST, j] - prefix[tau, WEIGHT_REST, i]
                    fastest, start = last, 0
                if base > limit * most:
                    continue
                d = int(np.ceil(base * per_time))
                if d * degree[tau] > free or d > batches:
                    continue
                if upto[least[i] + d * degree[tau]] <= sparest[i] + d:
                    continue  # no better than what is known
                n = enough[max(d, 0)]  # rounding may leave less than nothing
                left = front_size[i]
                while n < count and left > 0:
                    if x.only[tau] >= 0 and n != x.only[tau]:
                        n += 1
                        continue
                    d = replicas[n]
                    if d * degree[tau] > free or d > batches:
                        break
                    budget = limit * d - sync[n] * weight - base
                    while budget >= 0.0 and left > 0:
                        s = front[i, left - 1, 1] + d
                        y = (s + d - 1) // d
                        if s > batches or y > last:
                            break
                        if y > fastest:
                            e = start + y - fastest - 1
                            if t.upper[e] > budget:
                                if mode == GREEDY or t.lower[e] > budget:
                                    break
                                if mode == EXACT:
                                    answer = settle_knapsack(x, t, i, j, r, tau, y, budget, choice)
                                    undecided += answer < 0
                                    if answer <= 0:
                                        break
                        left -= 1
                        k = front[i, left, 0] + d * degree[tau]
                        if k <= room and s < best[k, 0]:
                            best[k, 0], best[k, 1], best[k, 2], best[k, 3], best[k, 4] = s, p, tau, d, left
                            while k <= devices and upto[k] > s:
                                upto[k] = s
                                k += 1
                    n += 1
        size, fewest = 0, NONE
        for k in range(1, devices + 1):
            if best[k, 0] < fewest:
                fewest = best[k, 0]
                front[j, size, 0] = k
                for column in range(5):  # a slice would bring in the words of its error: 2 s more to compile
                    front[j, size, 1 + column] = best[k, column]
                size += 1
        front_size[j] = size
        if size:
            least[j], sparest[j] = front[j, 0, 0], front[j, size - 1, 1]
    return front_size[downsets - 1], undecided


def decide_sums(x: Layers, t: Table, c: Cluster, mode: int, limit: float, came: Any) -> tuple[int, int]:
    """Decide like `decide` where the degrees must sum to `batches` exactly: every sum counts, so all of them are kept.

    came[j, k, s]: (pair, degree's number, place of the replicas) of a plan of downset j on k devices with sum s;
    the pair is negative where there is none. Returns the least number of devices for everything, and how many
    knapsacks were left undecided.
    """
    devices, batches, replicas, sync, degree = c
    downsets = came.shape[0]
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    undecided = 0
    came[:, :, :, 0] = -1
    came[0, 0, 0, 0] = 0
    for j in range(1, downsets):
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            for tau in range(degree.shape[0]):
                base, weight, fastest, last, start = stage_at(x, t, p, i, j, tau)
                for n in range(replicas.shape[0]):
                    d = replicas[n]
                    budget = limit * d - sync[n] * weight - base
                    if not budget >= 0.0 or (x.only[tau] >= 0 and n != x.only[tau]):
                        continue
                    for s in range(d, batches + 1):
                        y = (s + d - 1) // d
                        if y > last:
                            break
                        e = start + y - fastest - 1
                        if y > fastest and t.upper[e] > budget:
                            if mode == GREEDY or t.lower[e] > budget:
                                break
                            if mode == EXACT:
                                answer = settle_knapsack(x, t, i, j, t.row[p], tau, y, budget, choice)
                                undecided += answer < 0
                                if answer <= 0:
                                    break
                        for k in range(d * degree[tau], devices + 1):
                            if came[i, k - d * degree[tau], s - d, 0] >= 0 and came[j, k, s, 0] < 0:
                                came[j, k, s, 0], came[j, k, s, 1], came[j, k, s, 2] = p, tau, n
    for k in range(1, devices + 1):
        if came[downsets - 1, k, batches, 0] >= 0:
            return k, undecided
    return 0, undecided


# ---- Least largest loads of all downsets, for every number of devices and every sum of degrees -------------


def fill_values(x: Layers, t: Table, c: Cluster, exact: bool, first: int, last: int, value: Any) -> int:
    """value[j, s, k]: the least largest load of downset j on at most k devices, degrees of at most s in sum.

    This fills the downsets first..last-1; those before must have been filled. Returns how many knapsacks were left
    undecided.
    """
    _, _, replicas, sync, degree = c
    sums, devices = value.shape[1] - 1, value.shape[2] - 1
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    undecided = 0
    for j in range(first, last):
        here = value[j]
        here[:, :] = np.inf
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            there = value[i]
            for tau in range(degree.shape[0]):
                base, weight, fastest, longest, start = stage_at(x, t, p, i, j, tau)
                if base == np.inf:
                    continue
                for n in range(replicas.shape[0]):
                    d = replicas[n]
                    wide = d * degree[tau]
                    if d > sums or wide > devices:
                        break
                    if x.only[tau] >= 0 and n != x.only[tau]:
                        continue
                    load, y = (base + sync[n] * weight) / d, 0
                    for s in range(d, sums + 1):
                        if y != (s + d - 1) // d:
                            y = (s + d - 1) // d
                            if y > longest:
                                break
                            if y > fastest:
                                e = start + y - fastest - 1
                                load = (base + sync[n] * weight + t.lower[e]) / d
                                if exact and load < here[s, wide] and t.lower[e] < t.upper[e]:
                                    undecided += not optimal_knapsack(x, t, i, j, t.row[p], tau, y, choice)
                                load = (base + sync[n] * weight + t.upper[e]) / d
                        for k in range(wide, devices + 1):
                            if load >= here[s, k]:
                                break  # it is no better with more devices either
                            here[s, k] = min(here[s, k], max(load, there[s - d, k - wide]))
        for s in range(1, sums + 1):
            for k in range(1, devices + 1):
                here[s, k] = min(here[s, k], here[s - 1, k], here[s, k - 1])
    return undecided
