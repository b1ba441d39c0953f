"""Which layers can be on GPUs together at a period, in plain loops over arrays: compiled where numba is at hand.

*Windows*: can a few GPUs hold their layers? Two activities of one resource never meet modulo the period T, so their
starts lie in one of the windows [d_i + h T, (h + 1) T - d_j] apart, h a whole number; and the windows decide how many
copies of a kept activation are there while a task runs. A node of the search is a table of the least distances between
all starts, closed under addition. Distances lift windows, windows lift distances, and memory that is nearly full
forbids wider windows.

*Covers*: all partitions of a chain into sets of layers that may be on GPUs, an exact cover. A set is a number whose
bits are its layers. The walk reads a table of pairs that cannot be together. Pairs are noted there while the walk is
on, so a pair is only examined when a partition needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .anneal_kernel import Tables

# What `examine` returns. FITS: the search met no contradiction, which does not prove that a pattern exists.
FITS, REFUTED, UNDECIDED = 1, 0, -1
# Depth of branching at which the search gives up.
DEPTH = 100
# In place of the GPU of a layer. UNKNOWN: it is on some other GPU than those that are named. OPEN: it is on any GPU.
UNKNOWN, OPEN = -1, -2


class Part(NamedTuple):
    """What is known of an allocation, as arrays. Activities are numbered by position, in the order of the chain."""

    period: int
    durations: Any
    delays: Any
    """Least time from the start of each activity to that of the next one."""
    resources: Any
    """The GPU or link of each activity, which serves one at a time; -1: the activity excludes no other."""
    tasks: Any
    """Rows (position, what the task alone holds, GPU)."""
    kept: Any
    """Rows (position of the forward task, of the backward task, size, GPU)."""
    direct: Any
    """Rows (position, position of the next task, size, GPU) of what waits between two tasks of one GPU."""
    timed_kept: int
    """Number of the first rows, in which both tasks take time. Where one takes none, it may happen while another task
    runs: no window says how many copies there are then, only the area counts."""
    timed_direct: int
    room: Any
    """Memory of each GPU beside what is always there."""
    area: Any
    """For each GPU, the size times time in a period that is left for what is kept and what waits."""


def quotient_up(a: int, b: int) -> int:
    return -(-a // b)


def low(part: Part, apart: Any, i: int, j: int) -> int:
    """The number h of the least window in which j may start after i, for two positions i < j.

    Exact both ways: too low a number makes `narrow` refute what has a pattern, too high a one makes `windows` do so.
    """
    least: int = quotient_up(apart[i, j] + part.durations[j], part.period) - 1
    return least


def high(part: Part, apart: Any, i: int, j: int) -> int:
    """The number of the greatest window, as `low` gives that of the least."""
    most: int = (-apart[j, i] - part.durations[i]) // part.period
    return most


def raise_to(apart: Any, i: int, j: int, least: int) -> bool:
    """Have j start at least `least` after i, and draw all consequences for distances; False: a contradiction."""
    n = len(apart)
    if apart[i, j] >= least:
        return True
    if least + apart[j, i] > 0:
        return False
    for a in range(n):
        to_j = apart[a, i] + least
        if to_j <= apart[a, j]:
            continue
        for b in range(n):
            through = to_j + apart[j, b]
            if through > apart[a, b]:
                apart[a, b] = through
    return True


def copy_to(copy: Any, apart: Any) -> None:
    """Copy cell by cell: to assign a slice compiles the text of its error as well, which takes 2 s more."""
    for a in range(len(apart)):
        for b in range(len(apart)):
            copy[a, b] = apart[a, b]


def windows(part: Part, apart: Any) -> int:
    """Lift distances to the nearest windows; return -1 for a contradiction, else whether something changed."""
    n, period, durations = len(part.durations), part.period, part.durations
    changed = 0
    for i in range(n):
        if part.resources[i] < 0:
            continue
        for j in range(i + 1, n):
            if part.resources[i] != part.resources[j]:
                continue
            least, most = low(part, apart, i, j), high(part, apart, i, j)
            if least > most:
                return -1
            if apart[i, j] < durations[i] + least * period:
                changed = 1
                if not raise_to(apart, i, j, durations[i] + least * period):
                    return -1
            if apart[j, i] < durations[j] - (most + 1) * period:
                changed = 1
                if not raise_to(apart, j, i, durations[j] - (most + 1) * period):
                    return -1
    return changed


def copies(part: Part, apart: Any, first: int, last: int, at: int) -> int:
    """The least number of copies that live from the start of `first` to the end of `last`, while `at` runs."""
    if at == first:
        return low(part, apart, first, last)
    if at == last:
        return low(part, apart, first, last) + 1
    least = low(part, apart, first, last)
    if at < first:
        return max(least, low(part, apart, at, last) - high(part, apart, at, first))
    if at > last:
        return max(least, low(part, apart, first, at) - high(part, apart, last, at))
    return max(least, low(part, apart, first, at) + low(part, apart, at, last) + 1)


def waiting(part: Part, apart: Any, first: int, last: int, at: int) -> int:
    """The least number of outputs of `first` that wait for `last` while `at` runs."""
    if at in (first, last):
        return 0
    if at < first:
        return max(0, low(part, apart, at, last) - high(part, apart, at, first))
    return max(0, low(part, apart, first, at) - high(part, apart, last, at))


def narrow(part: Part, apart: Any, i: int, j: int) -> int:
    """Forbid all but the least window of a pair; return -1 for a contradiction, else whether something changed."""
    if i > j:
        i, j = j, i
    most = (low(part, apart, i, j) + 1) * part.period - part.durations[j]
    if -apart[j, i] <= most:
        return 0
    return 1 if raise_to(apart, j, i, -most) else -1


def memory(part: Part, apart: Any) -> int:
    """Narrow windows to what memory allows during each task; -1: a contradiction, else whether something changed."""
    changed = 0
    for row in range(len(part.tasks)):
        at, group = part.tasks[row, 0], part.tasks[row, 2]
        spare = part.room[group] - part.tasks[row, 1]
        for k in range(part.timed_kept):
            if part.kept[k, 3] == group:
                spare -= part.kept[k, 2] * copies(part, apart, part.kept[k, 0], part.kept[k, 1], at)
        for k in range(part.timed_direct):
            if part.direct[k, 3] == group:
                spare -= part.direct[k, 2] * waiting(part, apart, part.direct[k, 0], part.direct[k, 1], at)
        if spare < 0:
            return -1
        for k in range(part.timed_kept):
            first, last = part.kept[k, 0], part.kept[k, 1]
            if part.kept[k, 3] != group or part.kept[k, 2] <= spare:
                continue
            if at <= first or at >= last:
                if at in (first, last):
                    done = narrow(part, apart, first, last)
                    if done < 0:
                        return -1
                    changed = max(changed, done)
                continue
            if low(part, apart, first, at) + low(part, apart, at, last) + 1 < low(part, apart, first, last):
                continue
            for other in (first, last):
                done = narrow(part, apart, other, at)
                if done < 0:
                    return -1
                changed = max(changed, done)
    return changed


def areas(part: Part, apart: Any) -> int:
    """Limit distances by Little's law on each GPU; return -1 for a contradiction, else whether something changed."""
    changed = 0
    for group in range(len(part.room)):
        spare = part.area[group]
        for k in range(len(part.kept)):
            if part.kept[k, 3] == group:
                first, last = part.kept[k, 0], part.kept[k, 1]
                spare -= part.kept[k, 2] * (apart[first, last] + part.durations[last])
        for k in range(len(part.direct)):
            if part.direct[k, 3] == group:
                first, last = part.direct[k, 0], part.direct[k, 1]
                spare -= part.direct[k, 2] * (apart[first, last] - part.durations[first])
        if spare < 0:
            return -1
        for k in range(len(part.kept)):
            if part.kept[k, 3] == group and part.kept[k, 2] > 0:
                first, last = part.kept[k, 0], part.kept[k, 1]
                most = apart[first, last] + spare // part.kept[k, 2]
                if -apart[last, first] > most:
                    changed = 1
                    if not raise_to(apart, last, first, -most):
                        return -1
    return changed


