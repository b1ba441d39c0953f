"""Results that belong to another problem, and claims that no referee can see from one plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeplan

Plan = Callable[..., Any]

UNCHECKED = "the file claims that its plan is optimal, which was not checked here; add --proof to prove it again"


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """A plan that is not the best, with an altered bound that meets its value."""
    result = pipeplan.solve("tiny-chain", planner="dp").to_json()
    poor = pipeplan.PlacementPlan.from_assignment(
        pipeplan.load("tiny-chain"), {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": 2}
    )
    assert isinstance(poor, pipeplan.PlacementPlan)
    value = pipeplan.evaluate("tiny-chain", poor).max_load
    assert value > result["objective"]
    path = tmp_path / "forged.json"
    path.write_text(
        json.dumps({**result, "plan": poor.to_json(), "objective": value, "claimed": value, "bound": value})
    )
    return path


def test_verify_says_that_optimality_is_the_files_claim(plan: Plan, forged: Path) -> None:
    done = plan("verify", "tiny-chain", forged)
    assert done.code == 0
    assert " ".join(done.out.split()).endswith(f"not checked: {UNCHECKED}.")
    assert plan("verify", "tiny-chain", forged, "--json").json["unchecked"] == UNCHECKED
    assert plan("verify", "tiny-chain", forged, "--proof").code == 3


def test_a_plan_that_claims_nothing_of_others_has_nothing_unchecked(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy").unproven(), path)
    done = plan("verify", "tiny-chain", path)
    assert (done.code, "not checked" in done.out) == (0, False)
    assert plan("verify", "tiny-chain", path, "--json").json["unchecked"] is None


@pytest.mark.parametrize("command", ["show", "verify", "simulate", "report"])
def test_a_cluster_that_nobody_typed_is_not_refused_as_an_option(plan: Plan, tmp_path: Path, command: str) -> None:
    result = tmp_path / "r.json"
    assert plan("solve", "tiny-stages", "--bandwidth", "1GB/s", "--planner", "equi", "-o", result).code == 0
    words = (result, "tiny-chain") if command == "report" else ("tiny-chain", result)
    done = plan(command, *words)
    assert done.code == 2
    assert (
        f"Error: {result} belongs to 'tiny-stages', not to tiny-chain, where its cluster does not fit" in done.err
    )


@pytest.mark.parametrize("command", ["show", "verify"])
def test_whose_result_it_is_is_said(plan: Plan, tmp_path: Path, command: str) -> None:
    result = tmp_path / "r.json"
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), result)
    done = plan(command, "memory-tight", result)
    assert done.code == 3
    assert "it belongs to 'tiny-chain', not to 'memory-tight'" in done.err
    assert "cluster options" not in done.err


def test_convert_writes_to_standard_output(plan: Plan) -> None:
    done = plan("convert", "tiny-chain", "-o", "-")
    assert (done.code, done.json["schema"], done.err) == (0, "pipeplan.placement/1", "")
    both = plan("convert", "tiny-chain", "-o", "-", "--json")
    assert (both.code, both.out) == (2, "")
    assert "drop --json, or name a file." in both.err
