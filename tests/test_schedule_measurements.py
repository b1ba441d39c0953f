"""The script that measures schedules: its rows, what it calls a failure, the page it writes, and one real row."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schedules as script

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "schedules.py"


@pytest.fixture
def row() -> Any:
    return next(row for row in script.rows() if row.optimum == 103)


@pytest.fixture
def proven() -> Any:
    return script.Measured(
        value=103.0, bound=103.0, proven=True, verified=True, stop="proven", method="exact-schedule", wall_s=2.0,
        work_s=3.0, peak_bytes=2.0**28, rules={"zb-greedy": 105.0, "gpipe": None},
    )  # fmt: skip


def test_there_are_rows_of_every_section_and_no_two_have_one_name() -> None:
    rows = list(script.rows())
    assert {row.section for row in rows} == set(script.WORDS)
    assert len({(row.section, row.name) for row in rows}) == len(rows)
    assert sum(row.section == script.UNEVEN for row in rows) == 12
    large = [row for row in rows if row.section == script.LARGE]
    assert {len(row.problem.blocks) * row.problem.micro_batches for row in large} == {3072}
    assert {row.name for row in rows if row.section == script.SHAPES_8} >= {"NN, memory 6", "X, memory 16"}


def test_a_proven_optimum_is_as_wanted(row: Any, proven: Any) -> None:
    assert script.faults(row, proven) == []
    assert script.cells(row, proven)[5] == "zb-greedy 105, +1.94 %"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"value": 104.0}, "not the known optimum 103"),
        ({"value": 106.0}, "worse than the released heuristic"),
        ({"value": None, "verified": False}, "no verified plan"),
        ({"verified": False}, "no verified plan"),
        ({"bound": 102.0, "proven": False}, "not proven"),
        ({"wall_s": 61.0, "work_s": 100.0}, "more than 60 s"),
        ({"rules": {"zb-h1": 102.0}}, "worse than zb-h1"),
        ({"refused": ("zb-h1",)}, "the plan of zb-h1 is refused"),
    ],
)
def test_what_is_not_as_wanted_is_told(row: Any, proven: Any, changes: dict[str, Any], fault: str) -> None:
    assert fault in script.faults(row, replace(proven, **changes))


def test_a_machine_with_other_work_is_no_failure(row: Any, proven: Any) -> None:
    assert script.faults(row, replace(proven, wall_s=100.0)) == []


def test_a_gap_and_memory_have_limits(proven: Any) -> None:
    row = next(row for row in script.rows() if row.section == script.LARGE)
    near = replace(proven, bound=102.0, proven=False)
    assert script.faults(row, near) == []
    assert script.faults(row, replace(near, bound=100.0)) == ["gap above 2.00%"]
    assert script.faults(row, replace(near, bound=None)) == ["gap above 2.00%"]
    assert script.faults(row, replace(near, peak_bytes=2.0**32)) == ["more than 2 GiB"]


def test_a_section_has_a_limit_for_all_its_proofs(row: Any, proven: Any) -> None:
    assert script.late([(row, proven)] * 29) == []
    assert script.late([(row, proven)] * 31) == [f"{script.KNOWN}: 62 s together, the target is 60 s"]


def test_the_page_keeps_what_is_written_by_hand(row: Any, proven: Any, tmp_path: Path) -> None:
    page = tmp_path / "schedules.md"
    page.write_text(f"before\n\n{script.BEGIN}\nold\n{script.END}\n\nafter\n")
    script.replace_measured(page, script.page([(row, proven)]))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert f"### {script.KNOWN}" in text
    assert "its solvers together. Seconds and MiB are approximate, of one run on a machine of" in text
    assert "| 4 x 6, times 5/6/4, memory 10 | 103 | 103 | proven | 105 | zb-greedy 105, +1.94 % |" in text
    script.replace_measured(page, script.page([(row, proven)]))
    assert page.read_text() == text


def test_the_page_says_that_seconds_differ() -> None:
    text = (SCRIPT.parents[1] / "docs" / "schedules.md").read_text("utf-8")
    before, after = map(re.escape, script.ONE_RUN.split("{cores}"))
    assert re.search(rf"{before}\d+{after}", text)


def test_the_page_says_what_problems_without_a_file_are_made_of() -> None:
    text = (SCRIPT.parents[1] / "docs" / "schedules.md").read_text("utf-8")
    assert all(words in text for words in script.WORDS.values())
    for section in (script.UNEVEN, script.LARGE):
        (lag,) = {
            edge.lag for row in script.rows() if row.section == section for edge in row.problem.edges if edge.lag
        }
        assert f"lags of {lag:g}" in script.WORDS[section]
    large = next(row.problem for row in script.rows() if row.section == script.LARGE)
    assert "/".join(f"{block.time:g}" for block in large.blocks[:3]) in script.WORDS[script.LARGE]


def test_the_suite_has_the_rows_of_the_tables_that_the_page_names() -> None:
    from pipeplan.studies.compare.suite import load_suite

    text = (SCRIPT.parents[1] / "docs" / "schedules.md").read_text("utf-8")
    titles = list(dict.fromkeys(row.section for row in script.rows()))
    assert "`plan compare --suite zero-bubble-tables -o tables`" in text
    assert "for the first and the third of these tables" in text
    rows = [row for row in script.rows() if row.section in (titles[0], titles[2])]
    assert len(load_suite("zero-bubble-tables").instances) == len(rows)


@pytest.mark.slow
def test_one_row_is_measured_in_a_process_of_its_own(row: Any) -> None:
    command = [sys.executable, str(SCRIPT), "--row", row.section, row.name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = script.Measured(**json.loads(done.stdout.splitlines()[-1]))
    assert found.verified
    assert (found.value, found.bound, found.proven) == (103.0, 103.0, True)
    assert found.rules["list-schedule"] >= 103
    assert found.peak_bytes > 2**24
    assert script.faults(row, found) == []
