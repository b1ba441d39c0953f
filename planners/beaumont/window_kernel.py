"""Can a few GPUs hold their layers at a period? Branch and bound on windows, in plain loops over arrays.

Two activities of one resource never meet modulo the period T, so their starts lie in one of the windows
[d_i + h T, (h + 1) T - d_j] apart, h a whole number; and the windows decide how many copies of a kept activation are
there while a task runs. A node of the search holds the least distances between all starts, closed under addition.
Distances lift windows, windows lift distances, and memory that is nearly full forbids wider windows. Compiled where
numba is at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

FITS, REFUTED, OPEN = 1, 0, -1
NEVER = -(1 << 40)


class Part(NamedTuple):
    """What is known of an allocation, as arrays: activities in the order of the chain."""

    period: int
    durations: Any
    lags: Any
    """Least time from the start of each activity to that of the next one."""
    resources: Any
    """Who excludes whom; -1: nobody."""
    tasks: Any
    """Rows (position, what the task alone holds, GPU)."""
    kept: Any
    """Rows (position of the forward task, of the backward task, size, GPU)."""
    direct: Any
    """Rows (position, position of the next task, size, GPU) of what waits between two tasks of one GPU."""
    room: Any
    """Memory per GPU beside what is always there."""
    area: Any
    """Per GPU: size times time that is left for what is kept and what waits."""


def quotient_up(a: int, b: int) -> int:
    return -(-a // b)


def low(part: Part, apart: Any, i: int, j: int) -> int:
    """The least window of two positions i < j."""
    return quotient_up(apart[i, j] + part.durations[j], part.period) - 1


def high(part: Part, apart: Any, i: int, j: int) -> int:
    return (-apart[j, i] - part.durations[i]) // part.period


def raise_to(apart: Any, i: int, j: int, least: int) -> bool:
    """Start j at least so much after i, with all that follows; False: that is a contradiction."""
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


def windows(part: Part, apart: Any) -> int:
    """Distances to the nearest windows: -1 a contradiction, else whether something changed."""
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
    if at == first or at == last:
        return 0
    if at < first:
        return max(0, low(part, apart, at, last) - high(part, apart, at, first))
    return max(0, low(part, apart, first, at) - high(part, apart, last, at))


def narrow(part: Part, apart: Any, i: int, j: int) -> int:
    """Take the least window: -1 a contradiction, else whether something changed."""
    if i > j:
        i, j = j, i
    most = (low(part, apart, i, j) + 1) * part.period - part.durations[j]
    if -apart[j, i] <= most:
        return 0
    return 1 if raise_to(apart, j, i, -most) else -1


def memory(part: Part, apart: Any) -> int:
    """While each task runs: -1 too much, else whether something changed."""
    changed = 0
    for row in range(len(part.tasks)):
        at, group = part.tasks[row, 0], part.tasks[row, 2]
        spare = part.room[group] - part.tasks[row, 1]
        for k in range(len(part.kept)):
            if part.kept[k, 3] == group:
                spare -= part.kept[k, 2] * copies(part, apart, part.kept[k, 0], part.kept[k, 1], at)
        for k in range(len(part.direct)):
            if part.direct[k, 3] == group:
                spare -= part.direct[k, 2] * waiting(part, apart, part.direct[k, 0], part.direct[k, 1], at)
        if spare < 0:
            return -1
        for k in range(len(part.kept)):
            first, last = part.kept[k, 0], part.kept[k, 1]
            if part.kept[k, 3] != group or part.kept[k, 2] <= spare:
                continue
            if at <= first or at >= last:
                if at == first or at == last:
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
    """Little's law on each GPU: -1 too much, else whether something changed."""
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
    """All consequences; False: a contradiction."""
    while True:
        first = windows(part, apart)
        if first < 0:
            return False
        if first > 0:
            continue
        second = memory(part, apart)
        if second < 0:
            return False
        if second > 0:
            continue
        third = areas(part, apart)
        if third < 0:
            return False
        if third == 0:
            return True


def undecided(part: Part, apart: Any, chosen: Any) -> bool:
    """The pair whose two sides both say most."""
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


def begin(part: Part, apart: Any) -> None:
    """Distances along the chain; of two activities in a row the later one never waits for more than a period."""
    n = len(part.durations)
    for i in range(n):
        apart[i, i] = 0
        for j in range(i + 1, n):
            apart[i, j] = apart[i, j - 1] + part.lags[j - 1]
            apart[j, i] = apart[j - 1, i] - part.lags[j - 1] - part.period


def examine(part: Part, stack: Any, chosen: Any, nodes: int) -> int:
    """FITS, REFUTED, or OPEN after so many nodes. stack[depth] are the distances of the nodes on the way; `chosen` is
    room for three numbers."""
    begin(part, stack[0])
    depth = 0
    while depth >= 0:
        nodes -= 1
        if nodes < 0 or depth + 2 > len(stack):
            return OPEN
        apart = stack[depth]
        if not settle(part, apart):
            depth -= 1
            continue
        if not undecided(part, apart, chosen):
            return FITS
        i, j, least = chosen[0], chosen[1], chosen[2]
        stack[depth + 1] = apart
        late = raise_to(apart, i, j, part.durations[i] + (least + 1) * part.period)
        soon = raise_to(stack[depth + 1], j, i, part.durations[j] - (least + 1) * part.period)
        if not late:
            if not soon:
                depth -= 1
                continue
            stack[depth] = stack[depth + 1]
        elif soon:
            depth += 1
    return REFUTED
