"""Optimizers are records: every command counts the same bytes of a parameter, and a new one is a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeplan import InputError, TrainingProblem, load_profile, lower
from pipeplan.instances.physics.optimizers import (
    KEPT,
    MIXED,
    OPTIMIZERS,
    USUAL_OPTIMIZER,
    copies_by,
    states_of,
    update_bytes,
)
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import Configuration, Degrees, Recompute
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.studies.configure.judge import judge

ALONE = Configuration(Degrees(), 1, 0, "1f1b", (34,), (Recompute(),))


def llama(optimizer: str = USUAL_OPTIMIZER, **more: Any) -> TrainingProblem:
    return problem_of("llama-3-8b", "1xh100", batch=8, sequence=4096, optimizer=optimizer, **more)


def parameters() -> float:
    return sum(node.parameter_bytes for node in load_profile("llama-3-8b").nodes) / 2


def sum_of_states(framework: str, optimizer: str) -> float:
    """Bytes of a parameter's weight, gradient and states together, where ranks divide nothing."""
    states = states_of(framework, optimizer)[0]
    return states.weights.whole + states.gradients.whole + states.optimizer.whole


def test_published_bytes_of_a_parameter() -> None:
    """ZeRO's 16 bytes (DeepSpeed), Megatron's 18, FSDP's 16; Muon keeps half of Adam's moments."""
    assert [sum_of_states(name, "adam-mixed") for name in ("deepspeed", "megatron", "torchtitan")] == [16, 18, 16]
    assert sum_of_states("megatron", "muon") == sum_of_states("megatron", "momentum-mixed") == 14
    assert sum_of_states("megatron", "adafactor") == 10
    assert sum_of_states("megatron", "adam-8bit") == 10 + 2 * (1 + 4 / 256)
    assert update_bytes("adam-mixed") == 34
    assert all(own.source for own in (*OPTIMIZERS.values(), *KEPT.values()))


def test_parts_may_have_number_formats_of_their_own() -> None:
    """Weights of 2 bytes, and behind them gradients, a master copy and moments."""
    bytes_of = {
        "adam-mixed:gradients=bf16": 2 + 2 + 4 + 8,
        "muon:gradients=bf16": 2 + 2 + 4 + 4,
        "adam-precision-aware": 2 + 4 + 2 + 4,
        "adam-precision-aware:first=fp8,second=fp8": 2 + 4 + 2 + 2,
        "adam-precision-aware:gradients=bf16,master=fp32": 2 + 2 + 4 + 4,
    }
    assert {name: sum_of_states("megatron", name) for name in bytes_of} == bytes_of
    assert sum_of_states("torchtitan", "adam-precision-aware") == 4 + 4 + 4  # there is no master copy
    assert update_bytes("muon:gradients=bf16") == update_bytes("muon") - 2 * 2
    for wrong in (
        "muon:first=bf16",
        "adam-mixed:gradients=int4",
        "muon:gradients=fp8",
        "sgd:gradients=bf16",
        "muon:gradients",
    ):
        with pytest.raises(InputError, match=f"optimizer is '{wrong}'; give "):
            sum_of_states("megatron", wrong)


@pytest.mark.parametrize("framework", KEPT)
@pytest.mark.parametrize("optimizer", MIXED)
def test_stages_divide_and_lose_nothing(framework: str, optimizer: str) -> None:
    whole = sum_of_states(framework, optimizer)
    for zero, states in states_of(framework, optimizer).items():
        held = [sum(part.on(n) for part in (states.weights, states.gradients, states.optimizer)) for n in (1, 8)]
        extra = 2 if framework in ("torchtitan", "fsdp") and zero == 2 else 0  # the copy in 16 bits that stays
        assert held[0] == whole + extra
        assert held[1] < held[0] if zero else held[1] == held[0]


@pytest.mark.parametrize("optimizer", MIXED)
def test_the_same_optimizer_holds_the_same_bytes_by_every_command(optimizer: str) -> None:
    """What `plan solve` counts of a profile's parameters is what `plan configure` counts of the model's."""
    lowered: Any = lower(load_profile("llama-3-8b"), devices="1xh100", optimizer=optimizer).problem
    solved = sum(layer.configurations[1][0].memory_fixed for layer in lowered.layers)
    parts = memory_of_ranks(llama(optimizer), ALONE)[0].parts
    assert solved == pytest.approx(sum(parts[name] for name in ("weights", "gradients", "optimizer")), rel=1e-3)
    assert solved == pytest.approx(parameters() * sum_of_states("megatron", optimizer))


@pytest.mark.parametrize(("flags", "meant"), [
    ("--optimizer muon", "muon"),
    ("--optimizer sgd", "momentum-mixed"),
    ("--optimizer sgd --sgd-momentum 0", "sgd-mixed"),
    ("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "adam-precision-aware"),
    ("--use-precision-aware-optimizer --exp-avg-dtype fp8", "adam-precision-aware:first=fp8,second=fp32"),
    ("--use-precision-aware-optimizer --main-grads-dtype bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
     "adam-precision-aware:gradients=bf16"),
    ("--optimizer muon --grad-reduce-in-bf16", "muon:gradients=bf16"),
    ("--fp16", "adam-mixed:gradients=fp16"),
    ("--fp16 --accumulate-allreduce-grads-in-fp32", USUAL_OPTIMIZER),
    ("--optimizer adam", USUAL_OPTIMIZER),
])  # fmt: skip
def test_flags_name_the_optimizer(flags: str, meant: str) -> None:
    judged = judge(llama(), f"--micro-batch-size 1 {flags}", 0.0)
    assert judged.problem.optimizer == meant
    assert any(f"the optimizer {meant} (" in note for note in judged.notes) == (meant != USUAL_OPTIMIZER)


def test_a_new_optimizer_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record alone makes `plan solve`, `plan configure` and Megatron's flags know it."""
    lion = replace(OPTIMIZERS["momentum-mixed"], name="lion", megatron="--optimizer lion")
    monkeypatch.setitem(OPTIMIZERS, "lion", lion)  # type: ignore[arg-type]
    monkeypatch.setattr("pipeplan.instances.training.problem.MIXED", (*MIXED, "lion"))
    assert llama().hash != llama("lion").hash
    with pytest.raises(InputError, match="optimizer is 'tiger'; give adam-mixed or"):
        llama("tiger")
    assert copies_by(0, "lion").whole == 7
    assert llama("lion").states[0].optimizer.whole == 8
    assert judge(llama(), "--micro-batch-size 1 --optimizer lion", 0.0).problem.optimizer == "lion"
    assert update_bytes("lion") == 10 + 2 * 8
