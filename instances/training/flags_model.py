"""What a launch script or a framework's file says of the job itself: model, GPUs, batch and sequence.

It is the inverse of what `plan export --with-model-flags --launcher` writes, and reads what people write alike. Options
that the framework takes as absent have its defaults. Nothing is guessed: what is not said is None, and the model's
missing options are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.json_file import read_text
from ..base.quantities import whole_number
from ..physics.hardware import GPUS
from .build import MODELS
from .flag_options import Flags, is_path
from .flags import TORCHTITAN_NAMES, model_by_name, options_of, slurm_values
from .flags_megatron import layers_with_experts
from .model import Attention, Experts, Mlp, Model

# The comment in which an exported script says for which GPUs it was planned.
PLANNED = "# Planned for {}."
_PLANNED = re.compile(r"^# Planned for (\S+)\.$", re.MULTILINE)
# Megatron's options without which a model has no shape; the names of its vocabulary.
SHAPES, VOCABULARY = ("num-layers", "hidden-size", "num-attention-heads"), ("vocab-size", "padded-vocab-size")


@dataclass(frozen=True, slots=True)
class Job:
    """What a script says of its job; None: nothing."""

    framework: str
    model: Model | None
    missing: tuple[str, ...]
    """Options that the model lacks, as the framework spells them."""
    nodes: int | None
    gpus: int | None
    """GPUs of a node."""
    planned: str | None
    """GPUs as in 8xh100-80gb, where the script was exported."""
    batch: int | None
    sequence: int | None

    def devices(self, name: str | None) -> str | None:
        """GPUs of this name, or of the one that the script says, as `--devices` takes them; None: nobody says which."""
        if self.planned is not None and name is None:
            return self.planned
        if name is None or self.gpus is None:
            return None
        nodes, known = self.nodes or 1, GPUS.get(name)
        usual = known is not None and self.gpus == (known.tray or known.node)
        return f"{nodes * self.gpus}x{name}" if usual or nodes == 1 else f"{nodes}x{self.gpus}x{name}"


def job_in(text: str) -> Job:
    """What a command line or file says of its job. Raises an `InputError` where an option has a wrong value."""
    framework, options, prefix = options_of(text)
    flags = Flags(None, options, prefix)  # type: ignore[arg-type]  # nothing that is asked here looks at the problem
    planned = _PLANNED.search(read_text(text)) if is_path(text) else None
    nodes, gpus = flags.processes("nnodes", "nproc-per-node")
    if gpus is None:
        nodes, gpus = flags.processes("num-nodes", "num-gpus")
    gpus = None if nodes is None else gpus  # a variable without a value says how many
    if gpus is None and (world := flags.maybe("world-size")) is not None:
        nodes, gpus = 1, world
    if gpus is None and is_path(text):
        given = dict(line.split("=") for line in slurm_values(read_text(text)).split())
        nodes, gpus = (whole_number(given.get(f"SLURM_{name}", "")) for name in ("NNODES", "GPUS_PER_NODE"))
    model: Model | None = None
    missing: tuple[str, ...] = ("model.name", "model.flavor")
    if framework == "torchtitan":
        model, batch = model_by_name(flags), _torchtitan_batch(flags, None if gpus is None else gpus * (nodes or 1))
        sequence: int | None = flags.maybe("training.seq-len") or 2_048
    else:
        missing = tuple(name for name in SHAPES if flags.maybe(name) is None)
        if all(flags.maybe(name) is None for name in VOCABULARY):
            missing = (*missing, VOCABULARY[0])
        if not missing:
            model = model_of_megatron(flags, Path(text).stem if is_path(text) else "model")
        batch = flags.maybe("global-batch-size") or flags.maybe("train-batch-size")
        sequence = flags.maybe("seq-length") or flags.maybe("max-seq-len")
    shown = () if model is not None else tuple(map(flags.shown, missing))
    return Job(framework, model, shown, nodes, gpus, None if planned is None else planned[1], batch, sequence)


def _torchtitan_batch(flags: Flags, devices: int | None) -> int | None:
    """Sequences of an iteration: torchtitan's own default has no accumulation."""
    batch = flags.maybe("training.global-batch-size", least=-1)
    if batch is not None and batch > 0:
        return batch
    apart = [flags.maybe(TORCHTITAN_NAMES[name]) or 1 for name in ("tensor", "context", "pipeline")]
    if devices is None:
        return None
    return (flags.maybe(TORCHTITAN_NAMES["micro-batch"]) or 8) * max(devices // (apart[0] * apart[1] * apart[2]), 1)


def model_of_megatron(flags: Flags, name: str) -> Model:
    """The model of Megatron's options; one whose shapes are packaged has that name."""
    hidden, heads = flags.whole("hidden-size", 1), flags.whole("num-attention-heads", 1)
    layers, gated, bias = flags.whole("num-layers", 1), flags.flag("swiglu"), not flags.flag("disable-bias-linear")
    wide = int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden
    mlp = Mlp(flags.whole("ffn-hidden-size", wide), gated, bias)
    experts = _experts(flags, layers, mlp)
    rotary = flags.flag("use-rotary-position-embeddings") or flags.flag("no-position-embedding")
    where = flags.text_or_none("position-embedding-type") or ("rope" if rotary else "learned_absolute")
    model = Model(
        name,
        hidden,
        layers,
        next(count for count in map(flags.maybe, VOCABULARY) if count is not None),
        _attention(flags, hidden, heads, bias),
        mlp if experts is None or experts.dense_layers else None,
        experts,
        tied=not flags.flag("untie-embeddings-and-output-weights"),
        norm="rms" if "rms" in (flags.text_or_none("normalization") or "").lower() else "layer",
        positions=flags.whole("max-position-embeddings", 0) if where == "learned_absolute" else 0,
        prediction_layers=flags.whole("mtp-num-layers", 0, least=0),
    )
    packaged = (own.model for own in MODELS.values())
    return next((own for own in packaged if own == replace(model, name=own.name)), model)


def _attention(flags: Flags, hidden: int, heads: int, bias: bool) -> Attention:
    if flags.flag("multi-latent-attention"):
        size, ranks = flags.whole("qk-head-dim", 128), (flags.maybe("q-lora-rank"), flags.whole("kv-lora-rank", 32))
        values, rope = flags.whole("v-head-dim", 128), flags.whole("qk-pos-emb-head-dim", 64)
        return Attention(heads, size, heads, values, *ranks, rope, bias, bias)
    window, skipped = flags.words("window-size"), flags.maybe("window-attn-skip-freq")
    tokens = None if not window else int(re.sub(r"\D.*", "", window[0].strip('"( ')) or 0) + 1
    return Attention(
        heads,
        flags.whole("kv-channels", max(hidden // heads, 1)),
        flags.whole("num-query-groups", heads) if flags.flag("group-query-attention") else heads,
        bias=bias or flags.flag("add-qkv-bias"),
        output_bias=bias,
        query_key_norm=flags.flag("qk-layernorm"),
        sinks=flags.text_or_none("softmax-type") == "learnable",
        window=tokens,
        windowed_share=0 if tokens is None else 1 - (1 / skipped if skipped else 0),
    )


def _experts(flags: Flags, layers: int, mlp: Mlp) -> Experts | None:
    """Experts, where dense layers come before all that have some."""
    count = flags.maybe("num-experts")
    if count is None:
        return None
    row = layers_with_experts(flags.text_or_none("moe-layer-freq") or "1", layers)
    if row is None or sorted(row) != row:
        raise flags.wrong("moe-layer-freq", "mixes layers with experts and without", "give MODEL yourself")
    return Experts(
        count,
        flags.whole("moe-router-topk", 2),
        flags.whole("moe-ffn-hidden-size", mlp.hidden),
        flags.maybe("moe-shared-expert-intermediate-size") or 0,
        flags.flag("moe-shared-expert-gate"),
        row.count(False),
        mlp.gated,
        mlp.bias,
        mlp.bias or flags.flag("moe-router-enable-expert-bias"),
    )
