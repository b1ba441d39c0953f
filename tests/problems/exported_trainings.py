"""Twelve training configurations for three frameworks: what each of them can be told of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.words import configuration_from_words


@dataclass(frozen=True)
class Case:
    """A configuration, and who can say it."""

    name: str
    model: str
    devices: str
    words: str
    framework: str = "megatron"
    batch: int = 256
    sequence: int = 4096
    precision: str = "bf16"
    layers: int | None = None
    dense_layers: int | None = None
    refused: tuple[tuple[str, str], ...] = ()
    """Frameworks that cannot, with a part of their sentence."""

    def problem(self, framework: str | None = None) -> TrainingProblem:
        """Without a limit of memory: what frameworks can say does not depend on it."""
        return _problem(self).replace(framework=framework or self.framework)

    @property
    def plan(self) -> Configuration:
        return configuration_from_words(self.problem(), self.words)


@cache
def _problem(case: Case) -> TrainingProblem:
    more: dict[str, Any] = {"layers": case.layers, "dense_layers": case.dense_layers}
    return problem_of(
        case.model, case.devices, batch=case.batch, sequence=case.sequence, precision=case.precision, **more
    )


NO_ZERO_1 = ("torchtitan", "no ZeRO stage 1")
NO_STAGE_3 = ("megatron", "no ZeRO stage 3")
NO_FP8 = ("deepspeed", "does not train in fp8")
NO_CHUNKS = ("deepspeed", "no schedule interleaved-1f1b")

CASES = (
    Case("whole replicas", "llama-3-8b", "8xh200", "zero=0 recompute=full"),
    Case("a pipeline alone", "llama-3-8b", "2xh200", "pipeline=2 zero=0 layout=17/17"),
    Case(
        "dense, interleaved",
        "llama-3-70b",
        "64xh100-80gb",
        "tensor=4 pipeline=4 virtual=5 micro-batch=2",
        refused=(NO_ZERO_1, NO_CHUNKS),
    ),
    Case(
        "dense, interleaved and uneven, some layers computed again",
        "llama-3-70b",
        "32xh100-80gb",
        "tensor=4 pipeline=4 virtual=2 layout=11/11/11/10/10/10/10/9 recompute=full:2",
        refused=(NO_ZERO_1, NO_CHUNKS),
    ),
    Case(
        "dense, modules computed again, fp8",
        "llama-3-70b",
        "32xh100-80gb",
        "tensor=4 pipeline=2 recompute=core_attn,mlp",
        precision="fp8",
        refused=(NO_ZERO_1, NO_FP8),
    ),
    Case(
        "dense, even by units",
        "llama-3-70b",
        "32xa100-80gb",
        "tensor=4 pipeline=2 zero=1 micro-batch=2 recompute=full",
        framework="deepspeed",
        refused=(NO_ZERO_1,),
    ),
    Case(
        "experts, divided themselves",
        "mixtral-8x22b",
        "128xh100-80gb",
        "tensor=4 pipeline=4 expert=4 expert-tensor=2 recompute=moe_act",
        refused=(NO_ZERO_1, ("deepspeed", "does not divide an expert")),
    ),
    Case(
        "latent attention, experts, prediction, uneven",
        "deepseek-v3",
        "256xb200-180gb",
        "pipeline=4 virtual=2 expert=64 layout=7/8/8/8/9/9/8/7 recompute=mla_up_proj,moe_act",
        refused=(NO_ZERO_1, NO_CHUNKS),
    ),
    Case(
        "latent attention, experts, in a V",
        "deepseek-v2",
        "128xb200-180gb",
        "pipeline=4 virtual=2 expert=32 zero=2 schedule=dualpipe-v layout=8/8/8/8/8/8/7/7",
        framework="torchtitan",
        refused=(("megatron", "no ZeRO stage 2"), ("deepspeed", "no schedule dualpipe-v")),
    ),
    Case(
        "full sharding",
        "llama-3-70b",
        "64xh100-80gb",
        "tensor=8 zero=3 recompute=full micro-batch=2",
        framework="torchtitan",
        refused=(NO_STAGE_3,),
    ),
    Case(
        "full sharding with context, fp8",
        "llama-3-70b",
        "64xh100-80gb",
        "tensor=4 context=2 zero=3 recompute=full",
        framework="torchtitan",
        batch=64,
        sequence=65536,
        precision="fp8",
        refused=(NO_STAGE_3, NO_FP8),
    ),
    Case(
        "gathered weights in an uneven interleaved pipeline",
        "mixtral-8x7b",
        "64xh100-80gb",
        "tensor=2 pipeline=4 virtual=2 expert=4 expert-tensor=2 zero=2 layout=5/5/4/4/4/4/4/4",
        framework="torchtitan",
        refused=(("megatron", "no ZeRO stage 2"), NO_CHUNKS),
    ),
)
FRAMEWORKS = ("megatron", "torchtitan", "deepspeed")
