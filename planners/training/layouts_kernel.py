"""Whole layouts under any order of passes: judged, and improved by moves of single units; for numba."""

from __future__ import annotations

from typing import Any

import numpy as np

# What a chunk's sums are: forward, inputs with recomputation, weights, stash, fullest moment, stash for weights.
SUMS = 6


def tail_seconds(
    forward: Any, backward: Any, usual: Any, experts: Any, update: Any, tail: Any, zero: int, share: float
) -> Any:
    """After a rank's last pass: what is left of sums of gradients and gathers of weights, and the update.

    For one rank, or for arrays of ranks: so there is no branch on what is sent.
    """
    there, also = usual > 0, experts > 0
    reduce = (tail[0, 0] * usual + tail[0, 2]) * there + (tail[1, 0] * experts + tail[1, 2]) * also
    gather = (tail[0, 1] * usual + tail[0, 2]) * there + (tail[1, 1] * experts + tail[1, 2]) * also
    seconds = update
    if zero <= 1:
        if zero == 0:
            reduce = 2 * reduce
        seconds = seconds + (reduce - np.minimum(share * reduce, backward))
    if zero == 1 or zero == 2:
        seconds = seconds + (gather - np.minimum(share * gather, forward))
    return seconds


def run_order(
    order: Any, homes: Any, chunks: Any, forward: Any, inputs: Any, weights: Any, delays: Any, m: int
) -> Any:
    """When each rank has run its last pass: passes run in each rank's order, as soon as what they wait for is there.

    `homes` has the rank of each chunk, `chunks` the chunks of each rank.
    """
    p, places = order.shape[0], order.shape[1]
    count = homes.shape[0]
    down = np.full((count, m), -1.0)
    up = np.full((count, m), -1.0)
    at = np.zeros(p, np.int64)
    free = np.zeros(p)
    left = p * places
    while left > 0:
        moved = False
        for r in range(p):
            while at[r] < places:
                kind, own, n = order[r, at[r], 0], order[r, at[r], 1], order[r, at[r], 2]
                j = chunks[r, own]
                start = free[r]
                if kind == 0:
                    if j > 0:
                        if down[j - 1, n] < 0:
                            break
                        start = max(start, down[j - 1, n] + delays[j - 1])
                    free[r] = start + forward[j]
                    down[j, n] = free[r]
                elif kind == 3:
                    free[r] = start + weights[j]
                else:
                    if j < count - 1:
                        if up[j + 1, n] < 0:
                            break
                        start = max(start, up[j + 1, n] + delays[j])
                    free[r] = start + inputs[j]
                    if kind == 1:
                        free[r] += weights[j]
                    up[j, n] = free[r]
                at[r] += 1
                left -= 1
                moved = True
        if not moved:
            break
    return free


def fullest(order: Any, chunks: Any, rank: int, stash: Any, top: Any, for_weights: Any) -> float:
    """The most that passes keep on a rank at once."""
    live, most = 0.0, 0.0
    for place in range(order.shape[1]):
        kind, j = order[rank, place, 0], chunks[rank, order[rank, place, 1]]
        if kind == 0:
            live += stash[j]
            most = max(most, live)
        elif kind == 3:
            live -= for_weights[j]
        else:
            most = max(most, live - stash[j] + top[j])
            live -= stash[j]
            if kind == 2:
                live += for_weights[j]
    return most


def judge(
    layout: Any,
    order: Any,
    homes: Any,
    chunks: Any,
    delays: Any,
    sums: Any,
    m: int,
    types: Any,
    standing: Any,
    gathered: Any,
    masks: Any,
    sent: Any,
    update: Any,
    tail: Any,
    zero: int,
    share: float,
    tied: bool,
    update_rates: Any,
    received: float,
    beside: float,
    limit: float,
) -> Any:
    """Time of a whole layout under any order (infinite where a rank is above the limit), and the bytes of each
    rank."""
    p, v, count = chunks.shape[0], chunks.shape[1], homes.shape[0]
    units = types.shape[0]
    borders = np.zeros(count + 1, np.int64)
    own = np.zeros((SUMS, count))
    for j in range(count):
        borders[j + 1] = borders[j] + layout[j]
        for s in range(SUMS):
            own[s, j] = sums[s, borders[j], borders[j + 1]]
    held, tails = np.zeros(p), np.zeros(p)
    for r in range(p):
        usual = experts = once = forward = backward = most = 0.0
        mask, ends = 0, 0
        held[r] = beside + fullest(order, chunks, r, own[3], own[4], own[5])
        if r > 0:
            held[r] += received
        for k in range(v):
            j = chunks[r, k]
            forward += own[0, j]
            backward += own[1, j] + own[2, j]
            for u in range(borders[j], borders[j + 1]):
                mask |= types[u]
                held[r] += standing[u]
                most = max(most, gathered[u])
                usual += sent[u, 0]
                experts += sent[u, 1]
                once += update[u]
                if u == 0 or u == units - 1:
                    ends += 1
        held[r] += masks[mask] + most
        if tied and ends == 2:
            usual -= sent[units - 1, 0]
            once -= sent[units - 1, 0] * update_rates[0]
        tails[r] = tail_seconds(forward, backward, usual, experts, once, tail, zero, share)
    if held[first_of_most(held)] > limit:
        return np.inf, held
    finished = run_order(order, homes, chunks, own[0], own[1], own[2], delays, m) + tails
    return finished[first_of_most(finished)], held


def first_of_most(values: Any) -> int:
    """The place of the largest value; numpy's own takes a second to compile."""
    place = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[place]:
            place = k
    return place


def climb(
    layout: Any,
    order: Any,
    homes: Any,
    chunks: Any,
    delays: Any,
    sums: Any,
    m: int,
    types: Any,
    standing: Any,
    gathered: Any,
    masks: Any,
    sent: Any,
    update: Any,
    tail: Any,
    zero: int,
    share: float,
    tied: bool,
    update_rates: Any,
    received: float,
    beside: float,
    limit: float,
    most_looks: int,
    enough: float,
) -> Any:
    """Move units from one chunk to another, those between give and take, as long as it is faster.

    A layout that does not fit is improved as long as its fullest rank holds less. Ends when the time is `enough`, or
    after so many looks: with none the layout is judged alone. Returns its time and each rank's bytes.
    """
    count = homes.shape[0]
    value, held = judge(
        layout, order, homes, chunks, delays, sums, m, types, standing, gathered, masks, sent, update, tail, zero,
        share, tied, update_rates, received, beside, limit,
    )  # fmt: skip
    fullest_rank, looks, better = first_of_most(held), 0, True
    while better and looks < most_looks and value > enough:
        better = False
        for giver in range(count):
            for taker in range(count):
                if giver == taker or layout[giver] <= 1 or looks >= most_looks:
                    continue
                # What does not fit can only be helped where most is held.
                if value == np.inf and (homes[giver] != fullest_rank or homes[taker] == fullest_rank):
                    continue
                looks += 1
                layout[giver] -= 1
                layout[taker] += 1
                seconds, held_then = judge(
                    layout, order, homes, chunks, delays, sums, m, types, standing, gathered, masks, sent, update,
                    tail, zero, share, tied, update_rates, received, beside, limit,
                )  # fmt: skip
                fullest_then = first_of_most(held_then)
                less_full = held_then[fullest_then] < held[fullest_rank]
                if seconds < value * (1 - 1e-12) or (value == np.inf and less_full):
                    value, held, fullest_rank, better = seconds, held_then, fullest_then, True
                else:
                    layout[giver] += 1
                    layout[taker] -= 1
    return value, held
