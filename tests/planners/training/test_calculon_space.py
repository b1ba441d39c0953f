"""The space that Calculon enumerates for megatron-22B on 8 A100, with its cost model in our words.

Its executions (calculon/llm/optimal_execution.py) are degrees of tensor, pipeline and data parallelism with the same
layers in every chunk, micro-batches, nothing, the attention's matrix or whole layers computed again, a divided
optimizer or none, and how collectives run: all-reduces or what sequence parallelism takes, hidden or not. A product
takes its operations or its bytes, whichever is longer, at the rates of systems/a100_80g.json; its tables of rates by
size are the rates of large operations here. Offloading and the second network are not in our space.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeplan import Stop, solve
from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees, Recompute
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration, framework_faults

ROOT = Path(__file__).resolve().parents[3]
GPUS, BATCH = 8, 4
"""The batch of arXiv 2205.05198."""
WORDS = {"none": NOTHING, "attn_only": Recompute(("core_attn",)), "full": Recompute(("full",))}
RATES = Efficiencies(
    products=0.95, half_side=0, attention=0.95, memory=0.9, launch_seconds=0, links=0.6, collective_seconds=0,
    data_hidden=0,
)  # fmt: skip


def problem(
    sequence_parallel: bool = True, data_hidden: float = 0.0, tensor_hidden: float = 0.0
) -> TrainingProblem:
    own = problem_of(
        "megatron-22b", f"{GPUS}xa100-80gb", batch=BATCH, sequence=2048, precision="fp16", flash_attention=False,
        dropout=True, sequence_parallel=sequence_parallel, reserve_bytes=0.0,
    )  # fmt: skip
    return own.replace(
        gpu=replace(own.gpu, memory_bytes=80.0 * GIB, memory_rate=2.048e12),
        levels=(Level(GPUS, 300e9, 1e-6),),
        efficiencies=replace(RATES, data_hidden=data_hidden, tensor_hidden=tensor_hidden),
    )


def factors(number: int) -> list[int]:
    return [i for i in range(1, number + 1) if number % i == 0]


def executions(own: TrainingProblem) -> Iterator[Configuration]:
    """As Calculon nests its loops."""
    layers = own.model.layers
    for t in factors(GPUS):
        for p in factors(GPUS // t):
            d = GPUS // (t * p)
            if layers % p or BATCH % d:
                continue
            for v in factors(layers // p) if p > 1 else [1]:
                for word, sharded, b in itertools.product(WORDS.values(), {0, int(d > 1)}, factors(BATCH // d)):
                    layout = [layers // (p * v)] * (p * v)
                    layout[0] += 1
                    layout[-1] += 1  # of the same chunk where there is one
                    schedule = "interleaved-1f1b" if v > 1 else "1f1b"
                    plan = Configuration(
                        Degrees(t, 1, p, v, d), b, sharded, schedule, tuple(layout), (word,) * (p * v)
                    )
                    if not any(framework_faults(own, plan)):
                        yield plan


def options(own: TrainingProblem) -> dict[str, str]:
    """The same space as a scope."""
    modules = ("core_attn", "layernorm", "mlp")
    sets = [",".join(some) for n in (1, 2, 3) for some in itertools.combinations(modules, n)]
    others = {*sets, *(f"full:{n}" for n in range(1, own.model.layers))} - {"core_attn"}
    forbidden = [f"recompute={word}" for word in sorted(others)]
    return {"fix": "context=1", "forbid": " ".join(forbidden), "layouts": "even"}


def same_optimum(own: TrainingProblem) -> int:
    """How many were enumerated."""
    judged = [evaluate_configuration(own, plan) for plan in executions(own)]
    least = min(one.timing.seconds for one in judged if one.fullest.bytes <= own.gpu.memory_bytes)
    result = solve(own, planner="exact-configuration", options=options(own))
    assert result.stop == Stop.PROVEN
    assert result.verified
    assert result.objective == pytest.approx(least, rel=1e-9)
    return len(judged)


def test_the_search_finds_what_enumeration_of_calculons_space_finds() -> None:
    page = (ROOT / "docs" / "configure.md").read_text("utf-8")
    assert f"{same_optimum(problem())} configurations of a batch of {BATCH}" in " ".join(page.split())


@pytest.mark.sweeps
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("data_hidden", [0.0, 1.0])
@pytest.mark.parametrize("tensor_hidden", [0.0, 1.0])
def test_whatever_collectives_hide(sequence_parallel: bool, data_hidden: float, tensor_hidden: float) -> None:
    same_optimum(problem(sequence_parallel, data_hidden, tensor_hidden))
