"""Lower bounds on the throughput optimum that need no solver, and what a cut-off implies for single groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...instances.physics.tolerances import SAFETY
from ...instances.placement.problem import Node, PlacementProblem
from ..contract import FLOAT_ROOM
from .groups import GroupProblem


def average_load_bound(groups: GroupProblem) -> float:
    """No plan has a smaller load: all devices together must take all the work.

    If every load is at most T, groups with more work than T are on CPUs, as are those that no accelerator supports.
    The accelerators do at most k T of the other work, and the CPUs relieve them of at most what a fractional knapsack
    holds, with the part of their l T that is left (groups with more CPU time than T fit on none). The smallest T that
    passes this test is found by bisection; transfers only add. With two load parts the sum of the parts' maxima is
    at least the largest total load.

    All that is compared has a margin, and costs above T are in no sum, so that a rounded sum never refutes a plan.
    """
    works, cpus = groups.total_times, groups.total_cpu_times
    by_relief = sorted(range(groups.count), key=lambda g: cpus[g] / works[g] if works[g] else math.inf)
    low, high = 0.0, math.fsum(works) + math.fsum(cpus) + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if _work_fits(groups, middle, by_relief):
            high = middle
        else:
            low = middle
    return max(low, _largest_group_bound(groups)) * (1 - SAFETY)


def _work_fits(groups: GroupProblem, limit: float, by_relief: Sequence[int]) -> bool:
    """Can all devices together do the work with loads of at most `limit`?

    `by_relief`: groups in the order of what a unit of CPU time relieves accelerators of, the most first.
    """
    work = 0.0
    capacity = groups.cpus * limit * (1 + SAFETY)
    choices = []
    for g in by_relief:
        slow = cpu_allowed(groups, g, limit)
        if not accelerator_allowed(groups, g, limit):
            if not slow:
                return False
            capacity -= groups.total_cpu_times[g]
            continue
        work += groups.total_times[g]
        if slow:
            choices.append(g)
    if capacity < 0:
        return False
    room = groups.accelerators * limit + SAFETY * (work + groups.accelerators * limit)
    for g in choices:
        if work <= room:
            break
        cpu = groups.total_cpu_times[g]
        if cpu > capacity:
            work -= groups.total_times[g] * capacity / cpu
            break
        capacity -= cpu
        work -= groups.total_times[g]
    return work <= room


def _largest_group_bound(groups: GroupProblem) -> float:
    """Bound by the largest group: the device that takes it needs at least the group's smaller time."""
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


def worst_value(problem: PlacementProblem) -> float:
    """No split costs more than all work where it takes longest, and every transfer paid in and out; with room for
    float solvers, for a split may cost just that."""

    def worst(node: Node) -> float:
        fast = node.accelerator_time if problem.accelerators and node.supported else 0.0
        return max(fast, node.cpu_time if problem.cpus else 0.0) + 2 * node.transfer_time

    return math.fsum(map(worst, problem.nodes)) * (1 + FLOAT_ROOM) or 1.0
