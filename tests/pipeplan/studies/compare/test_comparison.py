"""Comparisons that are interrupted or killed end in the table of an undisturbed one; the
journal keeps what is written, and stored runs are kept only as long as what made them is what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from problems.made_up_runs import record as finished_run
from problems.made_up_runs import run

from pipeplan import InputError, UsageError, load_packaged
from pipeplan.formulations import registry
from pipeplan.instances.base.compiled import child_environment
from pipeplan.studies import journal
from pipeplan.studies.chain_memory import Settings, opened
from pipeplan.studies.compare import comparison
from pipeplan.studies.compare.comparison import JOURNAL, Comparison, Progress, compare_suite, finished, journal_in
from pipeplan.studies.compare.run import Record, Run, Status
from pipeplan.studies.compare.suite import Instance, Suite, competitor
from pipeplan.studies.compare.table import DETERMINISTIC, plain_rows

# One worker runs them all, so that the comparison which they share is made once.
pytestmark = pytest.mark.xdist_group("comparison")

NAMES = ("greedy", "dp", "local-search", "one-device", "ip-tarnawski@highs")
SUITE = Suite("small", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, NAMES)), seeds=(0, 1))
# Two methods take two seeds each; `greedy`, `dp` and `one-device` know no chance and run once.
RUNS = 7
COMMAND = [sys.executable, "-m", "pipeplan", "compare", "tiny-chain", "--seeds", "0,1", "--jobs", "2"]


def deterministic(comparison: Comparison) -> list[dict[str, Any]]:
    return plain_rows(comparison.table()[list(DETERMINISTIC)])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare_suite(SUITE, tmp_path_factory.mktemp("undisturbed"), jobs=2)


@pytest.mark.slow
def test_interrupted_and_resumed_it_repeats_nothing(tmp_path: Path, undisturbed: Comparison) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.record is not None and progress.finished == 3:
            raise KeyboardInterrupt

    first = compare_suite(SUITE, tmp_path, jobs=1, watch=interrupt)
    assert first.interrupted
    assert len(first.records) == 3
    heard: list[Progress] = []
    second = compare_suite(SUITE, tmp_path, jobs=2, resume=True, watch=heard.append)
    assert second.reused == heard[0].finished == 3
    assert len(heard) == 1 + RUNS - 3
    assert deterministic(second) == deterministic(undisturbed)
    assert all(second.records[key].wall_s == record.wall_s for key, record in first.records.items())


@pytest.mark.slow
@pytest.mark.timing
def test_killed_with_all_its_processes_and_resumed_it_repeats_nothing(
    tmp_path: Path, undisturbed: Comparison
) -> None:
    folder = tmp_path / "out"
    methods = [word for name in NAMES for word in ("--method", name)]
    process = subprocess.Popen(
        [*COMMAND, *methods, "-o", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=child_environment(), start_new_session=True,
    )  # fmt: skip
    journal = journal_in(folder)
    while process.poll() is None and (not journal.exists() or len(finished(journal)) < 2):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = finished(journal)
    assert 2 <= len(left) < RUNS, "it was killed in the middle"
    resumed = subprocess.run(
        [*COMMAND, *methods, "-o", str(folder), "--resume"],
        capture_output=True,
        env=child_environment(),
        check=True,
    )
    assert f"{RUNS} runs, {len(left)} of them done before".encode() in resumed.stderr
    assert len((folder / JOURNAL).read_bytes().splitlines()) == RUNS, "each run is there once"
    labelled = [{**row, "instance": "tiny"} for row in _rows(folder)]
    assert labelled == deterministic(undisturbed)


def _rows(folder: Path) -> list[dict[str, Any]]:
    """The deterministic columns of a folder's journal, by the API."""
    suite = Suite("s", (Instance("tiny-chain", "tiny-chain"),), SUITE.methods, seeds=SUITE.seeds)
    found = compare_suite(suite, folder, resume=True)
    return deterministic(found)


def test_a_folder_with_a_comparison_is_not_overwritten(tmp_path: Path) -> None:
    small = Suite("s", SUITE.instances, SUITE.methods[:1])
    compare_suite(small, tmp_path)
    with pytest.raises(UsageError, match="--resume"):
        compare_suite(small, tmp_path)


