"""What a rank holds: counted by hand, held against measured peaks, and never as other estimators have miscounted it."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Experts, Mlp, Model
from pipeplan.instances.training.plan import Recompute, read_recompute
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import (
    RankMemory,
    Ranks,
    memory_of_ranks,
    stash_bytes,
    verify_configuration,
)
from pipeplan.instances.training.words import configuration_from_words

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
WORKLOADS = Path(os.environ.get("PIPEPLAN_WORKLOADS", BENCHMARKS.parent.parent / "shared" / "workloads"))
MEASURED = WORKLOADS.parent / "data" / "training"

H, F, V, S, LAYERS = 64, 256, 1024, 128, 8
DENSE = Model("dense", H, LAYERS, V, Attention(8, 8, 4), Mlp(F))
MIXTURE = Model("mixture", H, LAYERS, V, Attention(8, 8, 4), Mlp(F), Experts(16, 2, 32, dense_layers=1))
EXPERT_NUMBERS = 3 * H * 32
"""Of one expert: two halves of the first product, and the second one."""


def problem(model: Model = DENSE, **changes: Any) -> TrainingProblem:
    given = {"batch": 32, "sequence": S, "levels": "16x100GB/s", **changes}
    return problem_of(model, "16xh100-80gb", **given)


def ranks(own: TrainingProblem, words: str) -> tuple[RankMemory, ...]:
    return memory_of_ranks(own, configuration_from_words(own, words))


def numbers(own: TrainingProblem, words: str, rank: int = 0) -> tuple[float, float]:
    return Ranks(own, configuration_from_words(own, words)).numbers(rank)


# ---- by hand -------------------------------------------------------------------------------------------


def test_a_dense_layer_keeps_what_the_formula_says() -> None:
    """S [h (12 + 4 k / a) + 6 f] / t bytes, and four bytes for each query of each head."""
    own = problem()
    plan = configuration_from_words(own, "tensor=2 pipeline=2")
    by_hand = S * (H * (12 + 4 * 4 / 8) + 6 * F) / 2 + 4 * S * 8 / 2
    assert stash_bytes(own, plan, 1, Recompute()) == by_hand


@pytest.mark.parametrize(
    ("changes", "shared"), [({}, 2), ({"sequence_parallel": False}, 1)], ids=["divided tokens", "whole tokens"]
)
def test_dropout_behind_the_embedding_keeps_a_byte_of_each_number(changes: dict[str, Any], shared: int) -> None:
    """As Megatron's LanguageModelEmbedding does; sequence parallelism divides tokens among tensor-parallel ranks."""
    for dropout in (False, True):
        own = problem(dropout=dropout, **changes)
        plan = configuration_from_words(own, "tensor=2 pipeline=2")
        assert stash_bytes(own, plan, 0, Recompute()) == dropout * S * H / shared


def test_a_whole_layer_that_is_computed_again_keeps_its_input() -> None:
    own = problem()
    plan = configuration_from_words(own, "tensor=2 pipeline=2")
    assert stash_bytes(own, plan, 1, read_recompute("", "full")) == 2 * S * H / 2


def test_parameters_take_the_bytes_of_the_framework() -> None:
    own = problem()
    found = ranks(own, "tensor=2 pipeline=2 data=4")[0].parts
    count, _ = numbers(own, "tensor=2 pipeline=2 data=4")
    assert found["weights"] == 2 * count
    assert found["gradients"] == 4 * count
    assert found["optimizer"] == 12 * count / 4


@pytest.mark.parametrize(("rank", "in_flight"), [(0, 4), (1, 3), (2, 2), (3, 1)])
def test_1f1b_keeps_as_many_micro_batches_as_there_are_stages_behind(rank: int, in_flight: int) -> None:
    own = problem()
    plan = configuration_from_words(own, "pipeline=4")
    layer = stash_bytes(own, plan, 1, Recompute())
    head = stash_bytes(own, plan, LAYERS + 1, Recompute()) if rank == 3 else 0.0
    assert Ranks(own, plan).most_kept(rank) == in_flight * (2 * layer + head)


def test_interleaved_chunks_in_flight_are_counted_by_events() -> None:
    """2 (p - r - 1) + (v - 1) p + 1 passes of chunks; on the first rank of equal chunks they weigh the same."""
    own = problem(batch=64)
    plan = configuration_from_words(own, "pipeline=4 virtual=2")
    layer = stash_bytes(own, plan, 1, Recompute())
    assert Ranks(own, plan).most_kept(0) == (2 * 3 + 4 + 1) * layer


