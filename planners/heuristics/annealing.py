"""The inner loop of `lns`: simulated annealing on the devices of groups, written for compilation.

`sweep` works on arrays alone; it runs as it stands on small inputs and compiled by numba on larger ones. It minimises
a smooth stand-in of the objective: for each part the power mean of the device loads, which still sees
progress where the largest load alone would not move.

The exponent of the mean is 2 to the power `squarings`. A low one forgives imbalance and so finds its way from
anywhere; a high one is needed where loads are nearly equal and the rest is fine packing.

State: `device[g]`; `held[e, d]`: how many pins of net e are on accelerator d; `load[part, d]`; `memory[d]`.
Moves: one group to a device of a neighbour or to any device; two groups change places; a connected block moves.
"""

from __future__ import annotations

from typing import Any

MAX_BLOCK = 24


def sweep(
    random_state: Any,
    steps: int,
    hot: float,
    cold: float,
    squarings: int,
    reference: float,
    device: Any,
    held: Any,
    load: Any,
    memory: Any,
    best_device: Any,
    best_value: float,
    times: Any,
    cpu_times: Any,
    sizes: Any,
    supported: Any,
    capacity: float,
    accelerators: int,
    net_start: Any,
    net_pins: Any,
    net_cost: Any,
    net_part: Any,
    of_start: Any,
    of_nets: Any,
    near_start: Any,
    near: Any,
    before_start: Any,
    before: Any,
    after_start: Any,
    after: Any,
    stage_of_device: Any,
    ordered: bool,
) -> float:
    """Anneal in place from temperature `hot` to `cold` (relative to `reference`); returns the best value seen.

    `best_device` receives the best assignment by the true objective. With `ordered`, a move must keep
    stage(u) <= stage(v) along all arcs, where stages are given by `stage_of_device`.
    """
    groups = device.shape[0]
    parts = load.shape[0]
    devices = load.shape[1]
    state = random_state[0]
    moved = [0] * (MAX_BLOCK + 1)
    origin = [0] * (MAX_BLOCK + 1)

    scale = 1.0 / reference
    root = 0.5**squarings
    energy = 0.0
    for q in range(parts):
        total = 0.0
        for d in range(devices):
            x = load[q, d] * scale
            for _ in range(squarings):
                x *= x
            total += x
        energy += total**root

    temperature = hot
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    for _step in range(steps):
        temperature *= cooling
        # choose a move: the groups to move and their targets, filled into moved/origin
        state ^= (state << 13) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= (state << 17) & 0xFFFFFFFFFFFFFFFF
        g = int((state >> 11) % groups)
        kind = int((state >> 3) % 16)
        state ^= (state << 13) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= (state << 17) & 0xFFFFFFFFFFFFFFFF
        pick = int(state >> 12)
        a = device[g]
        b = a
        neighbours = near_start[g + 1] - near_start[g]
        if kind < 14 and neighbours > 0:
            b = device[near[near_start[g] + pick % neighbours]]
        if b == a:
            b = pick % devices
        if b == a:
            continue
        count = 1
        moved[0] = g
        swap = -1
        if 6 <= kind < 12:
            # a partner from the other device, at its border with ours if one turns up soon
            other = int((pick >> 7) % groups)
            for _try in range(8):
                if device[other] == b:
                    swap = other
                    for place in range(near_start[other], near_start[other + 1]):
                        if device[near[place]] == a:
                            break
                    else:
                        other = (other + 1) % groups
                        continue
                    break
                other = (other + 1) % groups
        elif kind >= 12:
            # a connected block on the same device, grown breadth first to a random size
            size = 2 + int((pick >> 9) % (MAX_BLOCK - 1))
            front = 0
            while front < count and count < size:
                h = moved[front]
                front += 1
                for place in range(near_start[h], near_start[h + 1]):
                    w = near[place]
                    if device[w] == a and count < size:
                        known = False
                        for i in range(count):
                            if moved[i] == w:
                                known = True
                                break
                        if not known:
                            moved[count] = w
                            count += 1
        # carry the move out group by group; undo it if it is refused
        done = 0
        allowed = True
        total_moves = count + (1 if swap >= 0 else 0)
        for i in range(total_moves):
            if i < count:
                v = moved[i]
                target = b
            else:
                v = swap
                target = a
                moved[i] = swap
            source = device[v]
            origin[i] = source
            if target < accelerators and not supported[v]:
                allowed = False
                break
            _shift(
                v,
                source,
                target,
                device,
                held,
                load,
                memory,
                times,
                cpu_times,
                sizes,
                accelerators,
                net_start,
                net_cost,
                net_part,
                of_start,
                of_nets,
            )
            done += 1
        if allowed and ((memory[b] > capacity and b < accelerators) or (memory[a] > capacity and a < accelerators)):
            allowed = False
        if allowed and ordered:
            for i in range(done):
                v = moved[i]
                stage = stage_of_device[device[v]]
                for place in range(before_start[v], before_start[v + 1]):
                    if stage_of_device[device[before[place]]] > stage:
                        allowed = False
                for place in range(after_start[v], after_start[v + 1]):
                    if stage_of_device[device[after[place]]] < stage:
                        allowed = False
        if allowed:
            candidate = 0.0
            for q in range(parts):
                total = 0.0
                for d in range(devices):
                    x = load[q, d] * scale
                    for _ in range(squarings):
                        x *= x
                    total += x
                candidate += total**root
            change = candidate - energy
            if change > 0.0:
                state ^= (state << 13) & 0xFFFFFFFFFFFFFFFF
                state ^= state >> 7
                state ^= (state << 17) & 0xFFFFFFFFFFFFFFFF
                uniform = (state >> 11) * (1.0 / 9007199254740992.0)
                # exp(-x) without overflow; refused at once where hopeless
                ratio = change / temperature
                allowed = ratio < 30.0 and uniform < 2.718281828459045 ** (-ratio)
            if allowed:
                energy = candidate
        if not allowed:
            for i in range(done - 1, -1, -1):
                v = moved[i]
                _shift(
                    v,
                    device[v],
                    origin[i],
                    device,
                    held,
                    load,
                    memory,
                    times,
                    cpu_times,
                    sizes,
                    accelerators,
                    net_start,
                    net_cost,
                    net_part,
                    of_start,
                    of_nets,
                )
            continue
        value = 0.0
        for q in range(parts):
            largest = 0.0
            for d in range(devices):
                largest = max(largest, load[q, d])
            value += largest
        if value < best_value:
            best_value = value
            for h in range(groups):
                best_device[h] = device[h]
    random_state[0] = state
    return best_value


