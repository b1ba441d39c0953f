"""A training configuration as a torchtitan TOML file."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...instances.training.plan import NONE, Configuration
from ...instances.training.problem import TrainingProblem
from .configurations import checked, is_whole, ranks_in_words, refused, word_of_all
from .contract import Exported, ExportOptions

TARGET, FILE = "torchtitan", "torchtitan.toml"
# torchtitan's names of schedules, by ours.
SCHEDULES = {
    "1f1b": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "gpipe": "GPipe",
    "zb-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}
# Whether weights are divided again after forward passes, by the stage of ZeRO.
RESHARD = {2: "never", 3: "always"}
# The converters that train linear layers in fp8.
FP8 = ["quantize.linear.float8"]

Section = Mapping[str, str | int | list[str] | list[list[str]]]


def export(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The sections that the configuration decides; those of the model are the user's."""
    problem = checked(TARGET, problem, plan, options)
    _check(problem, plan)
    sections: dict[str, Section] = {
        "training": _batch(problem, plan),
        "parallelism": {**_degrees(problem, plan), **_pipeline(problem, plan)},
        "activation_checkpoint": {"mode": _recomputation(plan)},
    }
    if problem.precision == "fp8":
        sections["model"] = {"converters": FP8}
    notes = [
        ranks_in_words(problem, plan),
        "give it as --job.config_file to versions with TOML files (0.2), or its entries as options such as "
        "--parallelism.tensor_parallel_degree to later ones, which call the head lm_head",
        "the sections of model, data and optimizer come beside it",
    ]
    return Exported({FILE: toml_text(sections)}, tuple(notes))


def toml_text(sections: Mapping[str, Section]) -> str:
    """Texts, numbers and lists are written in TOML as they are in JSON."""
    texts = []
    for name, entries in sections.items():
        texts.append("\n".join([f"[{name}]", *(f"{key} = {_value(value)}" for key, value in entries.items())]))
    return "\n\n".join(texts) + "\n"


def _value(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"    {json.dumps(entry)},\n" for entry in value) + "]"
    return json.dumps(value)


# ---- what it has no words for --------------------------------------------------------------------------


def _check(problem: TrainingProblem, plan: Configuration) -> None:
    d = plan.degrees
    if problem.precision == "fp16":
        raise refused(
            TARGET, "the problem is one in fp16, which torchtitan does not train in; plan with bf16 or fp8"
        )
    if problem.model.prediction_layers:
        raise refused(TARGET, "the model predicts several tokens, which torchtitan's models do not; leave that out")
    if d.pipeline == 1 and plan.schedule != "1f1b":
        raise refused(
            TARGET,
            f"with one stage it runs one micro-batch after the other, and here the schedule is {plan.schedule}; "
            "choose 1f1b",
        )
    if d.tensor > 1 and not problem.sequence_parallel:
        raise refused(
            TARGET,
            "tensor-parallel ranks have all tokens here, and torchtitan divides these; plan with sequence parallelism",
        )
    if plan.zero == 0 and d.data > 1 and d.tensor * d.context * d.pipeline > 1:
        raise refused(
            TARGET,
            "it combines whole replicas (zero=0) with no other parallelism; choose zero=3, or data parallelism alone",
        )
    if plan.zero == 0 and d.context > 1:
        raise refused(TARGET, "context-parallel ranks divide the weights there; choose zero=3")
    if problem.model.experts is not None:
        _check_experts(plan)


def _check_experts(plan: Configuration) -> None:
    d = plan.degrees
    if d.expert == 1 and d.expert_tensor != d.tensor:
        raise refused(
            TARGET,
            f"experts without expert parallelism are divided by the tensor degree, {d.tensor}, and here by "
            f"{d.expert_tensor}; choose expert-tensor={d.tensor}",
        )
    if d.expert_tensor not in (1, d.tensor):
        raise refused(
            TARGET,
            f"an expert is divided by 1 or by the tensor degree, {d.tensor}, and here by {d.expert_tensor}; choose "
            "one of these",
        )
    shards = d.context * d.tensor * (1 if plan.zero == 0 else d.data)
    if shards % (d.expert * d.expert_tensor):
        raise refused(
            TARGET, f"{d.expert} x {d.expert_tensor} ranks of experts do not divide {shards}; choose zero=3"
        )


# ---- sections ------------------------------------------------------------------------------------------


def _batch(problem: TrainingProblem, plan: Configuration) -> Section:
    """A pipeline divides its local batch; else gradients are added up until the batch is whole."""
    local = plan.micro_batch if plan.degrees.pipeline == 1 else problem.batch // plan.degrees.data
    return {"local_batch_size": local, "global_batch_size": problem.batch, "seq_len": problem.sequence}


def _degrees(problem: TrainingProblem, plan: Configuration) -> Section:
    d = plan.degrees
    degrees: dict[str, str | int] = {
        "tensor_parallel_degree": d.tensor,
        "context_parallel_degree": d.context,
        "data_parallel_replicate_degree": d.data if plan.zero == 0 else 1,
        "data_parallel_shard_degree": 1 if plan.zero == 0 else d.data,
    }
    if plan.zero:
        degrees["fsdp_reshard_after_forward"] = RESHARD[plan.zero]
    if problem.model.experts is not None:
        degrees["expert_parallel_degree"] = d.expert
        if d.expert > 1:
            degrees["expert_tensor_parallel_degree"] = d.expert_tensor
    return degrees


def _pipeline(problem: TrainingProblem, plan: Configuration) -> Section:
    if plan.degrees.pipeline == 1:
        return {"pipeline_parallel_degree": 1}
    return {
        "pipeline_parallel_degree": plan.degrees.pipeline,
        "pipeline_parallel_schedule": SCHEDULES[plan.schedule],
        "pipeline_parallel_microbatch_size": plan.micro_batch,
        "module_fqns_per_model_part": _modules(problem, plan),
    }


def _modules(problem: TrainingProblem, plan: Configuration) -> list[list[str]]:
    layers = [[f"layers.{i}"] for i in range(problem.model.layers)]
    row = [["tok_embeddings"], *layers, ["norm", "output"]]
    return [[name for unit in row[interval.start : interval.stop] for name in unit] for interval in plan.intervals]


def _recomputation(plan: Configuration) -> str:
    word = word_of_all(plan)
    if not word.modules:
        return NONE
    if not is_whole(word) or word.layers is not None:
        raise refused(
            TARGET,
            f"it computes whole layers again in all chunks, and here it is {word.word}; choose recompute=full or none",
        )
    return "full"
