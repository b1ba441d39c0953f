"""Where published workloads exist, a test that needs them may not be skipped; elsewhere it is, with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.workloads
def test_runs(workloads): assert workloads.is_dir()

@pytest.mark.workloads
def test_gives_up(workloads): pytest.skip("not today")

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.slow("b*")
@pytest.mark.parametrize("case", ["a", "b1"])
def test_cases(case): pass
"""


@pytest.mark.parametrize(
    ("folder", "options", "summary"),
    [
        ("here", (), "1 failed, 2 passed, 2 deselected"),
        ("here", ("--slow",), "1 failed, 4 passed"),
        ("nowhere", (), "1 passed, 2 skipped, 2 deselected"),
    ],
)
def test_workloads_are_not_skipped_and_markers_may_name_cases(
    tmp_path: Path, folder: str, options: tuple[str, ...], summary: str
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow:\n  workloads:\n")
    environment = {
        **os.environ,
        "PIPEPLAN_WORKLOADS": str(tmp_path / folder),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert summary in done.stdout.splitlines()[-1], done.stdout
