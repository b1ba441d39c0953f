"""Patterns with one batch in a period, from exact times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from ...instances.chain.plan import PatternPlan


def one_batch(
    period: Fraction, allocation: Sequence[int], starts: Sequence[Fraction], transfers: Mapping[int, Fraction]
) -> PatternPlan:
    return PatternPlan(
        period=float(period),
        allocation=tuple(allocation),
        starts=(tuple(map(float, starts)),),
        transfers=({edge: float(transfers[edge]) for edge in sorted(transfers)},),
    )
