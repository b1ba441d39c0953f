"""Stored runs are kept only as long as what made them is what it was: plug-ins, this program, solvers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pipeplan.formulations import registry
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.files import problem_to_text
from pipeplan.studies import made_by
from pipeplan.studies.compare import child, comparison
from pipeplan.studies.compare.comparison import compare
from pipeplan.studies.compare.run import Record, Run, Status
from pipeplan.studies.compare.suite import Instance, Suite, competitor, expand
from pipeplan.studies.sweep import asked, opened

METHODS = ("stale_one:ENTRY", "stale_two:ENTRY", "greedy")
PLUGIN = """from pipeplan.planners.registry import PLANNERS
{line}
ENTRY = PLANNERS["greedy"]
"""
HELPED = PLUGIN.format(line="def late():\n    import stale_helper")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with two plug-ins, of which the second imports a helper when it is called."""
    for name, text in (("one", PLUGIN.format(line="")), ("two", HELPED), ("helper", "A = 1\n"), ("other", "")):
        (tmp_path / f"stale_{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    registry.plugged_in.cache_clear()
    return tmp_path


@pytest.fixture
def compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[list[str], list[str]]]:
    """Compares with --resume; gives the methods that ran, and what was said. The runs themselves are left out."""

    def run_nothing(
        runs: Sequence[Run], problems: Mapping[str, str], jobs: int, tell: Callable[[Record], None]
    ) -> None:
        for run in runs:
            tell(Record(run, Status.REFUSED))

    monkeypatch.setattr(comparison, "run_here", run_nothing)
    suite = Suite("s", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, METHODS)))

    def again() -> tuple[list[str], list[str]]:
        ran, said = [], []

        def hear(progress: comparison.Progress) -> None:
            said.extend(progress.remarks)
            ran.extend([] if progress.record is None else [progress.record.run.method])

        compare(suite, folder / "out", resume=True, watch=hear)
        return ran, said

    return again


def test_a_plug_in_whose_code_changed_runs_again_and_no_other(
    folder: Path, compared: Callable[[], tuple[list[str], list[str]]]
) -> None:
    assert compared() == (list(METHODS), [])
    assert compared() == ([], [])
    (folder / "stale_one.py").write_text(PLUGIN.format(line="FASTER = True"), encoding="utf-8")
    said = ["1 stored run is stale and repeated: the code of stale_one:ENTRY changed since."]
    assert compared() == (["stale_one:ENTRY"], said)
    assert compared() == ([], []), "it was run by the new code"
    (folder / "stale_other.py").write_text("B = 1\n", encoding="utf-8")
    assert compared() == ([], []), "no plug-in imports this file"


@pytest.mark.slow
def test_a_helper_that_a_plug_in_imports_late_is_part_of_its_code(
    folder: Path, compared: Callable[[], tuple[list[str], list[str]]]
) -> None:
    compared()
    (folder / "stale_helper.py").write_text("A = 2\n", encoding="utf-8")
    assert compared()[0] == ["stale_two:ENTRY"]


@pytest.mark.slow
def test_another_version_of_this_program_or_of_a_solver_repeats_all(
    compared: Callable[[], tuple[list[str], list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared()
    monkeypatch.setattr(made_by, "own_version", lambda: "0.0.1")
    assert compared() == (list(METHODS), ["3 stored runs are stale and repeated: pipeplan changed since."])
    monkeypatch.setattr(made_by, "STANDARD", ("highs",))
    assert compared()[1] == ["3 stored runs are stale and repeated: cp-sat changed since."]


def test_a_sweep_of_plan_pareto_is_not_continued_by_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "points.jsonl"
    chain = load_packaged("golden-4")
    opened(chain, asked(chain), path)
    assert opened(chain, asked(chain), path).path == path
    monkeypatch.setattr(made_by, "own_version", lambda: "0.0.1")
    with pytest.raises(InputError, match=r"made_by\.pipeplan is '.*' there and '0\.0\.1' now; .*--no-resume"):
        opened(chain, asked(chain), path)


@pytest.mark.slow
def test_a_run_is_refused_where_the_code_is_no_longer_what_the_run_names(folder: Path) -> None:
    """Else an edit while the comparison runs would be stored as the work of the code before."""
    expanded = expand(Suite("s", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, METHODS[:1]))))
    (run,) = expanded.runs
    job = {"run": run.to_json(), "problem": problem_to_text(expanded.problems[run.problem_hash])}
    assert "result" in child._answer(job)
    (folder / "stale_one.py").write_text(PLUGIN.format(line="FASTER = True"), encoding="utf-8")
    assert "A plug-in has changed since the comparison began" in child._answer(job)["refused"]


def test_an_installed_package_counts_with_all_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeplan.formulations.plugins import code_digest

    package = folder / "site-packages" / "stale_package"
    package.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
    for name, text in (("__init__.py", "import stale_beside"), ("table.csv", "1")):
        (package / name).write_text(text, encoding="utf-8")
    (package.parent / "stale_beside.py").write_text("", encoding="utf-8")
    first = code_digest(["stale_package.methods"])
    (package.parent / "stale_beside.py").write_text("C = 1", encoding="utf-8")
    assert code_digest(["stale_package"]) == first, "another installed package is no part of it"
    (package / "table.csv").write_text("2", encoding="utf-8")
    assert code_digest(["stale_package"]) != first
