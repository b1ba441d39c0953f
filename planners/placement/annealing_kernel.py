"""The inner loop of `lns`: simulated annealing on the devices of groups, written for compilation.

It works on arrays alone. On small inputs it runs as plain Python, on larger ones compiled by numba. What it minimises
is a smooth stand-in of the objective: for each part the power mean of the device loads, which still sees progress
where the largest load alone would not move. The exponent is 2 to the power `squarings`: a low one forgives
imbalance and so finds its way from anywhere, a high one is needed where loads are nearly equal and the rest is
fine packing.

A move concerns two devices: one group changes over, two groups change places, or a connected block changes over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Groups of the largest block.
MAX_BLOCK = 24

# Of `KINDS` moves, `SWAPS` exchange two groups and `BLOCKS` move a block; the others move one group.
KINDS, SWAPS, BLOCKS = 32, 10, 4

# All bits of a machine word.
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
    """Number of groups in each net."""
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
    """`before` and `after`: the groups at the arcs of the stage order to and from each group; empty where plans need
    not be contiguous."""
    stage_of_device: Any


class State(NamedTuple):
    """The arrays that annealing changes, and its scratch arrays."""

    random: Any
    device: Any
    """[group]: the device of each group."""
    held: Any
    """[net, device]: number of the net's pins on the device."""
    load: Any  # [part, device]
    memory: Any
    """[device]: size of its groups."""
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

    `state.best` is filled where a value below `best_value` was met. Compiled code passes single arrays quickly and
    tuples of arrays slowly, so the tuples are unpacked here, once.
    """
    times, cpu_times, sizes, supported, capacity, accelerators = tables[:6]
    net_pins, net_cost, net_part, of_start, of_nets = tables[6:11]
    near_start, near, before_start, before, after_start, after, stage_of_device = tables[11:]
    random, device, held, load, memory, term, change, moved, best = state
    scale = 1.0 / reference
    energy = _set_terms(load, term, squarings, scale)
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        # Propose: the first `leaving` of `count` groups in `moved` go from device `one` to `two`, the others back.
        g = _below(device.shape[0], random)
        kind = _below(KINDS, random)
        one = device[g]
        two = one
        neighbours = near_start[g + 1] - near_start[g]
        if neighbours > 0:
            two = device[near[near_start[g] + _below(neighbours, random)]]
        if two == one:
            two = _below(load.shape[1], random)
        if two == one:
            continue
        moved[0] = g
        leaving = 1
        count = 1
        if kind < SWAPS:
            partner = _partner(device, near_start, near, one, two, _below(device.shape[0], random))
            if partner >= 0:
                moved[1] = partner
                count = 2
        elif kind < SWAPS + BLOCKS:
            leaving = _grow(device, near_start, near, moved, 2 + _below(MAX_BLOCK - 1, random))
            count = leaving
        # Rules: support, memory, stage order.
        shift = 0.0
        allowed = True
        for i in range(count):
            v = moved[i]
            if (two if i < leaving else one) < accelerators and not supported[v]:
                allowed = False
            shift += sizes[v] if i < leaving else -sizes[v]
        if shift > 0.0 and two < accelerators and memory[two] + shift > capacity:
            allowed = False
        if shift < 0.0 and one < accelerators and memory[one] - shift > capacity:
            allowed = False
        if not allowed:
            continue
        for i in range(count):
            device[moved[i]] = two if i < leaving else one
        if before.shape[0] > 0:
            for i in range(count):
                v = moved[i]
                allowed = allowed and _in_order(
                    device, before_start, before, after_start, after, stage_of_device, v
                )
        # Loads: pins are counted over for all groups but the last, whose turn comes only if it is accepted.
        candidate = energy
        weighed = 0
        if allowed:
            for q in range(load.shape[0]):
                change[q, 0] = 0.0
                change[q, 1] = 0.0
            for i in range(count):
                v = moved[i]
                source, target, here = one, two, 0
                if i >= leaving:
                    source, target, here = two, one, 1
                for q in range(load.shape[0]):
                    change[q, here] -= times[q, v] if source < accelerators else cpu_times[q, v]
                    change[q, 1 - here] += times[q, v] if target < accelerators else cpu_times[q, v]
                if source < accelerators:
                    _move(v, source, -1, held, change, here, of_start, of_nets, net_pins, net_cost, net_part)
                if target < accelerators:
                    _move(v, target, 1, held, change, 1 - here, of_start, of_nets, net_pins, net_cost, net_part)
                if i < count - 1:
                    _count_over(v, source, target, held, of_start, of_nets)
                    weighed = i + 1
            candidate = _energy(load, term, change, one, two, squarings, scale)
            if candidate > energy:
                uniform = _below(1 << 30, random) * (0.5**30)
                loss = (candidate - energy) / temperature
                allowed = loss < 30.0 and uniform < 2.718281828459045**-loss
        if not allowed:
            for i in range(count):
                v = moved[i]
                source, target = (one, two) if i < leaving else (two, one)
                device[v] = source
                if i < weighed:
                    _count_over(v, target, source, held, of_start, of_nets)
            continue
        energy = candidate
        if count > leaving:
            _count_over(moved[count - 1], two, one, held, of_start, of_nets)
        else:
            _count_over(moved[count - 1], one, two, held, of_start, of_nets)
        memory[one] -= shift
        memory[two] += shift
        value = 0.0
        for q in range(load.shape[0]):
            load[q, one] += change[q, 0]
            load[q, two] += change[q, 1]
            term[q, one] = _power(load[q, one], squarings, scale)
            term[q, two] = _power(load[q, two], squarings, scale)
            largest = 0.0
            for d in range(load.shape[1]):
                largest = max(largest, load[q, d])
            value += largest
        if value < best_value:
            best_value = value
            for v in range(device.shape[0]):
                best[v] = device[v]
    return best_value


def _below(limit: int, random: Any) -> int:
    """A random whole number >= 0 and < limit, from Marsaglia's xorshift with 64 bits."""
    x = random[0]
    x ^= (x << 13) & WORD
    x ^= x >> 7
    x ^= (x << 17) & WORD
    random[0] = x
    return (int(x >> 33) * limit) >> 31


