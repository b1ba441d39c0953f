"""The knapsack of one stage, solved by branching as far as a decision needs it, and the decisions themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....instances.physics.tolerances import BETTER
from .stages import (
    TIME,
    TIME_REST,
    WEIGHT,
    WEIGHT_REST,
    Cluster,
    Layers,
    Table,
    chains,
    fastest_stage,
    held_layers,
    new_scratch,
    next_step,
    options_of,
    passing_tables,
    quick_last,
    stage_at,
)

# Branches of one knapsack; beyond them it is left undecided.
MAX_BRANCHES = 300_000


# Relative: costs that differ by no more than this differ only by rounding.
ALIKE = 1e-14


def settle_knapsack(
    x: Layers, t: Table, i: int, j: int, r: int, tau: int, y: int, budget: float, choice: Any
) -> int:
    """Solve the knapsack of a stage as far as the budget asks for it, and note what was learned."""
    e = t.extra_start[r, tau] + y - t.fastest[r, tau] - 1
    answer, extra = exact_knapsack(x, i, j, tau, y, budget, choice)
    if answer == 0:
        t.lower[e] = np.nextafter(budget, np.inf)
    elif answer > 0:
        t.upper[e] = extra
    return answer


def optimal_knapsack(x: Layers, t: Table, i: int, j: int, r: int, tau: int, y: int, choice: Any) -> bool:
    """Close the knapsack of a stage; False where that takes too many branches."""
    e = t.extra_start[r, tau] + y - t.fastest[r, tau] - 1
    while t.lower[e] < t.upper[e]:
        budget = np.nextafter(t.upper[e] * (1 - BETTER), -np.inf)
        answer, extra = exact_knapsack(x, i, j, tau, y, budget, choice)
        if answer < 0:
            return False
        if answer == 0:
            t.lower[e] = t.upper[e]
        else:
            t.upper[e] = extra
    return True


def exact_knapsack(x: Layers, i: int, j: int, tau: int, y: int, budget: float, choice: Any) -> tuple[int, float]:
    """Is there a choice of options for the stage from downset i to j, y in flight, with no more extra time?

    1 and its extra time, with `choice` filled by layer; 0: none; -1: too many branches. Depth first, layers with
    the best savings per time first; a branch is left when even fractions of the remaining steps cost too much,
    and it ends when the greedy completion is good enough: with an infinite budget that is the greedy choice. Of layers
    that are alike the first saves the most: no other order is better.
    """
    layers = x.edge_start.shape[0] - 1
    mask = np.empty(x.bits.shape[1], dtype=np.uint64)
    for w in range(mask.shape[0]):
        mask[w] = x.bits[j, w] & ~x.bits[i, w]
    held = np.empty(layers, dtype=np.int64)
    count = held_layers(mask, layers, held)
    cost = np.empty(x.time.shape[0])
    options_of(x, mask, held, count, tau, cost)
    scratch = new_scratch(x, layers)
    fastest_stage(x, held, count, tau, cost, scratch)
    fast = scratch.fast
    need = -x.memory[tau]
    for h in range(count):
        need += x.per_batch[fast[h]] * y + x.fixed[fast[h]]
        choice[held[h]] = fast[h]
    steps, layer_of = chains(x, held, count, tau, cost, y, scratch)
    _, _, drop, rise, order = scratch
    rank, in_rank, ranked = ranks(count, steps, order, layer_of)
    twin = twins(x, held, tau, cost, in_rank, ranked, fast)
    # Per depth: which option is tried, what is still to be saved and may still be spent.
    trying = np.full(ranked + 1, -1, dtype=np.int64)
    needs = np.empty(ranked + 1)
    budgets = np.empty(ranked + 1)
    saving = np.zeros(ranked + 1)
    spent_before = np.zeros(ranked + 1)
    needs[0], budgets[0] = need, budget
    depth, branches = 0, 0
    while depth >= 0:
        if trying[depth] < 0:
            branches += 1
            if branches > MAX_BRANCHES:
                return -1, 0.0
            fits, spent = complete(depth, needs[depth], budgets[depth], steps, order, layer_of, rank, drop, rise)
            if fits == 1:
                take_greedy(x, held, tau, cost, y, depth, needs[depth], steps, order, layer_of, rank, drop, choice)
                return 1, spent_before[depth] + spent
            if fits < 0 or depth == ranked:
                depth -= 1
                continue
            trying[depth] = x.option_start[tau, held[in_rank[depth]]]
        h = in_rank[depth]
        v = held[h]
        o = trying[depth]
        if o >= x.option_start[tau, v + 1]:
            trying[depth] = -1
            choice[v] = fast[h]
            depth -= 1
            continue
        trying[depth] = o + 1
        saved = (x.per_batch[fast[h]] - x.per_batch[o]) * y + x.fixed[fast[h]] - x.fixed[o]
        extra = cost[o] - cost[fast[h]]
        if (o != fast[h] and saved <= 0.0) or extra > budgets[depth]:
            continue
        if twin[depth] >= 0 and saved > saving[twin[depth]]:
            continue
        choice[v] = o
        saving[depth] = saved
        needs[depth + 1] = needs[depth] - saved
        budgets[depth + 1] = budgets[depth] - extra
        spent_before[depth + 1] = spent_before[depth] + extra
        trying[depth + 1] = -1
        depth += 1
    return 0, 0.0


def ranks(count: int, steps: int, order: Any, layer_of: Any) -> tuple[Any, Any, int]:
    """Layers by their first step; those without any are left out (rank -1)."""
    rank = np.full(count, -1, dtype=np.int64)
    in_rank = np.empty(count, dtype=np.int64)
    ranked = 0
    for a in range(steps):
        h = layer_of[order[a]]
        if rank[h] < 0:
            rank[h], in_rank[ranked] = ranked, h
            ranked += 1
    return rank, in_rank, ranked


def twins(x: Layers, held: Any, tau: int, cost: Any, in_rank: Any, ranked: int, fast: Any) -> Any:
    """For each layer by rank the last one before it that need not save less than it does; -1: there is none.

    Two options that save the same in both layers: the earlier one saves it at no higher cost. More options: they have
    to be the same in memory and in what they cost more than the fastest.
    """
    twin = np.full(ranked + 1, -1, dtype=np.int64)
    for r in range(1, ranked):
        h = in_rank[r]
        b, count = x.option_start[tau, held[h]], x.option_start[tau, held[h] + 1] - x.option_start[tau, held[h]]
        for q in range(r - 1, -1, -1):
            g = in_rank[q]
            a = x.option_start[tau, held[g]]
            alike = x.option_start[tau, held[g] + 1] - a == count and fast[g] - a == fast[h] - b
            for o in range(count):
                if not alike:
                    break
                alike = x.per_batch[a + o] == x.per_batch[b + o] and x.fixed[a + o] == x.fixed[b + o]
                apart = (cost[a + o] - cost[fast[g]]) - (cost[b + o] - cost[fast[h]])
                alike = alike and ((count == 2 and apart <= 0.0) or abs(apart) <= ALIKE * cost[b + o])
            if alike:
                twin[r] = q
                break
    return twin


def complete(
    depth: int, need: float, budget: float, steps: int, order: Any, layer_of: Any, rank: Any, drop: Any, rise: Any
) -> tuple[int, float]:
    """The layers from `depth` on: 1 where the greedy steps fit the budget, -1 where not even fractions do, else 0."""
    spent = 0.0
    for a in range(steps):
        if need <= 0.0:
            break
        s = order[a]
        if rank[layer_of[s]] < depth:
            continue
        if drop[s] >= need:
            if spent + rise[s] * (need / drop[s]) > budget:
                return -1, 0.0
            spent += rise[s]
            need = 0.0
        else:
            spent += rise[s]
            need -= drop[s]
    if need > 0.0:
        return -1, 0.0
    return (1, spent) if spent <= budget else (0, 0.0)


def take_greedy(
    x: Layers, held: Any, tau: int, cost: Any, y: int, depth: int, need: float,
    steps: int, order: Any, layer_of: Any, rank: Any, drop: Any, choice: Any,
) -> None:  # fmt: skip
    """Fill `choice` with the greedy steps of the layers from `depth` on."""
    for a in range(steps):
        if need <= 0.0:
            break
        s = order[a]
        if rank[layer_of[s]] >= depth:
            v = held[layer_of[s]]
            choice[v] = next_step(x, v, choice[v], tau, cost, y)[0]
            need -= drop[s]


# ---- Decisions about a limit: can everything be placed so that no load exceeds it? --------------------------------
# Decisions about a limit: can everything be placed so that no load exceeds it?


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
