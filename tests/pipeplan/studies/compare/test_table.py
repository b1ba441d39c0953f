"""Tables of made-up runs, where what failed is counted and never averaged; and what a paper prints of a comparison:
named means, intervals and tests, profiles that hold every method, LaTeX, citations."""

from __future__ import annotations

import inspect
import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy
import pytest
from command_line import Plan
from problems.made_up_runs import frame, record, run
from random_placements import layered
from scipy import stats

from pipeplan.formulations.papers import PAPERS, bibliography
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.planners.registry import PLANNERS
from pipeplan.show.comparison import Part, case_cells, comparison_page, latex_table
from pipeplan.studies.compare.comparison import Comparison, compare
from pipeplan.studies.compare.run import Record, Status
from pipeplan.studies.compare.suite import Expanded, Instance, Published, Suite, competitor, expand
from pipeplan.studies.compare.table import (
    faults,
    paired,
    plain_rows,
    profile,
    ratios,
    summary,
    tidy,
    time_profile,
    values,
)

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


MEDIANS: dict[tuple[float | None, ...], float | None] = {
    (3.0, 1.0, 2.0): 2.0, (3.0, None, 2.0): 3.0, (3.0, None, None): None, (1.0, 2.0): 1.5,
    (4.0, 1.0, 3.0, 9.0): 3.5, (1.0, None): None, (1.0, 2.0, 3.0, None): 2.5, (None,): None,
}  # fmt: skip


@pytest.mark.parametrize("found", MEDIANS)
def test_the_median_over_seeds_takes_a_failure_for_worse_than_any_value(found: tuple[float | None, ...]) -> None:
    records = [record(run("one", "a", seed), value) for seed, value in enumerate(found)]
    (row,) = plain_rows(values(frame(*records)))
    assert row["a"] == MEDIANS[found]


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
    assert faults(frame(*crashed, record(run("one", "b"), 1.0))) == [("a", "one and 1 other", "crashed", "killed")]


def test_no_runs_make_an_empty_table() -> None:
    assert frame().empty


ROOT = Path(__file__).resolve().parents[4]


def frame_of(values: dict[str, list[float | None]], seconds: float = 1.0, stop: str = "completed") -> Any:
    return frame(
        *(
            record(run(f"case {i}", method), value, stop, wall_s=seconds)
            for method, found in values.items()
            for i, value in enumerate(found)
        )
    )


A_AND_B = frame_of({"a": [1.0, 1.0, 1.0, 1.0, None], "b": [1.0, 2.0, 4.0, 8.0, 3.0]})


def test_every_mean_is_named() -> None:
    b = summary(A_AND_B).set_index("method").loc["b"]
    assert b["geometric_mean_ratio_to_best"] == pytest.approx((1 * 2 * 4 * 8 * 1) ** (1 / 5))
    assert b["geometric_mean_gap"] == pytest.approx(b["geometric_mean_ratio_to_best"] - 1), "nothing is proven"
    assert not [name for name in b.index if re.match(r"mean_", name)]


def test_seconds_have_a_shifted_geometric_mean() -> None:
    row = summary(frame_of({"a": [1.0]}, seconds=3.0)).iloc[0]
    assert row["shifted_geometric_mean_s"] == pytest.approx(3.0)
    both = summary(tidy_of_seconds([0.0, 3.0])).iloc[0]
    assert both["shifted_geometric_mean_s"] == pytest.approx(math.sqrt(1 * 4) - 1)


def tidy_of_seconds(seconds: list[float]) -> Any:
    import pandas

    return pandas.concat(
        [frame_of({"a": [1.0]}, seconds=s).assign(instance=f"case {i}") for i, s in enumerate(seconds)]
    )


def test_pairs_have_an_interval_and_a_test() -> None:
    (row,) = paired(A_AND_B).to_dict("records")
    assert (row["cases"], row["first_alone"], row["second_alone"]) == (4, 0, 1)
    assert (row["first_better"], row["alike"], row["second_better"]) == (3, 1, 0)
    logs = [math.log(1 / b) for b in (1, 2, 4, 8)]
    assert row["geometric_mean_ratio"] == pytest.approx(math.exp(sum(logs) / 4))
    found = stats.bootstrap((logs,), numpy.mean, n_resamples=20_000, method="percentile").confidence_interval
    assert (row["interval_low"], row["interval_high"]) == (
        pytest.approx(math.exp(found.low), rel=0.02),
        pytest.approx(math.exp(found.high), rel=0.02),
    )
    assert row["wilcoxon_p"] == stats.wilcoxon(logs[1:]).pvalue == row["holm_p"]


