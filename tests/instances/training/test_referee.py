"""What a rank holds: counted by hand, held against measured peaks, and never as other estimators have miscounted it.

What one unit has and keeps is held against the definitions in `test_unit_costs`."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.plan import Recompute
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


def problem(model: Model = DENSE, **changes: Any) -> TrainingProblem:
    given = {"batch": 32, "sequence": S, "levels": "16x100GB/s", **changes}
    return problem_of(model, "16xh100-80gb", **given)


def ranks(own: TrainingProblem, words: str) -> tuple[RankMemory, ...]:
    return memory_of_ranks(own, configuration_from_words(own, words))


def numbers(own: TrainingProblem, words: str, rank: int = 0) -> tuple[float, float]:
    return Ranks(own, configuration_from_words(own, words)).numbers(rank)[0]


def test_with_adapters_only_they_have_gradients_and_an_optimizer() -> None:
    """Each product of rows x columns has 8 (rows + columns) of them; all else is a weight of two bytes."""
    own = problem().replace(adapter_rank=8)
    plan = configuration_from_words(own, "pipeline=1 zero=1")
    (trained, _), (frozen, _) = Ranks(own, plan).numbers(0)
    assert frozen == numbers(problem(), "pipeline=1")[0]
    queries, output, first, second = 128 + H, 64 + H, 2 * F + H, H + F
    assert trained == LAYERS * 8 * (queries + output + first + second)
    (rank,) = memory_of_ranks(own, plan)
    assert rank.parts["gradients"] == 4 * trained
    assert rank.parts["optimizer"] == 12 * trained / 16
    assert rank.parts["weights"] == 2 * (trained + frozen)


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


def test_stages_are_not_averaged() -> None:
    """Of an uneven layout the fullest stage holds more than a share of all."""
    own = problem()
    even = ranks(own, "pipeline=2")
    uneven = ranks(own, "pipeline=2 layout=8/2")
    total = sum(rank.parts["weights"] for rank in even)
    assert total == sum(rank.parts["weights"] for rank in uneven)
    assert max(rank.parts["weights"] for rank in uneven) > 1.2 * total / 2


def test_embedding_and_head_lie_on_their_own_ranks_alone() -> None:
    own = problem()
    first, middle, last = (numbers(own, "pipeline=4", rank)[0] for rank in (0, 1, 3))
    assert first - middle == V * H
    assert last - middle == V * H + H


def test_a_tied_embedding_is_counted_on_both_ranks_that_have_it() -> None:
    tied = problem(replace(DENSE, tied=True))
    assert numbers(tied, "pipeline=1")[0] == numbers(problem(), "pipeline=1")[0] - V * H
    assert numbers(tied, "pipeline=4", 3) == numbers(problem(), "pipeline=4", 3)


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
