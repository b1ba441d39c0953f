"""The inner loops of the tables and of the bound, in the subset of Python that numba compiles.

Tables are arrays [configuration, devices used exactly] of samples in flight; `NEVER` marks what is impossible. The
configuration is that of the stage itself in `values`, that of a stage right before in `needs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# More samples than any stage can hold.
NEVER = 1 << 40


def need_above(row: Any, extra: Any, sizes: Any, batch: int, out: Any) -> None:
    """Lower `out` to the fewest samples in flight that a stage directly before these ones needs, whichever
    configuration they have; `extra`: samples that it needs besides, by its own and their configuration."""
    for upper in range(len(sizes)):
        for d in range(row.shape[1]):
            least = out[upper, d]
            for lower in range(len(sizes)):
                samples = row[lower, d]
                if samples < NEVER:
                    size = sizes[upper]
                    need = min(batch, -(-(samples + extra[upper, lower]) // size) * size)
                    least = min(least, need)
            out[upper, d] = least


def relax_row(row: Any, caps: Any, degrees: Any, needs: Any) -> None:
    """Lower the row to what it costs to begin with a stage that is a run of children: caps [last,
    configuration, degree] are samples that fit, needs [last, ...] what the rest asks."""
    size = row.shape[1]
    for last in range(caps.shape[0]):
        for own in range(caps.shape[1]):
            for g in range(caps.shape[2]):
                most = caps[last, own, g]
                if most > 0:
                    d = degrees[g]
                    for used in range(size - d):
                        samples = needs[last, own, used]
                        if samples <= most and samples < row[own, used + d]:
                            row[own, used + d] = samples


def relax_rows(rows: Any, caps: Any, degrees: Any, needs: Any) -> None:
    """The same for several first stages that have the same children behind them."""
    for n in range(rows.shape[0]):
        relax_row(rows[n], caps[n], degrees, needs)


def fill_rows(
    values: Any, needs: Any, caps: Any, degrees: Any, extra: Any, sizes: Any, batch: int, begin: int, stop: int
) -> None:
    """Fill the rows of a series node, from `begin` down to `stop`, with its stages alone; `needs` of what comes
    after `begin` is given."""
    end = values.shape[0] - 1
    for i in range(begin, stop - 1, -1):
        relax_row(values[i], caps[i, i:end], degrees, needs[i + 1 :])
        need_above(values[i], extra, sizes, batch, needs[i])


def put_beside(left: Any, right: Any, out: Any) -> None:
    """Lower `out` to what two parts side by side need: devices add up, and the larger need counts."""
    size = left.shape[1]
    for own in range(left.shape[0]):
        for used in range(size):
            samples = left[own, used]
            if samples < NEVER:
                for d in range(size - used):
                    value = max(samples, right[own, d])
                    if value < out[own, used + d]:
                        out[own, used + d] = value


def branch_states(moves: Any, blocks: Any, states: Any) -> None:
    """Fill the states of a set of branches: each move puts a block beside the state that remains without it.
    Moves are (state, block, remaining state), with the remaining states first; state 0 has no branch."""
    for n in range(len(moves)):
        state, block, rest = moves[n]
        put_beside(blocks[block], states[rest], states[state])


def no_state(count: int, configurations: int, size: int) -> Any:
    """States of which nothing is known to be possible yet."""
    return np.full((count, configurations, size), NEVER, np.int64)


def least_on_path(
    cross: Any,
    after: Any,
    times: Any,
    syncs: Any,
    fixed: Any,
    stashes: Any,
    latencies: Any,
    counts: Any,
    degrees: Any,
    sizes: Any,
    limits: Any,
    batch: int,
    levels: int,
    devices: int,
    fewest: int,
    longest: float,
    fill: float,
    charge: int,
) -> float:
    """The least device time that the stages on a path take in all; infinite where no division into stages is possible.

    Each stage may take at most `longest`. Times and transfers are [share, place], memory is [place]; a transfer at a
    place is that between the operators before the place and those from it on. Runs are added up from their beginning,
    so that no large number blurs those that follow it. Memory is in whole units: `fixed` on each device, `stashes` for
    each sample on all devices, `limits` for all devices of a share. A state is the number of stages that come after (in
    the highest of the `levels`: this number or more), a place, and the devices used before it; in the end these are at
    least the `fewest`. `charge`: 0 counts passes, 1 synchronisation too, 2 its latency and waiting as well.
    """
    end = times.shape[1]
    before = np.full((levels, end + 1, devices + 1), np.inf)
    spent = np.full((levels, end + 1, devices + 1), np.inf)
    before[:, 0, 0] = spent[:, 0, 0] = 0.0
    least, smallest = np.inf, sizes.min()
    for level in range(levels - 1, -1, -1):
        for place in range(end):
            for used in range(devices):
                start = before[level, place, used]
                if start == np.inf:
                    continue
                for s in range(len(degrees)):
                    total = used + degrees[s]
                    if total > devices:
                        continue
                    samples = min(batch, int(sizes[s] + level * smallest))
                    run, sync, memory = 0.0, 0.0, 0
                    for stop in range(place + 1, end + 1):
                        run += times[s, stop - 1]
                        sync += syncs[s, stop - 1]
                        memory += fixed[stop - 1] * degrees[s] + stashes[stop - 1] * samples
                        rest = max(start, sync + latencies[s])
                        busy = counts[s] * (run + cross[s, place])
                        if busy + rest > longest or memory > limits[s]:
                            break
                        busy += counts[s] * cross[s, stop]
                        if busy + rest > longest or (stop == end and (level > 0 or total < fewest)):
                            continue
                        work = spent[level, place, used] + degrees[s] * busy
                        if charge:
                            work += degrees[s] * (rest if charge == 2 else sync)
                        if stop == end:
                            least = min(least, work)
                            continue
                        following = start + fill * (run + after[s, stop])
                        for lower in range(max(0, level - 1), level + 1):
                            if lower < level or level == levels - 1:
                                before[lower, stop, total] = min(before[lower, stop, total], following)
                                spent[lower, stop, total] = min(spent[lower, stop, total], work)
    return least
