"""Which plans to ask for first where some costs are far above all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .contract import Options

# A limit of so many times the lower bound leaves some plan in all but strange problems.
FAR = 1e4


def near_cutoff(costs: Iterable[float], bound: float | None, cutoff: float | None) -> float | None:
    """Where it takes no costs far above the bound to be worse than the cut-off: a cut-off below such costs.

    No plan below it pays them, so a model under it can do without them (`capped`), and a solver sees the digits of all
    others. A proof that there is no such plan improves the bound, and with it what comes next.
    """
    positive = [cost for cost in costs if cost > 0]
    near = FAR * (bound or min(positive, default=0.0))
    if max(positive, default=0.0) <= 2 * near or (cutoff is not None and cutoff <= near):
        return cutoff
    return near


class FarCosts:
    """A formulation whose cut-offs grow by `near_cutoff`."""

    def costs(self, problem: Any, options: Options) -> Iterable[float]:
        """All costs that a plan may pay in one place."""
        raise NotImplementedError

    def next_cutoff(
        self,
        problem: Any,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        return near_cutoff(self.costs(problem, options), bound, cutoff)
