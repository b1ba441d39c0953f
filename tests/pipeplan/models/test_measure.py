"""Times of real passes: each node where it stands in a step, gradients accumulating."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pipeplan  # noqa: E402
from pipeplan import InputError, TimeCurve  # noqa: E402
from pipeplan.models.capture import capture  # noqa: E402
from pipeplan.models.grouping import group  # noqa: E402
from pipeplan.models.torch_profile import WARM_UP, CpuClock, Moment, measure  # noqa: E402

pytestmark = pytest.mark.torch


class Blocks(nn.Module):
    """Two blocks in the proportion 1 to 8, behind each other."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 256)) for width in (256, 2048)
        )

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def build(micro_batch: int = 64) -> Any:
    return Blocks(), (torch.randn(micro_batch, 256),), {}


def test_the_sum_of_the_nodes_is_an_eager_step() -> None:
    """Within a few percent on a quiet machine; within a factor on any."""
    captured = capture(build)
    grouped = group(captured)
    forward, backward = measure(captured, grouped, 5)
    assert list(forward) == list(grouped.nodes) == ["blocks.0", "blocks.1"]
    model, args, _ = build()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        steps = []
        for _ in range(6):
            start = time.thread_time()
            model(*args).backward()
            steps.append(time.thread_time() - start)
    finally:
        torch.set_num_threads(before)
    total = sum(forward.values()) + sum(backward.values())
    assert 0.5 < total / sorted(steps[1:])[2] < 2
    assert 4 < forward["blocks.1"] / forward["blocks.0"] < 16
    assert all(backward[name] > forward[name] / 2 for name in grouped.nodes)


def test_gradients_accumulate_and_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = capture(build)
    seen = []

    def mark(self: CpuClock) -> Moment:
        seen.append(next(captured.model.parameters()).grad is not None)
        return Moment(time.perf_counter(), time.thread_time())

    monkeypatch.setattr(CpuClock, "mark", mark)
    given = torch.ones(256, 256)
    captured.model.blocks[0][0].weight.grad = given  # type: ignore[index, union-attr]
    measure(captured, group(captured), 2)
    marks = (
        2 + 2 * 2 * 2
    )  # of one round: a start and an end of the auxiliary operations and of two passes of two nodes
    assert len(seen) == (WARM_UP + 2) * marks
    assert not any(seen[: marks // 2])
    assert all(seen[marks:])
    assert captured.model.blocks[0][0].weight.grad is given  # type: ignore[index, union-attr]
    assert torch.equal(given, torch.ones(256, 256))


def test_a_profile_is_measured() -> None:
    profile = pipeplan.import_torch(build, measure=True, repeats=2)
    assert profile.source["times"] == "measured: cpu, 1 thread, thread time, median of 2"
    assert profile.micro_batch == 64
    assert all(profile.time(node.forward) > 0 and profile.time(node.backward) > 0 for node in profile.nodes)
    assert profile.nodes[0].saved_bytes == 4 * 64 * (256 + 256)


def test_several_sizes_give_curves() -> None:
    profile = pipeplan.import_torch(build, measure=True, repeats=2, micro_batch=(8, 2, 32))
    curve = profile.nodes[1].forward
    assert isinstance(curve, TimeCurve)
    assert curve.samples == (2.0, 8.0, 32.0)
    assert curve.seconds[0] < curve.seconds[2]
    assert profile.micro_batch == 8
    assert profile.tensors[0].shape == (8, 256)


def test_inference_has_no_backward_pass() -> None:
    profile = pipeplan.import_torch(build, measure=True, repeats=1, training=False)
    assert not profile.training
    assert all(node.backward == 0 and node.saved_bytes == 0 for node in profile.nodes)


@pytest.mark.parametrize("repeats", [0, -1, 1.5, True])
def test_the_number_of_repeats_is_whole(repeats: Any) -> None:
    with pytest.raises(InputError, match="--repeats"):
        pipeplan.import_torch(build, measure=True, repeats=repeats)