def settle(part: Part, apart: Any) -> bool:
    """Apply `windows`, `memory` and `areas` until nothing changes; False: there is a contradiction."""
    while True:
        changed = windows(part, apart)
        if changed == 0:
            changed = memory(part, apart)
        if changed == 0:
            changed = areas(part, apart)
        if changed <= 0:
            return changed == 0


def undecided(part: Part, apart: Any, chosen: Any) -> bool:
    """Choose the pair to branch on, both of whose branches change distances most; False: no pair is undecided.

    `chosen` gets its two positions, and the window up to which one branch goes and after which the other begins.
    """
    n, period, durations = len(part.durations), part.period, part.durations
    best = -1
    for i in range(n):
        if part.resources[i] < 0:
            continue
        for j in range(i + 1, n):
            if part.resources[i] != part.resources[j]:
                continue
            least = low(part, apart, i, j)
            if least >= high(part, apart, i, j):
                continue
            later = durations[i] + (least + 1) * period - apart[i, j]
            sooner = -apart[j, i] - (least + 1) * period + durations[j]
            score = min(later, sooner)
            if score > best:
                best = score
                chosen[0], chosen[1], chosen[2] = i, j, least
    return best >= 0


def begin_apart(part: Part, apart: Any) -> None:
    """Distances along the chain; of two activities in a row the later one never waits for more than a period."""
    n = len(part.durations)
    for i in range(n):
        apart[i, i] = 0
        for j in range(i + 1, n):
            apart[i, j] = apart[i, j - 1] + part.delays[j - 1]
            apart[j, i] = apart[j - 1, i] - part.delays[j - 1] - part.period


