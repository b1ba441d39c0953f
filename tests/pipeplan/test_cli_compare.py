"""`plan compare` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from command_line import Plan, done

from pipeplan.studies.compare.run import Record, Run, execute


@pytest.mark.slow
def test_methods_are_compared_and_every_file_is_named(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    words = "compare tiny-chain -m greedy -m dp --devices 2 --devices 3"
    said = plan(*words.split(), "-o", folder)
    done(said)
    assert "[4/4] " in said.err
    for words in ("2 devices", "3 devices", "proven", "runs.csv", "tables.md", "profile.svg"):
        assert words in said.out
    assert {path.name for path in folder.iterdir()} == {
        "comparison.json", "runs.jsonl", "runs.csv", "gaps.csv", "tables.md", "tables.tex", "references.bib",
        "profile.svg", "profile.pdf", "profile-points.csv", "time-profile.svg", "time-profile.pdf",
        "time-profile-points.csv", "problems",
    }  # fmt: skip


def test_for_machines_it_is_one_object_with_a_row_a_run(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "ip-tarnawski", "--seeds", "0,1", "-o", tmp_path / "out", "--json")
    assert "proven  6 ms  " in said.err
    facts = said.json
    assert (facts["schema"], facts["runs"], facts["finished"]) == ("pipeplan.comparison/1", 2, 2)
    assert [(row["value"], row["stop"], row["seed"]) for row in facts["rows"]] == [
        (6, "proven", 0),
        (6, "proven", 1),
    ]
    (method,) = facts["methods"]
    assert method["proven"] == 2


@pytest.mark.slow
def test_a_table_is_compared_with_the_options_that_make_a_problem_of_it(plan: Plan, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(plan("import", "table", "--template").out, encoding="utf-8")
    own = ("--levels", "2x300GB/s,2x12GB/s", "--memory", "40GB", "--optimizer", "adam", "--data-parallel")
    said = done(plan("compare", table, "-m", "equi", *own, "--batch", 8, "-o", tmp_path / "out", "--json"))
    assert "planned as a staging problem, because --levels and --data-parallel are given" in said.err
    solved = plan("solve", table, *own, "--batch", 8, "--planner", "equi", "--json").json
    assert [row["value"] for row in said.json["rows"]] == [solved["objective"]]


@pytest.mark.slow
def test_no_plan_at_all_is_exit_code_1(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "one-device", "-o", tmp_path / "out")
    assert said.code == 1
    assert json.loads((tmp_path / "out" / "runs.jsonl").read_text())["status"] == "done"


def test_an_interrupted_comparison_ends_with_code_130(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that `plan compare ... && make paper` does not print half a table."""

    def interrupted(
        runs: Sequence[Run], problems: Mapping[str, str], jobs: int, tell: Callable[[Record], None]
    ) -> None:
        record = execute(runs[0], problems[runs[0].problem_hash])
        assert record is not None
        tell(record)
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeplan.studies.compare.comparison.run_here", interrupted)
    said = plan("compare", "tiny-chain", "-m", "dp", "-m", "greedy", "-o", tmp_path / "out")
    assert (said.code, "interrupted, with 1 run left" in said.err, "6 proven" in said.out) == (130, True, True)


def test_suites_are_listed(plan: Plan) -> None:
    assert "tarnawski-table1" in plan("compare", "--suites").out
    assert {suite["name"] for suite in plan("compare", "--suites", "--json").json["suites"]} >= {"beaumont-figures"}


@pytest.mark.slow
def test_methods_become_letters_where_their_names_do_not_fit(plan: Plan, tmp_path: Path) -> None:
    names = ("dp-piper", "piper-no-dp", "piper-no-tp", "piper-no-ar", "equi", "equi-no-tp")
    chosen = [word for name in names for word in ("--method", name)]
    said = plan("compare", "tiny-stages", *chosen, "--devices", "4", "--devices", "3", "-o", tmp_path / "out").out
    lines = said.splitlines()
    heads = [line.split()[2:] for line in lines if line.startswith("instance")]
    assert [letter for head in heads for letter in head] == [*"ABCDEF"]
    assert "A dp-piper, B piper-no-dp" in said
    assert all(len(line) <= 80 for line in lines if "/" not in line)