def _partner(device: Any, near_start: Any, near: Any, one: int, two: int, start: int) -> int:
    """A group on device `two`, if possible one that shares a net with device `one`; -1: eight tries met none."""
    found = -1
    other = start
    for _ in range(8):
        if device[other] == two:
            found = other
            for place in range(near_start[other], near_start[other + 1]):
                if device[near[place]] == one:
                    return found
        other = (other + 1) % device.shape[0]
    return found


def _grow(device: Any, near_start: Any, near: Any, moved: Any, size: int) -> int:
    """Add to `moved` groups that are connected with its first one on the same device, breadth first; return the number
    of groups in `moved`."""
    count = 1
    front = 0
    while front < count < size:
        h = moved[front]
        front += 1
        for place in range(near_start[h], near_start[h + 1]):
            w = near[place]
            if device[w] == device[h] and count < size:
                known = False
                for i in range(count):
                    known = known or moved[i] == w
                if not known:
                    moved[count] = w
                    count += 1
    return count


def _in_order(
    device: Any, before_start: Any, before: Any, after_start: Any, after: Any, stage_of_device: Any, v: int
) -> bool:
    """Does stage(u) <= stage(v) hold along all arcs of v?"""
    stage = stage_of_device[device[v]]
    fine = True
    for place in range(before_start[v], before_start[v + 1]):
        fine = fine and stage_of_device[device[before[place]]] <= stage
    for place in range(after_start[v], after_start[v + 1]):
        fine = fine and stage <= stage_of_device[device[after[place]]]
    return fine


def _move(
    v: int,
    device: int,
    step: int,
    held: Any,
    change: Any,
    side: int,
    of_start: Any,
    of_nets: Any,
    net_pins: Any,
    net_cost: Any,
    net_part: Any,
) -> None:
    """Add to `change` what the device pays for transfers when v joins it (step 1) or leaves it (-1), less what it pays
    now: a device pays for a net of which it holds some pins but not all."""
    for place in range(of_start[v], of_start[v + 1]):
        e = of_nets[place]
        before = held[e, device]
        after = before + step
        if before == 0 or before == net_pins[e]:
            change[net_part[e], side] += net_cost[e]
        elif after == 0 or after == net_pins[e]:
            change[net_part[e], side] -= net_cost[e]


def _count_over(v: int, source: int, target: int, held: Any, of_start: Any, of_nets: Any) -> None:
    """Count the pins of v over from one device to another. CPUs are counted as well, though nothing reads that."""
    for place in range(of_start[v], of_start[v + 1]):
        held[of_nets[place], source] -= 1
        held[of_nets[place], target] += 1


def _power(load: float, squarings: int, scale: float) -> float:
    """The scaled load to the power 2 ** squarings."""
    x = max(load, 0.0) * scale
    for _ in range(squarings):
        x *= x
    return x


def _set_terms(load: Any, term: Any, squarings: int, scale: float) -> float:
    """Compute every term from the loads; return the energy, the sum over the parts of the power mean."""
    energy = 0.0
    for q in range(load.shape[0]):
        total = 0.0
        for d in range(load.shape[1]):
            term[q, d] = _power(load[q, d], squarings, scale)
            total += term[q, d]
        energy += total ** (0.5**squarings)
    return energy


def _energy(load: Any, term: Any, change: Any, one: int, two: int, squarings: int, scale: float) -> float:
    """The energy that the loads have after a move between devices `one` and `two`."""
    energy = 0.0
    for q in range(load.shape[0]):
        total = _power(load[q, one] + change[q, 0], squarings, scale)
        total += _power(load[q, two] + change[q, 1], squarings, scale)
        for d in range(load.shape[1]):
            if d != one and d != two:
                total += term[q, d]
        energy += total ** (0.5**squarings)
    return energy