def examine(part: Part, stack: Any, nodes: int) -> int:
    """FITS, REFUTED, or UNDECIDED after `nodes` nodes. stack[depth] holds the distances of the nodes on the way."""
    begin_apart(part, stack[0])
    chosen = np.zeros(3, dtype=np.int64)
    depth = 0
    while depth >= 0:
        nodes -= 1
        if nodes < 0 or depth + 2 > len(stack):
            return UNDECIDED
        apart = stack[depth]
        if not settle(part, apart):
            depth -= 1
            continue
        if not undecided(part, apart, chosen):
            return FITS
        i, j, least = chosen[0], chosen[1], chosen[2]
        copy_to(stack[depth + 1], apart)
        late = raise_to(apart, i, j, part.durations[i] + (least + 1) * part.period)
        soon = raise_to(stack[depth + 1], j, i, part.durations[j] - (least + 1) * part.period)
        if not late:
            if not soon:
                depth -= 1
                continue
            copy_to(apart, stack[depth + 1])
        elif soon:
            depth += 1
    return REFUTED


# ---- what is known, as a part ------------------------------------------------------------------------------


def user(tables: Tables, gpu: Any, edge: int) -> int:
    """The number of an edge's link, behind those of the GPUs; UNKNOWN unless its ends are on two named GPUs."""
    tasks = len(tables.durations)
    sender, receiver = gpu[min(edge - 1, tasks - edge)], gpu[min(edge, tasks - 1 - edge)]
    if sender == receiver or sender < 0 or receiver < 0:
        return UNKNOWN
    if not tables.full_duplex and sender > receiver:
        sender, receiver = receiver, sender
    link: int = tables.gpus + sender * tables.gpus + receiver
    return link


def lay_chain(tables: Tables, gpu: Any, durations: Any, delays: Any, resources: Any, place: Any) -> int:
    """Tasks of layers on named GPUs, and transfers that may meet others, become activities; the rest only adds delay.

    Returns the number of activities; `place` gets the position of each task.
    """
    tasks = len(tables.durations)
    users = np.zeros(tables.gpus * (tables.gpus + 1), dtype=np.int64)
    for edge in range(1, tasks):
        link = user(tables, gpu, edge)
        if link >= 0 and tables.transfers[edge] > 0:
            users[link] += 1
    count = 0
    for task in range(tasks):
        layer = min(task, tasks - 1 - task)
        delay = tables.durations[task]
        if gpu[layer] >= 0:
            # Tasks that take no time need no GPU: they may happen while another one runs.
            durations[count], delays[count] = delay, 0
            resources[count] = UNKNOWN if tables.timeless[task] else gpu[layer]
            place[task] = count
            count += 1
        if count:
            delays[count - 1] += delay
        edge = task + 1
        if edge == tasks or gpu[layer] == gpu[min(edge, tasks - 1 - edge)] or beside_open(gpu, layer, edge):
            continue
        delay, link = tables.transfers[edge], user(tables, gpu, edge)
        if link >= 0 and delay > 0 and users[link] > 1:
            durations[count], resources[count], delays[count] = delay, link, 0
            count += 1
        if count:
            delays[count - 1] += delay
    return count


