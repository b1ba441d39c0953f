"""The table of all devices and sums of degrees: each entry is what a run of its own finds."""

from __future__ import annotations

import csv
import itertools
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from problems.stagings import random_staging

from pipeplan import Configuration, Edge, Layer, StagingProblem, solve
from pipeplan.planners.staging import search
from pipeplan.planners.staging.costs import choose
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


# ---- model -------------------------------------------------------------------------------------------------
# Stages that are computed and not stored, and long rows of layers that save alike.


def chain_of(ways: list[tuple[Configuration, ...]], memory: float | None, devices: int = 2) -> StagingProblem:
    layers = tuple(Layer(i, {1: row}) for i, row in enumerate(ways))
    edges = tuple(Edge(i, i + 1, 1.0) for i in range(len(ways) - 1))
    return StagingProblem(
        layers, edges, devices=devices, bandwidth=100.0, micro_batches=4, memory_bytes=memory, name="chain"
    )


def test_forty_layers_that_save_alike_are_settled_cheapest_first() -> None:
    """Two devices hold 40 layers, 2 bytes each kept or nothing at some cost: branching over them would never end."""
    rng = random.Random(7)
    extra = [rng.uniform(1.0, 1.2) for _ in range(40)]
    ways = [(Configuration("keep", 5.0, memory_per_batch=2.0), Configuration("recomp", 5.0 + e)) for e in extra]
    problem = chain_of(ways, 19.0, devices=1)
    result = solve(problem, planner="dp-piper")
    assert result.bound == pytest.approx(result.objective, rel=1e-12)
    # 9 layers can be kept, 31 are computed again: the cheapest ones.
    assert result.objective == pytest.approx(200 + sum(sorted(extra)[:31]), rel=1e-12)


# ---- costs -------------------------------------------------------------------------------------------------
# The exact choice of configurations: every choice tried, and a large stage of equal layers.


Rows = list[list[float]]
Units = list[list[int]]
"""Memory is counted in whole units."""


def random_rows(seed: int, layers: int, ways: int = 3, whole: bool = True) -> tuple[Rows, Units, int]:
    rng = random.Random(seed)
    costs, memories = [], []
    for _ in range(layers):
        count = rng.randint(1, ways)
        costs.append([float(rng.randint(0, 20)) if whole else rng.uniform(0, 20) for _ in range(count)])
        memories.append([rng.randint(0, 9 if whole else 9 * 10**14) for _ in range(count)])
    least, most = sum(map(min, memories)), sum(map(max, memories))
    return costs, memories, round(least + rng.uniform(-0.05, 0.9) * (most - least))


def brute(costs: Rows, memories: Units, limit: int) -> float | None:
    totals = [
        sum(row[x] for row, x in zip(costs, ways, strict=True))
        for ways in itertools.product(*(range(len(row)) for row in costs))
        if sum(row[x] for row, x in zip(memories, ways, strict=True)) <= limit
    ]
    return min(totals, default=None)


@pytest.mark.parametrize("seed", range(150))
def test_no_choice_is_better(seed: int) -> None:
    costs, memories, limit = random_rows(seed, layers=1 + seed % 7, whole=seed % 2 == 0)
    found, expected = choose(costs, memories, limit), brute(costs, memories, limit)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.cost == pytest.approx(expected, rel=1e-11)
        assert sum(row[x] for row, x in zip(costs, found.ways, strict=True)) == pytest.approx(found.cost)
        assert sum(row[x] for row, x in zip(memories, found.ways, strict=True)) <= limit


def test_sixty_equal_layers_are_chosen_at_once() -> None:
    """In any order they are the same choice: 37 of them must recompute."""
    costs, memories = [[0.1, 0.13]] * 60, [[3, 1]] * 60
    found = choose(costs, memories, 180 - 2 * 37 + 1)
    assert (sum(found.ways), found.cost) == (37, pytest.approx(6.0 + 37 * 0.03))
