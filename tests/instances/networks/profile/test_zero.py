"""ZeRO where profiles become problems: copies of parameters counted by hand, and what replicas send each other."""

from __future__ import annotations

from typing import Any

import pytest
from problems.profiles import ROW

import pipeplan
from pipeplan import InputError, PlannedStage, StagedPlan, UsageError
from pipeplan.instances.lowering import lower, without_backward_passes
from pipeplan.instances.physics.optimizers import MIXED, copies_by, share_of, states_of
from pipeplan.instances.staging.referee import evaluate_stages

ON: dict[str, Any] = {"devices": 4, "memory_bytes": 1e6, "bandwidth": 2000.0}
STAGING = {**ON, "kind": "staging", "data_parallel": True, "optimizer": "adam-mixed"}


@pytest.mark.parametrize("optimizer", MIXED)
@pytest.mark.parametrize("zero", [0, 1])
def test_copies_are_those_of_a_framework_that_trains_in_two_bytes(zero: int, optimizer: str) -> None:
    """Megatron's bytes of a parameter, as `plan configure` counts them: 2, 4 and for Adam 12."""
    states = states_of("megatron", optimizer)[zero]
    parts = (states.weights, states.gradients, states.optimizer)
    copies = copies_by(zero, optimizer)
    assert 2 * copies.whole == sum(part.whole for part in parts)
    assert 2 * copies.shared == sum(part.shared for part in parts)


@pytest.mark.parametrize(("zero", "whole"), [(1, 3), (2, 1), (3, 0)])
def test_layers_of_a_staging_divide_what_copies_hold(zero: int, whole: int) -> None:
    plain, problem = (lower(ROW, **STAGING, zero=stage).problem for stage in (None, zero))
    assert (plain.zero, problem.zero) == (0, zero)
    for before, after in zip(plain.layers, problem.layers, strict=True):
        one, other = before.configurations[1][0], after.configurations[1][0]
        assert one.memory_divided == 0
        assert other.memory_fixed + other.memory_divided == one.memory_fixed
        assert other.memory_divided == (9 - whole) * one.weight_bytes
        assert (one.time, one.weight_bytes) == (other.time, other.weight_bytes)


@pytest.mark.parametrize(("zero", "divided"), [(0, 0), (1, 12), (2, 16), (3, 18)])
def test_two_replicas_of_a_whole_model(zero: int, divided: int) -> None:
    """18 bytes of each parameter; with ZeRO 3 the table of words is gathered three times."""
    profile = pipeplan.load_profile("llama-3-8b")
    on = {"devices": 2, "memory_bytes": float("inf"), "bandwidth": 300e9}
    problem = lower(profile, **{**STAGING, **on}, zero=zero).problem
    stage = PlannedStage(profile.ids, 2, 1, dict.fromkeys(profile.ids, "vanilla"))
    kept = sum(node.saved_bytes for node in profile.nodes)
    parameters = sum(node.parameter_bytes for node in profile.nodes) / 2
    gathered = 3 * 2 * 128_256 * 4096 if zero == 3 else 0
    cost = evaluate_stages(problem, StagedPlan((stage,))).stages[0]
    assert cost.memory_bytes == kept + (18 - divided / 2) * parameters + gathered
    once = 2 * (1 / 2) * 2 * parameters / 300e9  # in and out, of half of the weights in two bytes
    assert cost.synchronisation == pytest.approx((2, 2, 2, 3)[zero] * once / 2)


def test_parts_are_filled_up_to_whole_bytes() -> None:
    assert [share_of(10, shards) for shards in (1, 2, 3, 4, 20)] == [10, 5, 4, 3, 1]
    assert share_of(0.5, 2) == 0.5  # never more than all


@pytest.mark.parametrize(
    ("zero", "forward", "backward", "copies", "gathered"),
    [(1, 0, 0, 3 + 6 / 4, 0), (2, 0, 1, 1 + 8 / 4, 0), (3, 1, 2, 9 / 4, 3)],
)
def test_a_chain_beside_three_others(zero: int, forward: int, backward: int, copies: float, gathered: int) -> None:
    """Two bytes per ms: a collective of four takes 3/4 of the bytes / 2 ms."""
    asked = {**ON, "kind": "chain", "optimizer": "adam-mixed"}
    plain, problem = lower(ROW, **asked).problem, lower(ROW, **asked, zero=zero, replicas=4).problem
    once = [weights * 3 / 4 / 2 for weights in plain.weights]
    assert problem.forward == pytest.approx([t + forward * x for t, x in zip(plain.forward, once, strict=True)])
    assert problem.backward == pytest.approx([t + backward * x for t, x in zip(plain.backward, once, strict=True)])
    assert problem.weight_copies == copies
    assert problem.memory_bytes == plain.memory_bytes - gathered * max(plain.weights)


@pytest.mark.parametrize(("kind", "given", "message"), [
    ("staging", {"zero": 1}, "add --data-parallel"),
    ("chain", {"zero": 1}, "--replicas 8"),
    ("chain", {"replicas": 2}, "--replicas divides memory only together with --zero"),
    ("placement", {"zero": 1}, "--zero is for chain and staging problems"),
    ("staging", {"zero": 4, "data_parallel": True}, "give a ZeRO stage"),
    ("chain", {"zero": 3, "replicas": 2, "memory_bytes": 10.0}, "no room for gathered weights"),
    ("inference", {"zero": 1, "data_parallel": True}, "--zero is for training"),
])  # fmt: skip
def test_what_divides_nothing_is_refused(kind: str, given: dict[str, Any], message: str) -> None:
    profile = without_backward_passes(ROW) if kind == "inference" else ROW
    with pytest.raises((InputError, UsageError), match=message):
        lower(profile, **{**ON, "kind": kind.replace("inference", "staging"), **given})
