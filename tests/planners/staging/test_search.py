"""The table of all devices and sums of degrees: each entry is what a run of its own finds."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from problems.stagings import random_staging

from pipeplan import StagingProblem, solve
from pipeplan.planners.staging import search
from pipeplan.planners.staging.model import model_of
from pipeplan.planners.staging.search import DegreeTable, Search, table_of


def degree_table(problem: StagingProblem, semantics: str = "paper", knapsack: str = "exact") -> DegreeTable:
    return table_of(Search(model_of(problem, {"semantics": semantics}), knapsack == "exact"))


@pytest.mark.sweeps
@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("knapsack", ["exact", "greedy"])
def test_every_entry_is_an_optimum_of_its_own(semantics: str, knapsack: str) -> None:
    """Of the paper's rule: with the reference's, N would be another batch."""
    plans = 0
    for seed in range(0, 36, 5):
        problem = random_staging(seed)
        table = degree_table(problem, semantics, knapsack)
        most = problem.micro_batches
        sums = range(1, min(most, problem.devices + 1) + 1) if semantics == "paper" else [most]
        options = {"semantics": semantics, "knapsack": knapsack}
        for k, s in product(range(1, problem.devices + 1), sums):
            own = solve(problem.replace(devices=k, micro_batches=s), planner="dp-piper", options=options).objective
            assert table.time(k, s) == (None if own is None else pytest.approx(own, rel=1e-9)), (seed, k, s)
            plans += own is not None
        assert table.proven == (knapsack == "exact")
    assert plans > 10


def test_numbers_in_a_file(tmp_path: Path, plan: Any) -> None:
    said = plan("solve", "tiny-stages", "--planner", "dp-piper", "--table", tmp_path / "table.csv", "--json")
    assert said.code == 0, said.err
    with (tmp_path / "table.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0][0] == "devices"
    assert float(lines[-1][-1]) == pytest.approx(said.json["objective"], rel=1e-9)


def test_what_cannot_be_a_table_is_refused(tmp_path: Path, plan: Any) -> None:
    assert plan("solve", "tiny-stages", "--planner", "dp-piper", "--table", tmp_path / "table.xls").code == 2
    assert plan("solve", "tiny-stages", "--planner", "equi", "--table", tmp_path / "table.csv").code == 2


def test_a_table_that_is_too_large_is_refused_before_the_search(
    tmp_path: Path, plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_ENTRIES", 10)
    monkeypatch.setattr(search.Search, "best", lambda *_: pytest.fail("searched"))
    said = plan("solve", "tiny-stages", "--planner", "dp-piper", "--table", tmp_path / "table.csv")
    assert (said.code, said.out) == (2, "")
    assert "ask for fewer devices or drop --option table" in said.err


def test_places_without_a_plan_stay_empty() -> None:
    table = DegreeTable(((None, None), (3.0, 2.5)), True)
    assert table.to_csv() == "devices,1,2\n1,,\n2,3.0,2.5\n"
