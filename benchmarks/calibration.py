"""A fixed piece of work in plain Python, in numpy and in machine code: the unit in which processor time is compared.

A machine that is twice as slow takes twice as long for it, and about twice as long for everything else.
"""

from __future__ import annotations

import time

import numba
import numpy as np

PLAIN_STEPS = 60_000
NUMBERS = 150_000
LOOP_STEPS = 6_000_000


def unit_seconds() -> float:
    """Processor seconds of one unit, about 15 ms on a machine of 2024; the first call compiles and does not count."""
    began = time.process_time()
    plain()
    vectors()
    loop(LOOP_STEPS)
    return time.process_time() - began


def plain() -> int:
    """Numbers, tuples and a dict, as planners use them."""
    table: dict[tuple[int, int], int] = {}
    for i in range(PLAIN_STEPS):
        key = (i % 97, i % 89)
        table[key] = table.get(key, 0) + (i * i) % 7
    return sum(table.values())


def vectors() -> float:
    """Sorting and adding up."""
    numbers = np.arange(NUMBERS, dtype=np.float64) * 7919 % 104729
    return float(np.cumsum(np.sort(numbers))[-1])


@numba.njit(cache=True)
def loop(steps: int) -> int:
    """Whole numbers in machine code; each step needs the one before."""
    state = 1
    for _ in range(steps):
        state = (state * 1103515245 + 12345) % 2147483648
    return state
