"""What stands beside the values of made-up runs, and what every run took."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from problems.made_up_runs import frame, record, run

from pipeplan.show.comparison import (
    GAPS_MEAN,
    METHOD_HEAD,
    Part,
    case_cells,
    gap_cells,
    latex,
    latex_table,
    method_cells,
    parts_of,
    run_cells,
)
from pipeplan.studies.compare.comparison import Comparison
from pipeplan.studies.compare.run import Record
from pipeplan.studies.compare.suite import Expanded, Published, load_suite
from pipeplan.studies.compare.table import best_proven, plain_rows, summary


def one(method: str, value: float | None, stop: str, gap: float | None = None, unit: str | None = None) -> Record:
    return record(run("one", method), value, stop, wall_s=1.25, gap=gap, problem={"time_unit": unit})


RUNS = (
    one("contiguous", 12.0, "proven"), one("free", 10.0, "proven"), one("weak", 11.0, "time", gap=0.9),
    one("lucky", 10.0, "completed", gap=0.5), one("lost", None, "time"),
)  # fmt: skip
NEAR = (one("best", 10.0, "proven"), one("near", 10.0003, "completed"))
IN_MS = (one("good", 30568.0, "proven", unit="us"), one("bad", 63270.0, "completed", unit="us"))


@pytest.mark.parametrize(("runs", "row"), [
    (RUNS, ["one", "12 proven (+20.00 %)", "10 proven", "11 (+10.00 %)", "10", "over time"]),
    (RUNS[2:3], ["one", "11"]),  # where nothing is proven a value stands alone
    (NEAR, ["one", "10 proven", "10.0003 (< 0.01 %)"]),
    (IN_MS, ["one (ms)", "30.568 proven", "63.27 (+106.98 %)"]),
])  # fmt: skip
def test_beside_a_value_stands_the_loss_against_the_best_proven_one_and_never_a_methods_own_gap(
    runs: tuple[Record, ...], row: list[str]
) -> None:
    assert case_cells(frame(*runs))[1] == [row]
    assert best_proven(frame(RUNS[2]), ("one", "")) is None
    assert plain_rows(frame(RUNS[2]))[0]["gap"] == 0.9, "it is in the CSV"


def test_gaps_are_to_the_optimum_or_a_bound_with_their_mean_below() -> None:
    only_bounded = [
        record(run("two", "free"), 8.0, "time", bound=4.0, scope="all plans"),
        record(run("two", "contiguous"), 9.0, "time", bound=6.0, scope="chains"),
    ]
    head, rows = gap_cells(frame(*RUNS[:2], *only_bounded, record(run("three", "free"), 5.0)))
    assert head == ["instance", "optimum", "contiguous", "free"]
    assert rows[0] == ["one", "10", "+20.00 %", "0 %"]
    assert rows[1] == ["two", ">= 4", "+125.00 %", "+100.00 %"], "the bound that holds for the plans of both"
    assert rows[2] == ["three", "<= 5", "", "0 %"]
    assert rows[3] == ["geometric mean", "", "+64.32 % (2)", "+25.99 % (3)"]
    assert rows[4][:3] == ["95 % interval", "", "-"], "two cases are too few"
    assert rows[5] == ["best in", "", "0", "3"]


def test_gaps_are_latex_with_balanced_braces_and_nothing_special_left() -> None:
    odd = "50% of $x_1 & #2^~\\{}"
    head, rows = gap_cells(frame(record(run(odd, "a_b"), 5.0, "proven"), record(run(odd, "c"), 6.0)))
    text = latex_table(Part("Gaps", GAPS_MEAN, head, rows, sums=4), "Gaps of 50% & more", "gaps")
    assert r"50\% of \$x\_1 \& \#2\textasciicircum{}\textasciitilde{}\textbackslash{}\{\}" in text
    assert [text.replace(r"\{", "").replace(r"\}", "").count(brace) for brace in "{}"] == [text.count("{") - 1] * 2
    body = text[text.index(r"\toprule") : text.index(r"\end{tabular}")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert body.count(r"\midrule") == 2, "one of them parts the means from the gaps"
    assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {len(head)}
    assert not re.search(r"(?<!\\)[$#^~_%]", body)


def test_a_table_says_what_it_is_about_and_that_runs_are_left() -> None:
    """A reader of the paper alone must know what the optimum is of, and an author that the table is a part."""
    first, second = replace(run("one", "a", 0), limits={"seed": 0, "time_limit_s": 8.0}), run("one", "a", 1)
    found = replace(record(first, 5.0, "proven", scope="contiguous plans"), run=first)
    half = Comparison(Expanded("own", "Ours", (first, second)), {first.key: found}, 0)
    assert "Optimal among contiguous plans." in parts_of(half)["Gaps"].note
    assert ">=" not in parts_of(half)["Gaps"].note, "no mark is explained that the table has not"
    assert "1 of 2 runs finished. Runs had at most 8 s each, and 2 seeds." in latex(half)
    whole = Comparison(Expanded("own", "Ours", (first,)), {first.key: found}, 0)
    assert "finished" not in latex(whole)


def test_values_over_several_seeds_have_their_spread() -> None:
    found = frame(*(record(run("one", "a", seed), value) for seed, value in enumerate((8.8, 10.6))))
    assert case_cells(found)[1] == [["one", "9.7 [8.8 to 10.6]"]]


def test_runs_and_methods_say_how_long_they_took_and_how_much_memory_they_held() -> None:
    head, rows = run_cells(frame(*RUNS))
    assert head == ["instance", "method", "seed", "value", "end", "wall time", "peak memory"]
    assert rows[2] == ["one", "weak", "0", "11", "time limit", "1.2 s", "300 MiB"]
    assert rows[4] == ["one", "lost", "0", "", "over time", "1.2 s", "300 MiB"]
    assert [row[3] for row in run_cells(frame(*IN_MS))[1]] == ["30.568 ms", "63.27 ms"]
    first, *_ = method_cells(frame(*RUNS))
    assert dict(zip(METHOD_HEAD, first, strict=True))["memory"] == "300 MiB", "no raw bytes"
    medians = plain_rows(summary(frame(*RUNS)))[0]
    assert (medians["median_wall_s"], medians["median_peak_memory_bytes"]) == (pytest.approx(1.25), 300 * 2**20)


def test_printed_values_have_a_row_of_their_own_and_printed_seconds_stand_beside_the_wall_time() -> None:
    table = frame(*RUNS[:2], published=(Published("one", "free", 10.01, "a table"),))
    assert case_cells(table)[1][1] == ["  published", "", "10.01"]
    table = frame(RUNS[2], published=(Published("one", "weak", None, "a table", seconds=0.75),))
    assert run_cells(table)[1][0][-2] == "1.2 s [published 0.75 s]"
    assert case_cells(table)[1] == [["one", "11"]]
    printed = {(entry.instance, entry.method): entry.seconds for entry in load_suite("graphpipe-tables").published}
    assert (printed["MMT, 8 devices", "published method"], len(printed)) == (0.76, 6)
