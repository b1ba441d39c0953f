"""Tables of a comparison as pandas frames: tidy runs, the best of each method, ratios to the best, profiles, pairs.

A run without a verified plan has no value. It never enters a mean; it counts among the runs that the mean leaves out,
which stand beside it, and in a performance profile it lies within no ratio. A column may be added; names of columns
stand in files that others read. Gaps are to the optimum, where one is proven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

from ...instances.base.quantities import several
from ...instances.base.result import PROVEN_TOLERANCE
from .run import Record, Run, Status
from .suite import Published

if TYPE_CHECKING:
    import pandas


# Columns in which two runs agree where no clock decides when they stop.
DETERMINISTIC = (
    "instance", "setting", "kind", "method", "formulation", "planner", "solver", "seed", "problem_hash", "status",
    "stop", "found", "ending", "value", "time_unit", "bound", "scope", "gap", "verified", "published", "published_s",
    "published_source",
)  # fmt: skip
MEASURED = ("build_s", "solve_s", "total_s", "wall_s", "peak_memory_bytes")
OTHER = ("backend", "backend_version", "pipeplan", "python", "system", "message", "key")
# Columns that are fields of a run, and columns that name a case.
RUN_COLUMNS = ("instance", "setting", "kind", "method", "problem_hash", "seed", "key")
CASE = ["instance", "setting"]
# Seconds that are added before a geometric mean is taken and subtracted from it: tiny times count for little.
SHIFT_S = 1.0
# Ends of runs that no limit cut short.
ENDED = ("proven", "gap", "completed")
# How runs end, in words for a paper: those without a result, without a plan, and with one; other words stay.
FAILED = {Status.REFUSED: "not applicable", Status.TIME: "over time", Status.MEMORY: "over memory"}
PLANLESS = {"time": "over time", "memory": "over memory", "completed": "no plan"}
PLANNED = {"time": "time limit", "memory": "memory limit", "gap": "within gap", "error": "contradicted"}


def tidy(
    runs: Sequence[Run], records: Mapping[str, Record], published: Sequence[Published] = ()
) -> pandas.DataFrame:
    """One row for each run, in the order of the runs; those that have not finished are left out."""
    import pandas

    printed = {(entry.instance, entry.setting, entry.method): entry for entry in published}
    rows = [
        _row(records[run.key], printed.get((run.instance, run.setting, run.method)))
        for run in runs
        if run.key in records
    ]
    frame = pandas.DataFrame(rows, columns=[*DETERMINISTIC, *MEASURED, *OTHER])
    numbers = ["value", "bound", "gap", "published", "published_s", *MEASURED]
    frame[numbers] = frame[numbers].astype("Float64")
    return frame


def _row(record: Record, printed: Published | None) -> dict[str, Any]:
    run, result = record.run, record.result or {}
    seconds, backend = result.get("seconds", {}), result.get("backend", {})
    verified = bool(result.get("verified"))
    return {
        **{name: getattr(run, name) for name in RUN_COLUMNS},
        "formulation": result.get("formulation") or run.formulation,
        "planner": result.get("planner") or run.planner,
        "solver": run.solver,
        "status": str(record.status),
        "stop": result.get("stop"),
        "found": result.get("found"),
        "ending": ending(record),
        "value": result.get("objective") if verified else None,
        "time_unit": result.get("problem", {}).get("time_unit"),
        "bound": result.get("bound"),
        "scope": result.get("scope"),
        "gap": result.get("gap"),
        "verified": verified,
        "published": None if printed is None else printed.value,
        "published_s": None if printed is None else printed.seconds,
        "published_source": None if printed is None else printed.source,
        **{f"{name}_s": seconds.get(name) for name in ("build", "solve", "total")},
        "wall_s": record.wall_s,
        "peak_memory_bytes": record.peak_memory_bytes,
        "backend": backend.get("name"),
        "backend_version": backend.get("version"),
        **{name: record.versions.get(name) for name in ("pipeplan", "python", "system")},
        "message": record.message or "; ".join(result.get("messages", [])) or None,
    }


def ending(record: Record) -> str:
    """How a run ended, in words for a paper."""
    result = record.result or {}
    stop = str(result.get("stop"))
    if record.status != Status.DONE:
        return FAILED.get(record.status, str(record.status))
    if result.get("verified"):
        return PLANNED.get(stop, stop)
    return "rejected" if result.get("found") == "rejected" else PLANLESS.get(stop, stop)


def values(frame: pandas.DataFrame) -> pandas.DataFrame:
    """One line for each case, one column for each method: the median over seeds, absent where half or more failed."""
    cells = frame.groupby([*CASE, "method"], sort=False)["value"].apply(_median_with_failures)
    methods, cases = frame["method"].drop_duplicates(), frame[CASE].drop_duplicates()
    return cells.unstack("method").reindex(index=list(cases.itertuples(index=False, name=None)), columns=methods)


def _median_with_failures(cell: pandas.Series[Any]) -> float | None:
    """The usual median over all seeds, where a failure is worse than every value; None if a middle one is a failure."""
    numbers = sorted([*map(float, cell.dropna()), *[math.inf] * int(cell.isna().sum())])
    middle = median(numbers)
    return middle if math.isfinite(middle) else None


def best_proven(frame: pandas.DataFrame, case: Sequence[Any]) -> float | None:
    """The smallest proven value of a case, by any method and among whichever plans."""
    proven = frame[(frame[CASE[0]] == case[0]) & (frame[CASE[1]] == case[1]) & (frame["stop"] == "proven")]
    values = proven["value"].dropna()
    return float(values.min()) if len(values) else None


def reference(frame: pandas.DataFrame, case: Sequence[Any]) -> tuple[float | None, str]:
    """What the gaps of a case are to, and its name: the proven optimum; a bound, the weakest where methods consider
    different plans; or the best value, where nothing is proven."""
    best, own = best_proven(frame, case), frame[(frame[CASE[0]] == case[0]) & (frame[CASE[1]] == case[1])]
    if best or (own["stop"] == "infeasible").any():
        return best, "optimum"
    bounds = own.dropna(subset=["bound"]).groupby("scope", dropna=False)["bound"].max()
    found = own["value"].dropna()
    for column, name in ((bounds, "bound"), (found, "best found")):
        if len(column) and float(column.min()) > 0:
            return float(column.min()), name
    return None, ""


def gaps(frame: pandas.DataFrame) -> pandas.DataFrame:
    """One line for each case: the reference and its name, and for each method (value - reference) / reference."""
    table = values(frame).astype("Float64")
    known = [reference(frame, case) for case in table.index]
    found = table.div([math.nan if value is None else value for value, _ in known], axis=0) - 1
    found.insert(0, "reference", [value for value, _ in known])
    found.insert(1, "is", [name for _, name in known])
    return found.rename_axis(CASE).reset_index()


def _mean_gap(column: pandas.Series[Any]) -> dict[str, Any]:
    """The geometric mean of values over references, less 1, over the cases with a gap, and its interval."""
    logs = [math.log1p(float(gap)) for gap in column.dropna()]
    low, high = (None if end is None else end - 1 for end in _interval(logs))
    mean = math.expm1(math.fsum(logs) / len(logs)) if logs else None
    return {"cases_with_gap": len(logs), "geometric_mean_gap": mean, "gap_low": low, "gap_high": high}


def ratios(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Each method's value over the best of its case."""
    table = values(frame).astype("Float64")
    return table.div(table.min(axis=1), axis=0)


