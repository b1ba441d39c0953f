"""What a machine lacks (an extra, a solver, a reader, an instance) costs its column or row and one line, no more."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Plan, refused

import pipeplan
from pipeplan.instances.base.errors import UsageError
from pipeplan.planners.backends.registry import OFFERED, available
from pipeplan.studies.compare.suite import Instance, Suite, competitor, expand
from pipeplan.studies.compare.suite_file import packaged_suites


def suite(*methods: str) -> Suite:
    return Suite("own", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, methods)))


@pytest.fixture
def without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pymetis" else find(name))


@pytest.mark.usefixtures("without_metis")
def test_a_missing_extra_costs_its_column_and_one_line(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "greedy", "-m", "partition", "-o", tmp_path)
    assert said.code == 0
    line = "partition is left out: 'partition' needs pymetis; install it with pip install 'pipeplan[partition]'"
    assert said.err.count(line) == 1
    assert line in (tmp_path / "tables.md").read_text("utf-8")
    assert "partition" not in said.out


@pytest.mark.usefixtures("without_metis")
def test_where_nothing_is_left_the_comparison_is_refused(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "partition", "-o", tmp_path / "out")
    refused(said, "nothing left to compare. 'partition' needs pymetis; install it with pip install")
    assert not (tmp_path / "out").exists()


def test_a_missing_solver_costs_its_column_and_an_unknown_one_is_refused() -> None:
    offered = next(name for name in OFFERED if name not in available())
    expanded = expand(suite("greedy", f"ip-tarnawski@{offered}", f"ip-tarnawski@highs,{offered}"))
    assert [run.method for run in expanded.runs if run.seed == 0] == ["greedy", f"ip-tarnawski@highs,{offered}"]
    assert f"ip-tarnawski@{offered} is left out: The solver '{offered}' is not installed: pip install" in str(
        expanded.notes
    )
    with pytest.raises(UsageError, match="no solver named 'nonsense'"):
        expand(suite("ip-tarnawski@nonsense"))


def test_of_several_solvers_a_missing_one_is_a_message() -> None:
    offered = next(name for name in OFFERED if name not in available())
    result = pipeplan.solve("tiny-chain", formulation="ip-tarnawski", solver=f"highs,{offered}")
    assert (result.stop, result.objective) == ("proven", 6.0)
    assert any(f"The solver '{offered}' is not installed" in message for message in result.messages)
    with pytest.raises(UsageError, match="is not installed"):
        pipeplan.solve("tiny-chain", formulation="ip-tarnawski", solver=offered)


def test_an_instance_whose_reader_is_missing_costs_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    both = (Instance("tiny", "tiny-chain"), Instance("sheet", str(tmp_path / "sheet.xlsx")))
    expanded = expand(Suite("own", both, (competitor("greedy"),)))
    assert [run.instance for run in expanded.runs] == ["tiny"]
    assert "sheet is left out: Reading .xlsx files needs openpyxl: pip install 'pipeplan[tables]'" in str(
        expanded.notes
    )


def test_a_published_instance_that_the_folder_lacks_has_its_stand_in_or_no_row(tmp_path: Path) -> None:
    lacking = (Instance("a", "tiny-chain", "not/there.json"), Instance("b", None, "not/there.json"))
    expanded = expand(Suite("own", lacking, (competitor("greedy"),)), tmp_path)
    assert ([run.instance for run in expanded.runs], expanded.stand_ins, expanded.left_out) == (
        ["a"],
        ("a",),
        ("b",),
    )


# A plain install: what the extras bring cannot be imported.
PLAIN = """
import sys
sys.modules.update(dict.fromkeys(("pymetis", "pyarrow", "openpyxl", "distributed", "gurobipy")))
from pipeplan.studies.compare.suite import expand
from pipeplan.studies.compare.suite_file import load_suite
suite = load_suite(sys.argv[1], quick=len(sys.argv) == 3)
expanded = expand(suite)
"""
# Every method of the suite on a tiny instance of each kind that it plans.
TRY_ALL = """
from pipeplan import PipeplanError, solve
from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.options import SolveOptions
TINY = {
    "placement": "tiny-chain", "chain": "three-chain", "staging": "tiny-stages", "graph-pipeline": "tiny-graph",
    "schedule": "zero-bubble-4x12", "training": "tiny-training",
}
for run in {(run.method, run.kind): run for run in expanded.runs}.values():
    names = {name: getattr(run, name) for name in ("formulation", "planner", "solver", "options")}
    try:
        result = solve(load_packaged(TINY[run.kind]), **names, limits=SolveOptions(time_limit_s=0.5))
    except PipeplanError as error:
        assert "split" in str(error), error  # a split for another network
        continue
    assert result.stop not in ("error", "memory"), (run.method, result.messages)
"""


@pytest.mark.parametrize("name", sorted(packaged_suites()))
@pytest.mark.parametrize(
    "script", [pytest.param(PLAIN, marks=pytest.mark.sweeps), pytest.param(PLAIN + TRY_ALL, marks=pytest.mark.slow)]
)
def test_every_suite_runs_in_a_plain_install(name: str, script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script, name, "quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_suite_with_metis_is_planned_without_it() -> None:
    script = PLAIN + "print(*expanded.notes, sep='\\n')\nassert expanded.runs\n"
    done = subprocess.run([sys.executable, "-c", script, "tarnawski-table1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "needs pymetis; install it with pip install 'pipeplan[partition]'" in done.stdout
