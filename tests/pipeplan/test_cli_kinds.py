"""Chains and stagings on the command line: solve, verify, show, convert, lists, overrides, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused


def test_a_chain_is_planned_drawn_and_verified(plan: Plan, tmp_path: Path) -> None:
    """Without an instance a packaged chain is taken; its optimum is 13."""
    result = tmp_path / "result.json"
    said = done(plan("solve", "--formulation", "ilp-beaumont", "--output", result, "-v"))
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
    said = done(plan("solve", "tiny-stages", "--planner", "dp-piper", "--output", result, "-v"))
    has(said.out, "verified: yes, recomputed time per micro-batch", "stage 0:")
    facts = plan("verify", "tiny-stages", result, "--json").json
    assert facts["verified"]
    assert facts["options"] == {"semantics": "paper"}
    assert plan("show", "tiny-stages", result).code == 0


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
    refused(plan("solve", *arguments), words)


@pytest.mark.parametrize(
    ("instance", "planner", "objective", "says"),
    [
        ("tiny-chain", "greedy", "iteration", "give one of max-load, gpipe"),
        ("tiny-graph", "graphpipe", "gpipe", "give one of time-per-sample, iteration"),
        ("tiny-stages", "dp-piper", "gpipe", "--objective is 'gpipe'; give one of throughput, flush."),
        ("tiny-levels", "dp-piper", "gpipe", "--objective is 'gpipe'; give one of throughput, flush."),
        ("golden-4", "contiguous", "max-load", "--objective says nothing about a chain problem; drop it."),
    ],
)
def test_objectives_belong_to_their_kind(
    plan: Plan, tmp_path: Path, instance: str, planner: str, objective: str, says: str
) -> None:
    result = tmp_path / "result.json"
    assert plan("solve", instance, "--planner", planner, "--output", result).code == 0
    refused(plan("verify", instance, result, "--objective", objective), says)
