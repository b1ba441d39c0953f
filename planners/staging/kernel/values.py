"""Least largest loads of all downsets, for every number of devices and every sum of degrees."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Cluster, Layers, Table
from .knapsack import optimal_knapsack
from .quick import stage_at


def fill_values(x: Layers, t: Table, c: Cluster, exact: bool, first: int, last: int, value: Any) -> int:
    """value[j, s, k]: the least largest load of downset j on at most k devices, degrees of at most s in sum.

    For the downsets first..last-1, those before being filled. Returns how many knapsacks were left undecided.
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