def summary(frame: pandas.DataFrame) -> pandas.DataFrame:
    """One line for each method: how many runs it solved and proved, its gaps, its time and memory."""
    import pandas

    table, above = ratios(frame), gaps(frame)
    rows = []
    for method in table.columns:
        own = frame[frame["method"] == method]
        over_best = [float(ratio) for ratio in table[method].dropna()]
        rows.append(
            {
                "method": method,
                "runs": len(own),
                "verified": int(own["verified"].sum()),
                "proven": int((own["stop"] == "proven").sum()),
                "cases": int(own[CASE].drop_duplicates().shape[0]),
                "cases_with_value": len(over_best),
                "best_in_cases": sum(ratio <= 1 + PROVEN_TOLERANCE for ratio in over_best),
                "geometric_mean_ratio_to_best": _geometric_mean(over_best),
                "worst_ratio_to_best": max(over_best) if over_best else None,
                **_mean_gap(above[method]),
                "shifted_geometric_mean_s": _shifted_geometric_mean(own["total_s"].fillna(own["wall_s"])),
                "median_total_s": _median(own["total_s"]),
                "median_wall_s": _median(own["wall_s"]),
                "median_peak_memory_bytes": _median(own["peak_memory_bytes"]),
            }
        )
    return pandas.DataFrame(rows)


def _median(column: pandas.Series[Any]) -> float | None:
    return float(column.median()) if column.notna().any() else None


def _shifted_geometric_mean(column: pandas.Series[Any]) -> float | None:
    """Geometric mean of the seconds of all runs, shifted by `SHIFT_S`; runs that a limit cut short count as well.
    None where a run has no time."""
    if column.isna().any() or column.empty:
        return None
    return math.exp(math.fsum(math.log(float(s) + SHIFT_S) for s in column) / len(column)) - SHIFT_S


def _geometric_mean(factors: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, factors)) / len(factors)) if factors and min(factors) > 0 else None


