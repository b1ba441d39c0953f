"""Frameworks that train: Megatron's flags, DeepSpeed's files and torchtitan's TOML file, for plans and for training
configurations. (What torchtitan and torch are told of a plan is in `torch_pipelining`.)

In a layout of Megatron E is the embedding, t a transformer layer, m a layer that predicts several tokens (MTP) and L
the head with the loss; `|` ends a stage, `t*8` is eight layers. With p ranks stage i is on rank i mod p.

No `partition_method` of DeepSpeed takes a list, so the method that divides is overridden. The list of layers is the
user's own; its entries are taken to be the nodes of the plan, one each, in the order of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import accumulate, groupby
from typing import Any

from ...instances.base.errors import UsageError, show
from ...instances.base.quantities import several
from ...instances.physics.optimizers import OPTIMIZERS, USUAL_OPTIMIZER
from ...instances.training.frameworks import even_layout, hidden_shares
from ...instances.training.plan import FULL, Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import framework_faults, shape_faults
from ...planners.staging.equal import RECOMPUTATION
from .contract import (
    Exported,
    ExportOptions,
    ToExport,
    check_one_stage_per_rank,
    check_row,
    degrees_of,
    servers_of,
    usual_notes,
)
from .names import StageOfLayers, layers_by_stage

MEGATRON_FILE = "megatron.args"


def megatron(job: ToExport) -> Exported:
    """The options for a row of stages of whole layers, one or several on each rank; other plans are refused."""
    if job.options.legacy:
        check_one_stage_per_rank(job)
    stages = layers_by_stage(job, interleaved=not job.options.legacy)
    replicas, tensor = degrees_of(job)
    words = [f"--pipeline-model-parallel-size {job.plan.ranks}"]
    if job.options.legacy:
        words += _uneven_ends(job, stages)
    else:
        letters = ("E" * s.embedding + "t" * s.layers + "m" * s.predictors + "L" * s.head for s in stages)
        words.append(f'--pipeline-model-parallel-layout "{layout_text(letters)}"')
    words += [f"--tensor-model-parallel-size {tensor} --sequence-parallel"] * (tensor > 1)
    again, about = _recomputation(job)
    words += [*again, *_batches(job)]
    # The optimizer for which the plan's memory was counted.
    optimizer = OPTIMIZERS.get(str(job.asked.get("optimizer")))
    if optimizer is not None and optimizer.megatron is not None:
        words.append(optimizer.megatron + " --bf16" * optimizer.mixed)
    notes = [note for note in usual_notes(job) if not again or "does not say how nodes run" not in note] + about
    zero = job.asked.get("zero")
    if zero:
        words.append("--use-distributed-optimizer")
        more = f"memory was counted with ZeRO {zero}; beside pipeline stages Megatron divides the optimizer alone"
        notes += [more] * (zero != 1)
    devices = replicas * tensor * job.plan.ranks
    if devices > 1:
        each, servers = servers_of(job, devices) or ("N", "M")
        launch = f"torchrun --nproc-per-node {each} --nnodes {servers} pretrain_gpt.py"
        of_them = " with N x M of them" * (each == "N")
        notes.append(f"start it on {several(devices, 'device')}: {launch}{of_them}")
    notes.append("flags of the model's shapes and of data come beside the text")
    predictors = sum(stage.predictors for stage in stages)
    if predictors:
        notes.append(f"give --mtp-num-layers {predictors} as well")
    return Exported({MEGATRON_FILE: " ".join(words) + "\n"}, tuple(notes))


def _recomputation(job: ToExport) -> tuple[list[str], list[str]]:
    """The options for recomputation, with one number of layers for all stages, and a note on what that changes."""
    counts = [sum(RECOMPUTATION in way for way in (stage.configurations or {}).values()) for stage in job.stages]
    if not any(counts):
        return [], []
    most = max(counts)
    words = f"--recompute-granularity full --recompute-method block --recompute-num-layers {most}"
    same = f"; Megatron has one number, so stages that need fewer recompute {most}, too"
    told = ", ".join(map(str, counts)) + same * (len(set(counts)) > 1)
    return [words], [f"layers that recompute, by stage: {told}"]


def _batches(job: ToExport) -> list[str]:
    """Samples of a micro-batch, and of all that pass between two updates, where the result says how many there are."""
    if job.profile is None or job.plan.training is False or not job.asked:
        return []
    sequence = job.profile.source.get("sequence")
    words = [f"--micro-batch-size {job.profile.micro_batch}"]
    count = job.asked.get("batch", job.asked.get("devices"))
    if isinstance(count, int):
        words.append(f"--global-batch-size {count * job.profile.micro_batch}")
    return words + ([f"--seq-length {sequence}"] if isinstance(sequence, int) else [])


def layout_text(stages: Iterable[str]) -> str:
    """The letters of every stage, with commas (which mean nothing) before those that follow layers."""
    return "|".join(map(_stage, stages))


def _stage(letters: str) -> str:
    parts = [(letter, len(list(same))) for letter, same in groupby(letters)]
    texts = [letter if count == 1 else f"{letter}*{count}" for letter, count in parts]
    front = "".join(text for text in texts if text[0] in "Et")
    return ",".join(filter(None, (front, *(text for text in texts if text[0] in "mL"))))


def _uneven_ends(job: ToExport, stages: list[StageOfLayers]) -> list[str]:
    """Only the first and the last rank may hold another number of layers than the others."""
    counts = [stage.layers for stage in stages]
    if any(stage.predictors for stage in stages):
        raise job.refusal(
            f"the node {show(job.stages[-1].nodes[-1])} belongs to layers that predict several tokens, and --megatron-"
            "legacy has no words for them",
            "drop --megatron-legacy",
        )
    if 0 in counts:
        raise job.refusal(
            f"{job.at(counts.index(0))}, holds no layer, and with --megatron-legacy every stage must hold one",
            "drop --megatron-legacy, or plan with --option whole-layers",
        )
    middle = counts[1:-1] or counts[-1:]
    for number, count in enumerate(counts[1:-1], start=1):
        if count != middle[0]:
            raise job.refusal(
                f"{job.at(number)}, has {count} layers and stage 1 has {middle[0]}, and with --megatron-legacy all but "
                "the first and the last must have equally many",
                "drop --megatron-legacy",
            )
    words = [f"--decoder-first-pipeline-num-layers {counts[0]}"] * (counts[0] != middle[0])
    return words + [f"--decoder-last-pipeline-num-layers {counts[-1]}"] * (counts[-1] != middle[0])


# ---- DeepSpeed -----------------------------------------------------------------------------------------

DEEPSPEED_TEXT = '''\
"""The layers of each pipeline stage as planned, for DeepSpeed: layers = [{count} entries], num_stages={stages}."""

from deepspeed.pipe import PipelineModule

parts = {parts}
# Stage i runs the entries parts[i] to parts[i + 1] - 1 of the list of layers, which are in the plan:
planned_layers = [
{names}
]


class PlannedPipelineModule(PipelineModule):
    def _partition_layers(self, method="planned"):
        if self.num_stages != len(parts) - 1 or len(self._layer_specs) != parts[-1]:
            raise ValueError(f"the plan is for {{len(parts) - 1}} stages and {{parts[-1]}} layers")
        self.parts = parts
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=parts[stage], stop=parts[stage + 1])
'''


def deepspeed(job: ToExport) -> Exported:
    """The file for a row of stages, one on each rank; other plans are refused."""
    check_row(job, check_one_stage_per_rank)
    replicas, _ = degrees_of(job, tensor=False)
    parts = [0, *accumulate(len(stage.nodes) for stage in job.stages)]
    names = "\n".join(f"    {node!r}," for stage in job.stages for node in stage.nodes)
    notes = usual_notes(job, ties="write both as TiedLayerSpec of one key")
    notes.append(f"the list of layers must have {parts[-1]} entries, the nodes of the plan in their order")
    if replicas > 1:
        notes.append(f"{replicas} replicas are not in the text: start it on {replicas * len(job.stages)} devices")
    text = DEEPSPEED_TEXT.format(count=parts[-1], stages=len(job.stages), parts=parts, names=names)
    return Exported({"planned_pipeline.py": text}, tuple(notes))


# ---- configurations ------------------------------------------------------------
# Training configurations in the words of the frameworks that run them: Megatron's flags, DeepSpeed's JSON file and
# torchtitan's TOML file.


def _checked(target: str, problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> TrainingProblem:
    """The problem with the rules of that framework; a plan that breaks one of them is refused."""
    if options.legacy:
        raise UsageError(
            f"A configuration is written for versions of {target} with layouts; drop the legacy option."
        )
    if options.micro_batches is not None:
        raise UsageError("A configuration has its own number of micro-batches; drop --micro-batches.")
    problem = problem.replace(framework=target)
    faults = [str(fault).rstrip(".") for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan))]
    if problem.model.own:
        faults.append("the model has measured layers, whose modules nobody named; give one with shapes")
    if faults:
        hint = f"plan configure --framework {target} finds one that it can"
        raise UsageError(f"{target} cannot say this configuration ({hint}): {faults[0]}.")
    return problem


def _ranks_in_words(problem: TrainingProblem, plan: Configuration) -> str:
    """A note on what a launcher has to be told."""
    return (
        f"start it on {several(problem.devices, 'GPU')}: the data-parallel degree is {plan.degrees.data}, with "
        f"{several(plan.micro_batches(problem.batch), 'micro-batch')} of {several(plan.micro_batch, 'sequence')} each"
    )


# ---- Megatron: flags, one a line -----------------------------------------------------------------------

# Letters of units in Megatron's layout; every other unit is a layer, whose letter is t.
LETTERS = {"embedding": "E", "prediction": "m", "head": "L"}


def megatron_configuration(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """All flags of the configuration and those that its memory was judged with; the model's own are the user's."""
    problem = _checked("megatron", problem, plan, options)
    words = [
        *_megatron_degrees(problem, plan),
        *_megatron_layout(problem, plan),
        *_megatron_batch(problem, plan),
        *_megatron_recomputation(problem, plan),
        *_as_judged(problem, plan),
    ]
    optimizer = OPTIMIZERS[problem.optimizer].megatron
    if optimizer is None:
        raise UsageError(
            f"Megatron has no {problem.optimizer}; choose another optimizer, or write flags of your own."
        )
    words += [optimizer] * (problem.optimizer != USUAL_OPTIMIZER)  # the usual one is Megatron's default
    beside = "flags of the model's shapes, of data and of the optimizer come beside them"
    return Exported({MEGATRON_FILE: "\n".join(words) + "\n"}, (_ranks_in_words(problem, plan), beside))


def _megatron_degrees(problem: TrainingProblem, plan: Configuration) -> list[str]:
    d = plan.degrees
    words = [
        f"--tensor-model-parallel-size {d.tensor}",
        f"--context-parallel-size {d.context}",
        f"--pipeline-model-parallel-size {d.pipeline}",
    ]
    if problem.model.experts is not None:
        words += [f"--expert-model-parallel-size {d.expert}", f"--expert-tensor-parallel-size {d.expert_tensor}"]
    words += ["--sequence-parallel"] * (problem.sequence_parallel and d.tensor > 1)
    return words + ["--use-distributed-optimizer"] * (plan.zero == 1)


def _megatron_layout(problem: TrainingProblem, plan: Configuration) -> list[str]:
    """Flags of the layers and of what each chunk holds; where it is Megatron's even layout, it needs no text."""
    words = [f"--num-layers {problem.model.layers}"]
    if problem.model.prediction_layers:
        words.append(f"--mtp-num-layers {problem.model.prediction_layers}")
    if plan.layout != even_layout(problem, plan.degrees.chunks):
        row = "".join(LETTERS.get(unit, "t") for unit in problem.model.units)
        chunks = (row[interval.start : interval.stop] for interval in plan.intervals)
        return [*words, f'--pipeline-model-parallel-layout "{layout_text(chunks)}"']
    if plan.degrees.virtual > 1:
        words.append(f"--num-virtual-stages-per-pipeline-rank {plan.degrees.virtual}")
    return words