def _shift(
    v: int,
    source: int,
    target: int,
    device: Any,
    held: Any,
    load: Any,
    memory: Any,
    times: Any,
    cpu_times: Any,
    sizes: Any,
    accelerators: int,
    net_start: Any,
    net_cost: Any,
    net_part: Any,
    of_start: Any,
    of_nets: Any,
) -> None:
    """Move group v and update counts, loads and memory."""
    for place in range(of_start[v], of_start[v + 1]):
        e = of_nets[place]
        pins = net_start[e + 1] - net_start[e]
        if source < accelerators:
            now = held[e, source]
            was_cut = now < pins
            is_cut = now > 1
            held[e, source] = now - 1
            if is_cut and not was_cut:
                load[net_part[e], source] += net_cost[e]
            elif was_cut and not is_cut:
                load[net_part[e], source] -= net_cost[e]
        if target < accelerators:
            now = held[e, target]
            was_cut = now > 0
            is_cut = now + 1 < pins
            held[e, target] = now + 1
            if is_cut and not was_cut:
                load[net_part[e], target] += net_cost[e]
            elif was_cut and not is_cut:
                load[net_part[e], target] -= net_cost[e]
    for q in range(load.shape[0]):
        load[q, source] -= times[q, v] if source < accelerators else cpu_times[q, v]
        load[q, target] += times[q, v] if target < accelerators else cpu_times[q, v]
    if source < accelerators:
        memory[source] -= sizes[v]
    if target < accelerators:
        memory[target] += sizes[v]
    device[v] = target