def beside_open(gpu: Any, layer: int, edge: int) -> bool:
    """Is one of the two layers of an edge on any GPU, perhaps on that of the other one?"""
    return bool(gpu[layer] == OPEN or gpu[min(edge, len(gpu) * 2 - 1 - edge)] == OPEN)


def rooms(tables: Tables, gpu: Any, period: int, room: Any, area: Any) -> bool:
    """Fill `room` with the memory beside weights and slots, and `area` with that in a period, less what tasks hold
    while they run; False: some GPU is too small for its weights and slots."""
    tasks = len(tables.durations)
    layers = tasks // 2
    for g in range(len(room)):
        room[g], area[g] = tables.memory, 0
    for layer in range(layers):
        g = gpu[layer]
        if layer and not tables.inputs_only and g != gpu[layer - 1] and g != OPEN:
            size = tables.activations[layer] + tables.activations[tasks - layer]
            if g >= 0:
                room[g] -= size
            if gpu[layer - 1] >= 0:
                room[gpu[layer - 1]] -= size
        if g >= 0:
            room[g] -= tables.weights[layer]
            if not tables.inputs_only:
                last = tasks - 1 - layer
                area[g] -= tables.activations[layer + 1] * tables.durations[layer]
                area[g] -= (tables.activations[last] + tables.activations[last + 1]) * tables.durations[last]
    area += period * room
    return bool(room.min() >= 0)


def list_memory(tables: Tables, gpu: Any, place: Any, own: Any, kept: Any, direct: Any, counts: Any) -> None:
    """Fill in a part's rows for what tasks hold, what is kept, and what waits; counts[:3] are their numbers.

    Rows whose tasks both take time come first in `kept` and `direct`; counts[3] and counts[4] are their numbers.
    """
    tasks = len(tables.durations)
    for task in range(tasks):
        g = gpu[min(task, tasks - 1 - task)]
        if g >= 0 and not tables.timeless[task]:
            k = counts[0]
            own[k, 0], own[k, 1], own[k, 2] = place[task], tables.own[task], g
            counts[0] += 1
    list_tensors(tables, gpu, place, kept, direct, counts, True)
    counts[3], counts[4] = counts[1], counts[2]
    list_tensors(tables, gpu, place, kept, direct, counts, False)


def list_tensors(tables: Tables, gpu: Any, place: Any, kept: Any, direct: Any, counts: Any, timed: bool) -> None:
    """Add rows for what is kept and what waits between two tasks; `timed`: those that both take time, else the rest."""
    tasks = len(tables.durations)
    for task in range(tasks):
        g = gpu[min(task, tasks - 1 - task)]
        if g < 0:
            continue
        last = tasks - 1 - task
        untimed = tables.timeless[task] or tables.timeless[last]
        if task < last and tables.activations[task] > 0 and timed != untimed:
            k = counts[1]
            kept[k, 0], kept[k, 1] = place[task], place[last]
            kept[k, 2], kept[k, 3] = tables.activations[task], g
            counts[1] += 1
        following = task + 1
        if tables.inputs_only or following == tasks or gpu[min(following, tasks - 1 - following)] != g:
            continue
        untimed = tables.timeless[task] or tables.timeless[following]
        if tables.activations[following] > 0 and timed != untimed:
            k = counts[2]
            direct[k, 0], direct[k, 1] = place[task], place[following]
            direct[k, 2], direct[k, 3] = tables.activations[following], g
            counts[2] += 1


