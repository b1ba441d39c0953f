"""Annealing on the orders of devices, in plain loops over arrays: compiled where numba is at hand.

A state is the order in which each device runs everything. A move takes a run to another place on its device; edges and
memory are checked there at once, since both depend on that order alone, and the rest is a longest path through all
orders. Every block runs on one device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Offset between blocks that do not follow from each other; and more memory than there is.
NEVER = 1 << 40
# Share of the moves that move a run of the path that decides the value; the others move any run.
CRITICAL_SHARE = 0.6
# Largest number of places that a move tries.
FARTHEST = 12


class Tables(NamedTuple):
    """The problem in whole numbers, as arrays by run, block or device."""

    times: Any
    device: Any
    block: Any
    batch: Any
    after: Any
    """The runs that wait for run r are in `waiting`, with their delays in `waits`, from place after[r] to after[r +
    1]."""
    waiting: Any
    waits: Any
    before: Any
    """The runs for which run r waits are in `awaited`, with their delays in `delays`, from place before[r] to before[r
    + 1]."""
    awaited: Any
    delays: Any
    offsets: Any
    """offsets[i, k]: block k of micro-batch n follows block i of n - offset."""
    changes: Any
    needed: Any
    room: Any
    """Memory of each device beside what always stands there."""
    standing: Any
    first: Any
    """Place of each device's order in the row of all orders, and the end of the last one."""
    span: bool


class State(NamedTuple):
    """Arrays that the loop works in."""

    random: Any
    row: Any
    """The orders of all devices one after the other."""
    place: Any
    """The place of each run in `row`."""
    start: Any
    latest: Any
    queue: Any
    open: Any
    """What a run still waits for."""
    values: Any
    """For each device its span, or its last end."""
    path: Any
    best: Any
    """The best row so far."""


def below(state: State, limit: int) -> int:
    """A random whole number from 0 to limit - 1 (xorshift)."""
    x = state.random[0]
    x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
    state.random[0] = x
    return int((x >> 11) % limit)


def chance(state: State) -> float:
    return below(state, 1 << 30) / float(1 << 30)


def anneal(tables: Tables, state: State, steps: int, hot: float, cold: float, target: int) -> int:
    """Make up to `steps` moves, and leave the best row in `state.best`. Returns its value, or -1 where the first row is
    no schedule."""
    count = len(state.row)
    for p in range(count):
        state.place[state.row[p]] = p
    best = value_of(tables, state)
    if best < 0:
        return -1
    state.best[:] = state.row
    energy = energy_of(tables, state, target)
    length = path_to_worst(tables, state)
    for step in range(steps):
        if best <= target:
            break
        heat = hot * (cold / hot) ** (step / steps)
        if length and chance(state) < CRITICAL_SHARE:
            p = state.place[state.path[below(state, length)]]
        else:
            p = below(state, count)
        q = p + (below(state, FARTHEST) + 1) * (1 - 2 * below(state, 2))
        d = tables.device[state.row[p]]
        q = max(tables.first[d], min(tables.first[d + 1] - 1, q))
        q = as_far_as_edges_let(tables, state, p, q)
        if q == p:
            continue
        move(state, p, q)
        if not holds(tables, state, d):
            move(state, q, p)
            continue
        value = value_of(tables, state)
        if value < 0:
            move(state, q, p)
            continue
        after = energy_of(tables, state, target)
        if after <= energy or chance(state) < 2.718281828459045 ** ((energy - after) / heat):
            energy = after
            length = path_to_worst(tables, state)
            if value < best:
                best = value
                state.best[:] = state.row
        else:
            move(state, q, p)
    return best


def as_far_as_edges_let(tables: Tables, state: State, p: int, q: int) -> int:
    """The farthest place towards q to which the run at p can move without passing one that must stay on its side."""
    step = 1 if q > p else -1
    run = state.row[p]
    b, n = tables.block[run], tables.batch[run]
    at = p
    while at != q:
        other = state.row[at + step]
        k, u = tables.block[other], tables.batch[other]
        if k == b or (step > 0 and n <= u - tables.offsets[b, k]) or (step < 0 and u <= n - tables.offsets[k, b]):
            break
        at += step
    return at


