"""The page beside an exported model: every row and column in words, and the numbers of the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_blocks import write_files

import pipeplan
from pipeplan.instances.staging.problem import StagingLevel
from pipeplan.studies.export import export_model

ROOT = Path(__file__).resolve().parents[3]
SCHEDULE = pipeplan.generate("pipeline", stages=2, micro_batches=3, limit=10)
LEVELS = pipeplan.load("tiny-stages").replace(levels=(StagingLevel(2, 4.0), StagingLevel(2, 2.0)))  # type: ignore[union-attr,arg-type]
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "plain": ("memory-tight", "ip-tarnawski", {"variant": "plain"}),
    "plain gpipe": ("cpu-offload", "ip-tarnawski", {"variant": "plain", "objective": "gpipe"}),
    "stages": ("cpu-offload", "ip-tarnawski", {}),
    "stages in memory": ("memory-tight", "ip-tarnawski", {}),
    "devices": ("memory-tight", "ip-tarnawski", {"non_contiguous": True}),
    "latency plain": ("tiny-chain", "ip-tarnawski-latency", {"variant": "plain"}),
    "latency": ("cpu-offload", "ip-tarnawski-latency", {"subgraphs_per_device": 2}),
    "chain": ("golden-4", "ilp-beaumont", {}),
    "chain as printed": ("figure-5", "ilp-beaumont", {"variant": "printed"}),
    "chain with transfers": ("resnet18-chain", "ilp-beaumont", {}),
    "columns": ("tiny-stages", "mip-piper", {}),
    "columns, flushed": ("tiny-stages", "mip-piper", {"objective": "flush"}),
    "columns, levels": (LEVELS, "mip-piper", {}),
    "schedule": (SCHEDULE, "ilp-zero-bubble", {}),
}


def exported(folder: Path, case: str, ending: str = ".lp") -> tuple[str, str]:
    """The model's file and its page."""
    problem, formulation, options = CASES[case]
    path = folder / f"model{ending}"
    problem = pipeplan.load(problem) if isinstance(problem, str) else problem
    export_model(problem, str(path), formulation=formulation, options=options)
    return path.read_text("utf-8"), Path(f"{path}.md").read_text("utf-8")


@pytest.mark.sweeps("* *", "latency")
@pytest.mark.parametrize("case", CASES)
def test_every_block_of_rows_and_columns_has_its_words(tmp_path: Path, case: str) -> None:
    _, page = exported(tmp_path, case)
    columns, rows = (
        re.findall(r"^\| (\w+) \| \d+ \| \S+ \| (.*) \|$", table, re.MULTILINE) for table in page.split("| rows |")
    )
    assert columns
    assert rows
    assert not [block for block, meaning in (*columns, *rows) if "not said" in meaning]
    assert not [block for block, meaning in rows if not block.startswith("eq_") and not re.match(r"\(\w+", meaning)]


@pytest.mark.sweeps("chain-.lp", "columns-.lp", "columns-.mps", "plain-.mps", "schedule-.mps")
@pytest.mark.parametrize("ending", [".lp", ".mps"])
@pytest.mark.parametrize("case", ["plain", "chain", "columns", "schedule"])
def test_rows_and_columns_are_those_of_the_file(tmp_path: Path, case: str, ending: str) -> None:
    import highspy

    text, page = exported(tmp_path, case, ending)
    solver = highspy.Highs()
    solver.silent()
    solver.readModel(str(tmp_path / f"model{ending}"))
    told = re.findall(r": (\d+) rows and (\d+) columns, ", page)
    # HiGHS makes no row of an MPS row without sides, which holds columns of no other row.
    free = page.count("| - | 1 | r") if ending == ".mps" else 0
    assert [tuple(map(int, numbers)) for numbers in told] == [(solver.getNumRow() + free, solver.getNumCol())]
    for _, name in re.findall(r"^\| \w+ \| (\d+) \| (\S+) \|", page, re.MULTILINE):
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text), name


def test_the_objective_is_told_with_its_scale_and_unit(tmp_path: Path) -> None:
    text, page = exported(tmp_path, "columns")
    (scale,) = re.findall(r"^Objective: minimise ([\d.]+) T, in s\.$", page, re.MULTILINE)
    assert float(scale) != 1
    (coefficient,) = re.findall(r"obj: \+?([\d.]+) T\b", text)
    assert float(scale) == pytest.approx(float(coefficient), rel=1e-5)


def test_the_file_has_a_best_plan(tmp_path: Path) -> None:
    import highspy

    _, page = exported(tmp_path, "columns")
    assert "\nA best plan is a solution of this file" in page
    solver = highspy.Highs()
    solver.silent()
    solver.readModel(str(tmp_path / "model.lp"))
    solver.run()
    best = pipeplan.solve("tiny-stages", planner="dp-piper")
    assert solver.getObjectiveValue() == pytest.approx(best.objective, rel=1e-6)


@pytest.mark.sweeps
def test_numbers_in_names_are_told(tmp_path: Path) -> None:
    assert re.search(r"^group \d+: nodes \w+", exported(tmp_path, "stages")[1], re.MULTILINE)
    assert re.search(r"^node 0: \S+$", exported(tmp_path, "plain")[1], re.MULTILINE)
    assert re.search(r"^column 0: layers \w", exported(tmp_path, "columns")[1], re.MULTILINE)


def test_a_formulation_of_ones_own_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(ROOT / "docs" / "extending.md", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for address in ("example:ENTRY", "capacity:ENTRY"):
        export_model(pipeplan.load("tiny-chain"), str(tmp_path / "own.lp"), formulation=address)
        text = (tmp_path / "own.lp.md").read_text("utf-8")
        assert f"The model `{address}` of" in text
        assert "|  |" not in text


def test_counted_rows_say_whose_they_are(plan: Callable[..., Any], tmp_path: Path) -> None:
    said = plan("solve", "tiny-chain", "--variant", "plain", "-v", "--export-model", tmp_path / "m.lp")
    assert re.search(r"rows +\d+ \(as given to the solver", " ".join(said.out.split()))