def _megatron_batch(problem: TrainingProblem, plan: Configuration) -> list[str]:
    words = [
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {problem.batch}",
        f"--seq-length {problem.sequence}",
    ]
    if problem.precision == "fp16":
        return [*words, "--fp16"]
    return [*words, "--bf16", *["--fp8-format hybrid"] * (problem.precision == "fp8")]


def _megatron_recomputation(problem: TrainingProblem, plan: Configuration) -> list[str]:
    word = plan.recompute[0]  # the rules say that all chunks are alike
    if not word.modules:
        return []
    if word.modules == (FULL,):
        method = "uniform" if word.layers is None else "block"
        return [
            "--recompute-granularity full",
            f"--recompute-method {method}",
            f"--recompute-num-layers {word.layers or 1}",
        ]
    words = ["--recompute-granularity selective", f"--recompute-modules {' '.join(word.modules)}"]
    if "moe_act" in word.modules:
        words.append("--moe-grouped-gemm")  # Megatron refuses moe_act without it
    if problem.precision == "fp8" and {"moe_act", "layernorm"} & set(word.modules):
        words.append("--fp8-recipe tensorwise")  # and these two with delayed scaling, its default
    return words


def _as_judged(problem: TrainingProblem, plan: Configuration) -> list[str]:
    """What memory and time were judged with, where Megatron's default is another: it hides no communication."""
    words = ["--attention-backend unfused"] * (not problem.flash_attention)
    words += ["--cross-entropy-loss-fusion"] * problem.fused_loss
    if not problem.dropout:
        words += ["--attention-dropout 0.0", "--hidden-dropout 0.0"]
    if problem.efficiencies.data_hidden:
        words += ["--overlap-grad-reduce", *["--overlap-param-gather"] * (plan.zero > 0)]
    if problem.efficiencies.tensor_hidden and problem.sequence_parallel and plan.degrees.tensor > 1:
        words.append("--tp-comm-overlap")
    if plan.degrees.expert > 1:
        words.append("--moe-token-dispatcher-type alltoall")
    return words


