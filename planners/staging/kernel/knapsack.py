"""The knapsack of one stage, solved by branching as far as a decision needs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....instances.physics.tolerances import BETTER
from .arrays import Layers, Table
from .options import fastest_stage, held_layers, new_scratch, options_of
from .steps import chains, next_step

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
