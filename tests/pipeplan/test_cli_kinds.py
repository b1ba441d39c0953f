"""Chains and stagings on the command line: solve, verify, show, convert, lists, overrides, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Plan = Callable[..., Any]


def test_a_chain_is_planned_drawn_and_verified(plan: Plan, tmp_path: Path) -> None:
    """Without an instance a packaged chain is taken; its optimum is 13."""
    result = tmp_path / "result.json"
    said = plan("solve", "--formulation", "ilp-beaumont", "--output", result, "-v")
    assert said.code == 0
    for words in ("optimal, proven", "period 13", "gpu0 |", "verified: yes, recomputed period per batch 13"):
        assert words in said.out
    assert plan("verify", "golden-4", result).code == 0
    shown = plan("show", "golden-4", result)
    assert "gpu0 holds the most" in shown.out
    facts = plan("verify", "golden-4", result, "--json").json
    assert (facts["verified"], facts["objective"]) == (True, 13)
    assert facts["evaluation"]["devices"][0]["peak_bytes"] <= 34


def test_a_staging_problem_is_planned_drawn_and_verified(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said = plan("solve", "tiny-stages", "--planner", "dp-piper", "--output", result, "-v")
    assert said.code == 0
    assert "verified: yes, recomputed time per micro-batch" in said.out
    assert "stage 0:" in said.out
    facts = plan("verify", "tiny-stages", result, "--json").json
    assert facts["verified"]
    assert facts["options"] == {"semantics": "paper"}
    assert plan("show", "tiny-stages", result).code == 0


def test_both_programs_of_piper_agree(plan: Plan) -> None:
    values = [
        plan("solve", "tiny-stages", *method, "--semantics", "reference", "--json").json["objective"]
        for method in (("--planner", "dp-piper"), ("--formulation", "mip-piper"))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_the_cluster_can_be_overridden(plan: Plan, tmp_path: Path) -> None:
    less = plan("solve", "golden-4", "--planner", "exact-beaumont", "--memory", "none", "--json").json
    assert less["objective"] == pytest.approx(9.0, rel=1e-6)  # its answer without a limit
    one = plan("solve", "tiny-stages", "--planner", "dp-piper", "--devices", 1, "--memory", "none", "--json").json
    assert len(one["plan"]["stages"]) == 1
    assert (
        plan("solve", "tiny-stages", "--planner", "dp-piper", "--batch", 1, "--json").json["problem"][
            "micro_batches"
        ]
        == 1
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("golden-4", "--cpus", 2), "--cpus is for placement problems: a chain runs on GPUs alone"),
        (("tiny-chain", "--batch", 2), "--batch is for staging, graph-pipeline, schedule and training problems"),
        (("golden-4", "--planner", "dp-piper"), "plans problems of kind 'staging'"),
        (("tiny-stages", "--planner", "exact-beaumont"), "plans problems of kind 'chain'"),
        (("tiny-stages", "--planner", "dp-piper", "--variant", "plain"), "has no option 'variant'"),
        (("golden-4", "--cross-check"), "There is no cross-check for 'exact-beaumont'"),
        (("tiny-chain", "--planner", "greedy", "--cross-check"), "There is no cross-check for 'greedy'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(plan: Plan, arguments: tuple[Any, ...], words: str) -> None:
    said = plan("solve", *arguments)
    assert said.code == 2
    assert words in " ".join(said.err.split())


def test_a_plan_of_another_kind_is_refused(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert plan("solve", "tiny-stages", "--planner", "dp-piper", "--output", result).code == 0
    said = plan("verify", "golden-4", result)
    assert said.code == 2
    assert "is of the kind stages" in said.err


def test_files_of_every_kind_make_the_round_trip(plan: Plan, tmp_path: Path) -> None:
    for name in ("golden-4", "tiny-stages"):
        copy = tmp_path / f"{name}.json"
        assert plan("convert", name, "-o", copy).code == 0
        first, again = (plan("solve", x, "--json").json["problem"]["hash"] for x in (name, copy))
        assert first == again
    published = tmp_path / "published.json"
    assert plan("convert", "tiny-stages", "-o", published, "--to", "published").code == 0
    assert "TMPCs" in published.read_text()
    assert plan("solve", published, "--planner", "dp-piper").code == 0


def test_a_broken_plan_is_rejected_with_its_rule(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert plan("solve", "tiny-stages", "--planner", "dp-piper", "--output", result).code == 0
    facts = json.loads(result.read_text())
    facts["plan"]["stages"] = [*reversed(facts["plan"]["stages"]), facts["plan"]["stages"][0]]
    result.write_text(json.dumps(facts))
    said = plan("verify", "tiny-stages", result, "--json")
    assert said.code == 3
    assert "assignment" in {violation["rule"] for violation in said.json["violations"]}


def test_the_lists_name_them(plan: Plan) -> None:
    kinds = {row["name"]: row["kind"] for row in plan("instances", "--json").json}
    assert (kinds["golden-4"], kinds["tiny-stages"], kinds["tiny-chain"]) == ("chain", "staging", "placement")
    names = {row["name"] for row in plan("planners", "--json").json}
    assert {"dp-piper", "equi", "exact-beaumont", "pipedream-eager"} <= names
    assert {row["name"] for row in plan("formulations", "--json").json} >= {
        "mip-piper",
        "ilp-beaumont",
        "cp-beaumont",
    }
