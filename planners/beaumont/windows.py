"""Quick refutations: between the search and the compiled branch and bound of `window_kernel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...formulations.beaumont import fixed_allocation
from ...formulations.beaumont.fixed_allocation import Known
from ...formulations.beaumont.integer_chain import IntegerChain
from . import window_kernel
from .compiled import compiled

DEPTH = 100
"""Branchings below each other before the search of a part gives up."""


def refutes(chain: IntegerChain, known: Known, period: int, nodes: int) -> bool:
    """Is it proven, with so many nodes at most, that what is known fits no period up to this one?

    Exclusive buffers do not count here. An answer of no says little where tasks take no time.
    """
    import numpy as np

    assert chain.memory is not None
    groups = range(len(known.groups))
    if any(fixed_allocation.standing_memory(chain, known, g) > chain.memory for g in groups):
        return True
    part = part_of(chain, known, period)
    n = len(part.durations)
    stack = np.empty((DEPTH, n, n), dtype=np.int64)
    answer = compiled(window_kernel, "examine")(part, stack, np.zeros(3, dtype=np.int64), nodes)
    return bool(answer == window_kernel.REFUTED)


def part_of(chain: IntegerChain, known: Known, period: int) -> window_kernel.Part:
    """The numbers of the model for what is known, as arrays."""
    data = fixed_allocation.payload(chain, known, period)
    users = {i: r for r, members in enumerate(data["resources"]) for i in members}
    memory: Sequence[Mapping[str, Any]] = data["memory"]
    return window_kernel.Part(
        period=period,
        durations=_table(data["durations"]),
        lags=_table([*data["lags"], 0]),
        resources=_table([users.get(i, -1) for i in range(len(data["durations"]))]),
        tasks=_table([(at, own, g) for g, facts in enumerate(memory) for at, own in facts["tasks"]], 3),
        kept=_table([(*row, g) for g, facts in enumerate(memory) for row in facts["kept"] if row[2]], 4),
        direct=_table([(*row, g) for g, facts in enumerate(memory) for row in facts["direct"]], 4),
        room=_table([facts["room"] for facts in memory]),
        area=_table([period * facts["room"] - facts["current"] for facts in memory]),
    )


def _table(rows: Sequence[Any], columns: int | None = None) -> Any:
    import numpy as np

    table = np.array(rows, dtype=np.int64)
    return table if columns is None else table.reshape(-1, columns)
