"""The inner loops of the latency planners, written for compilation: evaluate a placement, and anneal it.

`place[v]` is 0 for the pool of CPUs, 1 + d q + j for piece j of accelerator d, and -1 for a node that has no place yet.
The loops work on arrays alone. On small inputs they run as plain Python, on larger ones compiled by numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# All bits of a machine word.
WORD = 0xFFFFFFFFFFFFFFFF
# The value of what cannot run: pieces that wait for each other.
NEVER = 1e300


class Tables(NamedTuple):
    """The problem as arrays. Rows of different lengths are stored one after the other, with their starts."""

    after_start: Any
    after: Any
    before_start: Any
    before: Any
    work: Any
    cpu_work: Any
    transfer: Any
    sizes: Any
    allowed: Any
    class_of: Any
    class_start: Any
    class_nodes: Any
    pieces: int
    """The most pieces on one accelerator."""
    slots: int
    has_cpu: int
    capacity: float


class Scratch(NamedTuple):
    """Arrays in which evaluations work. A unit is a node on the CPUs, or a slot: a piece of an accelerator."""

    missing: Any  # [unit]: nodes first, then slots
    ready: Any
    queue: Any
    load: Any  # [slot + 1]
    token: Any
    head: Any
    following: Any  # [node]
    finish: Any
    """[unit]: when it ends, as the last evaluation says."""


class Moves(NamedTuple):
    """The random state, the last move and the best placement of an annealing run."""

    random: Any
    changed: Any  # [node]
    old: Any
    mark: Any
    used: Any
    """[accelerator]: total size of its nodes."""
    best: Any


def evaluate(tables: Any, scratch: Any, place: Any) -> float:
    """The latency of the nodes that are placed, or `NEVER`."""
    after_start, after = tables[0], tables[1]
    cpu_work, slots, pieces = tables[5], tables[13], tables[12]
    missing, ready, queue, load = scratch[:4]
    head, following, finish = scratch[5:]
    nodes = place.shape[0]
    _prepare(tables, scratch, place)
    # Those that wait for nothing are first in the queue.
    filled = units = 0
    for unit in range(nodes + slots):
        if unit >= nodes or place[unit] == 0:
            units += 1
            if missing[unit] == 0:
                queue[filled] = unit
                filled += 1
    latest = 0.0
    done = 0
    while done < filled:
        unit = queue[done]
        done += 1
        slot = unit - nodes + 1
        end = ready[unit] + (load[slot] if slot > 0 else cpu_work[unit])
        finish[unit] = end
        latest = max(latest, end)
        v = head[slot] if slot > 0 else unit
        while v >= 0:
            for e in range(after_start[v], after_start[v + 1]):
                w = after[e]
                if place[w] >= 0 and not (slot > 0 and place[w] == slot):
                    other = w if place[w] == 0 else nodes + place[w] - 1
                    filled = _tell(other, end, filled, missing, ready, queue)
            v = following[v] if slot > 0 else -1
        if slot > 0 and slot % pieces != 0:
            filled = _tell(unit + 1, end, filled, missing, ready, queue)
    return latest if filled == units else NEVER


def _tell(other: int, end: float, filled: int, missing: Any, ready: Any, queue: Any) -> int:
    """Tell a unit that one thing it waits for has ended; after the last it joins the queue. Returns its length."""
    ready[other] = max(ready[other], end)
    missing[other] -= 1
    if missing[other] == 0:
        queue[filled] = other
        filled += 1
    return filled


def _prepare(tables: Any, scratch: Any, place: Any) -> None:
    """Compute the loads of slots, and for how many things every unit waits."""
    after_start, after = tables[0], tables[1]
    work, transfer, slots, pieces = tables[4], tables[6], tables[13], tables[12]
    missing, ready, load = scratch[0], scratch[1], scratch[3]
    token, head, following = scratch[4:7]
    nodes = place.shape[0]
    for unit in range(nodes + slots):
        missing[unit] = 0
        ready[unit] = 0.0
    for s in range(slots + 1):
        load[s] = 0.0
        token[s] = -1
        head[s] = -1
        if s > 0 and (s - 1) % pieces != 0:
            missing[nodes + s - 1] = 1
    for u in range(nodes):
        mine = place[u]
        if mine < 0:
            continue
        if mine > 0:
            load[mine] += work[u]
            following[u] = head[mine]
            head[mine] = u
        leaves = False
        for e in range(after_start[u], after_start[u + 1]):
            v = after[e]
            theirs = place[v]
            if theirs < 0 or (theirs == mine and mine > 0):
                continue
            leaves = True
            missing[v if theirs == 0 else nodes + theirs - 1] += 1
            if theirs > 0 and token[theirs] != u:
                token[theirs] = u
                load[theirs] += transfer[u]
        if leaves and mine > 0:
            load[mine] += transfer[u]


def anneal(
    tables: Any, scratch: Any, moves: Any, place: Any, steps: int, hot: float, cold: float, best_value: float
) -> float:
    """Anneal in place between two temperatures (times, not ratios); `moves.best` is filled below `best_value`."""
    random, best = moves[0], moves[5]
    nodes = place.shape[0]
    sizes, pieces, used, mark = tables[7], tables[12], moves[4], moves[3]
    for d in range(used.shape[0]):
        used[d] = 0.0
    for v in range(nodes):
        mark[v] = 0
        if place[v] > 0:
            used[(place[v] - 1) // pieces] += sizes[v]
    value = evaluate(tables, scratch, place)
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        count = _propose(tables, moves, place)
        if count == 0:
            continue
        new = NEVER
        if _fits(tables, moves, place, count):
            new = evaluate(tables, scratch, place)
        if new <= value or (
            new < NEVER and _below(1 << 30, random) * 0.5**30 < math.exp((value - new) / temperature)
        ):
            value = new
            if value < best_value:
                best_value = value
                for v in range(nodes):
                    best[v] = place[v]
        else:
            _undo(tables, moves, place, count)
    return best_value


def _propose(tables: Any, moves: Any, place: Any) -> int:
    """Move one class, or a node with all before (or behind) it in its piece; return the number of moved nodes."""
    random = moves[0]
    slots, has_cpu, pieces = tables[13], tables[14], tables[12]
    v = _below(place.shape[0], random)
    target = _below(slots + has_cpu, random) + 1 - has_cpu
    if _below(8, random) < 6:
        target = _next_door(tables, random, place, v, target)
    source = place[v]
    if target == source:
        return 0
    same_device = source > 0 and target > 0 and (source - 1) // pieces == (target - 1) // pieces
    count = _put(moves, place, v, target, 0)
    if _below(8, random) < 4:
        count = _spread(tables, moves, place, source, target, count, _below(2, random) == 0)
    if not same_device:
        count = _complete_classes(tables, moves, place, target, count)
    for i in range(count):
        moves[3][moves[1][i]] = 0
    return count


def _next_door(tables: Any, random: Any, place: Any, v: int, target: int) -> int:
    """The place of a random neighbour of v; `target` if it has none."""
    after_start, after, before_start, before = tables[0], tables[1], tables[2], tables[3]
    behind, ahead = before_start[v + 1] - before_start[v], after_start[v + 1] - after_start[v]
    if behind + ahead == 0:
        return target
    choice = _below(behind + ahead, random)
    if choice < behind:
        return int(place[before[before_start[v] + choice]])
    return int(place[after[after_start[v] + choice - behind]])


def _put(moves: Any, place: Any, v: int, target: int, count: int) -> int:
    """Move v, and note it as number `count` of the nodes that moved; return their number."""
    changed, old, mark = moves[1], moves[2], moves[3]
    changed[count], old[count] = v, place[v]
    mark[v] = 1
    place[v] = target
    return count + 1


def _spread(tables: Any, moves: Any, place: Any, source: int, target: int, count: int, forward: bool) -> int:
    """Take along all nodes of the piece that are reached from those that moved; return the number of moved nodes."""
    start, reached = (tables[0], tables[1]) if forward else (tables[2], tables[3])
    changed, mark = moves[1], moves[3]
    i = 0
    while i < count:
        v = changed[i]
        i += 1
        for e in range(start[v], start[v + 1]):
            w = reached[e]
            if place[w] == source and mark[w] == 0:
                count = _put(moves, place, w, target, count)
    return count


def _complete_classes(tables: Any, moves: Any, place: Any, target: int, count: int) -> int:
    """Take along the nodes of moved classes that are on another device; return the number of moved nodes."""
    class_of, class_start, class_nodes, pieces = tables[9], tables[10], tables[11], tables[12]
    changed, mark = moves[1], moves[3]
    device = (target - 1) // pieces if target > 0 else -1
    for i in range(count):
        c = class_of[changed[i]]
        for e in range(class_start[c], class_start[c + 1]):
            w = class_nodes[e]
            there = (place[w] - 1) // pieces if place[w] > 0 else -1
            if mark[w] == 0 and there != device:
                count = _put(moves, place, w, target, count)
    return count


def _fits(tables: Any, moves: Any, place: Any, count: int) -> bool:
    """Bring the memory up to date after a move, and say whether it keeps to memory and support."""
    sizes, allowed, pieces, capacity = tables[7], tables[8], tables[12], tables[15]
    changed, old, used = moves[1], moves[2], moves[4]
    fits = True
    for i in range(count):
        v = changed[i]
        if old[i] > 0:
            used[(old[i] - 1) // pieces] -= sizes[v]
        if place[v] > 0:
            used[(place[v] - 1) // pieces] += sizes[v]
            fits = fits and allowed[v]
    for i in range(count):
        v = changed[i]
        if place[v] > 0 and used[(place[v] - 1) // pieces] > capacity:
            fits = False
    return fits


def _undo(tables: Any, moves: Any, place: Any, count: int) -> None:
    sizes, pieces = tables[7], tables[12]
    changed, old, used = moves[1], moves[2], moves[4]
    for i in range(count):
        v = changed[i]
        if place[v] > 0:
            used[(place[v] - 1) // pieces] -= sizes[v]
        if old[i] > 0:
            used[(old[i] - 1) // pieces] += sizes[v]
        place[v] = old[i]


def _below(limit: int, random: Any) -> int:
    """A random whole number >= 0 and < limit, by xorshift: the same numbers compiled and plain."""
    x = random[0]
    x ^= (x << 13) & WORD
    x ^= x >> 7
    x ^= (x << 17) & WORD
    random[0] = x
    return (int(x >> 33) * limit) >> 31
