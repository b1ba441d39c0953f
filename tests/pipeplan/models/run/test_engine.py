"""What ranks compute is what one process computes: the loss, and every gradient to the last digits."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from run_cases import MICRO_BATCHES, in_shares, placed, profile_of, run_cases

from pipeplan import GraphStage, PlannedStage, Profile, StagedPlan, StageGraphPlan
from pipeplan.instances.registry import Plan
from pipeplan.models.run.report import CaseReport

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch-runs")]


def agree(cases: dict[str, CaseReport]) -> None:
    for name, case in cases.items():
        assert case.check.agrees, f"{name}: {case.check}"
        assert case.check.compared > 0


def plans_of_a_row(profile: Profile) -> dict[str, Plan]:
    """Two stages, rank 0 with both ends, and both ranks with two stages by turns."""
    count = len(profile.nodes)
    return {
        "two stages": in_shares(profile, 3, count - 3),
        "both ends": in_shares(profile, 2, count - 3, 1),
        "by turns": in_shares(profile, 1, 2, 2, count - 5),
    }


def test_a_gpt_with_tied_weights() -> None:
    profile = profile_of("gpt")
    assert profile.tied
    agree(run_cases("gpt", profile, plans_of_a_row(profile)))


def test_what_skips_stages() -> None:
    profile = profile_of("skips")
    assert len(profile.nodes) >= 6
    assert any(len(tensor.readers) > 2 for tensor in profile.tensors)
    agree(run_cases("skips", profile, plans_of_a_row(profile), steps=2))


def test_replicas_of_a_stage_take_turns_and_add_up_their_gradients() -> None:
    profile = profile_of("gpt")
    both = StagedPlan((PlannedStage(profile.ids, 2, 1, dict.fromkeys(profile.ids, "vanilla")),))
    case = run_cases("gpt", profile, {"replicas": both})["replicas"]
    agree({"replicas": case})
    assert [len([p for p in case.passes if p.rank == rank]) for rank in (0, 1)] == [MICRO_BATCHES] * 2


def test_towers_as_a_graph_of_stages() -> None:
    """Three stages, of which two do not wait for each other; and a kFkB schedule of two."""
    profile = profile_of("towers")
    side = [0 if "left" in node.id else 1 if "right" in node.id else 2 for node in profile.nodes]
    held = [[node.id for node, x in zip(profile.nodes, side, strict=True) if x == own] for own in range(3)]
    stages = (
        GraphStage((*held[0], *held[2]), 1, profile.micro_batch, 2, 2 * profile.micro_batch),
        GraphStage(tuple(held[1]), 1, profile.micro_batch, 2, 4 * profile.micro_batch),
    )
    plans: dict[str, Plan] = {
        "graph": placed(profile, [{0: 0, 1: 1, 2: 0}[x] for x in side]),
        "2F2B": StageGraphPlan(stages, ((1, 0),)),
    }
    agree(run_cases("towers", profile, plans))


def test_convolutions_with_buffers_and_writes_in_place() -> None:
    profile = profile_of("cnn")
    agree(run_cases("cnn", profile, plans_of_a_row(profile)))


def test_inference_runs_forward_alone() -> None:
    profile = profile_of("gpt", training=False)
    case = run_cases("gpt", profile, {"two": in_shares(profile, 3, len(profile.nodes) - 3)})["two"]
    assert case.check is None
    assert len(case.passes) == 2 * MICRO_BATCHES
    assert all(found.micro_batch > 0 for found in case.passes)


# ---- models of transformers: skips, towers side by side, tied weights, labels in place ------------------

TRANSFORMERS = Path(__file__).parents[3] / "problems" / "small_transformers.py"


@pytest.mark.slow("t5", "whisper")
@pytest.mark.parametrize("function", ["gpt2", "t5", "whisper", "clip"])
def test_the_gradients_are_those_of_one_process(function: str) -> None:
    """Two stages, four by turns, and of the towers one on each rank."""
    pytest.importorskip("transformers")
    profile = profile_of(function, TRANSFORMERS)
    count = len(profile.nodes)
    quarter = count // 4
    plans = {
        "two": in_shares(profile, count // 2, count - count // 2),
        "four": in_shares(profile, quarter, quarter, quarter, count - 3 * quarter),
    }
    if function == "clip":
        sides = [1 if "vis" in node.id else 0 for node in profile.nodes]
        assert len(set(sides)) == 2
        plans["towers"] = placed(profile, sides)
    agree(run_cases(function, profile, plans, file=TRANSFORMERS, micro_batches=3))
