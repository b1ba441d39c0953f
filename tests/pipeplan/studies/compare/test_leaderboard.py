"""The leaderboard: of a file of runs only the plans are believed, and the page is what the file of baselines says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done

import pipeplan
from pipeplan.instances.catalogue import read_best_known
from pipeplan.planners.run.solve import solve
from pipeplan.show.comparison import GAPS, cleaned, lines_of, parts_of
from pipeplan.studies.compare.leaderboard import leaderboard
from pipeplan.studies.compare.run import Record, Run, Status
from pipeplan.studies.compare.suite import load_suite

ROOT = Path(__file__).parents[4]


def line(change: Callable[[dict[str, Any]], None] = lambda data: None, method: str = "Ours") -> str:
    """The run of `even` stages on tiny-chain, as a journal holds it, with something changed by hand."""
    problem = pipeplan.load("tiny-chain")
    plan = pipeplan.PlacementPlan.from_assignment(problem, [0, 0, 1, 1, 2, 2])
    result = solve(problem, planner=lambda_of(plan))
    run = Run("tiny-chain", "", method, problem.kind, problem.hash)
    data = Record(run, Status.DONE, result.to_json()).to_json()
    change(data)
    return json.dumps(data) + "\n"


def lambda_of(plan: Any) -> Any:
    def given(problem: Any) -> Any:
        return plan

    return given


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_the_suite_has_every_instance_of_which_a_value_is_known() -> None:
    packaged = [instance.source for instance in load_suite("leaderboard").instances if instance.source]
    assert packaged == list(dict.fromkeys(row.instance for row in read_best_known()))
    published = [instance.label for instance in load_suite("leaderboard").instances if instance.published]
    rows = read_best_known("published_best_known.csv")
    assert published == list(dict.fromkeys(row.instance for row in rows if row.variant != "latency"))


def test_a_plan_is_judged_by_every_variant_beside_what_is_known(tmp_path: Path) -> None:
    board = leaderboard([written(tmp_path, line())])
    rows = board.table().set_index(["setting", "method"])["value"]
    assert {case: float(value) for case, value in rows.items()} == {
        ("contiguous", "best known"): 6.0,
        ("contiguous", "Ours"): 6.0,
        ("non-contiguous", "best known"): 6.0,
        ("non-contiguous", "Ours"): 6.0,
    }
    assert list(board.gaps()["Ours"]) == [0.0, 0.0]
    assert board.differences == {}
    assert "Pairs of methods" not in parts_of(board), "two rows of one plan are no independent cases"


def tell_less(data: dict[str, Any]) -> None:
    data["result"] |= {"objective": 5.0, "bound": 5.0, "stop": "proven", "found": "optimal"}


def forget_a_node(data: dict[str, Any]) -> None:
    data["result"]["plan"]["devices"][0]["nodes"].pop()


def swap_the_problem(data: dict[str, Any]) -> None:
    data["run"] |= {"instance": "memory-tight", "problem_hash": pipeplan.load("memory-tight").hash}


@pytest.mark.parametrize(("change", "words", "value"), [
    (tell_less, "the result says value 5.0 ms, the referee computes 6.0 ms", 6.0),
    (forget_a_node, "the referee rejects its plan", None),
    (swap_the_problem, "the result is about another problem", None),
])  # fmt: skip
def test_what_a_file_claims_falsely_is_told_and_changes_no_value(
    plan: Plan, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str, value: float | None
) -> None:
    said = plan("leaderboard", written(tmp_path, line(change)), "--json")
    assert said.code == 3
    (claim,) = said.json["claims"].values()
    assert words in claim[0]
    assert {row["value"] for row in said.json["rows"] if row["method"] == "Ours"} == {value}


def test_the_last_answer_counts_and_runs_on_other_clusters_do_not(plan: Plan, tmp_path: Path) -> None:
    """A heuristic that was changed and run again is no mean of both, nor is a sweep over devices a false claim."""
    elsewhere = line(lambda data: data["run"].update(problem_hash=pipeplan.load("tiny-chain", devices=2).hash))
    path = written(tmp_path, line(lambda data: forget_a_node(data) or data["run"].update(made_by={"code": "old"})))
    path.write_text(path.read_text("utf-8") + line() + elsewhere, encoding="utf-8")
    said = plan("leaderboard", path, "--json")
    assert (said.code, said.json["claims"], said.json["pairs"]) == (0, {}, [])
    assert "1 run on other devices or limits of memory than the suite's do not count" in " ".join(said.err.split())
    assert {row["value"] for row in said.json["rows"] if row["method"] == "Ours"} == {6.0}
    refused = plan("leaderboard", written(tmp_path, elsewhere))
    assert (refused.code, "compare without --devices" in " ".join(refused.err.split())) == (2, True)


def test_rows_are_those_of_the_first_file(tmp_path: Path) -> None:
    board = leaderboard([written(tmp_path, line()), ROOT / "benchmarks" / "leaderboard.jsonl"])
    assert {run.instance for run in board.expanded.runs} == {"tiny-chain"}
    assert {"Ours", "dp", "best known"} <= {run.method for run in board.expanded.runs}


def test_two_methods_of_one_name_are_told_apart_and_files_are_refused_in_words(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    files = [written(tmp_path, line()), written(tmp_path / "theirs", line())]
    said = done(plan("leaderboard", *files, "-o", tmp_path / "tables"))
    assert "Ours (theirs/runs.jsonl)" in " ".join(said.out.split())
    assert "Gaps" in (tmp_path / "tables" / "tables.md").read_text("utf-8")
    strange = written(tmp_path, line(lambda data: data["run"].update(instance="mine")))
    for argument, words in (
        (strange, "which is none of the suite leaderboard; give runs of its instances"),
        (tmp_path / "no", "holds no runs"),
    ):
        refused = plan("leaderboard", argument)
        assert (refused.code, words in " ".join(refused.err.split())) == (2, True)


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_file_of_baselines_says() -> None:
    board = leaderboard([ROOT / "benchmarks" / "leaderboard.jsonl"])
    part = parts_of(board)[GAPS]
    rows = [[cleaned(cell) for cell in row] for row in part.rows]
    page = ROOT / "benchmarks" / "results" / "leaderboard.md"
    assert "\n".join(lines_of(part.head, rows)) in page.read_text("utf-8")
    assert board.differences == {}
