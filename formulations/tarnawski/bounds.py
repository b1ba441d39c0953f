"""Lower bounds on the throughput optimum that need no solver, and what a cut-off implies for single groups."""

from __future__ import annotations

import math

from .groups import GroupProblem

SAFETY = 1e-9
"""Relative allowance for rounding in sums of floats: bounds are lowered, refutations need this margin."""


def average_load_bound(groups: GroupProblem) -> float:
    """No plan has a smaller load: all devices together must take all the work.

    If every load is at most T, the accelerators do at most k T of the work and the CPUs, whose own time is at
    most l T in total, relieve them of at most what a fractional knapsack of capacity l T holds (groups with
    more CPU time than T fit on none). The smallest T that passes this test is found by bisection;
    transfers only add. With two load parts the sum of the parts' maxima is at least the largest total load.
    """
    low, high = 0.0, math.fsum(groups.total_times) + math.fsum(groups.total_cpu_times) + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if _work_fits(groups, middle):
            high = middle
        else:
            low = middle
    return max(low, _largest_group_bound(groups)) * (1 - SAFETY)


def _work_fits(groups: GroupProblem, limit: float) -> bool:
    return math.fsum(groups.total_times) - cpu_relief(groups, limit) <= groups.accelerators * limit


def cpu_relief(groups: GroupProblem, limit: float) -> float:
    """The most accelerator work that the CPUs can take over if each CPU's load is at most `limit`."""
    capacity = groups.cpus * limit
    relief = 0.0
    candidates = [
        (work, cpu) for work, cpu in zip(groups.total_times, groups.total_cpu_times, strict=True) if cpu <= limit
    ]
    if groups.cpus == 0:
        return 0.0
    for work, cpu in sorted(candidates, key=lambda pair: -(pair[0] / pair[1] if pair[1] else math.inf)):
        if cpu <= capacity:
            capacity -= cpu
            relief += work
        else:
            return relief + work * capacity / cpu
    return relief


def _largest_group_bound(groups: GroupProblem) -> float:
    """Some device takes the group: at least its smaller time."""
    least = 0.0
    for g in range(groups.count):
        choices = []
        if groups.supported[g]:
            choices.append(groups.total_times[g])
        if groups.cpus:
            choices.append(groups.total_cpu_times[g])
        least = max(least, min(choices, default=0.0))
    return least


def accelerator_allowed(groups: GroupProblem, g: int, cutoff: float) -> bool:
    """May group g be on an accelerator in a plan of value at most `cutoff`?"""
    return groups.supported[g] and groups.total_times[g] <= cutoff * (1 + SAFETY)


def cpu_allowed(groups: GroupProblem, g: int, cutoff: float) -> bool:
    """May group g be on a CPU in a plan of value at most `cutoff`?"""
    return groups.cpus > 0 and groups.total_cpu_times[g] <= cutoff * (1 + SAFETY)