def refuted(tables: Tables, gpu: Any, period: int, nodes: int) -> bool:
    """Does a search of at most `nodes` nodes prove that no pattern with the period has these layers on these GPUs?

    gpu[layer] is the layer's GPU, a number from 0 on. UNKNOWN layers are on some other GPU than those that are named;
    OPEN ones, of which there may be some at the end of the chain, are on any GPU.
    """
    tasks = len(tables.durations)
    layers = tasks // 2
    durations, delays = np.zeros(2 * tasks, dtype=np.int64), np.zeros(2 * tasks, dtype=np.int64)
    resources, place = np.zeros(2 * tasks, dtype=np.int64), np.zeros(tasks, dtype=np.int64)
    groups = gpu.max() + 1
    room, area = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    if not rooms(tables, gpu, period, room, area):
        return True
    n = lay_chain(tables, gpu, durations, delays, resources, place)
    own, kept = np.zeros((tasks, 3), dtype=np.int64), np.zeros((layers, 4), dtype=np.int64)
    direct = np.zeros((tasks, 4), dtype=np.int64)
    counts = np.zeros(5, dtype=np.int64)
    list_memory(tables, gpu, place, own, kept, direct, counts)
    part = Part(
        period, durations[:n], delays[:n], resources[:n],
        own[: counts[0]], kept[: counts[1]], direct[: counts[2]], counts[3], counts[4], room, area,
    )  # fmt: skip
    stack = np.empty((DEPTH, n, n), dtype=np.int64)
    return examine(part, stack, nodes) == REFUTED


# ---- All partitions of a chain into sets of layers that may be on GPUs: an exact cover, in plain loops over arrays.

# What `go_on` returns: a partition is chosen, no other is left, or the steps are used up.
FOUND, DONE, PAUSED = 1, 0, -1
# What `list_sets` returns where there are more sets than it has room for.
TOO_MANY = -1
# Nodes of the search for sets, for each set that is wanted; beyond them the sets count as too many.
NODES_PER_SET = 40


class Covers(NamedTuple):
    """What may be chosen, as arrays."""

    sets: Any
    loads: Any
    """The load of each set."""
    apart: Any
    """Bit j of row i: sets i and j cannot be on GPUs together."""
    layer_loads: Any
    """The load of each layer that is in sets. These are all layers or the first ones."""
    gpus: int
    period: int


class Walk(NamedTuple):
    """One walk, to be resumed: for each number of sets that are chosen, which sets may follow and which were tried."""

    depth: Any
    """One number: how deep the walk is, from 0 on; negative at its end."""
    chosen: Any
    open: Any
    """Row d: sets that may follow the first d ones."""
    counts: Any
    ways: Any
    """Row d: those of them with the layer that was picked."""
    ways_counts: Any
    at: Any
    """Cell d: how many sets of row d of `ways` were tried."""


# ---- sets --------------------------------------------------------------------------------------------------


def areas_of(tables: Tables) -> Any:
    """For each layer, a lower bound on the size times time that one batch occupies; weights and slots do not count."""
    tasks = len(tables.durations)
    layers = tasks // 2
    areas = np.zeros(layers, dtype=np.int64)
    for layer in range(layers):
        last = tasks - 1 - layer
        areas[layer] = tables.activations[layer] * tables.durations[layer : last + 1].sum()
        if not tables.inputs_only:
            areas[layer] += tables.activations[layer + 1] * tables.durations[layer]
            areas[layer] += (tables.activations[last] + tables.activations[last + 1]) * tables.durations[last]
    return areas


def list_sets(tables: Tables, layers: int, period: int, least: int, found: Any) -> int:
    """Sets of the first layers with a load from `least` to the period, for which Little's law leaves room.

    They are written into `found`. Returns their number, or TOO_MANY where there is no room for all of them or the
    search takes too many nodes.
    """
    tasks = len(tables.durations)
    areas = areas_of(tables)
    loads = tables.durations[:layers] + tables.durations[tasks - layers :][::-1]
    stack = np.zeros((layers + 2, 4), dtype=np.int64)  # next layer, members, load, area
    top, count, nodes = 1, 0, 0
    while top:
        top -= 1
        layer, members, load, area = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        nodes += 1
        if nodes > NODES_PER_SET * len(found):
            return TOO_MANY
        if layer == layers:
            if members and load >= least:
                if count == len(found):
                    return TOO_MANY
                found[count] = members
                count += 1
            continue
        before = layer > 0 and members >> (layer - 1) & 1 == 1
        slot = 0
        if layer and not tables.inputs_only:
            slot = period * (tables.activations[layer] + tables.activations[tasks - layer])
        if load + loads[layer:].sum() < least:
            continue
        for inside in range(2):
            more = area + (slot if before != (inside == 1) else 0)
            if inside:
                more += areas[layer] + period * tables.weights[layer]
                if load + loads[layer] > period:
                    continue
            if more > period * tables.memory:
                continue
            stack[top, 0] = layer + 1
            stack[top, 1] = members | inside << layer
            stack[top, 2] = load + inside * loads[layer]
            stack[top, 3] = more
            top += 1
    return count


