"""The inner loop of `lns`: simulated annealing on the devices of groups, written for compilation.

It works on arrays alone and runs as it stands on small inputs, compiled by numba on larger ones. What it minimises
is a smooth stand-in of the objective: for each part the power mean of the device loads, which still sees progress
where the largest load alone would not move. The exponent is 2 to the power `squarings`: a low one forgives
imbalance and so finds its way from anywhere, a high one is needed where loads are nearly equal and the rest is
fine packing.

A move concerns two devices: one group changes over, two groups change places, or a connected block changes over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_BLOCK = 24

WORD = 0xFFFFFFFFFFFFFFFF


class Tables(NamedTuple):
    """The problem as arrays. Rows of different lengths are stored one after the other, with their starts."""

    times: Any  # [part, group]
    cpu_times: Any
    sizes: Any
    supported: Any
    capacity: float
    accelerators: int
    net_pins: Any
    """Number of pins."""
    net_cost: Any
    net_part: Any
    of_start: Any
    of_nets: Any
    """The nets of each group."""
    near_start: Any
    near: Any
    """The groups with which each group shares a net."""
    before_start: Any
    before: Any
    after_start: Any
    after: Any
    """Along the arcs of the stage order; empty where plans need not be contiguous."""
    stage_of_device: Any


class State(NamedTuple):
    """What annealing changes, and its scratch paper."""

    random: Any
    device: Any
    """[group]."""
    held: Any
    """[net, device]: how many pins of the net are there (on accelerators)."""
    load: Any  # [part, device]
    memory: Any
    """[device]: bytes held by each accelerator."""
    term: Any
    """[part, device]: the load to the power of the mean."""
    change: Any
    """[part, 0 or 1]: what the move adds to the loads of its two devices."""
    moved: Any
    """The groups of the move, those that leave the first device first."""
    best: Any
    """[group]: the best assignment so far, by the true objective."""


def sweep(
    tables: Any,
    state: Any,
    steps: int,
    hot: float,
    cold: float,
    squarings: int,
    reference: float,
    best_value: float,
) -> float:
    """Anneal in place from temperature `hot` to `cold`, relative to the load `reference`; returns the best value.

    `state.best` is filled where a value below `best_value` was met.
    """
    scale = 1.0 / reference
    energy = _set_terms(state, squarings, scale)
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        one, two, leaving, count = _propose(tables, state)
        if count == 0 or not _take_places(tables, state, one, two, leaving, count):
            continue
        _weigh(tables, state, one, two, leaving, count)
        candidate = _energy(state, one, two, squarings, scale)
        if candidate > energy and not _accepts(state, (candidate - energy) / temperature):
            _go_back(tables, state, one, two, leaving, count)
            continue
        energy = candidate
        _settle(tables, state, one, two, leaving, count, squarings, scale)
        value = _value(state)
        if value < best_value:
            best_value = value
            state.best[:] = state.device
    return best_value


def _draw(state: Any) -> int:
    """Marsaglia's xorshift with 64 bits."""
    x = state.random[0]
    x ^= (x << 13) & WORD
    x ^= x >> 7
    x ^= (x << 17) & WORD
    state.random[0] = x
    return x


# ---- proposing ----------------------------------------------------------------------------------------------


def _propose(tables: Any, state: Any) -> tuple[int, int, int, int]:
    """(first device, second device, how many groups leave the first, how many move in all); none: no move."""
    groups = state.device.shape[0]
    devices = state.load.shape[1]
    draw = _draw(state)
    g = int((draw >> 11) % groups)
    kind = int((draw >> 3) % 16)
    pick = int(_draw(state) >> 12)
    one = state.device[g]
    two = one
    start = tables.near_start[g]
    neighbours = tables.near_start[g + 1] - start
    if kind < 14 and neighbours > 0:
        two = state.device[tables.near[start + pick % neighbours]]
    if two == one:
        two = pick % devices
    if two == one:
        return 0, 0, 0, 0
    state.moved[0] = g
    if 6 <= kind < 12:
        partner = _partner(tables, state, one, two, int((pick >> 7) % groups))
        if partner >= 0:
            state.moved[1] = partner
            return one, two, 1, 2
    elif kind >= 12:
        size = _grow(tables, state, one, 2 + int((pick >> 9) % (MAX_BLOCK - 1)))
        return one, two, size, size
    return one, two, 1, 1


def _partner(tables: Any, state: Any, one: int, two: int, start: int) -> int:
    """A group on the second device, at its border with the first if one turns up soon; -1: none met."""
    groups = state.device.shape[0]
    found = -1
    other = start
    for _ in range(8):
        if state.device[other] == two:
            found = other
            for place in range(tables.near_start[other], tables.near_start[other + 1]):
                if state.device[tables.near[place]] == one:
                    return found
        other = (other + 1) % groups
    return found


def _grow(tables: Any, state: Any, device: int, size: int) -> int:
    """Adds to `moved` what hangs together with its first group on the device, breadth first; returns how many."""
    count = 1
    front = 0
    while front < count < size:
        h = state.moved[front]
        front += 1
        for place in range(tables.near_start[h], tables.near_start[h + 1]):
            w = tables.near[place]
            if state.device[w] != device or count == size:
                continue
            known = False
            for i in range(count):
                known = known or state.moved[i] == w
            if not known:
                state.moved[count] = w
                count += 1
    return count


# ---- judging ------------------------------------------------------------------------------------------------