def test_the_interval_of_a_mean_gap_is_the_bootstrap_of_scipy() -> None:
    values = [1.0, 1.3, 1.0, 2.1, 1.6, 1.1, 4.0, 1.2, 1.05, 1.9, 2.5, 1.7]
    row = summary(frame_of({"best": [1.0] * len(values), "other": [*values]})).set_index("method").loc["other"]
    logs = [math.log(value) for value in values]
    found = stats.bootstrap((logs,), numpy.mean, n_resamples=20_000, method="percentile").confidence_interval
    assert row["geometric_mean_gap"] == pytest.approx(stats.gmean(values) - 1)
    assert (row["gap_low"], row["gap_high"]) == (
        pytest.approx(math.expm1(found.low), abs=0.02),
        pytest.approx(math.expm1(found.high), abs=0.02),
    )
    again = summary(frame_of({"best": [1.0] * len(values), "other": [*values]})).set_index("method").loc["other"]
    assert row["gap_low"] == again["gap_low"], "it is drawn from one seed"


def test_one_method_against_each_other_one_is_corrected_for_these_pairs_alone() -> None:
    ten = range(1, 11)
    found = frame_of({"a": [1.0] * 10, "b": [1 + k / 10 for k in ten], "c": [2 + k / 7 for k in ten]})
    pairs = paired(found, "b")
    assert [(row["first"], row["second"]) for row in pairs.to_dict("records")] == [("b", "a"), ("b", "c")]
    assert list(pairs["holm_p"]) == [pytest.approx(2 * 2 / 2**10)] * 2


ENDS = {
    "refused": "not applicable", "crashed": "crashed", "time": "over time", "memory": "over memory",
}  # fmt: skip


def test_every_status_is_a_word_in_the_table_in_latex_in_json_and_on_the_page() -> None:
    failed = [Record(run("one", status), Status(status), message="why") for status in ENDS]
    records = [*failed, record(run("one", "a"), 1.0, "proven")]
    found, by_key = frame(*records), {own.run.key: own for own in records}
    assert list(found["ending"]) == [*ENDS.values(), "proven"]
    assert {how for _, _, how, _ in faults(found)} == {*ENDS.values()}
    cells = case_cells(found)
    assert cells[1] == [["one", *ENDS.values(), "1 proven"]]
    text = latex_table(Part("Values", "", *cells), "Values", "values")
    page = comparison_page(Comparison(Expanded("own", "Ours", tuple(own.run for own in records)), by_key, 0))
    rows = json.dumps(plain_rows(found))
    assert [word for word in ENDS.values() for place in (text, page, rows) if word not in place] == []


def test_of_methods_that_are_alike_there_is_nothing_to_test() -> None:
    (row,) = paired(frame_of({"a": [1.0, 2.0], "b": [1.0, 2.0]})).to_dict("records")
    assert row["wilcoxon_p"] is None
    assert row["interval_low"] is None, "two cases are too few"


def test_p_values_of_several_pairs_are_corrected_for_their_number() -> None:
    ten = range(1, 11)
    pairs = paired(frame_of({"a": [1.0] * 10, "b": [1 + k / 10 for k in ten], "c": [2 + k / 7 for k in ten]}))
    assert list(pairs["wilcoxon_p"]) == [pytest.approx(2 / 2**10)] * 3
    assert list(pairs["holm_p"]) == [pytest.approx(3 * 2 / 2**10)] * 3


def test_a_profile_ends_where_every_method_has_its_last_case() -> None:
    shares = profile(A_AND_B)
    assert shares["ratio"].max() == 8.0
    assert shares["b"].iloc[-1] == 1.0
    assert shares["a"].iloc[-1] == pytest.approx(4 / 5), "a failure is within no ratio"


def test_a_profile_over_time_counts_runs_that_no_limit_cut_short() -> None:
    shares = time_profile(frame_of({"a": [1.0, None]}, seconds=2.0))
    assert list(shares["seconds"]) == [0.0, 2.0]
    assert list(shares["a"]) == [0.0, 0.5]
    assert list(time_profile(frame_of({"a": [1.0]}, stop="time"))["a"]) == [0.0]


# ---- before anything runs --------------------------------------------------------------------------------


def suite_of(*methods: str, seeds: tuple[int, ...] = (0, 1, 2)) -> Suite:
    return Suite("own", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, methods)), seeds=seeds)


