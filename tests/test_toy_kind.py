"""The promise of the house: a kind moves in without a change in any other's rooms, and is planned from end to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy_kind
from command_line import has

import pipeplan

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent

SITE = """
import sys
sys.path.insert(0, {root!r})
sys.path.insert(0, {tests!r})
import toy_kind
from pipeplan.instances.registry import KINDS
from pipeplan.planners.registry import PLANNERS
toy_kind.register(KINDS, PLANNERS)
"""


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """The command in a process of its own, in which the kind is registered before anything runs; its children, too."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE.format(root=str(ROOT), tests=str(TESTS)))
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "COLUMNS": "100"}

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        code = "import sys; from pipeplan.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    return run


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.json"
    path.write_text(
        json.dumps({"schema": "pipeplan.toy/1", "name": "jobs", "jobs": [5, 4, 3, 3, 3], "machines": 2})
    )
    return path


@pytest.mark.slow
def test_a_new_kind_is_solved_verified_shown_reported_and_compared(plan: Any, jobs: Path, tmp_path: Path) -> None:
    solved = plan("solve", jobs, "--output", "result.json")
    assert solved.returncode == 0, solved.stderr
    has(solved.stdout, "optimal", "longest work 9")
    verified = plan("verify", jobs, "result.json", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["objective"] == 9
    shown = plan("show", jobs, "result.json")
    assert shown.returncode == 0, shown.stderr
    assert "machine 1" in shown.stdout
    assert plan("show", jobs).returncode == 0
    assert plan("report", "result.json", jobs, "--output", "page.html").returncode == 0
    assert "machine 1" in (tmp_path / "page.html").read_text("utf-8")
    compared = plan("compare", jobs, "-m", "toy-exhaustive", "-m", "toy-balanced", "--output", "compared")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    table = (tmp_path / "compared" / "tables.md").read_text("utf-8")
    assert "toy-balanced" in table
    unknown = plan("memory", jobs)
    assert unknown.returncode == 2
    assert "The smallest memory of a toy problem cannot be found" in unknown.stderr


def test_a_wrong_plan_of_a_new_kind_is_refused(plan: Any, jobs: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "plan.json"
    wrong.write_text(json.dumps({"kind": "toy-plan", "machine": [0, 0, 0, 0, 7]}))
    refused = plan("verify", jobs, wrong)
    assert refused.returncode == 3
    assert "There is no machine 7" in refused.stdout


def test_the_cluster_of_the_command_line_is_that_of_the_kind(plan: Any, jobs: Path) -> None:
    assert json.loads(plan("solve", jobs, "--devices", "3", "--json").stdout)["objective"] == 7
    assert plan("solve", jobs, "--batch", "3").returncode == 2
    with_cpus = plan("solve", jobs, "--cpus", "2")
    assert with_cpus.returncode == 2
    assert "these problems run on devices alone" in " ".join(with_cpus.stderr.split())


def test_the_page_on_contributing_lists_what_a_kind_needs() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert set(re.findall(r"`tests/toy_kind/(\w+\.py)`", text)) == set(toy_kind.FILES)
    files = {path.name for path in (TESTS / "toy_kind").glob("*.py")} - {"__init__.py"}
    assert files == set(toy_kind.FILES)


def test_every_kind_names_what_exists() -> None:
    from pipeplan.instances.base.kind import load_address
    from pipeplan.instances.registry import KINDS

    assert pipeplan.__version__
    for kind in KINDS.values():
        for name in ("problem", "read", "write", "rules", "facts", "size"):
            assert callable(load_address(getattr(kind, name).address)), (kind.name, name)
        assert all(plan_type.load() for plan_type in kind.plans.values())
