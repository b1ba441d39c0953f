"""The loops of the search for configurations, in the subset of Python that numba compiles.

Layouts under any order of passes: judged, improved by moves of single units, and the longest paths through their
passes. Loads: bounds by what ranks hold and do in all, whichever of their chunks it is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...instances.physics.tolerances import STEADY

# Micro-batches for each rank whose passes must have one pace; every order looks back fewer.
WINDOW = 8

# What a chunk's sums are: forward, inputs with recomputation, weights, stash, fullest moment, stash for weights.
SUMS = 6


def tail_seconds(
    forward: Any, backward: Any, usual: Any, experts: Any, update: Any, tail: Any, zero: int, shares: Any
) -> Any:
    """After a rank's last pass: what is left of sums of gradients and gathers of weights, and the update.

    They are hidden behind `backward` of the rank's first chunk and behind `forward`, which has no end where the rank
    has several chunks.

    For one rank, or for arrays of ranks: so there is no branch on what is sent.
    """
    there, also = usual > 0, experts > 0
    reduce = (tail[0, 0] * usual + tail[0, 2]) * there + (tail[1, 0] * experts + tail[1, 2]) * also
    gather = (tail[0, 1] * usual + tail[0, 2]) * there + (tail[1, 1] * experts + tail[1, 2]) * also
    seconds = update
    if zero <= 1:
        if zero == 0:
            reduce = 2 * reduce
        seconds = seconds + (reduce - np.minimum(shares[0] * reduce, backward))
    if zero == 1 or zero == 2:
        seconds = seconds + (gather - np.minimum(shares[1] * gather, forward))
    return seconds


def run_passes(
    loop: Any, m: int, forward: Any, inputs: Any, weights: Any, delays: Any, before: Any, by_message: Any
) -> Any:
    """Passes run in each rank's order, as soon as what they wait for is there: when each micro-batch has come down and
    up through each chunk, and when each rank has run its last pass.

    `loop` has the order of each rank's passes, the rank of each chunk and the chunks of each rank. `before` and
    `by_message` are filled, unless they are empty: for each pass, those of rank 0 first, the pass for which it waited
    longest, and whether its message was what it waited for.
    """
    order, homes, chunks = loop
    p, places = order.shape[0], order.shape[1]
    count, noting = homes.shape[0], before.shape[0] > 0
    down, up = np.full((count, m), -1.0), np.full((count, m), -1.0)
    down_pass, up_pass = np.zeros((count, m), np.int64), np.zeros((count, m), np.int64)
    at, free = np.zeros(p, np.int64), np.zeros(p)
    left = p * places
    while left > 0:
        moved = False
        for r in range(p):
            while at[r] < places:
                kind, own, n = order[r, at[r], 0], order[r, at[r], 1], order[r, at[r], 2]
                j, number, start, waited, message = chunks[r, own], r * places + at[r], free[r], -1, False
                if at[r] > 0:
                    waited = number - 1
                if kind == 0 and j > 0:
                    if down[j - 1, n] < 0:
                        break
                    if down[j - 1, n] + delays[j - 1] > start:
                        start, waited, message = down[j - 1, n] + delays[j - 1], down_pass[j - 1, n], True
                if (kind == 1 or kind == 2) and j < count - 1:
                    if up[j + 1, n] < 0:
                        break
                    if up[j + 1, n] + delays[j] > start:
                        start, waited, message = up[j + 1, n] + delays[j], up_pass[j + 1, n], True
                if kind == 0:
                    free[r] = start + forward[j]
                    down[j, n], down_pass[j, n] = free[r], number
                elif kind == 3:
                    free[r] = start + weights[j]
                else:
                    free[r] = start + inputs[j]
                    if kind == 1:
                        free[r] += weights[j]
                    up[j, n], up_pass[j, n] = free[r], number
                if noting:
                    before[number], by_message[number] = waited, message
                at[r] += 1
                left -= 1
                moved = True
        if not moved:
            break
    return down, up, free


def run_order(loop: Any, counts: Any, forward: Any, inputs: Any, weights: Any, delays: Any) -> Any:
    """When each rank has run its last pass.

    `counts` says that the order is that of m micro-batches, that `more` times `lag` others are counted, and whether all
    forward passes come first. Says as well whether the passes are in the steady state, so that the time holds; where
    they are not, it is too short at most.
    """
    m, more, lag, apart = counts
    if apart and more > 0:
        return all_forward_first(forward, inputs + weights, delays, m + more * lag), True
    before, by_message = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    down, up, free = run_passes(loop, m, forward, inputs, weights, delays, before, by_message)
    if more == 0:
        return free, True
    # By how much passes end later than those `lag` micro-batches before, in a window as long as what later passes
    # wait for, and as far from the last micro-batch, before which the steady state ends.
    window, least, most = WINDOW * free.shape[0], np.inf, 0.0
    for j in range(down.shape[0]):
        for n in range(m - 2 * window, m - window):
            for moved in (down[j, n] - down[j, n - lag], up[j, n] - up[j, n - lag]):
                least, most = min(least, moved), max(most, moved)
    return free + more * least, most - least <= STEADY * least


def longest_path(loop: Any, forward: Any, inputs: Any, weights: Any, delays: Any, tails: Any, m: int) -> Any:
    """Seconds, and the rank on which the path ends, and [(forward, inputs, weights, message), chunk]: how often the
    path has each. The message of a chunk is the one between it and the next chunk, down or up."""
    order, homes, chunks = loop
    p, places = order.shape[0], order.shape[1]
    before, by_message = np.zeros(p * places, np.int64), np.zeros(p * places, np.bool_)
    _, _, free = run_passes(loop, m, forward, inputs, weights, delays, before, by_message)
    last = 0
    for r in range(1, p):
        if free[r] + tails[r] > free[last] + tails[last]:
            last = r
    counts = np.zeros((4, homes.shape[0]))
    number = last * places + places - 1
    while number >= 0:
        r, place = number // places, number % places
        kind, j = order[r, place, 0], chunks[r, order[r, place, 1]]
        if kind == 0:
            counts[0, j] += 1
        if kind == 1 or kind == 2:
            counts[1, j] += 1
        if kind == 1 or kind == 3:
            counts[2, j] += 1
        if by_message[number]:
            counts[3, j - 1 if kind == 0 else j] += 1
        number = before[number]
    return free[last] + tails[last], last, counts


def all_forward_first(forward: Any, backward: Any, delays: Any, m: int) -> Any:
    """When each rank has run its last pass, where the backward passes come after all forward passes. Nothing waits for
    a later rank but the first backward pass, so that stages in a row take turns as long as their longest pass."""
    p = forward.shape[0]
    over, free = np.zeros(p), np.zeros(p)
    way = longest = 0.0
    for k in range(p):
        way, longest = way + forward[k] + (delays[k - 1] if k > 0 else 0.0), max(longest, forward[k])
        over[k] = way + (m - 1) * longest
    for last in range(p):
        way = longest = 0.0
        for k in range(last, -1, -1):
            way, longest = way + backward[k] + (delays[k] if k < last else 0.0), max(longest, backward[k])
            free[k] = max(free[k], over[last] + way + (m - 1) * longest)
    return free


def fullest(order: Any, chunks: Any, rank: int, stash: Any, top: Any, for_weights: Any, kept_besides: int) -> float:
    """The most that passes keep on a rank at once; so many micro-batches besides those of the order are kept."""
    live = kept_besides * stash[chunks[rank, 0]]
    most = live
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
    return float(most)


def judge(layout: Any, loop: Any, counts: Any, delays: Any, sums: Any, facts: Any, limit: float) -> Any:
    """Time of a whole layout under any order (infinite where a rank is above the limit), the bytes of each rank, and
    whether the time holds, as in `run_order`. `facts` are those of `LayoutEvaluator`."""
    order, homes, chunks = loop
    _, more, lag, apart = counts
    types, standing, gathered, masks, sent, update, tail, zero, shares, tied, update_rates, received, beside = facts
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
        usual = experts = once = most = 0.0
        mask, ends, first = 0, 0, chunks[r, 0]
        forward, backward = own[0, first] if v == 1 else np.inf, own[1, first] + own[2, first]
        held[r] = beside + fullest(order, chunks, r, own[3], own[4], own[5], more * lag if apart else 0)
        if r > 0:
            held[r] += received
        for k in range(v):
            j = chunks[r, k]
            for u in range(borders[j], borders[j + 1]):
                mask |= types[u]
                held[r] += standing[u]
                most = max(most, gathered[u])
                usual += sent[u, 0]
                experts += sent[u, 1]
                once += update[u]
                if u == tied or u == units - 1:
                    ends += 1
        held[r] += masks[mask] + most
        if tied >= 0 and ends == 2:
            usual -= sent[units - 1, 0]
            once -= sent[units - 1, 0] * update_rates[0]
        tails[r] = tail_seconds(forward, backward, usual, experts, once, tail, zero, shares)
    if held[first_of_most(held)] > limit:
        return np.inf, held, True
    finished, steady = run_order(loop, counts, own[0], own[1], own[2], delays)
    finished = finished + tails
    return finished[first_of_most(finished)], held, steady


def first_of_most(values: Any) -> int:
    """The place of the largest value; numpy's own takes a second to compile."""
    place = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[place]:
            place = k
    return place