def _take_places(tables: Any, state: Any, one: int, two: int, leaving: int, count: int) -> bool:
    """Move the groups on paper, unless support, memory or the stage order forbid it."""
    shift = 0.0
    for i in range(count):
        v = state.moved[i]
        target = two if i < leaving else one
        if target < tables.accelerators and not tables.supported[v]:
            return False
        shift += tables.sizes[v] if i < leaving else -tables.sizes[v]
    if shift > 0.0 and two < tables.accelerators and state.memory[two] + shift > tables.capacity:
        return False
    if shift < 0.0 and one < tables.accelerators and state.memory[one] - shift > tables.capacity:
        return False
    for i in range(count):
        state.device[state.moved[i]] = two if i < leaving else one
    if tables.before.shape[0] and not _in_order(tables, state, count):
        for i in range(count):
            state.device[state.moved[i]] = one if i < leaving else two
        return False
    return True


def _in_order(tables: Any, state: Any, count: int) -> bool:
    """Does stage(u) <= stage(v) still hold along the arcs of the moved groups?"""
    for i in range(count):
        v = state.moved[i]
        stage = tables.stage_of_device[state.device[v]]
        for place in range(tables.before_start[v], tables.before_start[v + 1]):
            if tables.stage_of_device[state.device[tables.before[place]]] > stage:
                return False
        for place in range(tables.after_start[v], tables.after_start[v + 1]):
            if tables.stage_of_device[state.device[tables.after[place]]] < stage:
                return False
    return True


def _weigh(tables: Any, state: Any, one: int, two: int, leaving: int, count: int) -> None:
    """Fill `change`. Pins are counted over for all groups but the last, whose turn comes only if it is accepted."""
    for q in range(state.change.shape[0]):
        state.change[q, 0] = 0.0
        state.change[q, 1] = 0.0
    for i in range(count):
        v = state.moved[i]
        source, target, here = (one, two, 0) if i < leaving else (two, one, 1)
        _weigh_group(tables, state, v, source, target, here)
        if i < count - 1:
            _count_over(tables, state, v, source, target)


def _weigh_group(tables: Any, state: Any, v: int, source: int, target: int, here: int) -> None:
    there = 1 - here
    from_accelerator = source < tables.accelerators
    to_accelerator = target < tables.accelerators
    for q in range(state.change.shape[0]):
        state.change[q, here] -= tables.times[q, v] if from_accelerator else tables.cpu_times[q, v]
        state.change[q, there] += tables.times[q, v] if to_accelerator else tables.cpu_times[q, v]
    for place in range(tables.of_start[v], tables.of_start[v + 1]):
        e = tables.of_nets[place]
        pins = tables.net_pins[e]
        q = tables.net_part[e]
        if from_accelerator:
            held = state.held[e, source]
            if held == pins:
                state.change[q, here] += tables.net_cost[e]
            elif held == 1:
                state.change[q, here] -= tables.net_cost[e]
        if to_accelerator:
            held = state.held[e, target]
            if held == 0:
                state.change[q, there] += tables.net_cost[e]
            elif held == pins - 1:
                state.change[q, there] -= tables.net_cost[e]


def _count_over(tables: Any, state: Any, v: int, source: int, target: int) -> None:
    for place in range(tables.of_start[v], tables.of_start[v + 1]):
        e = tables.of_nets[place]
        if source < tables.accelerators:
            state.held[e, source] -= 1
        if target < tables.accelerators:
            state.held[e, target] += 1


def _power(load: float, squarings: int, scale: float) -> float:
    x = max(load, 0.0) * scale
    for _ in range(squarings):
        x *= x
    return x


def _set_terms(state: Any, squarings: int, scale: float) -> float:
    """Every term from the loads; returns the energy."""
    energy = 0.0
    for q in range(state.load.shape[0]):
        total = 0.0
        for d in range(state.load.shape[1]):
            state.term[q, d] = _power(state.load[q, d], squarings, scale)
            total += state.term[q, d]
        energy += total ** (0.5**squarings)
    return energy


def _energy(state: Any, one: int, two: int, squarings: int, scale: float) -> float:
    """After the move."""
    energy = 0.0
    for q in range(state.load.shape[0]):
        total = _power(state.load[q, one] + state.change[q, 0], squarings, scale)
        total += _power(state.load[q, two] + state.change[q, 1], squarings, scale)
        for d in range(state.load.shape[1]):
            if d not in (one, two):
                total += state.term[q, d]
        energy += total ** (0.5**squarings)
    return energy


def _accepts(state: Any, loss: float) -> bool:
    """A move for the worse, of `loss` temperatures, is accepted with probability exp(-loss)."""
    uniform = int(_draw(state) >> 11) * (1.0 / 9007199254740992.0)
    return loss < 30.0 and uniform < 2.718281828459045**-loss


def _value(state: Any) -> float:
    value = 0.0
    for q in range(state.load.shape[0]):
        largest = 0.0
        for d in range(state.load.shape[1]):
            largest = max(largest, state.load[q, d])
        value += largest
    return value


# ---- carrying out -------------------------------------------------------------------------------------------


def _go_back(tables: Any, state: Any, one: int, two: int, leaving: int, count: int) -> None:
    for i in range(count):
        v = state.moved[i]
        source, target = (one, two) if i < leaving else (two, one)
        state.device[v] = source
        if i < count - 1:
            _count_over(tables, state, v, target, source)


def _settle(
    tables: Any, state: Any, one: int, two: int, leaving: int, count: int, squarings: int, scale: float
) -> None:
    last = state.moved[count - 1]
    if count > leaving:
        _count_over(tables, state, last, two, one)
    else:
        _count_over(tables, state, last, one, two)
    for q in range(state.load.shape[0]):
        for d, here in ((one, 0), (two, 1)):
            state.load[q, d] += state.change[q, here]
            state.term[q, d] = _power(state.load[q, d], squarings, scale)
    for i in range(count):
        shift = tables.sizes[state.moved[i]] if i < leaving else -tables.sizes[state.moved[i]]
        state.memory[one] -= shift
        state.memory[two] += shift
