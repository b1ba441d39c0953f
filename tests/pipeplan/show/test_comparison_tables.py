"""What stands beside the values of made-up runs, and what every run took."""

from __future__ import annotations

import pytest
from problems.made_up_runs import frame, record, run

from pipeplan.show.comparison import case_cells, method_cells, run_cells
from pipeplan.studies.compare.run import Record
from pipeplan.studies.compare.suite import Published, load_suite
from pipeplan.studies.compare.table import best_proven, plain_rows, summary


def one(method: str, value: float | None, stop: str, gap: float | None = None, unit: str | None = None) -> Record:
    return record(run("one", method), value, stop, wall_s=1.25, gap=gap, problem={"time_unit": unit})


RUNS = (
    one("contiguous", 12.0, "proven"),
    one("free", 10.0, "proven"),
    one("weak", 11.0, "time", gap=0.9),
    one("lucky", 10.0, "completed", gap=0.5),
    one("lost", None, "time"),
)


def test_beside_a_value_stands_the_loss_against_the_best_proven_one_and_never_a_methods_own_gap() -> None:
    _, (row,) = case_cells(frame(*RUNS))
    assert row[1:] == ["12 proven (+20.00 %)", "10 proven", "11 (+10.00 %)", "10", "time"]


def test_where_nothing_is_proven_a_value_stands_alone() -> None:
    _, (row,) = case_cells(frame(RUNS[2]))
    assert row[1:] == ["11"]
    assert best_proven(frame(RUNS[2]), ("one", "")) is None


def test_the_gap_to_a_methods_own_bound_is_in_the_csv() -> None:
    assert plain_rows(frame(RUNS[2]))[0]["gap"] == 0.9


def test_every_run_says_how_long_it_took_and_how_much_memory_it_held() -> None:
    head, rows = run_cells(frame(*RUNS))
    assert head == ["instance", "method", "seed", "value", "stop", "wall time", "peak memory"]
    assert rows[2] == ["one", "weak", "0", "11", "time", "1.2 s", "300 MiB"]
    assert rows[4] == ["one", "lost", "0", "", "time", "1.2 s", "300 MiB"]


def test_a_loss_that_rounds_to_nothing_is_said_to_be_small() -> None:
    _, (row,) = case_cells(frame(one("best", 10.0, "proven"), one("near", 10.0003, "completed")))
    assert row[1:] == ["10 proven", "10.0003 (< 0.01 %)"]


def test_printed_values_have_a_row_of_their_own() -> None:
    printed = Published("one", "free", 10.01, "a table")
    table = frame(*RUNS[:2], published=(printed,))
    assert [row[0] for row in case_cells(table)[1]] == ["one", "  published"]
    assert case_cells(table)[1][1][1:] == ["", "10.01"]


def test_printed_seconds_stand_beside_the_wall_time() -> None:
    printed = Published("one", "weak", None, "a table", seconds=0.75)
    table = frame(RUNS[2], published=(printed,))
    (row,) = run_cells(table)[1]
    assert row[-2] == "1.2 s [published 0.75 s]"
    assert case_cells(table)[1][0][1:] == ["11"]


def test_the_suite_of_graphpipe_carries_the_printed_seconds() -> None:
    printed = {(entry.instance, entry.method): entry.seconds for entry in load_suite("graphpipe-tables").published}
    assert printed["MMT, 8 devices", "published method"] == 0.76
    assert len(printed) == 6


def test_values_of_a_row_are_in_the_unit_in_which_people_read_them() -> None:
    runs = (one("good", 30568.0, "proven", unit="us"), one("bad", 63270.0, "completed", unit="us"))
    assert case_cells(frame(*runs))[1] == [["one (ms)", "30.568 proven", "63.27 (+106.98 %)"]]
    assert [row[3] for row in run_cells(frame(*runs))[1]] == ["30.568 ms", "63.27 ms"]


def test_a_line_of_a_method_has_no_raw_bytes() -> None:
    head, (row, *_) = method_cells(frame(*RUNS))
    assert dict(zip(head, row, strict=True))["memory"] == "300 MiB"


def test_the_summary_of_a_method_has_medians_of_both() -> None:
    first = plain_rows(summary(frame(*RUNS)))[0]
    assert (first["median_wall_s"], first["median_peak_memory_bytes"]) == (pytest.approx(1.25), 300 * 2**20)