# ---- DeepSpeed: a JSON file ----------------------------------------------------------------------------


def deepspeed_configuration(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The file with the entries that the configuration decides; those of the optimizer are the user's."""
    problem = _checked("deepspeed", problem, plan, options)
    d, again, notes = plan.degrees, plan.recompute[0].modules == (FULL,), [_ranks_in_words(problem, plan)]
    # Is communication counted as hidden?
    overlap = {"overlap_comm": True} if any(hidden_shares(problem, plan.zero, d.pipeline)) else {}
    data: dict[str, Any] = {
        "train_batch_size": problem.batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.micro_batches(problem.batch),
        "zero_optimization": {"stage": plan.zero, **overlap},
        problem.precision: {"enabled": True},
    }
    if d.tensor > 1:
        data["tensor_parallel"] = {"autotp_size": d.tensor}
    if d.expert > 1:
        data["expert_parallel"] = {"enabled": True, "autoep_size": d.expert}
    if d.pipeline > 1 or again:
        stages = {"stages": d.pipeline, "partition": "uniform"}
        data["pipeline"] = {**stages, "activation_checkpoint_interval": int(again)}
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
    return Exported({"ds_config.json": json.dumps(data, indent=2) + "\n"}, tuple(notes))


# ---- torchtitan: a TOML file ---------------------------------------------------------------------------

# Whether weights are divided again after forward passes, by the stage of ZeRO.
RESHARD = {2: "never", 3: "always"}

Section = Mapping[str, str | int | list[str] | list[list[str]]]


def torchtitan_configuration(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The sections that the configuration decides; those of the model are the user's."""
    problem = _checked("torchtitan", problem, plan, options)
    # A pipeline divides its local batch; else gradients are added up until the batch is whole.
    local = plan.micro_batch if plan.degrees.pipeline == 1 else problem.batch // plan.degrees.data
    sections: dict[str, Section] = {
        "training": {
            "local_batch_size": local,
            "global_batch_size": problem.batch,
            "seq_len": problem.sequence,
        },
        "parallelism": {**_torchtitan_degrees(problem, plan), **_torchtitan_pipeline(problem, plan)},
        "activation_checkpoint": {"mode": plan.recompute[0].word},
    }
    if problem.precision == "fp8":
        sections["model"] = {"converters": ["quantize.linear.float8"]}
    notes = (
        _ranks_in_words(problem, plan),
        "give it as --job.config_file to versions with TOML files (0.2), or its entries as options such as "
        "--parallelism.tensor_parallel_degree to later ones, which call the head lm_head",
        "the sections of model, data and optimizer come beside it",
    )
    return Exported({"torchtitan.toml": _toml(sections)}, notes)


def _toml(sections: Mapping[str, Section]) -> str:
    """Texts, numbers and lists are written in TOML as they are in JSON."""
    texts = (
        "\n".join([f"[{name}]", *(f"{key} = {_value(value)}" for key, value in entries.items())])
        for name, entries in sections.items()
    )
    return "\n\n".join(texts) + "\n"


def _value(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"    {json.dumps(entry)},\n" for entry in value) + "]"
    return json.dumps(value)


def _torchtitan_degrees(problem: TrainingProblem, plan: Configuration) -> Section:
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


def _torchtitan_pipeline(problem: TrainingProblem, plan: Configuration) -> Section:
    if plan.degrees.pipeline == 1:
        return {"pipeline_parallel_degree": 1}
    row = [["tok_embeddings"], *([f"layers.{i}"] for i in range(problem.model.layers)), ["norm", "output"]]
    parts = [[name for unit in row[part.start : part.stop] for name in unit] for part in plan.intervals]
    return {
        "pipeline_parallel_degree": plan.degrees.pipeline,
        "pipeline_parallel_schedule": problem.rules.schedules[plan.schedule],
        "pipeline_parallel_microbatch_size": plan.micro_batch,
        "module_fqns_per_model_part": parts,
    }
