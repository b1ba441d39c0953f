"""Rows of whole numbers that are too long for a solver, as several rows of short ones.

Where amounts have seventeen digits, one part in 10^16 may decide what fits, and a float solver does not see it.
Numbers are written to the base `BASE`, and a whole variable carries from each digit to the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# The tolerance of a float solver in a row whose digits are all below this is less than a unit.
BASE = 2**24


def at_most(carries: Any, terms: Sequence[tuple[int, Any, int]], right: int) -> Iterator[Any]:
    """Rows that hold for some carry where, and only where, the sum of coefficients times whole variables is at most
    `right`; the last number of a term says how far its variable is from 0 at most.

    With a + BASE b in place of each coefficient, and of the right side, the last digit asks for
    sum of a x <= a0 + BASE c with a whole c, and then sum of b x + c <= b0 is the rest. For c to be right it has to be
    the least one, and any larger one makes the rest harder.

    A sum without variables gives no row where it is at most `right`, and the row `False` where it is not.
    """
    while any(abs(a) >= BASE for a, _, _ in terms) or (terms and abs(right) >= BASE * BASE):
        carry = carries.add()
        far = sum(far for _, _, far in terms) + 1
        carry.setlb(-far)
        carry.setub(far)
        digits = [(a % BASE, x) for a, x, _ in terms if a % BASE]
        yield sum(a * x for a, x in digits) - BASE * carry <= right % BASE
        terms = [*((a // BASE, x, far) for a, x, far in terms if a // BASE), (1, carry, far)]
        right //= BASE
    if terms:
        yield sum(a * x for a, x, _ in terms) <= right
    elif right < 0:
        yield False


def add_rows(model: Any, *equations: tuple[str, str, Iterable[Any]]) -> bool:
    """Add the rows of each equation, with its name and what it says; False as soon as a row is false whatever the
    variables are."""
    from ..quick_pyomo import pyo

    for name, doc, rows in equations:
        model.add_component(name, pyo.ConstraintList(doc=doc))
        for row in rows:
            if row is False:
                return False
            if row is not True:
                model.component(name).add(row)
    return True
