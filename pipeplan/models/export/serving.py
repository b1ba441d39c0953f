"""Servers that count layers: vLLM, SGLang and TensorRT-LLM exactly, llama.cpp in proportions.

All of them hold the embedding with the first layers and the head with the last; none says anything else.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.physics.hardware import GPUS
from .contract import Exported, ToExport, degrees_of, usual_notes
from .parts import layers_by_stage

TRAINED = "the plan was made for training; what a server runs is planned with --inference"
NO_CACHE = "no plan counts the memory of KV caches; leave room for them"


def vllm(job: ToExport) -> Exported:
    """The environment variable by which vLLM divides layers among stages."""
    counts, notes = _counts(job)
    return Exported({"vllm.env": f"VLLM_PP_LAYER_PARTITION={_listed(counts)}\n"}, notes)


def sglang(job: ToExport) -> Exported:
    """The environment variable by which SGLang divides layers among stages."""
    counts, notes = _counts(job)
    return Exported({"sglang.env": f"SGLANG_PP_LAYER_PARTITION={_listed(counts)}\n"}, notes)


def trtllm(job: ToExport) -> Exported:
    """A line of the YAML file with options of the LLM API."""
    counts, notes = _counts(job)
    return Exported({"trtllm.yaml": f"pp_partition: {counts}\n"}, notes)


def llamacpp(job: ToExport) -> Exported:
    """Proportions, by which llama.cpp divides the layers and, as one more, the output."""
    if job.plan.training:
        raise job.refusal(
            f"it was made for training, with backward passes such as that of the node {show(job.stages[0].nodes[0])}, "
            "and llama.cpp serves",
            "plan with --inference",
        )
    counts, notes = _counts(job, tensor=False)
    exact = [*counts[:-1], counts[-1] + 1]
    becomes = divided(counts, sum(counts))
    about = f"llama.cpp takes proportions and counts the output as a layer: with all on devices it makes {becomes}"
    if becomes != counts and divided(exact, sum(counts)) == counts:
        about += f"; --tensor-split {_listed(exact)} makes {counts}"
    notes = (*notes, about, "llama.cpp keeps the embedding on the CPU")
    return Exported({"llamacpp.args": f"--split-mode layer --tensor-split {_listed(counts)}\n"}, notes)


def divided(proportions: list[int], layers: int) -> list[int]:
    """The layers of each device as llama.cpp divides them: with the output, which comes after the last layer."""
    borders = [Fraction(end, sum(proportions)) for end in accumulate(proportions)]
    homes = [bisect_right(borders, Fraction(layer, layers + 1)) for layer in range(layers)]
    return [homes.count(device) for device in range(len(proportions))]


def _counts(job: ToExport, *, tensor: bool = True) -> tuple[list[int], tuple[str, ...]]:
    """The layers of each rank, and what the text leaves out."""
    replicas, degree = degrees_of(job, tensor=tensor)
    counts = [stage.layers for stage in layers_by_stage(job)]
    for number, count in enumerate(counts):
        if not count:
            raise job.refusal(
                f"stage {number}, with the node {show(job.stages[number].nodes[0])}, holds no layer, and every rank "
                "must hold one",
                "plan with --option whole-layers, or for fewer --devices",
            )
    notes = usual_notes(job)
    if degree > 1:
        notes.append(f"stages are {degree} devices each: give that tensor-parallel size as well")
    if replicas > 1:
        notes.append(f"start a server for each of the {several(replicas, 'replica')}")
    notes += _about_gpus(job)
    if job.plan.training:
        notes.append(TRAINED)
    return counts, (*notes, NO_CACHE)


def _about_gpus(job: ToExport) -> list[str]:
    """Which rank is on which GPU, where a plan has several types of them, and how a server is told."""
    first = str(job.asked.get("devices", "")).partition(",")[0].partition("x")[2] or "the first type of devices"
    of_rank = {stage.rank: stage.gpu or first for stage in job.stages}
    types = list(dict.fromkeys(of_rank[rank] for rank in sorted(of_rank)))
    if len(types) < 2:
        return []
    told = "; ".join(
        f"{_ranks([rank for rank in sorted(of_rank) if of_rank[rank] == name])} on {name}" for name in types
    )
    short = [name for name in types if name in GPUS and "bf16" not in GPUS[name].flops]
    return [
        f"GPUs by pipeline rank: {told}; name the GPUs of one machine in this order in CUDA_VISIBLE_DEVICES, with "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID, and start several machines in it",
        *(f"{name} has no bfloat16: serve with --dtype half" for name in short),
    ]


def _ranks(numbers: list[int]) -> str:
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers))}"


def _listed(counts: list[int]) -> str:
    return ",".join(map(str, counts))
