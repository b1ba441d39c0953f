"""What ranks compute is what one process computes: the loss, and every gradient to the last digits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from run_cases import MICRO_BATCHES, in_shares, placed, profile_of, run_cases

from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.networks.profile.profile import Profile
from pipeplan.instances.registry import Plan
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.models.run.engine import DividedBackward
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
    cases = run_cases("gpt", profile, plans_of_a_row(profile))
    agree(cases)
    assert cases["by turns"].schedule == "the plan's"


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


# ---- a backward pass in two parts ------------------------------------------------------------------------


def shared_twice(x: Any, w: Any, b: Any) -> list[Any]:
    """A weight that an operation and one behind it use."""
    return [torch.tanh(torch.tanh(x @ w + b) @ w.t() + b)]


def two_outputs(x: Any, w: Any, b: Any) -> list[Any]:
    """One leads to the input and one to weights alone."""
    return [torch.relu(x @ w), (w * w).sum() + b.sum()]


def branches(x: Any, w: Any, b: Any) -> list[Any]:
    """That meet again, one of them through a view and a part of the weight."""
    left, right = x @ w, x.t() @ w[: x.shape[0]]
    return [torch.softmax(left, -1) + right.sum(), left * b]


STAGES: list[Callable[[Any, Any, Any], list[Any]]] = [
    shared_twice,
    two_outputs,
    branches,
    lambda x, w, b: [torch.tanh(w) @ w + b],  # without an input
    lambda x, w, b: [torch.sin(x) * x],  # without weights
    lambda x, w, b: [x * 1.0, w],  # a weight as output
]


@pytest.mark.parametrize("stage", STAGES)
def test_both_parts_together_are_the_whole(stage: Any) -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(4, 4, dtype=torch.float64) for _ in range(3)]
    found: list[list[Any]] = []
    for divided in (False, True):
        x, w, b = (tensor.clone().requires_grad_() for tensor in tensors)
        made = stage(x, w, b)
        pairs = [(tensor, torch.full_like(tensor, 0.5)) for tensor in made]
        if divided:
            both = DividedBackward(pairs, [x])
            both.inputs()
            assert w.grad is None
            assert b.grad is None
            both.weights()
        else:
            torch.autograd.backward([tensor for tensor, _ in pairs], [gradient for _, gradient in pairs])
        found.append([tensor.grad for tensor in (x, w, b)])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_gradients_of_weights_are_added_up_over_micro_batches() -> None:
    x, w = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    for _ in range(3):
        y = x @ w
        both = DividedBackward([(y, torch.ones_like(y))], [x])
        both.inputs()
        both.weights()
    assert torch.equal(w.grad, torch.full((2, 2), 6.0))


def test_the_second_part_runs_only_what_leads_to_weights() -> None:
    """Each operation beside a weight once; the way to the input is not run again."""
    runs: list[str] = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, tensor: Any) -> Any:
            return tensor.sin()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            runs.append("input")
            return gradient

    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    y = Counted.apply(Counted.apply(x) @ w) @ w.t()
    both = DividedBackward([(y, torch.ones_like(y))], [x])
    both.inputs()
    assert len(runs) == 2
    both.weights()
    assert len(runs) <= 3, "the one between the two uses of the weight alone"