def test_methods_without_chance_run_once_whatever_the_seeds() -> None:
    expanded = expand(suite_of("greedy", "local-search", "dp", "ip-tarnawski"))
    methods = [run.method for run in expanded.runs]
    assert methods == ["greedy", *["local-search"] * 3, "dp", *["ip-tarnawski"] * 3]
    assert "Run once, as they take no seed: greedy, dp." in expanded.remarks()
    assert expand(suite_of("greedy", seeds=(1,))).remarks() == []


@pytest.mark.parametrize("name", [name for name, entry in PLANNERS.items() if not entry.seeded])
def test_a_method_that_is_said_to_be_without_chance_reads_no_seed(name: str) -> None:
    """By its own function or class, since other planners stand in the same module."""
    for entry in PLANNERS[name].all_kinds:
        planner = entry.load()
        source = inspect.getsource(planner.plan if isinstance(planner.plan, FunctionType) else type(planner))
        assert "limits.seed" not in source
        assert not re.search(r"random\.Random", source)


# ---- what is printed -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compared_folder = tmp_path_factory.mktemp("compared")
    hard = layered(nodes=10, seed=3, accelerators=2).replace(name="50% of $x_1 & #2^~\\{}")
    comparison = compare([hard, "tiny-chain"], ["dp", "greedy"], folder=compared_folder, jobs=1)
    from pipeplan.show.comparison import write_tables
    from pipeplan.show.pictures import draw_profile

    write_tables(comparison, compared_folder)
    draw_profile(comparison, compared_folder)
    return compared_folder


DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\setlength{\parindent}{0pt}
\begin{document}
\input{tables}
\includegraphics[width=\linewidth]{profile}
\includegraphics[width=\linewidth]{time-profile}
\end{document}
"""


@pytest.mark.sweeps
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_tables_and_profiles_compile(compared_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "paper.tex").write_text(DOCUMENT, encoding="utf-8")
    for name in ("tables.tex", "profile.pdf", "time-profile.pdf"):
        shutil.copy(compared_folder / name, tmp_path)
    long = [f"a method with a long name, the number {number}" for number in range(5)]
    part = Part("Wide", "", ["instance", *long], [["layered", *["12.345 proven"] * 5]])
    wide = latex_table(part, "Wider than the page", "wide")
    with (tmp_path / "tables.tex").open("a", encoding="utf-8") as tables:
        tables.write(wide)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_numbers_are_set_to_the_right() -> None:
    part = Part("Values", "", ["instance", "setting", "dp"], [["a", "2 devices", "9.5 proven"]])
    assert r"{@{}llr@{}}" in latex_table(part, "c", "l")


# ---- citations -------------------------------------------------------------------------------------------


def test_the_papers_of_all_methods_are_printed_and_nothing_runs(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "ip-tarnawski", "-m", "pipedream", "--cite", "-o", tmp_path / "out")
    assert re.findall(r"^@misc\{(\w+),$", said.out, re.MULTILINE) == [
        "pipeplan", "tarnawski2020placement", "narayanan2019pipedream", "dolan2002profiles",
    ]  # fmt: skip
    assert said.out.count("{") == said.out.count("}")
    assert not (tmp_path / "out").exists()


def test_what_is_cited_need_not_be_installed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "karypis1998fast" in plan("compare", "tiny-chain", "-m", "partition", "--cite").out


@pytest.mark.sweeps
def test_after_the_runs_the_solvers_are_known_as_well(compared_folder: Path) -> None:
    assert "tarnawski2020placement" in (compared_folder / "references.bib").read_text("utf-8")


def test_every_paper_that_a_method_names_has_an_entry() -> None:
    entries = [entry for table in (FORMULATIONS, PLANNERS) for one in table.values() for entry in one.all_kinds]
    assert {entry.paper for entry in entries} - {None} <= PAPERS.keys()


def test_citation_cff_has_all_papers() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    for paper in PAPERS.values():
        assert f'title: "{paper.title}"' in citation
        assert f"url: {paper.url}" in citation
        assert f"year: {paper.year}" in citation
        for name in paper.authors.split(" and "):
            assert f"family-names: {name.partition(',')[0]}" in citation or f"name: {name}" in citation
    assert re.search(r"^date-released: 20\d\d-\d\d-\d\d$", citation, re.MULTILINE)
    assert bibliography([]) == "\n"


@pytest.mark.sweeps
def test_the_page_names_the_files_that_are_written(compared_folder: Path) -> None:
    page = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
    (section,) = re.findall(r"^## Print a comparison in a paper\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == {
        path.name for path in compared_folder.iterdir() if path.is_file() and "json" not in path.suffix
    }
