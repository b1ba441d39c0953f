"""Frameworks that train: Megatron's flags, DeepSpeed's files and torchtitan's TOML file, for plans and for training
configurations; and Megatron's layouts read back as plans, which the referee judges as it judges the optimum. (What
torchtitan and torch are told of a plan is in `torch_pipelining`.)

In a layout of Megatron E is the embedding, t a transformer layer, m a layer that predicts several tokens (MTP) and L
the head with the loss; `|` ends a stage, `t*8` is eight layers. With p ranks stage i is on rank i mod p.

No `partition_method` of DeepSpeed takes a list, so the method that divides is overridden. The list of layers is the
user's own; its entries are taken to be the nodes of the plan, one each, in the order of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from ...instances.base.cluster import Cluster
from ...instances.base.errors import InputError, UsageError
from ...instances.base.kind import Lowered
from ...instances.base.quantities import several
from ...instances.base.result import Found, Result, Stop
from ...instances.lowering import on_cluster
from ...instances.networks.megatron_layout import Layout, read_layout
from ...instances.networks.profile.options import ProfileOptions
from ...instances.physics.optimizers import FORMATS, OPTIMIZERS, USUAL_OPTIMIZER, optimizer_of
from ...instances.registry import Plan
from ...instances.training.frameworks import even_layout, hidden_shares
from ...instances.training.plan import FULL, Configuration, Recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import framework_faults, shape_faults
from ...planners.staging.equal import RECOMPUTATION
from ..stages import VANILLA, PlanStages
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
from .launch import job_of, launched, megatron_model, torchtitan_model
from .names import NodeNames, Parts, layers_by_stage, parts_of

if TYPE_CHECKING:
    from ...instances.chain.plan import PatternPlan
    from ...instances.chain.problem import ChainProblem
    from ...instances.graph_pipeline.plan import StageGraphPlan
    from ...instances.graph_pipeline.problem import GraphPipelineProblem
    from ...instances.networks.profile.profile import Profile
    from ...instances.placement.plan import PlacementPlan
    from ...instances.placement.problem import PlacementProblem
    from ...instances.staging.plan import StagedPlan
    from ...instances.staging.problem import StagingProblem

MEGATRON_FILE, DEEPSPEED_FILE, TORCHTITAN_FILE = "megatron.args", "ds_config.json", "torchtitan.toml"


def megatron(job: ToExport) -> Exported:
    """The options for a row of stages of whole layers, one or several on each rank; other plans are refused."""
    stages = layers_by_stage(job, interleaved=True)
    replicas, tensor = degrees_of(job)
    letters = ("E" * s.embedding + "t" * s.layers + "m" * s.predictors + "L" * s.head for s in stages)
    words = [f"--pipeline-model-parallel-size {job.plan.ranks}"]
    words.append(f'--pipeline-model-parallel-layout "{layout_text(letters)}"')
    words += [f"--tensor-model-parallel-size {tensor} --sequence-parallel"] * (tensor > 1)
    again, about = _recomputation(job)
    words += again
    if job.profile is not None and job.plan.training is not False and job.asked:
        count, size = job.asked.get("batch", job.asked.get("devices")), job.profile.micro_batch
        sequence = job.profile.source.get("sequence")
        words += _flags(
            micro_batch_size=size,
            global_batch_size=count * size if isinstance(count, int) else None,
            seq_length=sequence if isinstance(sequence, int) else None,
        )
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


def layout_text(stages: Iterable[str]) -> str:
    """The letters of every stage, with commas (which mean nothing) before those that follow layers."""
    return "|".join(map(_stage, stages))


def _stage(letters: str) -> str:
    parts = [(letter, len(list(same))) for letter, same in groupby(letters)]
    texts = [letter if count == 1 else f"{letter}*{count}" for letter, count in parts]
    front = "".join(text for text in texts if text[0] in "Et")
    return ",".join(filter(None, (front, *(text for text in texts if text[0] in "mL"))))


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
    if options.micro_batches is not None:
        raise UsageError("A configuration has its own number of micro-batches; drop --micro-batches.")
    problem = problem.replace(framework=target)
    if problem.adapter_rank is not None and target != "deepspeed":
        raise UsageError(
            f"{target}'s own program trains all weights, but this configuration trains only adapters of rank "
            f"{problem.adapter_rank}; use its degrees in a program that has adapters (Megatron-Bridge, NeMo), or "
            "export to deepspeed, whose program is yours."
        )
    if problem.model.encoder is not None:
        raise UsageError(
            f"{target}'s own program trains language models without a vision encoder; use the degrees and the layout "
            "in a program that has one, or plan the language model alone (--encoder none) and export that."
        )
    faults = [str(fault).rstrip(".") for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan))]
    if problem.model.own:
        faults.append("the model has measured layers, whose modules nobody named; give one with shapes")
    if faults:
        hint = f"plan configure --framework {target} finds one that it can"
        raise UsageError(f"{target} cannot say this configuration ({hint}): {faults[0]}.")
    return problem


def _ranks_in_words(problem: TrainingProblem, plan: Configuration) -> str:
    """A note on what a launcher has to be told, and on adapters, which are the program's."""
    order = ""
    if problem.second is not None:
        begin, each = problem.pools[plan.first_pool - 1], plan.degrees.stage_ranks
        stages = several(begin.devices // each, "stage")
        order = f"; ranks 0 to {begin.devices - 1} are the {begin.gpu.name}, {stages} of {each} GPUs"
    adapters = f"; adapters of rank {problem.adapter_rank} are for your program to add" * bool(problem.adapter_rank)
    packed = "; attention must stay inside each packed document, which is for your program to do" * bool(
        problem.lengths
    )
    return (
        f"start it on {several(problem.devices, 'GPU')}: the data-parallel degree is {plan.degrees.data}, with "
        f"{several(plan.micro_batches(problem.batch), 'micro-batch')} of {several(plan.micro_batch, 'sequence')} each"
        f"{order}{adapters}{packed}"
    )


# ---- Megatron: flags, one a line -----------------------------------------------------------------------


def _flags(**given: str | int | None) -> list[str]:
    """Options with their values, in this order; True is a switch, and what is None or False is left out."""
    options = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    return [
        option if value is True else f"{option} {value}"
        for option, value in options.items()
        if value is not None and value is not False
    ]


def megatron_configuration(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """All flags of the configuration and those that its memory was judged with; the model's own are the user's.

    The last ones say what memory and time were judged with where Megatron's default is another: it hides no
    communication.
    """
    problem = _checked("megatron", problem, plan, options)
    d, model, hidden = plan.degrees, problem.model, problem.efficiencies
    optimizer = optimizer_of(problem.optimizer)
    if optimizer.megatron is None:
        raise UsageError(
            f"Megatron has no {problem.optimizer}; choose another optimizer, or write flags of your own."
        )
    split = problem.sequence_parallel and d.tensor > 1
    layout = layout_text(model.letters[interval.start : interval.stop] for interval in plan.intervals)
    is_even = plan.layout == even_layout(problem, d.chunks)  # Megatron's own layout, which needs no text
    words = _flags(
        tensor_model_parallel_size=d.tensor,
        context_parallel_size=d.context,
        pipeline_model_parallel_size=d.pipeline,
        expert_model_parallel_size=d.expert if model.experts else None,
        expert_tensor_parallel_size=d.expert_tensor if model.experts else None,
        sequence_parallel=split,
        use_distributed_optimizer=plan.zero == 1,
        num_layers=model.layers,
        mtp_num_layers=model.prediction_layers or None,
        pipeline_model_parallel_layout=None if is_even else f'"{layout}"',
        num_virtual_stages_per_pipeline_rank=d.virtual if is_even and d.virtual > 1 else None,
        micro_batch_size=plan.micro_batch,
        global_batch_size=problem.batch,
        seq_length=problem.sequence,
        fp16=problem.precision == "fp16",
        bf16=problem.precision != "fp16",
        accumulate_allreduce_grads_in_fp32=problem.precision == "fp16" and optimizer.gradients != FORMATS["fp16"],
        main_params_dtype="fp16" if problem.precision == "fp16" and optimizer.master == FORMATS["fp16"] else None,
        fp8_format="hybrid" if problem.precision == "fp8" else None,
        **_recompute_flags(problem, plan.recompute[0]),  # the rules say that all chunks are alike
        attention_backend=None if problem.flash_attention else "unfused",
        cross_entropy_loss_fusion=problem.fused_loss,
        attention_dropout=None if problem.dropout else "0.0",
        hidden_dropout=None if problem.dropout else "0.0",
        overlap_grad_reduce=bool(hidden.data_hidden),
        overlap_param_gather=bool(hidden.data_hidden) and plan.zero > 0,
        tp_comm_overlap=bool(hidden.tensor_hidden) and split,
        moe_token_dispatcher_type="alltoall" if d.expert > 1 else None,
        moe_grouped_gemm=model.experts is not None,
    )
    if problem.optimizer != USUAL_OPTIMIZER:  # which is Megatron's default
        words += re.split(" (?=--)", optimizer.megatron)
    if options.model_flags:
        words = _flags(**megatron_model(problem)) + words
    notes = (_ranks_in_words(problem, plan), _yours(options))
    if options.launcher is None:
        return Exported({MEGATRON_FILE: "\n".join(words) + "\n"}, notes)
    # Where ranks divide a layer, Megatron asserts that communication and computation are started in one order.
    connections = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if d.tensor * d.context > 1 else {}
    job = job_of(problem, '"${MEGATRON:-.}/pretrain_gpt.py"', words, **connections)
    return Exported(launched(job, options.launcher), notes)


def _yours(options: ExportOptions) -> str:
    """A note on the flags that an export to Megatron leaves to the user."""
    beside = "add flags for your data, tokenizer and learning rate"
    if options.model_flags:
        return f"{beside}, and those of your model that cost no time, such as --rotary-base and --norm-epsilon"
    return f"{beside}, and for the model's shapes, which --with-model-flags writes"


def _recompute_flags(problem: TrainingProblem, word: Recompute) -> dict[str, str | int]:
    if not word.modules:
        return {}
    if word.modules == (FULL,):
        return {
            "recompute_granularity": "full",
            "recompute_method": "uniform" if word.layers is None else "block",
            "recompute_num_layers": word.layers or 1,
        }
    # Megatron refuses moe_act and layernorm with delayed scaling, its default.
    scaled = problem.precision == "fp8" and {"moe_act", "layernorm"} & set(word.modules)
    return {
        "recompute_granularity": "selective",
        "recompute_modules": " ".join(word.modules),
        **({"fp8_recipe": "tensorwise"} if scaled else {}),
    }


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
    if options.model_flags:
        raise UsageError(
            "DeepSpeed takes the model from your program, not from flags; leave out --with-model-flags."
        )
    files = {DEEPSPEED_FILE: json.dumps(data, indent=2) + "\n"}
    return _with_launcher(
        files, tuple(notes), problem, '"${PROGRAM:?}"', f"--deepspeed_config {DEEPSPEED_FILE}", options
    )


def _with_launcher(
    files: Mapping[str, str],
    notes: tuple[str, ...],
    problem: TrainingProblem,
    program: str,
    argument: str,
    options: ExportOptions,
) -> Exported:
    """The files with the launcher's before them, which starts the program with this argument."""
    if options.launcher is None:
        return Exported(files, notes)
    if options.launcher == "mcore":
        raise UsageError("--launcher mcore is Megatron's own; give torchrun or slurm.")
    scripts = launched(job_of(problem, program, [argument]), options.launcher)
    beside = f"start {', '.join(scripts)} in its folder, where it looks for {', '.join(files)}"
    return Exported({**scripts, **files}, (*notes, beside))


# ---- torchtitan: a TOML file ---------------------------------------------------------------------------

# Whether weights are divided again after forward passes, by the stage of ZeRO.
RESHARD = {2: "never", 3: "always"}

Section = Mapping[str, Any]


def torchtitan_configuration(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """The sections that the configuration decides; those of the model are the user's."""
    problem = _checked("torchtitan", problem, plan, options)
    # A pipeline divides its local batch; else gradients are added up until the batch is whole.
    local = plan.micro_batch if plan.degrees.pipeline == 1 else problem.batch // plan.degrees.data
    d, experts = plan.degrees, problem.model.experts is not None
    row = [["tok_embeddings"], *([f"layers.{i}"] for i in range(problem.model.layers)), ["norm", "output"]]
    parts = [[name for unit in row[part.start : part.stop] for name in unit] for part in plan.intervals]
    is_divided = d.pipeline > 1
    parallelism = {
        "tensor_parallel_degree": d.tensor,
        "context_parallel_degree": d.context,
        "data_parallel_replicate_degree": d.data if plan.zero == 0 else 1,
        "data_parallel_shard_degree": 1 if plan.zero == 0 else d.data,
        "fsdp_reshard_after_forward": RESHARD.get(plan.zero),
        "expert_parallel_degree": d.expert if experts else None,
        "expert_tensor_parallel_degree": d.expert_tensor if experts and d.expert > 1 else None,
        "pipeline_parallel_degree": d.pipeline,
        "pipeline_parallel_schedule": problem.rules.schedules[plan.schedule] if is_divided else None,
        "pipeline_parallel_microbatch_size": plan.micro_batch if is_divided else None,
        "module_fqns_per_model_part": parts if is_divided else None,
    }
    sections: dict[str, Section] = {
        "training": {"local_batch_size": local, "global_batch_size": problem.batch, "seq_len": problem.sequence},
        "parallelism": {key: value for key, value in parallelism.items() if value is not None},
        "activation_checkpoint": {"mode": plan.recompute[0].word},
    }
    own: dict[str, str | list[str]] = {**torchtitan_model(problem)} if options.model_flags else {}
    if problem.precision == "fp8":
        own["converters"] = ["quantize.linear.float8"]
    if own:
        sections["model"] = own
    notes = (
        _ranks_in_words(problem, plan),
        "give it as --job.config_file to versions with TOML files (0.2), or its entries as options such as "
        "--parallelism.tensor_parallel_degree to later ones, which call the head lm_head",
        f"add your own sections for {'data' if options.model_flags else 'the model, data'} and optimizer",
    )
    files = {TORCHTITAN_FILE: _toml(sections)}
    return _with_launcher(
        files, notes, problem, "-m torchtitan.train", f"--job.config_file {TORCHTITAN_FILE}", options
    )


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


# ---- layout plan ------------------------------------------------------------
# A Megatron layout that people run today as a plan of ours, which the referee judges as it judges the optimum.


def plan_of_layout(text: str, profile: Profile, cluster: Cluster) -> tuple[Lowered, Plan]:
    """The problem of the profile on that cluster, with notes, and the plan that the layout describes."""
    job = ToExport("megatron", PlanStages((), None, None), profile)
    parts = parts_of(NodeNames(job), [profile.nodes[i].id for i in profile.model_order], profile, "a layout")
    layout = read_layout(text, len(parts.layers), len(parts.predictors))
    ranks = layout.ranks or cluster.devices
    if ranks is None:
        raise InputError("cluster", "is missing, and the layout states no number of ranks", "give --devices")
    if len(layout.stages) % ranks:
        raise InputError(
            "layout",
            f"has {several(len(layout.stages), 'stage')} for {several(ranks, 'rank')}",
            "give as many --devices as it has ranks",
        )
    options = cluster.profile or ProfileOptions()
    if len(layout.stages) > ranks and options.kind is None:  # ranks with several stages make a placement
        cluster = replace(cluster, profile=replace(options, kind="placement"))
    lowered = on_cluster(profile, cluster)
    nodes_by_rank = [(number % ranks, nodes) for number, nodes in enumerate(stages_in(layout, parts)) if nodes]
    plan: Plan = _MAKERS[lowered.problem.kind](profile, lowered.problem, nodes_by_rank)
    return lowered, plan


def result_of_layout(problem: Any, plan: Plan, text: str) -> Result:
    """The referee's ruling on the plan, as a result that every command reads."""
    from ...planners.referee import rule, rules_of
    from ...planners.run.judge import settle
    from ...planners.run.solve import describe

    rules = rules_of(problem, {"contiguity": "none"})
    claim = Result(describe(problem), Stop.COMPLETED, Found.NOTHING, options=rules.to_options())
    shown = " ".join(text.split())
    read = f"read from the layout {shown if len(shown) <= 100 else shown[:97] + '...'}"
    return replace(settle(claim, rule(problem, plan, rules)), messages=(read,))


def stages_in(layout: Layout, parts: Parts) -> list[tuple[str, ...]]:
    """The nodes of each stage; what comes before the first layer is E, what comes after the last one L."""
    # By letter what the next one of them stands for.
    units = {
        "E": iter([parts.before]),
        "t": iter(parts.layers),
        "m": iter(parts.predictors),
        "L": iter([parts.after]),
    }
    return [tuple(node for letter in letters for node in next(units[letter])) for letters in layout.stages]


# ---- plans of each kind --------------------------------------------------------------------------------

# The rank and the nodes of each stage that holds any.
Held = Sequence[tuple[int, tuple[str, ...]]]


def _placement(profile: Profile, problem: PlacementProblem, held: Held) -> PlacementPlan:
    from ...instances.placement.from_profile import BACKWARD_SUFFIX
    from ...instances.placement.plan import PlacementPlan

    rank_of = {node: rank for rank, nodes in held for node in nodes}
    if max(rank_of.values()) >= problem.accelerators:
        raise InputError(
            "layout",
            f"has {several(max(rank_of.values()) + 1, 'rank')} for {several(problem.accelerators, 'device')}",
            "give as many --devices as it has ranks",
        )
    homes = {
        node.id: rank_of[node.id if node.id in rank_of else str(node.id).removesuffix(BACKWARD_SUFFIX)]
        for node in problem.nodes
    }
    return PlacementPlan.from_assignment(problem, homes)


def _staging(profile: Profile, problem: StagingProblem, held: Held) -> StagedPlan:
    from ...instances.staging.plan import PlannedStage, StagedPlan

    _refuse_several(held, "staging")
    if problem.levels:
        raise UsageError("A layout says nothing of devices within devices; give --bandwidth in place of --levels.")
    return StagedPlan(tuple(PlannedStage(nodes, 1, 1, dict.fromkeys(nodes, VANILLA)) for _, nodes in held))


def _chain(profile: Profile, problem: ChainProblem, held: Held) -> PatternPlan:
    """The best pattern for these stages, since a layout states none."""
    from ...instances.base.graph import by_depth, cut_into_groups
    from ...planners.chain.baselines import best_contiguous

    _refuse_several(held, "chain")
    order = by_depth(profile.topological_order, profile.successors)
    sizes = [len(group.members) for group in cut_into_groups(order, profile.successors)]
    layer_of = dict(zip((0, *accumulate(sizes)), range(len(sizes) + 1), strict=True))
    ends = [0, *accumulate(len(nodes) for _, nodes in held)]
    if any(end not in layer_of for end in ends):
        raise UsageError("The layout divides what is one layer of the chain; give --kind placement.")
    plan = best_contiguous(problem, tuple(layer_of[end] for end in ends))
    if plan is None:
        raise UsageError(
            "No pattern of these stages fits into the memory; give --kind staging, which says by how much."
        )
    return plan


def _graph_pipeline(profile: Profile, problem: GraphPipelineProblem, held: Held) -> StageGraphPlan:
    """1F1B with the profile's micro-batch."""
    from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan

    _refuse_several(held, "graph-pipeline")
    size = profile.micro_batch
    stages = tuple(
        GraphStage(nodes, 1, size, 1, min(size * (len(held) - number), problem.mini_batch))
        for number, (_, nodes) in enumerate(held)
    )
    return StageGraphPlan(stages, tuple((number, number + 1) for number in range(len(held) - 1)))


def _refuse_several(held: Held, kind: str) -> None:
    if len({rank for rank, _ in held}) < len(held):
        raise UsageError(f"The layout has ranks with several stages, which no {kind} has; give --kind placement.")


_MAKERS: dict[str, Callable[[Any, Any, Held], Any]] = {
    "placement": _placement,
    "staging": _staging,
    "chain": _chain,
    "graph-pipeline": _graph_pipeline,
}
