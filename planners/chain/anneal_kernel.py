"""Annealing on allocations with a greedy schedule, in plain loops over arrays: compiled where numba is at hand.

A state gives each layer a GPU and each task a number of free places that it passes over. Tasks and transfers are laid
out in the order of the chain, each at the first place where its GPU or link is free modulo the period; the memory is
then counted at the start of every task, as the problem defines it. What exceeds loads or memory is the energy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Free places that a task passes over, at most.
MOST_PASSED = 2
# Share of the moves that change the number of places which a task passes over; the others move layers.
PASS_SHARE = 0.3
# Share of the moves that lay the schedule out from the middle in place of from the first task on, or back.
TURN_SHARE = 0.01
# Of the moves of layers, the share that swaps two layers and the share that moves a run; the others move one layer.
SWAP_SHARE, RUN_SHARE = 0.3, 0.5


class Tables(NamedTuple):
    """The problem in whole numbers, as arrays."""

    durations: Any
    transfers: Any
    activations: Any
    weights: Any
    own: Any
    """What a task holds only while it runs; a forward task that takes no time, its input."""
    timeless: Any
    """Does a task take no time in truth?"""
    gpus: int
    memory: int
    inputs_only: bool
    full_duplex: bool


class State(NamedTuple):
    """Arrays that the loop works in."""

    random: Any
    gpu: Any
    passed: Any
    middle: Any
    """Is the schedule laid out from the middle?"""
    starts: Any
    sent: Any
    """Start of the transfer of each edge."""
    busy: Any
    """busy[resource, n]: position and length of the n-th interval, sorted by position."""
    counts: Any
    missing: Any
    """One number: the total time of tasks and transfers that found no place."""
    saved_gpu: Any
    saved_passed: Any
    saved_middle: Any
    """The three `saved_` arrays hold the state before the move."""


def below(state: State, limit: int) -> int:
    """A random whole number from 0 to limit - 1 (xorshift)."""
    x = state.random[0]
    x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
    state.random[0] = x
    return int((x >> 11) % limit)


def uniform(state: State) -> float:
    return below(state, 1 << 30) / (1 << 30)


def insert(state: State, resource: int, position: int, length: int) -> None:
    """Note a busy interval, in the order of positions."""
    n = state.counts[resource]
    while n > 0 and state.busy[resource, n - 1, 0] > position:
        state.busy[resource, n, 0] = state.busy[resource, n - 1, 0]
        state.busy[resource, n, 1] = state.busy[resource, n - 1, 1]
        n -= 1
    state.busy[resource, n, 0] = position
    state.busy[resource, n, 1] = length
    state.counts[resource] += 1


def place(state: State, resource: int, ready: int, length: int, period: int, passed: int) -> int:
    """The first start from `ready` on that is free modulo the period, after `passed` free places. Where there is none,
    the time counts as missing, and the start is `ready`."""
    count = state.counts[resource]
    if length == 0:
        return ready
    if count == 0:
        insert(state, resource, ready % period, length)
        return ready
    position = ready % period
    base = ready - position
    # From the interval before the position on, look at the gaps one after the other, once around.
    n = 0
    while n < count and state.busy[resource, n, 0] <= position:
        n += 1
    at = position
    for step in range(count + 1):
        before = n - 1 + step
        turn = before // count
        end = state.busy[resource, before % count, 0] + state.busy[resource, before % count, 1] + turn * period
        following = before + 1
        limit = state.busy[resource, following % count, 0] + following // count * period
        first = max(at, end)
        if first + length <= limit:
            if passed == 0:
                insert(state, resource, first % period, length)
                place: int = base + first
                return place
            passed -= 1
    state.missing[0] += length
    return ready


def place_late(state: State, resource: int, due: int, length: int, period: int, passed: int) -> int:
    """The last free start from which the work ends by `due`, before `passed` free places.

    Time runs backwards here: the mirror image of `place`. Where there is none, the time counts as missing.
    """
    count = state.counts[resource]
    if length == 0:
        return due
    if count == 0:
        insert(state, resource, (due - length) % period, length)
        return due - length
    position = due % period
    base = due - position
    n = count - 1
    while n >= 0 and state.busy[resource, n, 0] + state.busy[resource, n, 1] >= position:
        n -= 1
    # Interval n is the last one that ends before the position; those behind it may begin before it.
    for step in range(count + 1):
        after = n + 1 - step
        limit = state.busy[resource, after % count, 0] + after // count * period
        before = after - 1
        end = state.busy[resource, before % count, 0] + state.busy[resource, before % count, 1]
        end += before // count * period
        last = min(position, limit) - length
        if last >= end:
            if passed == 0:
                insert(state, resource, last % period, length)
                other: int = base + last
                return other
            passed -= 1
    state.missing[0] += length
    return due - length


def link_of(tables: Tables, sender: int, receiver: int) -> int:
    """The number of the link between two GPUs; the numbers of links follow those of the GPUs."""
    if not tables.full_duplex and sender > receiver:
        sender, receiver = receiver, sender
    return tables.gpus + sender * tables.gpus + receiver


def lay_out(tables: Tables, state: State, period: int) -> int:
    """Place all tasks and transfers; return the total time of those that found no place."""
    state.counts[:] = 0
    state.missing[0] = 0
    if state.middle[0]:
        from_the_middle(tables, state, period)
    else:
        in_order(tables, state, period)
    return int(state.missing[0])


def from_the_middle(tables: Tables, state: State, period: int) -> None:
    """Place the tasks from the last layer outwards: forward tasks as late, backward tasks as early as they can be.

    So the last layers, whose activations live shortest, wait least, and those before them wait around them once.
    """
    tasks = len(tables.durations)
    layers = tasks // 2
    due = 0
    ready = 0
    for layer in range(layers - 1, -1, -1):
        back = tasks - 1 - layer
        g = state.gpu[layer]
        if layer + 1 < layers and state.gpu[layer + 1] != g:
            following = state.gpu[layer + 1]
            length = tables.transfers[layer + 1]
            due = place_late(state, link_of(tables, g, following), due, length, period, 0)
            state.sent[layer + 1] = due
            length = tables.transfers[back]
            start = place(state, link_of(tables, following, g), ready, length, period, 0)
            state.sent[back] = start
            ready = start + length
        due = place_late(state, g, due, tables.durations[layer], period, state.passed[layer])
        state.starts[layer] = due
        length = tables.durations[back]
        start = place(state, g, ready, length, period, state.passed[back])
        state.starts[back] = start
        ready = start + length


def in_order(tables: Tables, state: State, period: int) -> None:
    """Start everything as early as possible, in the order of the chain."""
    tasks = len(tables.durations)
    layers = tasks // 2
    ready = 0
    for task in range(tasks):
        layer = min(task, tasks - 1 - task)
        length = tables.durations[task]
        start = place(state, state.gpu[layer], ready, length, period, state.passed[task])
        state.starts[task] = start
        ready = start + length
        if task + 1 == tasks or task + 1 == layers:
            continue
        following = min(task + 1, tasks - 2 - task)
        if state.gpu[layer] != state.gpu[following]:
            length = tables.transfers[task + 1]
            link = link_of(tables, state.gpu[layer], state.gpu[following])
            start = place(state, link, ready, length, period, 0)
            state.sent[task + 1] = start
            ready = start + length


def alive(start: int, end: int, at: int, period: int) -> int:
    """Number of copies that live at a time, if one copy lives from start to end in each period."""
    return (at - start) // period - (at - end) // period


def standing(tables: Tables, state: State, g: int) -> int:
    """Memory that one GPU always needs: weights and slots."""
    layers = len(state.gpu)
    total = 0
    for layer in range(layers):
        if state.gpu[layer] == g:
            total += tables.weights[layer]
        if layer and not tables.inputs_only and (state.gpu[layer] == g) != (state.gpu[layer - 1] == g):
            total += tables.activations[layer] + tables.activations[2 * layers - layer]
    return total


def held(tables: Tables, state: State, at_task: int, period: int) -> int:
    """What the GPU of a task holds when it starts, besides weights and slots."""
    tasks = len(tables.durations)
    layers = tasks // 2
    layer = min(at_task, tasks - 1 - at_task)
    g, at = state.gpu[layer], state.starts[at_task]
    total: int = tables.own[at_task]
    if at_task < layers:
        total -= tables.activations[layer]  # its input is among the kept ones
    for other in range(layers):
        if state.gpu[other] != g:
            continue
        back = tasks - 1 - other
        end = state.starts[back] + tables.durations[back]
        total += tables.activations[other] * alive(state.starts[other], end, at, period)
        if tables.inputs_only:
            continue
        for task in (other, back):
            if task + 1 < tasks and state.gpu[min(task + 1, tasks - 2 - task)] == g:
                ended = state.starts[task] + tables.durations[task]
                if state.starts[task + 1] > ended:
                    total += tables.activations[task + 1] * alive(ended, state.starts[task + 1], at, period)
    return total


def energy(tables: Tables, state: State, period: int) -> float:
    """How far the state is from a pattern of the period: time without a place and excess memory, as shares."""
    missing = lay_out(tables, state, period)
    excess = 0.0
    for g in range(tables.gpus):
        most = 0
        for layer in range(len(state.gpu)):
            if state.gpu[layer] == g:
                most = max(most, held(tables, state, layer, period))
                most = max(most, held(tables, state, len(tables.durations) - 1 - layer, period))
        over = standing(tables, state, g) + most - tables.memory
        if over > 0:
            excess += over / tables.memory
    return 4.0 * missing / period + excess


def move(tables: Tables, state: State) -> None:
    """One random change: from where the schedule is laid out, how many places one task passes over, the GPUs of two
    layers swapped, or another GPU for a layer or for a run of layers."""
    layers = len(state.gpu)
    state.saved_gpu[:] = state.gpu
    state.saved_passed[:] = state.passed
    state.saved_middle[0] = state.middle[0]
    if uniform(state) < TURN_SHARE:
        state.middle[0] = 1 - state.middle[0]
        return
    if uniform(state) < PASS_SHARE:
        state.passed[below(state, len(state.passed))] = below(state, MOST_PASSED + 1)
        return
    first = below(state, layers)
    kind = uniform(state)
    if kind < SWAP_SHARE:
        second = below(state, layers)
        state.gpu[first], state.gpu[second] = state.gpu[second], state.gpu[first]
        return
    end = first + 1
    if kind < SWAP_SHARE + RUN_SHARE:
        end = min(layers, first + 1 + below(state, 4))
    g = below(state, tables.gpus)
    if uniform(state) < 0.5:
        g = state.gpu[max(0, first - 1)] if uniform(state) < 0.5 else state.gpu[min(layers - 1, end)]
    for layer in range(first, end):
        state.gpu[layer] = g


def anneal(tables: Tables, state: State, period: int, steps: int, hot: float, cold: float) -> bool:
    """Cool down from the state as it is; True: it is a pattern of the period."""
    current = energy(tables, state, period)
    for step in range(steps):
        if current == 0.0:
            break
        heat = hot * (cold / hot) ** (step / steps)
        move(tables, state)
        changed = energy(tables, state, period)
        # The threshold -log(u) is approximated by a rational that needs no logarithm: u in (0, 1] -> 1/u - 1.
        if changed <= current or changed - current < heat * (1.0 / max(uniform(state), 1e-9) - 1.0) * 0.5:
            current = changed
        else:
            state.gpu[:] = state.saved_gpu
            state.passed[:] = state.saved_passed
            state.middle[0] = state.saved_middle[0]
    if current == 0.0:
        lay_out(tables, state, period)
        return True
    return False