def move(state: State, p: int, q: int) -> None:
    """The run at p goes to q; those between make room."""
    run = state.row[p]
    step = 1 if q > p else -1
    for at in range(p, q, step):
        state.row[at] = state.row[at + step]
        state.place[state.row[at]] = at
    state.row[q] = run
    state.place[run] = q


def holds(tables: Tables, state: State, d: int) -> bool:
    """Does the device's memory hold what its order asks for?"""
    held = 0
    for p in range(tables.first[d], tables.first[d + 1]):
        run = state.row[p]
        if held + tables.needed[run] > tables.room[d] and tables.needed[run] > 0:
            return False
        held += tables.changes[run]
        if tables.changes[run] < 0 and held < -tables.standing[d]:
            return False
    return True


def value_of(tables: Tables, state: State) -> int:
    """The largest value of a device, with all starts as early as possible, and for span the first ones as late as that
    lets them; -1: the devices wait for each other."""
    count = len(state.row)
    ended = 0
    for run in range(count):
        state.start[run] = 0
        p = state.place[run]
        state.open[run] = tables.before[run + 1] - tables.before[run] + (p > tables.first[tables.device[run]])
        if not state.open[run]:
            state.queue[ended] = run
            ended += 1
    at = 0
    while at < ended:
        run = state.queue[at]
        at += 1
        start = state.start[run]
        for e in range(tables.after[run], tables.after[run + 1]):
            other = tables.waiting[e]
            state.start[other] = max(state.start[other], start + tables.waits[e])
            state.open[other] -= 1
            if not state.open[other]:
                state.queue[ended] = other
                ended += 1
        p = state.place[run] + 1
        if p < tables.first[tables.device[run] + 1]:
            other = state.row[p]
            state.start[other] = max(state.start[other], start + tables.times[run])
            state.open[other] -= 1
            if not state.open[other]:
                state.queue[ended] = other
                ended += 1
    if ended < count:
        return -1
    if tables.span:
        start_late(tables, state)
    most = 0
    for d in range(len(tables.first) - 1):
        last = state.row[tables.first[d + 1] - 1]
        value = state.start[last] + tables.times[last]
        if tables.span:
            value -= state.latest[state.row[tables.first[d]]]
        state.values[d] = value
        most = max(most, value)
    return most


def start_late(tables: Tables, state: State) -> None:
    """Latest starts with the same last ends of all devices."""
    for at in range(len(state.row) - 1, -1, -1):
        run = state.queue[at]
        p = state.place[run] + 1
        if p < tables.first[tables.device[run] + 1]:
            latest = state.latest[state.row[p]] - tables.times[run]
        else:
            latest = state.start[run]
        for e in range(tables.after[run], tables.after[run + 1]):
            latest = min(latest, state.latest[tables.waiting[e]] - tables.waits[e])
        state.latest[run] = latest


def energy_of(tables: Tables, state: State, target: int) -> float:
    """The largest value, and the mean of what exceeds the target: progress on one of several devices counts."""
    most, total = 0, 0.0
    for d in range(len(state.values)):
        most = max(most, state.values[d])
        total += max(0, state.values[d] - target)
    return most + total / len(state.values)


def path_to_worst(tables: Tables, state: State) -> int:
    """Runs on a longest path to the last end of the device of the largest value; how many there are."""
    worst = 0
    for d in range(len(state.values)):
        if state.values[d] > state.values[worst]:
            worst = d
    run = state.row[tables.first[worst + 1] - 1]
    first = state.row[tables.first[worst]]
    length = 0
    while run >= 0:
        state.path[length] = run
        length += 1
        if run == first:
            break
        found = -1
        for e in range(tables.before[run], tables.before[run + 1]):
            other = tables.awaited[e]
            if state.start[other] + tables.delays[e] == state.start[run]:
                found = other
        p = state.place[run]
        if p > tables.first[tables.device[run]]:
            other = state.row[p - 1]
            if state.start[other] + tables.times[other] == state.start[run] and (found < 0 or below(state, 2)):
                found = other
        run = found
    return length
