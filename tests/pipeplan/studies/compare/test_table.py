"""Tables of made-up runs: what failed is counted and never averaged."""

from __future__ import annotations

import pytest
from problems.made_up_runs import frame, record, run

from pipeplan.studies.compare.run import Record, Status
from pipeplan.studies.compare.suite import Published
from pipeplan.studies.compare.table import faults, plain_rows, profile, ratios, summary, tidy, values

TWO_METHODS = (
    record(run("one", "a"), 10.0, "proven"),
    record(run("one", "b"), 12.0),
    record(run("two", "a"), None, "time"),
    record(run("two", "b"), 5.0),
    Record(run("three", "a"), Status.CRASHED, wall_s=1.0),
    record(run("three", "b"), 8.0),
)


def test_ratios_are_to_the_best_of_the_case_and_absent_where_there_is_no_plan() -> None:
    table = ratios(frame(*TWO_METHODS))
    assert list(table["b"]) == [pytest.approx(1.2), 1.0, 1.0]
    assert table["a"].isna().tolist() == [False, True, True]


def test_the_summary_counts_failures_beside_the_mean() -> None:
    a, b = plain_rows(summary(frame(*TWO_METHODS)))
    assert (a["runs"], a["verified"], a["proven"], a["cases"], a["cases_with_value"]) == (3, 1, 1, 3, 1)
    assert (a["geometric_mean_ratio_to_best"], a["worst_ratio_to_best"]) == (1.0, 1.0)
    assert b["geometric_mean_ratio_to_best"] == pytest.approx(1.2 ** (1 / 3))
    assert b["best_in_cases"] == 2


def test_in_a_profile_a_failure_lies_within_no_ratio() -> None:
    shares = profile(frame(*TWO_METHODS), taus=(1.0, 1.1, 1.2, 100.0))
    assert list(shares["a"]) == [pytest.approx(1 / 3)] * 4
    assert list(shares["b"]) == [pytest.approx(2 / 3), pytest.approx(2 / 3), 1.0, 1.0]


@pytest.mark.parametrize(
    ("found", "median"),
    [
        ((3.0, 1.0, 2.0), 2.0),
        ((3.0, None, 2.0), 3.0),
        ((3.0, None, None), None),
        ((1.0, 2.0), 1.5),
        ((4.0, 1.0, 3.0, 9.0), 3.5),
        ((1.0, None), None),
        ((1.0, 2.0, 3.0, None), 2.5),
        ((None,), None),
    ],
)
def test_the_median_over_seeds_takes_a_failure_for_worse_than_any_value(
    found: tuple[float | None, ...], median: float | None
) -> None:
    records = [record(run("one", "a", seed), value) for seed, value in enumerate(found)]
    (row,) = plain_rows(values(frame(*records)))
    assert row["a"] == median


def test_best_in_counts_medians_over_seeds_and_ties_for_both() -> None:
    """The better half of two seeds makes no method the best of its case; a failure makes none of them."""
    found = {"a": (1.0, 9.0), "b": (2.0, 3.0), "c": (2.5, 2.5), "d": (1.0, None)}
    records = [record(run("one", name, seed), value) for name, of in found.items() for seed, value in enumerate(of)]
    rows = plain_rows(summary(frame(*records)))
    best = {row["method"]: (row["best_in_cases"], row["cases_with_value"], row["cases"]) for row in rows}
    assert best == {"a": (0, 1, 1), "b": (1, 1, 1), "c": (1, 1, 1), "d": (0, 0, 1)}


def test_rows_stand_in_the_order_of_the_runs_and_unfinished_ones_are_left_out() -> None:
    first, second, third = (record(run(name, "a"), 1.0) for name in ("z", "y", "x"))
    table = tidy([first.run, second.run, third.run], {r.run.key: r for r in (third, first)})
    assert list(table["instance"]) == ["z", "x"]


def test_a_value_without_the_referees_word_is_none() -> None:
    rejected = Record(run("one", "a"), Status.DONE, {"verified": False, "objective": 1.0, "found": "rejected"})
    (row,) = plain_rows(frame(rejected))
    assert row["value"] is None


def test_printed_values_stand_beside_ours() -> None:
    printed = Published("one", "a", 9.5, "somebody, Table 1")
    (row,) = plain_rows(frame(record(run("one", "a"), 10.0), published=(printed,)))
    assert (row["published"], row["published_source"]) == (9.5, "somebody, Table 1")


def test_failures_are_told_once_with_their_reason() -> None:
    crashed = [Record(run(name, "a"), Status.CRASHED, message="killed") for name in ("one", "two")]
    assert faults(frame(*crashed, record(run("one", "b"), 1.0))) == [("a", "crashed", "killed")]


def test_no_runs_make_an_empty_table() -> None:
    assert frame().empty
