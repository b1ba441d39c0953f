"""Bounds by what ranks hold and do in all, whichever of their chunks it is in; for numba.

A rank has units of one major type and of a few minor ones, and an end of the row if it is there. No layout is better
than the best division of all units among ranks, since a division forgets in which order units come.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def in_flight(order: Any, chunks: Any, m: int) -> Any:
    """Of each rank, at the moment with the most micro-batches in flight, the least of any of its chunks.

    And how many more there are of the others together, those with an end of the row apart.
    """
    p, v = chunks.shape[0], chunks.shape[1]
    last = p * v - 1
    least, more = np.zeros(p), np.zeros(p)
    for r in range(p):
        live = np.zeros(v, np.int64)
        total, most = 0, 0
        for place in range(order.shape[1]):
            kind, own = order[r, place, 0], order[r, place, 1]
            if kind == 0:
                live[own] += 1
                total += 1
                if total > most:
                    most = total
                    least[r], more[r] = live.min(), 0
                    for k in range(v):
                        if chunks[r, k] > 0 and chunks[r, k] < last:
                            more[r] += live[k] - live.min()
            elif kind == 1 or kind == 2:
                live[own] -= 1
                total -= 1
    return least, more


def room(
    states: Any,
    state: int,
    most: int,
    seconds: float,
    m: int,
    ramp: float,
    ends_seconds: float,
    ends_bytes: float,
    major_seconds: float,
    major_bytes: float,
    minor_seconds: Any,
    minor_bytes: Any,
    limit: float,
    again: float,
    saved: float,
    least_again: int,
    most_again: int,
    caps: Any,
    least_units: int,
) -> int:
    """How many units of the major type a rank takes besides its minor ones; -1 where not even these.

    As few layers as memory asks for compute again, each of them for `again` seconds and with `saved` bytes less. `caps`
    says how many units of each group, the major one first, can come to this rank at all, and it has at least so many.
    """
    for k in range(states.shape[1]):
        if states[state, k] > caps[k + 1]:
            return -1
    busy, held, units = ends_seconds, ends_bytes, 0
    for k in range(states.shape[1]):
        busy += states[state, k] * minor_seconds[k]
        held += states[state, k] * minor_bytes[k]
        units += states[state, k]
    for n in range(min(most, caps[0]), max(-1, least_units - units - 1), -1):
        need = held + n * major_bytes - limit
        repeated = min(least_again, n + units)
        if need > repeated * saved:
            if saved <= 0:
                continue
            repeated = int(np.ceil(need / saved - 1e-9))
        if repeated > most_again or repeated > n + units:
            continue
        if m * (busy + n * major_seconds + repeated * again) + ramp <= seconds:
            return n
    return -1


def divides(
    p: int,
    states: Any,
    steps: Any,
    majors: int,
    seconds: float,
    m: int,
    ramps: Any,
    ends_seconds: Any,
    ends_bytes: Any,
    major_seconds: float,
    major_bytes: Any,
    minor_seconds: Any,
    minor_bytes: Any,
    limit: float,
    again: float,
    saved: Any,
    least_again: Any,
    most_again: int,
    caps: Any,
    least_units: Any,
    counts: Any,
) -> bool:
    """Can all units be divided so that each rank is done in time? `counts` then says how: [rank, (state, majors)]."""
    size = states.shape[0]
    best = np.full((p + 1, size), -1)
    chosen = np.zeros((p + 1, size), np.int64)
    best[0, 0] = 0
    rooms = np.zeros((p, size), np.int64)
    for r in range(p):
        for own in range(size):
            rooms[r, own] = room(
                states, own, majors, seconds, m, ramps[r], ends_seconds[r], ends_bytes[r], major_seconds,
                major_bytes[r], minor_seconds, minor_bytes[r], limit, again, saved[r], least_again[r], most_again,
                caps[r], least_units[r],
            )  # fmt: skip
        for before in range(size):
            if best[r, before] < 0:
                continue
            for own in range(size):
                after = steps[before, own]
                if after >= 0 and rooms[r, own] >= 0 and best[r, before] + rooms[r, own] > best[r + 1, after]:
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
    p: int,
    states: Any,
    steps: Any,
    majors: int,
    low: float,
    high: float,
    m: int,
    ramps: Any,
    ends_seconds: Any,
    ends_bytes: Any,
    major_seconds: float,
    major_bytes: Any,
    minor_seconds: Any,
    minor_bytes: Any,
    limit: float,
    again: float,
    saved: Any,
    least_again: Any,
    most_again: int,
    caps: Any,
    least_units: Any,
    counts: Any,
) -> float:
    """The least time in which every rank is done, a little less at most; infinite where no division fits."""
    if not divides(
        p, states, steps, majors, high, m, ramps, ends_seconds, ends_bytes, major_seconds, major_bytes,
        minor_seconds, minor_bytes, limit, again, saved, least_again, most_again, caps, least_units, counts,
    ):  # fmt: skip
        return np.inf
    if divides(
        p, states, steps, majors, low, m, ramps, ends_seconds, ends_bytes, major_seconds, major_bytes,
        minor_seconds, minor_bytes, limit, again, saved, least_again, most_again, caps, least_units, counts,
    ):  # fmt: skip
        return low
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if divides(
            p, states, steps, majors, middle, m, ramps, ends_seconds, ends_bytes, major_seconds, major_bytes,
            minor_seconds, minor_bytes, limit, again, saved, least_again, most_again, caps, least_units, counts,
        ):  # fmt: skip
            high = middle
        else:
            low = middle
    divides(
        p, states, steps, majors, high, m, ramps, ends_seconds, ends_bytes, major_seconds, major_bytes,
        minor_seconds, minor_bytes, limit, again, saved, least_again, most_again, caps, least_units, counts,
    )  # fmt: skip
    return low
