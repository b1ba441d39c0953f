"""The inner loops of the search for layouts under 1F1B, in the subset of Python that numba compiles.

A row of U units is cut into p stages. Tables speak of stage k with its units from `k + a` on, `n + 1` of them: every
stage has at least one unit, so that both `a` and `n` run from 0 to U - p, and their sum is at most that.
Tables of intervals, [sort, first, behind the last], have one entry for each sort of GPU; stage k is of `sorts[k]`.
`down[k]` is how long messages alone take from stage 0 to stage k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...instances.physics.tolerances import STEADY

INFINITE = np.inf
# Of more than LONG * LAG * p micro-batches those in the steady state are counted. The ends of a turn follow from those
# of the turn before by sums and maxima alone. So if all ends have moved by the same time since LAG * p turns ago, up to
# the share STEADY, they move by this time in as many turns again. That many turns have whole numbers of rounds of
# micro-batches that wait for each other along the pipeline, or along a part of it in most cases.
LAG, LONG = 12, 6


def simulate(first: Any, end: int, p: int, m: int, forward: Any, backward: Any, tails: Any, down: Any) -> Any:
    """When the stages from `first` to `end - 1` are done, if nothing before or after them makes them wait.

    Stage k runs min(m, p - k) forward passes, then one backward and one forward pass in turn. Returns the end of the
    last backward pass of `first`, and when the last tail is over.
    """
    free = np.zeros(end)
    sent = np.zeros(end)
    waves = np.zeros((end, min(m, p - first) + 1))
    for k in range(first, end):
        for n in range(min(m, p - k)):
            start = free[k]
            if k > first:
                start = max(start, waves[k - 1, n] + down[k] - down[k - 1])
            free[k] = start + forward[k]
            waves[k, n] = free[k]
            sent[k] = free[k]
    lag = LAG * p
    free_then, sent_then = np.zeros(end), np.zeros(end)
    n = 0
    while n < m:
        if n > 0:
            for k in range(end - 1, first - 1, -1):
                # The stage before sent this micro-batch in the turn before: so the last stage comes first.
                if n + min(m, p - k) - 1 < m:
                    start = free[k]
                    if k > first:
                        start = max(start, sent[k - 1] + down[k] - down[k - 1])
                    free[k] = start + forward[k]
        for k in range(first, end):
            sent[k] = free[k]
        arrived = 0.0
        for k in range(end - 1, first - 1, -1):
            start = free[k] if k == end - 1 else max(free[k], arrived + down[k + 1] - down[k])
            free[k] = start + backward[k]
            arrived = free[k]
        if n % lag == 0 and m > LONG * lag:
            more = (m - p - n - 1) // lag
            if n > lag and more > 0:
                # As the turns since then, so all turns until the first stage has no forward pass left.
                least, most = INFINITE, 0.0
                for k in range(first, end):
                    for passed in (free[k] - free_then[k], sent[k] - sent_then[k]):
                        least, most = min(least, passed), max(most, passed)
                if most - least <= STEADY * least:
                    for k in range(first, end):
                        free[k] += more * least
                        sent[k] += more * least
                    n += more * lag
            free_then[:], sent_then[:] = free, sent
        n += 1
    over = 0.0
    for k in range(first, end):
        over = max(over, free[k] + tails[k])
    return free[first], over


def makespan(layout: Any, p: int, m: int, sorts: Any, forward: Any, cheapest: Any, tail: Any, down: Any) -> Any:
    """Time of a whole layout; infinite where a stage does not fit."""
    forwards, backwards, tails = np.zeros(p), np.zeros(p), np.zeros(p)
    start = 0
    for k in range(p):
        stop = start + layout[k]
        forwards[k] = forward[sorts[k], start, stop]
        backwards[k] = cheapest[k, start - k, stop - start - 1]
        tails[k] = tail[sorts[k], start, stop]
        start = stop
        if backwards[k] == INFINITE:
            return INFINITE
    # Of a literal 0 numba would compile a second version.
    return simulate(np.int64(0), p, p, m, forwards, backwards, tails, down)[1]


def fitting_backward(p: int, sorts: Any, flights: Any, backward: Any, fixed: Any, stash: Any, limits: Any) -> Any:
    """For each stage and interval, seconds of its backward pass; infinite where it does not fit."""
    size = backward.shape[1] - p
    found = np.full((p, size, size), INFINITE)
    for k in range(p):
        s = sorts[k]
        for a in range(size):
            for n in range(size - a):
                i, j = k + a, k + a + n + 1
                if fixed[s, i, j] + flights[k] * stash[s, i, j] <= limits[k]:
                    found[k, a, n] = backward[s, i, j]
    return found


def least_forward(p: int, sorts: Any, forward: Any, cheapest: Any) -> Any:
    """The least sum of forward passes of the stages before a border, and of those behind it, of stages that fit."""
    units = forward.shape[1] - 1
    size = units + 1 - p
    if forward.shape[0] == 1:  # all layouts have the same
        before, behind = np.zeros((p + 1, size)), np.zeros((p + 1, size))
        for k in range(p + 1):
            for a in range(size):
                before[k, a], behind[k, a] = forward[0, 0, k + a], forward[0, k + a, units]
        return before, behind
    found = np.full((p, size, size), INFINITE)
    for k in range(p):
        for a in range(size):
            for n in range(size - a):
                if cheapest[k, a, n] < INFINITE:
                    found[k, a, n] = forward[sorts[k], k + a, k + a + n + 1]
    return least_sums(p, found)


def least_sums(p: int, cheapest: Any) -> Any:
    """The least sum of passes of the stages before a border, and of those behind it."""
    size = cheapest.shape[1]
    before, behind = np.full((p + 1, size), INFINITE), np.full((p + 1, size), INFINITE)
    before[0, 0] = 0.0
    for k in range(p):
        for a in range(size):
            if before[k, a] < INFINITE:
                for n in range(size - a):
                    before[k + 1, a + n] = min(before[k + 1, a + n], before[k, a] + cheapest[k, a, n])
    behind[p, size - 1] = 0.0
    for k in range(p - 1, -1, -1):
        for a in range(size):
            for n in range(size - a):
                behind[k, a] = min(behind[k, a], cheapest[k, a, n] + behind[k + 1, a + n])
    return before, behind


def stage_bound(
    k: int, i: int, j: int, b: float, p: int, m: int, sorts: Any, forward: Any, tail: Any, down: Any, least: Any
) -> Any:
    """No layout with this stage is faster: two paths through it.

    On the one it runs all its passes without a pause; on the other its first backward pass waits for the way down to
    the last stage and back. The first forward pass has to come down to it, and the last backward pass has to go up.
    """
    fore, aft, before, behind = least
    f = forward[sorts[k], i, j]
    come = fore[k, i - k] + down[k]
    flight = min(m, p - k)
    trip = f + aft[k + 1, j - k - 1] + behind[k + 1, j - k - 1] + 2 * (down[p - 1] - down[k])
    run = max(flight * f, trip) + m * b + (m - flight) * f
    leave = tail[sorts[k], i, j]
    if k > 0:
        leave = max(leave, before[k, i - k] + down[k] + tail[sorts[0], 0, 0])
    return come + run + leave


def bound_tables(p: int, m: int, sorts: Any, forward: Any, cheapest: Any, tail: Any, down: Any, least: Any) -> Any:
    """The least largest bound of the stages before each border, and which border comes before it."""
    size, behind = cheapest.shape[1], least[3]
    front = np.full((p + 1, size), INFINITE)
    last = np.full((p + 1, size), -1)
    front[0, 0] = 0.0
    for k in range(p):
        for a in range(size):
            if front[k, a] == INFINITE:
                continue
            for n in range(size - a):
                if cheapest[k, a, n] == INFINITE or behind[k + 1, a + n] == INFINITE:
                    continue
                i, j = k + a, k + a + n + 1
                own = stage_bound(k, i, j, cheapest[k, a, n], p, m, sorts, forward, tail, down, least)
                own = max(own, front[k, a])
                if own < front[k + 1, a + n]:
                    front[k + 1, a + n] = own
                    last[k + 1, a + n] = a
    return front, last


def layout_of(p: int, last: Any) -> Any:
    """The layout that the table of borders leads to."""
    layout = np.zeros(p, np.int64)
    a = last.shape[1] - 1
    for k in range(p, 0, -1):
        before = last[k, a]
        layout[k - 1] = a - before + 1
        a = before
    return layout


def chain_bound(p: int, m: int, total: float, down: Any) -> Any:
    """Micro-batches that wait for each other along the whole pipeline, whatever the layout is.

    A backward pass of stage 0 lets a forward pass begin whose own backward pass comes p micro-batches later; what is
    left of the micro-batches goes around among fewer stages that follow each other.
    """
    whole = total + 2 * down[p - 1]
    rounds, rest = (m - 1) // p, (m - 1) % p
    bound = whole * (1 + rounds)
    if rounds > 0 and rest > 0:
        bound += total / -(-p // rest)
    return bound


def branch(p: int, m: int, tables: Any, layout: Any, value: float, tolerance: float, most_nodes: int) -> Any:
    """Layouts from the last stage to the first, each set of last stages simulated alone; `layout` keeps the best.

    `tables` are those of `plan_row`. A set of last stages is discarded where no way to complete it is better than the
    best by the tolerance. Returns the value, a bound for all layouts, and how many sets were looked at.
    """
    sorts, forward, cheapest, tail, down, (fore, _, before, _), _ = tables
    size = cheapest.shape[1]
    order = np.zeros((p, size), np.int64)
    bounds = np.full((p, size), INFINITE)
    upto = np.zeros(p, np.int64)
    place = np.zeros(p, np.int64)
    borders = np.zeros(p + 1, np.int64)
    borders[p] = size - 1
    forwards, backwards, tails = np.zeros(p), np.zeros(p), np.zeros(p)
    above = np.zeros(p + 1)
    discarded, nodes, k = INFINITE, 0, p - 1
    opened = True
    while k < p:
        if opened:
            upto[k] = _children(k, borders[k + 1], p, m, tables, bounds, order)
            place[k] = 0
            opened = False
        if place[k] == upto[k]:
            k += 1
            continue
        a = order[k, place[k]]
        bound = max(bounds[k, a], above[k + 1])
        if bound >= value * (1 - tolerance):
            discarded = min(discarded, bound)
            place[k] = upto[k]
            continue
        if nodes >= most_nodes:
            for level in range(k, p):
                if place[level] < upto[level]:
                    rest = max(bounds[level, order[level, place[level]]], above[level + 1])
                    discarded = min(discarded, rest)
            break
        nodes += 1
        place[k] += 1
        i, j = k + a, k + 1 + borders[k + 1]
        forwards[k], tails[k] = forward[sorts[k], i, j], tail[sorts[k], i, j]
        backwards[k] = cheapest[k, a, j - i - 1]
        end, over = simulate(k, p, p, m, forwards, backwards, tails, down)
        come = fore[k, a] + down[k]
        bound = max(bound, come + over)
        if k > 0:
            bound = max(bound, come + end + before[k, a] + down[k] + tail[sorts[0], 0, 0])
        borders[k] = a
        if k == 0:
            if over < value:
                value = over
                for n in range(p):
                    layout[n] = borders[n + 1] - borders[n] + 1
        elif bound >= value * (1 - tolerance):
            discarded = min(discarded, bound)
        else:
            above[k] = bound
            k -= 1
            opened = True
    return value, min(value, discarded), nodes


def _children(k: int, end: int, p: int, m: int, tables: Any, bounds: Any, order: Any) -> int:
    """Where stage k can begin if it ends at this border: the smallest bound first."""
    sorts, forward, cheapest, tail, down, least, front = tables
    count = 0
    for a in range(end + 1):
        if front[k, a] == INFINITE or cheapest[k, a, end - a] == INFINITE:
            continue
        i, j = k + a, k + 1 + end
        own = stage_bound(k, i, j, cheapest[k, a, end - a], p, m, sorts, forward, tail, down, least)
        bounds[k, a] = max(own, front[k, a])
        order[k, count] = a
        count += 1
    for n in range(1, count):
        a, at = order[k, n], n
        while at > 0 and bounds[k, order[k, at - 1]] > bounds[k, a]:
            order[k, at] = order[k, at - 1]
            at -= 1
        order[k, at] = a
    return count


def plan_row(
    p: int, m: int, intervals: Any, sorts: Any, down: Any, flights: Any, limits: Any, cutoff: float, tolerance: float,
    most_nodes: int,
) -> Any:  # fmt: skip
    """The best layout below the cut-off: its value (infinite: there is none), a bound, the layout, and nodes.

    Only a bound is sought where `most_nodes` is negative, and a first layout where it is 0. The bound is infinite
    where no layout fits at all.
    """
    forward, backward, fixed, stash, given_tail = intervals
    layout = np.zeros(p, np.int64)
    tail, s = given_tail.copy(), sorts[0]
    tail[s, 0, 0] = tail[s, 0, 1]
    for n in range(2, tail.shape[2]):  # whatever stage 0 is, its tail is no shorter
        tail[s, 0, 0] = min(tail[s, 0, 0], tail[s, 0, n])
    cheapest = fitting_backward(p, sorts, flights, backward, fixed, stash, limits)
    fore, aft = least_forward(p, sorts, forward, cheapest)
    before, behind = least_sums(p, cheapest)
    if behind[0, 0] == INFINITE:
        return INFINITE, INFINITE, layout, 0
    least = fore, aft, before, behind
    front, last = bound_tables(p, m, sorts, forward, cheapest, tail, down, least)
    units = forward.shape[1] - 1
    bound = max(front[p, units - p], chain_bound(p, m, aft[0, 0] + behind[0, 0], down) + tail[s, 0, 0])
    if most_nodes < 0 or bound >= cutoff:
        return INFINITE, bound, layout, 0
    candidate = layout_of(p, last)
    value = makespan(candidate, p, m, sorts, forward, cheapest, tail, down)
    nodes = 0
    if bound < value * (1 - tolerance) and bound < cutoff and most_nodes > 0:
        ceiling = min(value, cutoff)
        tables = sorts, forward, cheapest, tail, down, least, front
        reached, proven, nodes = branch(p, m, tables, candidate, ceiling, tolerance, most_nodes)
        bound = max(bound, proven)
        value = reached if reached < ceiling else value
    return value, min(bound, value), candidate, nodes
