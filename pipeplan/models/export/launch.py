"""What turns an exported training configuration into a job: Megatron's flags for the model's own shapes, torchtitan's
name for it, and scripts for launchers.

A script is complete but for paths, data and what only learning depends on; further arguments of the script go to the
program. To add a launcher, add a function to `_WRITERS`, and its file to `contract.LAUNCHERS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...instances.base.errors import UsageError
from ...instances.base.quantities import several
from ...instances.physics.hardware import GPUS
from ...instances.training.build import MODELS
from ...instances.training.flags import TORCHTITAN_MODELS
from ...instances.training.flags_model import PLANNED
from ...instances.training.model import Attention, Model
from ...instances.training.problem import TrainingProblem
from .contract import LAUNCHERS

Flags = Mapping[str, str | int | None]

# ---- the model in the words of a framework ----------------------------------------------------------------------


def torchtitan_model(problem: TrainingProblem) -> dict[str, str]:
    """The entries of `[model]`; torchtitan knows a model by its name, so others and shortened ones are refused."""
    name = problem.model.name
    if name not in TORCHTITAN_MODELS or shapes_of(problem.model) != shapes_of(MODELS[name].model):
        raise UsageError(
            f"torchtitan has no model {name} of {several(problem.model.layers, 'layer')} by name; leave out "
            "--with-model-flags, and give its own code the shapes."
        )
    family, flavor = TORCHTITAN_MODELS[name]
    return {"name": family, "flavor": flavor}


def shapes_of(model: Model) -> tuple[object, ...]:
    """What torchtitan's name of a model stands for: multi-token prediction is no part of its models."""
    return model.hidden, model.layers, model.vocabulary, model.attention, model.mlp, model.experts


def megatron_model(problem: TrainingProblem) -> Flags:
    """Flags for the model's shapes, by names of `argparse`; a model that Megatron cannot build is refused."""
    model, attention, experts = problem.model, problem.model.attention, problem.model.experts
    _refuse_shapes(model)
    assert attention is not None, "models with shapes have attention"
    mlp = model.mlp or experts
    assert mlp is not None, "a layer has an MLP or experts"
    flags: dict[str, str | int | None] = {
        "hidden_size": model.hidden,
        "ffn_hidden_size": mlp.hidden,
        **_attention_flags(attention),
        "swiglu": mlp.gated,
        "normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        "position_embedding_type": "learned_absolute" if model.positions else "rope",
        "max_position_embeddings": model.positions or problem.sequence,
        **_bias_flags(model, attention),
        "untie_embeddings_and_output_weights": not model.tied,
        "vocab_size": model.vocabulary,
    }
    if experts is not None:
        layers = f'"([0]*{experts.dense_layers}+[1]*{model.layers - experts.dense_layers})"'
        flags |= {
            "num_experts": experts.count,
            "moe_router_topk": experts.per_token,
            "moe_ffn_hidden_size": experts.hidden,
            "moe_layer_freq": layers if experts.dense_layers else None,
            "moe_shared_expert_intermediate_size": experts.shared_hidden or None,
            "moe_shared_expert_gate": experts.shared_gate,
            "moe_router_enable_expert_bias": experts.router_bias and not experts.bias,
        }
    return flags


def _refuse_shapes(model: Model) -> None:
    """Refuse what Megatron's GPT model has no flag for."""
    missing = {
        "norms in other places than before attention and MLP": model.norms != 2,
        "a table of words with another size than the hidden one": model.embedding_size is not None,
        "no norm behind the last layer": not model.final_norm,
        "a bias in its head": model.head_bias,
    }
    for what, given in missing.items():
        if given:
            raise UsageError(
                f"Megatron has no flags for {model.name}, which has {what}; leave out --with-model-flags."
            )


def _attention_flags(attention: Attention) -> Flags:
    heads, window = attention.heads, attention.window
    if attention.latent:
        return {
            "num_attention_heads": heads,
            "multi_latent_attention": True,
            "q_lora_rank": attention.query_rank,
            "kv_lora_rank": attention.key_value_rank,
            "qk_head_dim": attention.head_size,
            "qk_pos_emb_head_dim": attention.rope_size,
            "v_head_dim": attention.values,
        }
    grouped = attention.key_value_heads != heads
    full = 0 if window is None or attention.windowed_share == 1 else round(1 / (1 - attention.windowed_share))
    return {
        "num_attention_heads": heads,
        "group_query_attention": grouped,
        "num_query_groups": attention.key_value_heads if grouped else None,
        "kv_channels": attention.head_size,
        "qk_layernorm": attention.query_key_norm,
        "window_size": None if window is None else f'"({window - 1},0)"',
        "window_attn_skip_freq": full or None,  # every so many layers one has no window
        "softmax_type": "learnable" if attention.sinks else None,
    }


