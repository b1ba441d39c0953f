"""Tasks that take no time: rows for what `instants` says of them, in place of (5)-(7), which are wrong there (E4).

Large constants: starts of tasks that take no time lie in [0, UB], those of others in [-d, UB - d].
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from ..instants import transitive
from .frame import Frame


def add(frame: Frame) -> None:
    _pairs(frame)
    _ends(frame)
    _order(frame)


def _pairs(frame: Frame) -> None:
    """Rows that say which of two tasks is not after the other."""
    facts, tau = frame.facts, frame.model.tau
    rows: dict[Any, Any] = {}
    for x, z in frame.pairs:
        shared, sooner, later = frame.together(x, z), frame.w(z, x), frame.w(x, z)
        rows["sooner", x, z] = tau[z] - tau[x] <= (facts.upper + facts.durations[x]) * (1 - sooner)
        rows["later", x, z] = tau[x] - tau[z] <= facts.upper * (1 - later)
        if x in frame.timeless:
            rows["one", x, z] = sooner + later >= shared
            rows["sooner shared", x, z] = sooner <= shared
            rows["later shared", x, z] = later <= shared
        else:
            rows["shared", x, z] = frame.model.w[min(x, z), max(x, z)] <= shared
    frame.rows("timeless_order", rows, "(E4b) which of two tasks comes first, where one takes no time")


def _ends(frame: Frame) -> None:
    """Rows that say that a task is not before the end of the other one, or not before its next start."""
    facts, model = frame.facts, frame.model
    rows: dict[Any, Any] = {}
    for x, z in model.ended:
        apart = model.tau[z] - model.tau[x]
        rows["ended", x, z] = apart >= facts.durations[x] - (facts.upper + facts.durations[x]) * (
            1 - model.ended[x, z]
        )
        rows["ended later", x, z] = model.ended[x, z] <= frame.w(x, z)
        rows["far", x, z] = apart >= model.T - 2 * facts.upper * (1 - model.far[x, z])
        rows["far ended", x, z] = model.far[x, z] <= model.ended[x, z]
    frame.rows("timeless_ends", rows, "(E4c) a task without time is before or after the end of another one")


def _order(frame: Frame) -> None:
    """Beginnings are in an order, also where they share an instant."""
    far = frame.model.far
    rows: dict[Any, Any] = {}
    for a, b, c in transitive(frame.tasks, frame.timeless, frame.timeless):
        rows[a, b, c] = frame.w(a, c) >= frame.w(a, b) + frame.w(b, c) - 1
    frame.rows("timeless_transitive", rows, "(E4d) beginnings at one instant are in an order")
    rows = {}
    for z, other in permutations(sorted(frame.timeless), 2):
        for x in (task for task in frame.tasks if task not in frame.timeless):
            rows[x, z, other, 1] = far[x, other] >= far[x, z] + frame.w(z, other) - 1
            rows[x, z, other, 2] = far[x, z] + frame.w(other, x) <= 1
    frame.rows("timeless_far", rows, "(E4e) which period a task without time belongs to")