# ---- mistakes that other estimators have made --------------------------------------------------------------


def test_experts_are_not_divided_by_the_tensor_degree() -> None:
    """Where the tensor degree of experts is 1, each of them is whole on its rank."""
    own = problem(MIXTURE)
    _, alone = numbers(own, "expert=4")
    _, divided = numbers(own, "tensor=4 expert=4")
    assert alone == divided == 7 * 16 / 4 * EXPERT_NUMBERS


def test_stages_are_not_averaged() -> None:
    """Of an uneven layout the fullest stage holds more than a share of all."""
    own = problem()
    even = ranks(own, "pipeline=2")
    uneven = ranks(own, "pipeline=2 layout=8/2")
    total = sum(rank.parts["weights"] for rank in even)
    assert total == sum(rank.parts["weights"] for rank in uneven)
    assert max(rank.parts["weights"] for rank in uneven) > 1.2 * total / 2


def test_activations_of_experts_are_not_divided_by_the_expert_degree() -> None:
    """Tokens are divided, but each rank gets those of the others for its experts."""
    own = problem(MIXTURE)
    plans = [configuration_from_words(own, f"expert={e}") for e in (1, 4, 16)]
    assert len({stash_bytes(own, plan, 2, Recompute()) for plan in plans}) == 1


def test_data_and_tensor_parallelism_divide_a_byte_once_each() -> None:
    """The optimizer of divided weights is whole over all ranks of a stage; norms lie whole on every tensor rank."""
    own = problem()
    total = 12 * sum(numbers(own, "pipeline=1"))
    norms = 12 * (2 * LAYERS + 1) * H
    for words, tensor in (("tensor=4", 4), ("tensor=2 context=2", 2)):
        rank = ranks(own, words)[0]
        ranks_of_stage = 16
        assert rank.parts["optimizer"] * ranks_of_stage == pytest.approx(total + (tensor - 1) * norms)


def test_embedding_and_head_lie_on_their_own_ranks_alone() -> None:
    own = problem()
    first, middle, last = (numbers(own, "pipeline=4", rank)[0] for rank in (0, 1, 3))
    assert first - middle == V * H
    assert last - middle == V * H + H


def test_a_tied_embedding_is_counted_on_both_ranks_that_have_it() -> None:
    tied = problem(replace(DENSE, tied=True))
    assert numbers(tied, "pipeline=1")[0] == numbers(problem(), "pipeline=1")[0] - V * H
    assert numbers(tied, "pipeline=4", 3) == numbers(problem(), "pipeline=4", 3)


# ---- monotone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["core_attn", "mlp", "core_attn,mlp", "full:1", "full"])
def test_more_recomputation_never_keeps_more(word: str) -> None:
    own = problem()
    usual = configuration_from_words(own, "pipeline=2")
    less = configuration_from_words(own, f"pipeline=2 recompute={word}")
    for rank in (0, 1):
        assert Ranks(own, less).most_kept(rank) < Ranks(own, usual).most_kept(rank)


def test_more_sharding_never_holds_more_all_the_time() -> None:
    own = problem(framework="deepspeed")
    held = [
        sum(ranks(own, f"zero={zero}")[0].parts[name] for name in ("weights", "gradients", "optimizer"))
        for zero in range(4)
    ]
    assert held == sorted(held, reverse=True)


def test_fewer_micro_batches_are_never_more_in_flight() -> None:
    kept = []
    for batch in (16, 32, 64, 128, 256):
        own = problem(batch=batch)
        kept.append(Ranks(own, configuration_from_words(own, "pipeline=4 virtual=1")).most_kept(0))
    assert kept == sorted(kept)


# ---- measured ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
def test_measured_and_published_memory_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peaks of eight B200 by stage, and the printed values of arXiv 2205.05198."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measured = importlib.import_module("training_measured")
    rows = measured.memory_rows([MEASURED / "b200_measured.json", MEASURED / "a100_2205_05198.json"])
    assert len(rows) == 24
    assert max(abs(row.error) for row in rows) < 0.001


def test_a_sharding_that_the_framework_does_not_have_is_told() -> None:
    """What a parameter takes there is not known, so nothing is said of memory."""
    own = problem()
    plan = replace(configuration_from_words(own, "pipeline=2"), zero=3)
    faults = verify_configuration(own, plan)
    assert [fault.rule for fault in faults] == ["zero"]