def climb(
    layout: Any,
    loop: Any,
    counts: Any,
    delays: Any,
    sums: Any,
    facts: Any,
    limit: float,
    most_looks: int,
    enough: float,
) -> Any:
    """Move units from one chunk to another, those between give and take, as long as it is faster.

    A layout that does not fit is improved as long as its fullest rank holds less. Ends when the time is `enough`, or
    after so many looks: with none the layout is judged alone. Returns its time, each rank's bytes, and whether all
    times hold that were compared, as in `run_order`.
    """
    homes = loop[1]
    count = homes.shape[0]
    value, held, steady = judge(layout, loop, counts, delays, sums, facts, limit)
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
                seconds, held_then, steady_then = judge(layout, loop, counts, delays, sums, facts, limit)
                steady = steady and steady_then
                fullest_then = first_of_most(held_then)
                less_full = held_then[fullest_then] < held[fullest_rank]
                if seconds < value * (1 - 1e-12) or (value == np.inf and less_full):
                    value, held, fullest_rank, better = seconds, held_then, fullest_then, True
                else:
                    layout[giver] += 1
                    layout[taker] -= 1
    return value, held, steady


# ---- Bounds by what ranks hold and do in all, whichever of their chunks it is in; for numba.


def room(states: Any, state: int, most: int, seconds: float, m: int, r: int, ranks: Any, units_: Any) -> int:
    """Number of units of the major type that rank r takes besides its minor ones; -1 where not even these fit.

    `ranks` has for each rank its ramp, seconds and bytes of the ends that are there, both tables of `in_flight`, the
    least number of layers that compute again, how many units of each group can come to it at all, and how many it has
    at least. `units_` has seconds and bytes of a unit of each group, the major one first (of bytes there are two, as of
    the ends: what stands, and one stash), the smallest stash and the limit, and of layers that compute again the
    seconds, the bytes that each of them saves in a stash, and their greatest number. As few compute again as memory
    asks for, those first that take least.
    """
    ramps, ends_seconds, ends_bytes, all_together, all_each, least_agains, all_caps, least = ranks
    unit_seconds, unit_bytes, low_stash, limit, again, saved, most_again = units_
    together, each, caps, least_units = all_together[r], all_each[r], all_caps[r], least[r]
    for k in range(states.shape[1]):
        if states[state, k] > caps[k + 1]:
            return -1
    busy, standing, stash, units, low = ends_seconds[r], ends_bytes[r, 0], ends_bytes[r, 1], 0, np.inf
    for k in range(states.shape[1]):
        busy += states[state, k] * unit_seconds[k + 1]
        standing += states[state, k] * unit_bytes[k + 1, 0]
        stash += states[state, k] * unit_bytes[k + 1, 1]
        units += states[state, k]
        if states[state, k] > 0:
            low = min(low, unit_bytes[k + 1, 1])
    top, spare = min(most, caps[0]), np.inf
    if unit_seconds[0] > 0:  # more units take too long even if nothing is computed again
        spare = ((seconds - ramps[r]) / m - busy) / unit_seconds[0] + 1
    if spare < top:
        top = int(max(spare, -1.0))
    for n in range(top, max(-1, least_units - units - 1), -1):
        count = n + units
        more = together[count] - count * each[count]
        need = standing + n * unit_bytes[0, 0] + each[count] * (stash + n * unit_bytes[0, 1]) - limit
        repeated = min(least_agains[r], count)
        floor = 0.0
        if count > 0:
            floor = more * (min(low, unit_bytes[0, 1]) if n > 0 else low)
        if repeated > 0 or need + floor > 0:
            if most_again == 0:
                continue
            less = each[count] * saved
            need += more * low_stash
            repeated = max(repeated, 1)
            if need > repeated * less:
                if less <= 0:
                    continue
                repeated = int(np.ceil(need / less - 1e-9))
            if repeated > most_again or repeated > count:
                continue
        if m * (busy + n * unit_seconds[0] + least_sum(repeated, again, n, states[state])) + ramps[r] <= seconds:
            return n
    return -1