# ---- partitions --------------------------------------------------------------------------------------------


def are_apart(covers: Covers, i: int, j: int) -> bool:
    return bool(covers.apart[i, j >> 3] >> (j & 7) & 1)


def put_apart(covers: Covers, i: int, j: int) -> None:
    covers.apart[i, j >> 3] |= 1 << (j & 7)
    covers.apart[j, i >> 3] |= 1 << (i & 7)


def begin(covers: Covers, walk: Walk, root: int) -> None:
    """Start a walk over the partitions with the set of this number, or, if it is negative, over all partitions."""
    walk.depth[0] = 0
    walk.counts[0] = len(covers.sets)
    for i in range(len(covers.sets)):
        walk.open[0, i] = i
    walk.at[0] = 0
    if root >= 0:
        walk.ways[0, 0] = root
        walk.ways_counts[0] = 1
    else:
        pick(covers, walk, 0, (1 << len(covers.layer_loads)) - 1)


def follow(covers: Covers, walk: Walk, depth: int) -> bool:
    """List the sets that may follow those chosen up to `depth`, and pick a layer; False: they lead nowhere."""
    missing = (1 << len(covers.layer_loads)) - 1
    for d in range(depth + 1):
        missing &= ~covers.sets[walk.chosen[d]]
    left = covers.gpus - depth - 1
    load = 0
    for layer in range(len(covers.layer_loads)):
        if missing >> layer & 1:
            load += covers.layer_loads[layer]
    least = load - (left - 1) * covers.period
    last = walk.chosen[depth]
    count, union = 0, 0
    for k in range(walk.counts[depth]):
        i = walk.open[depth, k]
        members = covers.sets[i]
        if members & ~missing or covers.loads[i] < least or are_apart(covers, last, i):
            continue
        if left == 1 and members != missing:
            continue
        walk.open[depth + 1, count] = i
        union |= members
        count += 1
    walk.counts[depth + 1] = count
    return union == missing and pick(covers, walk, depth + 1, missing)


def pick(covers: Covers, walk: Walk, depth: int, missing: int) -> bool:
    """List the ways to go on, the sets with the layer that is in the fewest sets; False: a layer is in none."""
    best, fewest = -1, len(covers.sets) + 1
    for layer in range(len(covers.layer_loads)):
        if missing >> layer & 1 == 0:
            continue
        count = 0
        for k in range(walk.counts[depth]):
            count += covers.sets[walk.open[depth, k]] >> layer & 1
        if count < fewest:
            best, fewest = layer, count
    count = 0
    for k in range(walk.counts[depth]):
        if covers.sets[walk.open[depth, k]] >> best & 1:
            walk.ways[depth, count] = walk.open[depth, k]
            count += 1
    walk.ways_counts[depth] = count
    walk.at[depth] = 0
    return count > 0


def go_on(covers: Covers, walk: Walk, steps: int) -> int:
    """Walk to the next partition, which is then `chosen` up to `depth`: FOUND; or DONE, or PAUSED after `steps`."""
    while walk.depth[0] >= 0:
        depth = walk.depth[0]
        if walk.at[depth] == walk.ways_counts[depth]:
            walk.depth[0] -= 1
            continue
        steps -= 1
        if steps < 0:
            return PAUSED
        i = walk.ways[depth, walk.at[depth]]
        walk.at[depth] += 1
        covered, fits = covers.sets[i], True
        for d in range(depth):
            fits = fits and not are_apart(covers, walk.chosen[d], i)
            covered |= covers.sets[walk.chosen[d]]
        if not fits:
            continue
        walk.chosen[depth] = i
        if covered == (1 << len(covers.layer_loads)) - 1:
            return FOUND
        if depth + 1 < covers.gpus and follow(covers, walk, depth):
            walk.depth[0] += 1
    return DONE