def profile(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The share of all cases in which a method's value is within a ratio of the best; failures are within none.

    The ratios are all at which a share changes, so that no method lies beyond the end.
    """
    table = ratios(frame)
    reached = {str(method): [float(ratio) for ratio in table[method].dropna()] for method in table.columns}
    return _shares("ratio", reached, dict.fromkeys(reached, len(table)), 1.0)


def time_profile(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The share of a method's runs that have ended within a time, with a verified plan and cut short by no limit."""
    ended = frame[frame["verified"] & frame["stop"].isin(ENDED)]
    methods = [str(method) for method in frame["method"].drop_duplicates()]
    runs = {str(method): int(count) for method, count in frame.groupby("method").size().items()}
    reached = {
        method: [float(s) for s in ended[ended["method"] == method]["total_s"].dropna()] for method in methods
    }
    return _shares("seconds", reached, runs, 0.0)


def _shares(
    axis: str, reached: Mapping[str, Sequence[float]], of: Mapping[str, int], first: float
) -> pandas.DataFrame:
    import pandas

    points = sorted({first, *(point for own in reached.values() for point in own)})
    shares = {
        method: [sum(value <= point * (1 + 1e-9) for value in own) / max(of[method], 1) for point in points]
        for method, own in reached.items()
    }
    return pandas.DataFrame({axis: points, **shares})


def faults(frame: pandas.DataFrame) -> list[tuple[str, str, str, str]]:
    """Method, cases, ending and message of runs that were refused, crashed, were killed or err; those with the same
    message together."""
    failed = frame[(frame["status"] != "done") | (frame["stop"] == "error")]
    cases: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in plain_rows(failed[["method", "ending", "message", *CASE]]):
        case = " ".join(filter(None, (row[name] for name in CASE)))
        cases.setdefault((row["method"], row["ending"], row["message"] or ""), {})[case] = None
    return [(method, _first_of([*own]), how, message) for (method, how, message), own in cases.items()]


def _first_of(cases: Sequence[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {several(len(cases) - 1, 'other')}"


def plain_rows(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain data; absent values are None."""
    return [
        {str(name): absent_as_none(value) for name, value in zip(frame.columns, row, strict=True)}
        for row in frame.itertuples(index=False, name=None)
    ]


def absent_as_none(value: Any) -> Any:
    """The value as plain data; None for any of the marks that pandas has for absent values."""
    import pandas

    if value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") else value


# ---- methods in pairs -----------------------------------------------------------------------------------------

# The method of a leaderboard whose values are the best known ones.
KNOWN = "best known"

# The share of intervals that hold the true ratio.
CONFIDENCE = 0.95
# With fewer cases than this, nothing is said of an interval.
FEWEST = 3
# Resamples of the cases for the interval of a mean, drawn from this seed.
RESAMPLES, RESAMPLING_SEED = 10_000, 0
# What a reader must know of the numbers.
ASSUMED = (
    "Ratio: geometric mean, over the cases where both methods have a plan, of the first one's value divided by the "
    "second one's; cases where only one has a plan are counted and not in the mean. The 95 % interval is a percentile "
    "bootstrap over cases, as that of the gaps: it assumes that cases are drawn independently. p: "
    "Wilcoxon's signed-rank test of the logarithms, two-sided; it assumes independent cases and, where the methods are "
    "alike, differences that are symmetric about 0; cases that are alike are left out. Holm's p is corrected for the "
    "number of pairs. Instances chosen by hand are no sample: then both say how the table varies and no more."
)


def paired(frame: pandas.DataFrame, against: str = "") -> pandas.DataFrame:
    """One line for each pair of methods, or for that of one with each other one: the ratio of their values with its
    interval, who wins how often, the test. None of a leaderboard, where one plan stands in a row for each question, so
    that its cases are not independent."""
    import pandas

    table = values(frame).astype("Float64")
    rows: list[dict[str, Any]] = []
    if KNOWN in table.columns:
        return pandas.DataFrame(rows)
    others = [(against, str(name)) for name in table.columns if name != against]
    for first, second in others if against in table.columns else combinations(table.columns, 2):
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
                "first_better": sum(log < -PROVEN_TOLERANCE for log in logs),
                "alike": sum(abs(log) <= PROVEN_TOLERANCE for log in logs),
                "second_better": sum(log > PROVEN_TOLERANCE for log in logs),
                "geometric_mean_ratio": math.exp(math.fsum(logs) / len(logs)) if logs else None,
                "interval_low": low,
                "interval_high": high,
                "wilcoxon_p": _wilcoxon(logs),
            }
        )
    holm = _holm([row["wilcoxon_p"] for row in rows])
    return pandas.DataFrame([{**row, "holm_p": p} for row, p in zip(rows, holm, strict=True)])


def _interval(logs: Sequence[float]) -> tuple[float | None, float | None]:
    """The percentile bootstrap of the mean logarithm over cases, as ratios; None where there are too few."""
    import numpy

    if len(logs) < FEWEST:
        return None, None
    means = numpy.random.default_rng(RESAMPLING_SEED).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    low, high = numpy.exp(numpy.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    return float(low), float(high)


def _wilcoxon(logs: Sequence[float]) -> float | None:
    """The p of Wilcoxon's test; None where the methods are alike in every case, so that there is nothing to test."""
    different = [log for log in logs if abs(log) > PROVEN_TOLERANCE]
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
