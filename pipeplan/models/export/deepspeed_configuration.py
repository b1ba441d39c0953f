"""A training configuration as a DeepSpeed JSON file."""

from __future__ import annotations

import json
from typing import Any

from ...instances.training.frameworks import hidden_shares
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from .configurations import checked, is_whole, ranks_in_words, word_of_all
from .contract import Exported, ExportOptions

TARGET, FILE = "deepspeed", "ds_config.json"


def export(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The file with the entries that the configuration decides; those of the optimizer are the user's."""
    problem = checked(TARGET, problem, plan, options)
    d = plan.degrees
    data: dict[str, Any] = {
        "train_batch_size": problem.batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.micro_batches(problem.batch),
        "zero_optimization": {"stage": plan.zero, **({"overlap_comm": True} if _overlaps(problem, plan) else {})},
        problem.precision: {"enabled": True},
    }
    if d.tensor > 1:
        data["tensor_parallel"] = {"autotp_size": d.tensor}
    if d.expert > 1:
        data["expert_parallel"] = {"enabled": True, "autoep_size": d.expert}
    again = is_whole(word_of_all(plan))
    if d.pipeline > 1 or again:
        data["pipeline"] = {
            "stages": d.pipeline,
            "partition": "uniform",
            "activation_checkpoint_interval": int(again),
        }
    return Exported({FILE: json.dumps(data, indent=2) + "\n"}, tuple(_notes(problem, plan, again)))


def _overlaps(problem: TrainingProblem, plan: Configuration) -> bool:
    """Is communication counted as hidden?"""
    return any(hidden_shares(problem, plan.zero, plan.degrees.pipeline))


def _notes(problem: TrainingProblem, plan: Configuration, again: bool) -> list[str]:
    d = plan.degrees
    notes = [ranks_in_words(problem, plan)]
    if d.pipeline > 1:
        notes.append(
            f'the program builds the stages: PipelineModule(num_stages={d.pipeline}, partition_method="uniform")'
            f", with a list of {len(problem.model.units)} layers, embedding and head included"
        )
    elif again:
        notes.append(
            "without a PipelineModule the program turns recomputation on: deepspeed.checkpointing.checkpoint"
        )
    if d.tensor > 1 and problem.sequence_parallel:
        notes.append(
            "memory was judged with tokens divided among tensor-parallel ranks, which is the program's to do"
        )
    return notes
