"""Sums over intervals of units. A dozen operations of numpy make all of them at once: code for numba would take a
second to compile.

Sums are those of a loop that adds unit by unit, to the last digit. Before an interval's first unit all is 0.
"""

from __future__ import annotations

from typing import Any

from .layouts_kernel import SUMS, tail_seconds

FORWARD, INPUTS, WEIGHTS, AGAIN, STASH, MOMENT, FOR_WEIGHTS = range(7)


def interval_sums(costs: Any, plain: Any, layers: Any, count: int) -> Any:
    """[sum, first, behind]: all that a chunk of these units takes and keeps.

    `costs` and `plain` are the columns of a word and of no word: what is computed again with the word holds for the
    first `count` layers of a chunk (all of them where it is negative), no word for the others.
    """
    import numpy as np

    units = costs.shape[1]
    inside = _inside(units)
    among_first = _among_first(layers, count)
    again, with_word = inside & layers & among_first, ~layers | among_first
    moment, stash, for_weights = (
        np.where(inside, np.where(with_word, costs[part], plain[part]), 0.0)
        for part in (MOMENT, STASH, FOR_WEIGHTS)
    )
    # What is computed again is added after the unit's own seconds.
    inputs = np.zeros((units, 2 * units))
    inputs[:, 0::2] = np.where(inside, costs[INPUTS], 0.0)
    inputs[:, 1::2] = np.where(again, costs[AGAIN], 0.0)
    found = np.zeros((SUMS, units + 1, units + 1))
    found[0, :-1, 1:] = _running(costs[FORWARD])
    found[1, :-1, 1:] = inputs.cumsum(axis=1)[:, 1::2]
    found[2, :-1, 1:] = _running(costs[WEIGHTS])
    found[3, :-1, 1:] = stash.cumsum(axis=1)
    found[4, :-1, 1:] = np.maximum.accumulate(np.where(inside, found[3, :-1, :-1] + moment, 0.0), axis=1)
    found[5, :-1, 1:] = for_weights.cumsum(axis=1)
    return found


def stage_tables(
    sums: Any,
    types: Any,
    standing: Any,
    gathered: Any,
    masks: Any,
    sent: Any,
    update: Any,
    tail: Any,
    zero: int,
    shares: tuple[float, float],
    tied: bool,
    update_rates: Any,
    received: float,
    beside: float,
) -> Any:
    """Table of stages with one chunk: backward seconds, fixed bytes and tail seconds, [number, first unit, unit
    behind the last]."""
    import numpy as np

    units = len(types)
    inside = _inside(units)
    mask = np.bitwise_or.accumulate(np.where(inside, types, 0), axis=1)
    most = np.maximum.accumulate(np.where(inside, gathered, 0.0), axis=1)
    usual, experts, updated = (_running(each) for each in (sent[:, 0], sent[:, 1], update))
    if tied:
        usual[0, -1] -= sent[-1, 0]
        updated[0, -1] -= sent[-1, 0] * update_rates[0]
    own = sums[:, :-1, 1:]
    backward = own[1] + own[2]
    fixed = _running(standing) + masks[mask] + most + beside + own[4] - own[3]
    fixed[1:] += received
    found = np.zeros((3, units + 1, units + 1))
    tails = tail_seconds(own[0], backward, usual, experts, updated, tail, zero, shares)
    found[:, :-1, 1:] = np.where(inside, [backward, fixed, tails], 0.0)
    return found


def _inside(units: int) -> Any:
    """[first, unit]: is the unit in the intervals that begin there?"""
    import numpy as np

    return np.tri(units, dtype=bool).T


def _running(column: Any) -> Any:
    """[first, last]: sums."""
    import numpy as np

    return np.where(_inside(len(column)), column, 0.0).cumsum(axis=1)


def _among_first(layers: Any, count: int) -> Any:
    """[first, unit]: is the unit before a layer that is one too many? All are where the count is negative."""
    import numpy as np

    if count < 0:
        return np.True_
    before = np.cumsum(layers) - layers
    return before[None, :] - before[:, None] < count
