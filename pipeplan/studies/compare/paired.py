"""Methods in pairs on the same cases: the ratio of their values, how sure it is, and what the tests assume."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from ...instances.physics.tolerances import SAME
from .table import values

if TYPE_CHECKING:
    import pandas

# The share of intervals that hold the true ratio.
CONFIDENCE = 0.95
# With fewer cases than this, nothing is said of an interval.
FEWEST = 3
# What a reader must know of the numbers.
ASSUMED = (
    "Ratio: geometric mean, over the cases where both methods have a plan, of the first one's value divided by the "
    "second one's; cases where only one has a plan are counted and not in the mean. The 95 % interval is Student's, of "
    "the mean logarithm: it assumes that cases are drawn independently and that logarithms are roughly normal. p: "
    "Wilcoxon's signed-rank test of the logarithms, two-sided; it assumes independent cases and, where the methods are "
    "alike, differences that are symmetric about 0; cases that are alike are left out. Holm's p is corrected for the "
    "number of pairs. Instances chosen by hand are no sample: then both say how the table varies and no more."
)


def paired(frame: pandas.DataFrame) -> pandas.DataFrame:
    """One line for each pair of methods: the ratio of their values with its interval, who wins how often, the test."""
    import pandas

    table = values(frame).astype("Float64")
    rows = []
    for first, second in combinations(table.columns, 2):
        both = table[[first, second]].dropna()
        only = table[first].notna().astype(int) - table[second].notna().astype(int)
        logs = [
            math.log(float(a) / float(b)) for a, b in both.itertuples(index=False, name=None) if a > 0 and b > 0
        ]
        low, high = _interval(logs)
        rows.append(
            {
                "first": str(first),
                "second": str(second),
                "cases": len(logs),
                "first_alone": int((only == 1).sum()),
                "second_alone": int((only == -1).sum()),
                "first_better": sum(log < -SAME for log in logs),
                "alike": sum(abs(log) <= SAME for log in logs),
                "second_better": sum(log > SAME for log in logs),
                "geometric_mean_ratio": math.exp(math.fsum(logs) / len(logs)) if logs else None,
                "interval_low": low,
                "interval_high": high,
                "wilcoxon_p": _wilcoxon(logs),
            }
        )
    holm = _holm([row["wilcoxon_p"] for row in rows])  # type: ignore[misc]
    return pandas.DataFrame([{**row, "holm_p": p} for row, p in zip(rows, holm, strict=True)])


def _interval(logs: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's interval of the mean logarithm, as ratios."""
    if len(logs) < FEWEST:
        return None, None
    from scipy import stats

    mean, error = math.fsum(logs) / len(logs), float(stats.sem(logs))
    if error == 0:
        return math.exp(mean), math.exp(mean)
    low, high = stats.t.interval(CONFIDENCE, len(logs) - 1, loc=mean, scale=error)
    return math.exp(low), math.exp(high)


def _wilcoxon(logs: Sequence[float]) -> float | None:
    """The p of Wilcoxon's test; None where the methods are alike in every case, so that there is nothing to test."""
    different = [log for log in logs if abs(log) > SAME]
    if not different:
        return None
    from scipy import stats

    return float(stats.wilcoxon(different).pvalue)


def _holm(ps: Sequence[float | None]) -> list[float | None]:
    """Each p, corrected by Holm for the number of tests; the order of the tests stays the same."""
    order = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        corrected[i] = largest
    return corrected