def least_sum(count: int, each: Any, majors: int, minors: Any) -> float:
    """The least that so many units take together, of so many of each group; the major one comes first."""
    total, beyond = 0.0, -np.inf
    while count > 0:
        # The next dearer group; those that are alike are taken together.
        cheapest, there = np.inf, 0
        for k in range(each.shape[0]):
            if each[k] <= beyond or each[k] > cheapest:
                continue
            if each[k] < cheapest:
                cheapest, there = each[k], 0
            there += majors if k == 0 else minors[k - 1]
        if cheapest == np.inf:
            break
        taken = min(count, there)
        total += taken * cheapest
        count -= taken
        beyond = cheapest
    return total


def divides(p: int, table: Any, seconds: float, m: int, ranks: Any, units: Any, counts: Any) -> bool:
    """Can all units be divided so that each rank is done in time? `counts` then says how: [rank, (state, majors)]."""
    states, steps, majors = table
    size = states.shape[0]
    best = np.full((p + 1, size), -1)
    chosen = np.zeros((p + 1, size), np.int64)
    best[0, 0] = 0
    rooms, able = np.zeros((p, size), np.int64), np.zeros(size, np.int64)
    for r in range(p):
        count = 0
        for own in range(size):
            rooms[r, own] = room(states, own, majors, seconds, m, r, ranks, units)
            if rooms[r, own] >= 0:
                able[count] = own
                count += 1
        for before in range(size):
            if best[r, before] < 0:
                continue
            for own in able[:count]:
                after = steps[before, own]
                if after >= 0 and best[r, before] + rooms[r, own] > best[r + 1, after]:
                    best[r + 1, after] = best[r, before] + rooms[r, own]
                    chosen[r + 1, after] = own
    if best[p, size - 1] < majors:
        return False
    at = size - 1
    for r in range(p - 1, -1, -1):
        own = chosen[r + 1, at]
        counts[r, 0], counts[r, 1] = own, rooms[r, own]
        for before in range(size):
            if (
                steps[before, own] == at
                and best[r, before] >= 0
                and best[r, before] + rooms[r, own] == best[r + 1, at]
            ):
                at = before
                break
    return True


def least_seconds(
    p: int, table: Any, low: float, high: float, m: int, ranks: Any, units: Any, counts: Any
) -> float:
    """The least time in which every rank is done, a little less at most; infinite where no division fits.

    `table` has all numbers of minor units that a rank may have, their sums, and the number of major units; the rest
    is as in `room`. After the longest time and the shortest one, the middle of what is left is tried; `counts` are
    those of the shortest time that was enough.
    """
    step, tried = 0, high
    while step < 2 or high - low > 1e-6 * high:
        enough = divides(p, table, tried, m, ranks, units, counts)
        if step == 0 and not enough:
            return np.inf
        if step == 1 and enough:
            return low
        if step > 1:
            low, high = (low, tried) if enough else (tried, high)
        step += 1
        tried = low if step == 1 else (low + high) / 2
    return low
