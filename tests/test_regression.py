"""The guard of speed: what it holds against its table, and that it sees a reduction that is switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regression
from command_line import has

from pipeplan.planners.placement import dp as limits

FOLDER = Path(__file__).parent.parent / "benchmarks"
PRUNED = "dp gnmt-training compiled"
"""A case that prunes states."""


@pytest.fixture(autouse=True)
def _on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a factor for processor time that no other work on the machine can reach."""
    monkeypatch.setattr(regression, "CPU_FACTOR", 1000.0)


def found(cpu: float = 1.0, **changes: Any) -> Any:
    usual = {"value": 6.0, "bound": 6.0, "stop": "proven", "counters": {"pairs": 10}, "solver": ""}
    return regression.Measured(regression.Answer(**{**usual, **changes}), cpu)


def faults(cpu: float = 1.0, **changes: Any) -> list[str]:
    """Against the row of the usual answer."""
    faults: list[str] = regression.faults(found().to_json(), found(cpu, **changes))
    return faults


# ---- what is a fault ------------------------------------------------------------------------------------


def test_what_is_as_in_the_table_has_no_fault() -> None:
    assert faults() == []
    assert faults(value=6.0 * (1 + 1e-12)) == []


def test_a_wrong_optimum_a_lost_proof_and_another_bound_are_faults() -> None:
    assert faults(value=6.1) == ["value 6.1, the table has 6.0"]
    assert faults(value=5.9) == ["value 5.9, the table has 6.0"]
    assert faults(value=None) == ["value None, the table has 6.0"]
    assert faults(bound=5.0) == ["bound 5.0, the table has 6.0"]
    assert faults(stop="time") == ["stop time, the table has proven"]


def test_counters_may_fall_but_neither_grow_nor_be_missing() -> None:
    assert faults(counters={"pairs": 9}) == []
    assert faults(counters={"pairs": 11}) == ["pairs 11, the table has 10"]
    assert faults(counters={}) == ["pairs is missing, the table has 10"]
    assert faults(counters={"pairs": 10, "runs": 1}) == ["runs is not in the table"]


def test_a_search_is_compared_with_the_same_version_of_its_solver_alone() -> None:
    row = found(search={"branches": 50}, solver="cp-sat 9").to_json()
    more = {"search": {"branches": 161}}
    same, other = found(solver="cp-sat 9", **more), found(solver="cp-sat 10", **more)
    assert regression.faults(row, same) == ["branches 161, the table has 50"]
    assert regression.faults(row, found(solver="cp-sat 9", search={"branches": 160})) == []
    assert regression.faults(row, other) == []
    assert regression.remarks(row, other) == ["search not compared: cp-sat 10, not cp-sat 9"]


def test_processor_time_has_a_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "CPU_FACTOR", 1.5)
    assert faults(cpu=1.5) == []
    assert faults(cpu=1.6) == ["1.60 units of processor time, the table has 1.00"]


def test_a_case_that_is_not_in_the_table_is_a_fault() -> None:
    assert regression.faults(None, found()) == ["is not in the table"]


# ---- the command ----------------------------------------------------------------------------------------


def test_the_table_has_every_case_and_no_other() -> None:
    names = [case.name for case in regression.CASES]
    assert len(set(names)) == len(names) >= 30
    assert set(json.loads(regression.TABLE.read_text())["cases"]) == set(names)


def test_an_unchanged_case_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert regression.main(["--quick", "--only", PRUNED]) == 0
    assert "1 cases, 0 worse" in capsys.readouterr().out


def test_a_prune_that_is_switched_off_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The optimum stays what it is and nobody would notice: but more pairs of states are gone through."""

    def every_state(lattice: Any, limit: float, way_count: Any, absorbed: Any) -> tuple[Any, Any]:
        shape = (lattice.count, len(way_count))
        return np.zeros(shape, np.int32), np.full(shape, lattice.model.kinds[0].count, np.int32)

    monkeypatch.setattr(limits, "_uses", every_state)
    assert regression.main(["--quick", "--only", PRUNED]) == 1
    told = capsys.readouterr().out
    assert "WORSE: pairs" in told
    assert "value" not in told.partition("WORSE")[2].splitlines()[0]


def test_a_wrong_optimum_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(regression.TABLE.read_text())
    data["cases"][PRUNED]["value"] *= 0.99
    table = tmp_path / "table.json"
    table.write_text(json.dumps(data))
    assert regression.main(["--quick", "--only", PRUNED], table=table) == 1
    assert "WORSE: value 114.120114" in capsys.readouterr().out


def test_a_new_table_keeps_the_rows_of_other_cases(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(regression.TABLE.read_text())
    before = json.loads(table.read_text())["cases"]
    assert regression.main(["--update", "--only", "greedy memory-tight"], table=table) == 0
    after = json.loads(table.read_text())["cases"]
    changed = {name for name in before if after[name] != before[name]}
    assert after.keys() == before.keys()
    assert changed <= {"greedy memory-tight"}


def test_a_case_that_changes_from_run_to_run_fails_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Restless:
        name, slow, runs = "restless", False, 0

        def prepare(self) -> Any:
            def run() -> Any:
                self.runs += 1
                return regression.Answer(1.0, 1.0, "proven", {"runs": self.runs})

            return run

    greedy = next(case for case in regression.CASES if case.name == "greedy memory-tight")
    assert regression.main([], cases=(Restless(), greedy)) == 1
    told = capsys.readouterr().out
    has(told, "WORSE: its answer or its counters are others", "2 cases, 1 worse")