def _bias_flags(model: Model, attention: Attention) -> Flags:
    """Megatron adds a bias to all products of a layer, to none, or to queries, keys and values alone."""
    others = {attention.output_bias, *(own.bias for own in (model.mlp, model.experts) if own is not None)}
    if len(others) > 1 or (True in others and not attention.bias):
        raise UsageError(
            f"Megatron has no flags for {model.name}, in which some products have a bias; leave out "
            "--with-model-flags."
        )
    return {"disable_bias_linear": True not in others, "add_qkv_bias": attention.bias and True not in others}


# ---- launchers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A program with its arguments, on whole nodes."""

    nodes: int
    gpus: int
    """GPUs of each node."""
    program: str
    """As a shell takes it: a path, or -m and a module."""
    arguments: Sequence[str]
    """Options, each with its value, in the quotes that a shell needs."""
    environment: Mapping[str, str]
    planned: str | None
    """GPUs as in 2x8xh100-80gb; None: they have no name of ours."""

    @property
    def call(self) -> str:
        """The end of a command line: the program, its arguments, and those of the script."""
        return " \\\n  ".join([self.program, '"$@"', *self.arguments])


def job_of(problem: TrainingProblem, program: str, arguments: Sequence[str], **environment: str) -> Job:
    """The job on the hosts of these GPUs: trays where a node of linked GPUs has several."""
    if problem.second is not None:
        raise UsageError(
            "A script cannot give the nodes of two sorts of GPUs their numbers; drop --launcher, and start the ranks "
            "in the order that the note says."
        )
    known = GPUS.get(problem.gpu.name)
    gpus = (None if known is None else known.tray) or problem.levels[0].count
    usual = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    node = problem.levels[0].count
    planned = None if known is None else f"{problem.devices // node}x{node}x{known.name}"
    return Job(problem.devices // gpus, gpus, program, arguments, {**environment, **usual}, planned)


def _torchrun(job: Job) -> str:
    place = "" if job.nodes == 1 else '--node-rank "${NODE_RANK:?}" --master-addr "${MASTER_ADDR:?}" '
    started = "" if job.nodes == 1 else " on each node, with NODE_RANK and MASTER_ADDR set"
    return _script(
        [f"# Start it with bash{started}."],
        [f"torchrun --nnodes {job.nodes} --nproc-per-node {job.gpus} {place}\\\n  {job.call}"],
        job,
    )


def _slurm(job: Job) -> str:
    return _script(
        [
            f"#SBATCH --nodes={job.nodes}",
            "#SBATCH --ntasks-per-node=1",
            f"#SBATCH --gpus-per-node={job.gpus}",
            "#SBATCH --exclusive",
            "# Start it with sbatch; add your own lines for partition, time and account.",
        ],
        [
            'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            f"srun torchrun --nnodes {job.nodes} --nproc-per-node {job.gpus} --rdzv-backend c10d \\",
            f'  --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$MASTER_ADDR:29500" \\\n  {job.call}',
        ],
        job,
    )


def _script(head: Sequence[str], command: Sequence[str], job: Job) -> str:
    exports = [f"export {name}={value}" for name, value in job.environment.items()]
    yours = [
        "# Yours to add: data, tokenizer, learning rate, and what of the model costs no time (--rotary-base, ...).",
        "# Arguments of this script come before those below, which count where both say something.",
    ]
    planned = [] if job.planned is None else [PLANNED.format(job.planned)]
    return (
        "\n".join(["#!/usr/bin/env bash", *head, *planned, *yours, "set -euo pipefail", "", *exports, *command])
        + "\n"
    )


def _mcore(job: Job) -> str:
    """The file of Megatron's own test runs and recipes: environment and arguments in YAML."""
    pairs = [argument.partition(" ") for argument in job.arguments]
    # A number and a text in quotes are the same in YAML and in a shell.
    arguments = [f"  {name}: {value or 'true'}" for name, _, value in pairs]
    environment = [f"  {name}: {json.dumps(value)}" for name, value in job.environment.items()]
    return "\n".join(["ENV_VARS:", *environment, "MODEL_ARGS:", *arguments]) + "\n"


_WRITERS: Mapping[str, Callable[[Job], str]] = {"torchrun": _torchrun, "slurm": _slurm, "mcore": _mcore}


def launched(job: Job, launcher: str) -> dict[str, str]:
    """The launcher's file, by its name."""
    return {LAUNCHERS[launcher]: _WRITERS[launcher](job)}
