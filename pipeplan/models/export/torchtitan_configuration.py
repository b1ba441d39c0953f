"""A training configuration as a torchtitan TOML file."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from .configurations import checked, ranks_in_words, word_of_all
from .contract import Exported, ExportOptions

TARGET, FILE = "torchtitan", "torchtitan.toml"
# Whether weights are divided again after forward passes, by the stage of ZeRO.
RESHARD = {2: "never", 3: "always"}
# The converters that train linear layers in fp8.
FP8 = ["quantize.linear.float8"]

Section = Mapping[str, str | int | list[str] | list[list[str]]]


def export(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The sections that the configuration decides; those of the model are the user's."""
    problem = checked(TARGET, problem, plan, options)
    sections: dict[str, Section] = {
        "training": _batch(problem, plan),
        "parallelism": {**_degrees(problem, plan), **_pipeline(problem, plan)},
        "activation_checkpoint": {"mode": word_of_all(plan).word},
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
        "pipeline_parallel_schedule": problem.rules.schedules[plan.schedule],
        "pipeline_parallel_microbatch_size": plan.micro_batch,
        "module_fqns_per_model_part": _modules(problem, plan),
    }


def _modules(problem: TrainingProblem, plan: Configuration) -> list[list[str]]:
    layers = [[f"layers.{i}"] for i in range(problem.model.layers)]
    row = [["tok_embeddings"], *layers, ["norm", "output"]]
    return [[name for unit in row[interval.start : interval.stop] for name in unit] for interval in plan.intervals]
