"""Megatron-LM: `--pipeline-model-parallel-layout`, and the two options of versions before it.

In a layout E is the embedding, t a transformer layer, m a layer that predicts several tokens (MTP) and L the head with
the loss; `|` ends a stage, `t*8` is eight layers. With p ranks stage i is on rank i mod p.
"""

from __future__ import annotations

from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.physics.optimizers import OPTIMIZERS
from ...planners.staging.equal import RECOMPUTATION
from .contract import Exported, ToExport, check_one_stage_per_rank, degrees_of, servers_of, usual_notes
from .parts import StageOfLayers, layers_by_stage

FILE = "megatron.args"


def export(job: ToExport) -> Exported:
    """The options for a row of stages of whole layers, one or several on each rank; other plans are refused."""
    if job.options.legacy:
        check_one_stage_per_rank(job)
    stages = layers_by_stage(job, interleaved=not job.options.legacy)
    replicas, tensor = degrees_of(job)
    words = [f"--pipeline-model-parallel-size {job.plan.ranks}"]
    if job.options.legacy:
        words += _uneven_ends(job, stages)
    else:
        words.append(f'--pipeline-model-parallel-layout "{layout_text(stages)}"')
    words += [f"--tensor-model-parallel-size {tensor} --sequence-parallel"] * (tensor > 1)
    again, about = _recomputation(job)
    words += [*again, *_batches(job), *_optimizer(job)]
    sharding, left_out = _sharding(job)
    words += sharding
    notes = [note for note in usual_notes(job) if not again or "does not say how nodes run" not in note]
    notes += [*about, *left_out]
    devices = replicas * tensor * job.plan.ranks
    if devices > 1:
        notes.append(f"start it on {several(devices, 'device')}: {_launch(job, devices)}")
    notes.append("flags of the model's shapes and of data come beside the text")
    if any(stage.predictors for stage in stages):
        notes.append(f"give --mtp-num-layers {sum(stage.predictors for stage in stages)} as well")
    return Exported({FILE: " ".join(words) + "\n"}, tuple(notes))


def _recomputation(job: ToExport) -> tuple[list[str], list[str]]:
    """The options for recomputation, with one number of layers for all stages, and a note on what that changes."""
    counts = [sum(RECOMPUTATION in way for way in (stage.configurations or {}).values()) for stage in job.stages]
    if not any(counts):
        return [], []
    most = max(counts)
    words = f"--recompute-granularity full --recompute-method block --recompute-num-layers {most}"
    told = ", ".join(map(str, counts))
    same = (
        ""
        if len(set(counts)) == 1
        else f"; Megatron has one number, so stages that need fewer recompute {most}, too"
    )
    return [words], [f"layers that recompute, by stage: {told}{same}"]


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


def _optimizer(job: ToExport) -> list[str]:
    """Megatron's options of the optimizer for which the plan's memory was counted."""
    optimizer = OPTIMIZERS.get(str(job.asked.get("optimizer")))
    if optimizer is None or optimizer.megatron is None:
        return []
    return [optimizer.megatron + " --bf16" * optimizer.mixed]


def _sharding(job: ToExport) -> tuple[list[str], list[str]]:
    """The option for ZeRO, and a note where memory was counted with more than Megatron divides beside stages."""
    stage = job.asked.get("zero")
    if not stage:
        return [], []
    more = f"memory was counted with ZeRO {stage}; beside pipeline stages Megatron divides the optimizer alone"
    return ["--use-distributed-optimizer"], [more] * (stage != 1)


def _launch(job: ToExport, devices: int) -> str:
    servers = servers_of(job, devices)
    if servers is not None:
        return f"torchrun --nproc-per-node {servers[0]} --nnodes {servers[1]} pretrain_gpt.py"
    return "torchrun --nproc-per-node N --nnodes M pretrain_gpt.py with N x M of them"


def layout_text(stages: list[StageOfLayers]) -> str:
    """The layout, with commas (which mean nothing) before the letters that follow layers."""
    return "|".join(_stage(stage) for stage in stages)


def _stage(stage: StageOfLayers) -> str:
    layers = _times("t", stage.layers)
    behind = [text for text in (_times("m", stage.predictors), "L" if stage.head else "") if text]
    front = ("E" if stage.embedding else "") + layers
    return ",".join(([front] if front else []) + behind)


def _times(letter: str, count: int) -> str:
    return letter * count if count < 2 else f"{letter}*{count}"


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
            f"stage {counts.index(0)}, with the node {show(job.stages[counts.index(0)].nodes[0])}, holds no layer, and "
            "with --megatron-legacy every stage must hold one",
            "drop --megatron-legacy, or plan with --option whole-layers",
        )
    middle = counts[1:-1] or counts[-1:]
    for number, count in enumerate(counts[1:-1], start=1):
        if count != middle[0]:
            raise job.refusal(
                f"stage {number}, with the node {show(job.stages[number].nodes[0])}, has {count} layers and stage 1 "
                f"has {middle[0]}, and with --megatron-legacy all but the first and the last must have equally many",
                "drop --megatron-legacy",
            )
    words = [f"--decoder-first-pipeline-num-layers {counts[0]}"] * (counts[0] != middle[0])
    return words + [f"--decoder-last-pipeline-num-layers {counts[-1]}"] * (counts[-1] != middle[0])