def test_failed_runs_are_run_again_only_when_that_is_asked(tmp_path: Path) -> None:
    small = Suite("s", SUITE.instances, SUITE.methods[:1])
    (done,) = compare_suite(small, tmp_path).records.values()
    journal_in(tmp_path).append(Record(done.run, Status.CRASHED, message="killed").to_json())
    (kept,) = compare_suite(small, tmp_path, resume=True).records.values()
    assert kept.status == Status.CRASHED
    (again,) = compare_suite(small, tmp_path, resume=True, retry_failed=True).records.values()
    assert again.status == Status.DONE


@pytest.mark.slow
def test_the_journals_of_two_machines_are_one_comparison(tmp_path: Path, undisturbed: Comparison) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, methods in ((one, SUITE.methods[:2]), (other, SUITE.methods[2:])):
        compare_suite(replace(SUITE, methods=methods), folder, jobs=1)
    with (one / JOURNAL).open("ab") as journal_of_one:
        journal_of_one.write((other / JOURNAL).read_bytes())
    joined = compare_suite(SUITE, one, resume=True)
    assert joined.reused == RUNS
    assert deterministic(joined) == deterministic(undisturbed)


def made_up(seed: int, wall_s: float = 1.0) -> Record:
    return finished_run(run("one", "a", seed), 1.0, wall_s=wall_s)


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.sweeps)])
def test_cut_at_any_byte_whole_lines_survive_and_writing_goes_on(tmp_path: Path, step: int) -> None:
    path = tmp_path / "runs.jsonl"
    journal_in(tmp_path).extend([made_up(0).to_json(), made_up(1).to_json()])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        journal = journal_in(tmp_path)
        assert len(finished(journal)) == (length >= first)
        journal.append(made_up(2).to_json())
        assert set(finished(journal)) == {made_up(seed).run.key for seed in ([0, 2] if length >= first else [2])}


@pytest.mark.parametrize("line", ["{", "[]", '{"schema": "other"}', '{"schema": "pipeplan.run/1"}'])
def test_a_strange_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"runs\.jsonl: line 1 is no record of a run"):
        finished(journal_in(tmp_path))


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
        for one in runs:
            tell(Record(one, Status.REFUSED))

    monkeypatch.setattr(comparison, "run_here", run_nothing)
    suite = Suite("s", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, METHODS)))

    def again() -> tuple[list[str], list[str]]:
        ran, said = [], []

        def hear(progress: comparison.Progress) -> None:
            said.extend(progress.remarks)
            ran.extend([] if progress.record is None else [progress.record.run.method])

        compare_suite(suite, folder / "out", resume=True, watch=hear)
        return ran, said

    return again


def test_a_plug_in_whose_code_changed_runs_again_and_no_other(
    folder: Path, compared: Callable[[], tuple[list[str], list[str]]]
) -> None:
    assert compared() == (list(METHODS), [])
    assert compared() == ([], [])
    (folder / "stale_one.py").write_text(PLUGIN.format(line="FASTER = True"), encoding="utf-8")
    said = ["the code of stale_one:ENTRY has changed: 1 run is made again."]
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
    monkeypatch.setattr(journal, "own_version", lambda: "0.0.1")
    assert compared() == (list(METHODS), ["pipeplan has changed: 3 runs are made again."])
    monkeypatch.setattr(journal, "STANDARD", ("highs",))
    assert compared()[1] == ["cp-sat has changed: 3 runs are made again."]


def test_other_limits_repeat_all_and_are_named(tmp_path: Path) -> None:
    told: list[str] = []
    for limit in (5.0, 6.0):
        suite = Suite(
            "s", (Instance("tiny", "tiny-chain"),), (competitor("greedy"),), limits={"time_limit_s": limit}
        )
        made = compare_suite(suite, tmp_path, resume=True, watch=lambda progress: told.extend(progress.remarks))
        assert made.reused == 0
    assert told == ["limits have changed: 1 run is made again."]


def test_a_sweep_of_plan_pareto_is_not_continued_by_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "points.jsonl"
    chain = load_packaged("golden-4")
    opened(chain, Settings(), path)
    assert opened(chain, Settings(), path).path == path
    monkeypatch.setattr(journal, "own_version", lambda: "0.0.1")
    with pytest.raises(InputError, match=r"made_by\.pipeplan is '.*' there and '0\.0\.1' now; .*--no-resume"):
        opened(chain, Settings(), path)


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
