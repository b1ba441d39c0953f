"""Megatron-LM and DeepSpeed, which train: the flags of one, and a subclass of `PipelineModule` for the other.

Of Megatron these are `--pipeline-model-parallel-layout` and the two options of versions before it. In a layout E is the
embedding, t a transformer layer, m a layer that predicts several tokens (MTP) and L the head with the loss; `|` ends a
stage, `t*8` is eight layers. With p ranks stage i is on rank i mod p.

No `partition_method` of DeepSpeed takes a list, so the method that divides is overridden. The list of layers is the
user's own; its entries are taken to be the nodes of the plan, one each, in the order of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, groupby

from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.physics.optimizers import OPTIMIZERS
from ...planners.staging.equal import RECOMPUTATION
from .contract import (
    Exported,
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
