"""The assignment of the course: handed out, filled in by the rules of 1F1B and GPipe, and graded."""

from __future__ import annotations

import csv
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import has

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MIB = 2**20


@pytest.fixture
def assignment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(NOTEBOOKS)
    module = importlib.import_module("assignment")
    assert module.main(["hand-out", "ada", "bob", "-o", str(tmp_path)]) == 0
    return module


def fill(folder: Path, name: str) -> list[dict[str, str]]:
    """By hand: under 1F1B a stage holds a micro-batch for itself and each stage behind it, under GPipe all of them."""
    problem = json.loads((folder / f"{name}.json").read_text("utf-8"))
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as sheet:
        rows = list(csv.DictReader(sheet))
    for i, (row, layer) in enumerate(zip(rows, problem["layers"], strict=True)):
        (way,) = layer["configurations"]["1"]
        for schedule, held in (("1f1b", len(rows) - i), ("gpipe", problem["micro_batches"])):
            row[f"{schedule}_in_flight"] = str(min(held, problem["micro_batches"]))
            memory = way["memory_fixed"] + way["memory_per_batch"] * held
            row[f"{schedule}_memory_mib"] = str(memory / MIB)
    write(folder / f"{name}.csv", rows)
    return rows


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as sheet:
        writer = csv.DictWriter(sheet, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def test_a_sheet_filled_in_by_the_rules_has_all_points(
    assignment: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ada", "bob"):
        fill(tmp_path, name)
    assert assignment.main(["grade", str(tmp_path / "ada.csv"), str(tmp_path / "bob.csv")]) == 0
    assert (tmp_path / "ada.json").read_text("utf-8") != (tmp_path / "bob.json").read_text("utf-8")
    assert "expected" not in capsys.readouterr().out


def test_a_wrong_number_and_a_missing_one_cost_a_point_each_and_are_told(
    assignment: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = fill(tmp_path, "ada")
    right, points = rows[0]["1f1b_in_flight"], 4 * len(rows)
    rows[0]["1f1b_in_flight"], rows[1]["gpipe_in_flight"] = "1", ""
    write(tmp_path / "ada.csv", rows)
    capsys.readouterr()
    renamed = (tmp_path / "ada.csv").rename(tmp_path / "ada (1).csv")
    assert assignment.main(["grade", str(renamed), "--marks", str(tmp_path / "marks.csv")]) == 1
    told = capsys.readouterr().out
    has(told, f"ada: {points - 2} of {points}", "stage 0, 1f1b_in_flight: not 1; how many forward passes")
    assert "expected" not in told
    assert (tmp_path / "marks.csv").read_text("utf-8").split() == ["name,points,of", f"ada,{points - 2},{points}"]
    assert assignment.main(["grade", str(renamed), "--explain"]) == 1
    has(capsys.readouterr().out, f"stage 0, 1f1b_in_flight: expected {right}, got 1", "got nothing")
    assignment.main(["key", "ada"])
    assert capsys.readouterr().out.splitlines()[1].startswith(f"ada,0,{right},")


def test_an_empty_sheet_gives_nothing_away(
    assignment: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert assignment.main(["grade", str(tmp_path / "ada.csv")]) == 1
    told = capsys.readouterr().out
    assert re.match(r"ada: 0 of \d+\n", told)
    assert not re.search(r"\d", re.sub(r"ada: 0 of \d+|stage \d+|1f1b", "", told))


def test_a_sheet_of_another_pipeline_is_refused(assignment: Any, tmp_path: Path) -> None:
    rows = fill(tmp_path, "ada")
    write(tmp_path / "bob.csv", [{**row, "name": "bob"} for row in rows])
    with pytest.raises(SystemExit, match="its pipeline is another's"):
        assignment.main(["grade", str(tmp_path / "bob.csv")])


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_sheet_that_a_spreadsheet_saved_with_other_signs_is_read(
    assignment: Any, tmp_path: Path, mark: str
) -> None:
    rows = fill(tmp_path, "ada")
    lines = [mark.join(rows[0]), *(mark.join(row.values()).replace(".", ",") for row in rows)]
    (tmp_path / "ada.csv").write_text("\r\n".join(lines), encoding="utf-8-sig", newline="")
    assert assignment.main(["grade", str(tmp_path / "ada.csv")]) == 0


def test_a_sheet_with_other_columns_is_refused_and_gets_no_points(assignment: Any, tmp_path: Path) -> None:
    (tmp_path / "ada.csv").write_text("stage,memory\n1,2\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no column name"):
        assignment.main(["grade", str(tmp_path / "ada.csv")])


def test_a_name_that_leads_to_another_folder_is_refused(assignment: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        assignment.main(["hand-out", "../eve", "-o", str(tmp_path)])
    assert not (tmp_path.parent / "eve.csv").exists()


def test_plan_simulate_says_the_same(
    assignment: Any, tmp_path: Path, plan: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands of the page."""
    rows = fill(tmp_path, "ada")
    monkeypatch.chdir(tmp_path)
    block = (NOTEBOOKS / "README.md").read_text("utf-8").split("```")[1]
    for words in ("hand-out ada bob", "grade ada.csv bob.csv"):
        assert f"python assignment.py {words}\n" in block
    for schedule, words in zip(("1f1b", "gpipe"), re.findall(r"^plan (.*)$", block, re.MULTILINE), strict=True):
        said = plan(*words.split(), "--json")
        stages = said.json["stages"]
        assert [str(stage["peak_in_flight"]) for stage in stages] == [row[f"{schedule}_in_flight"] for row in rows]
        assert not said.err
        shown = re.findall(r"^stage (\d+) +\d", plan(*words.split()).out, re.MULTILINE)
        assert shown == [row["stage"] for row in rows]


def test_a_sheet_that_is_not_there_is_an_error_in_a_sentence(assignment: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        assignment.main(["grade", "nobody.csv"])
    assert "there is no file nobody.csv" in capsys.readouterr().err


def test_a_sheet_that_is_there_is_not_written_over(assignment: Any, tmp_path: Path, capsys: Any) -> None:
    """Handing out again, to one more student, emptied what the others had filled in."""
    fill(tmp_path, "ada")
    filled = (tmp_path / "ada.csv").read_text("utf-8")
    with pytest.raises(SystemExit):
        assignment.main(["hand-out", "eve", "ada", "-o", str(tmp_path)])
    assert "ada.csv is there" in capsys.readouterr().err
    assert (tmp_path / "ada.csv").read_text("utf-8") == filled
    assert not (tmp_path / "eve.csv").exists()
