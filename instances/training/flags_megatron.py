"""Megatron's flags, as its megatron/training/arguments.py defines them."""

from __future__ import annotations

import re

from ..base.errors import InputError, show
from ..base.quantities import whole_number, whole_numbers
from ..networks.megatron_layout import expanded
from ..physics.optimizers import OPTIMIZERS, USUAL_OPTIMIZER
from .flag_options import (
    MEGATRON_EFFECTS,
    MEGATRON_HARMLESS,
    Given,
    Said,
    compare,
    compare_devices,
    share_of_gradients,
    words_of_options,
)
from .frameworks import effective
from .model import MODULES, Attention, Model
from .plan import NONE, Recompute
from .problem import TrainingProblem

# Megatron's option for each of our keys, for messages.
NAMES = {
    "tensor": "tensor-model-parallel-size",
    "context": "context-parallel-size",
    "pipeline": "pipeline-model-parallel-size",
    "virtual": "num-virtual-stages-per-pipeline-rank",
    "expert": "expert-model-parallel-size",
    "expert-tensor": "expert-tensor-parallel-size",
    "data": "data-parallel-size",
    "micro-batch": "micro-batch-size",
    "zero": "use-distributed-optimizer",
    "layout": "pipeline-model-parallel-layout",
    "recompute": "recompute-granularity",
}
LAYERS_OF_CHUNK = "num-layers-per-virtual-pipeline-stage"
FIRST, LAST = "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"
WITH_EMBEDDING, WITH_LOSS = "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"
GROUP = "microbatch-group-size-per-virtual-pipeline-stage"
STRATEGY = "data-parallel-sharding-strategy"
# ZeRO stages by the values of --data-parallel-sharding-strategy, which count with --use-megatron-fsdp.
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
# The share by which padding may lengthen the vocabulary without a word.
MOST_PADDING = 0.01
_LISTED = re.compile(r"\[([0-9, ]+)\](?:\*([0-9]+))?")
# Whether the matrix of attention is never kept, by the values of --attention-backend; None: the value leaves
# it open.
BACKENDS = {"flash": True, "fused": True, "unfused": False, "local": False, "auto": None}

GRADIENTS, WEIGHTS = "overlap-grad-reduce", "overlap-param-gather"
DISPATCHER = "moe-token-dispatcher-type"
FUSED_LOSS, DROPOUTS = "cross-entropy-loss-fusion", ("attention-dropout", "hidden-dropout")


def read_megatron(problem: TrainingProblem, given: Given) -> Said:
    """Degrees, layout and recomputation in Megatron's flags; what is absent is as Megatron takes it."""
    said = Said(NAMES, MEGATRON_EFFECTS, MEGATRON_HARMLESS)
    tensor, pipeline = given.whole(NAMES["tensor"], 1), given.whole(NAMES["pipeline"], 1)
    experts = problem.model.experts is not None
    expert_tensor = given.amount(NAMES["expert-tensor"])
    if expert_tensor is None:
        expert_tensor = tensor if experts else 1
        if experts and tensor > 1:
            said.tell(f"Without --{NAMES['expert-tensor']} experts are divided by the tensor degree, {tensor}.")
    expert = given.whole(NAMES["expert"], 1)
    if expert > 1 and not experts:
        said.tell(f"--{NAMES['expert']} is {expert}, and the problem's model has no experts.")
    layout, virtual = read_layout(problem, given, pipeline)
    zero = _zero(said, given)
    said.words = {
        "tensor": str(tensor),
        "context": str(given.whole(NAMES["context"], 1)),
        "pipeline": str(pipeline),
        "virtual": str(virtual),
        "expert": str(expert if experts else 1),
        "expert-tensor": str(expert_tensor if experts else 1),
        "micro-batch": str(given.whole(NAMES["micro-batch"], 1)),
        "zero": str(zero),
        "recompute": read_recomputation(said, given, problem),
    }
    if layout is not None:
        said.words["layout"] = "/".join(map(str, layout))
    data = given.amount(NAMES["data"])
    if data is not None:
        said.words["data"] = str(data)
    compare(said, given, GROUP, pipeline, "the group of micro-batches")
    compare_problem(said, given, problem, tensor)
    compare_model(said, given, problem, tensor)
    _absent(said, given, problem)
    _hidden(said, given, problem, zero)
    _optimizer(said, given)
    return said


def _zero(said: Said, given: Given) -> int:
    """ZeRO stage; a strategy counts with Megatron's own sharding alone, whose two names are one option."""
    strategy, distributed = given.choice(STRATEGY, SHARDING, "no_shard"), given.flag("use-distributed-optimizer")
    sharded = [name for name in ("use-megatron-fsdp", "use-custom-fsdp") if given.flag(name)]
    if sharded:
        said.tell(
            f"With --{sharded[0]}, --{STRATEGY} {strategy} decides what is divided (zero={SHARDING[strategy]})."
        )
        return SHARDING[strategy]
    if strategy != "no_shard":
        said.tell(f"--{STRATEGY} counts only with --use-megatron-fsdp, which is absent.")
    if distributed:
        return 1
    said.tell("Without --use-distributed-optimizer the optimizer is whole on every rank (zero=0).")
    return 0


def _hidden(said: Said, given: Given, problem: TrainingProblem, zero: int) -> None:
    """How much of the communication that can be hidden the flags hide: without them Megatron hides none of it."""
    gradients, weights = given.flag(GRADIENTS), given.flag(WEIGHTS)
    if weights and not gradients:
        raise given.wrong(WEIGHTS, f"is set without --{GRADIENTS}, which Megatron refuses", "add that")
    if weights and not zero:
        raise given.wrong(WEIGHTS, "is set, and the optimizer is not divided", "add --use-distributed-optimizer")
    if not gradients:
        absent = f"--{GRADIENTS}" if not zero else f"--{GRADIENTS} and --{WEIGHTS}"
        said.hides(0, f"Without {absent} Megatron hides no data-parallel communication")
    elif zero and not weights:
        said.hides(share_of_gradients(problem, zero), f"Without --{WEIGHTS} Megatron hides no gathers of weights")


def _optimizer(said: Said, given: Given) -> None:
    """The optimizer of these flags, where a record has their words; of others nothing is modelled."""
    usual = {"optimizer": ("adam",), **given.options}
    named = [
        (own.name, words_of_options(own.megatron)) for own in OPTIMIZERS.values() if own.mixed and own.megatron
    ]
    meant = [pair for pair in named if all(usual.get(name) == words for name, words in pair[1].items())]
    name, options = max(meant, key=lambda pair: len(pair[1]), default=(USUAL_OPTIMIZER, {}))
    if name != USUAL_OPTIMIZER:
        said.optimizer = name
        shown = " ".join(" ".join((given.shown(option), *(given.words(option) or ()))) for option in options)
        said.tell(f"Memory and time are those of the optimizer of {shown}.")


def _absent(said: Said, given: Given, problem: TrainingProblem) -> None:
    """Tell where Megatron's default of an absent flag is not what memory and time are computed with."""
    if not (given.flag("bf16") or given.flag("fp16")):
        said.tell(
            f"Without --bf16 and --fp16 Megatron trains in fp32; memory and time here are of {problem.precision}."
        )
    absent = []
    if problem.fused_loss and not given.flag(FUSED_LOSS):
        absent.append(f"--{FUSED_LOSS} the loss is not fused")
    if not problem.dropout and None in [given.text(name) for name in DROPOUTS]:
        absent.append(" and ".join(f"--{name} 0" for name in DROPOUTS) + " there is dropout")
    if said.words["expert"] != "1" and DISPATCHER not in given.options:
        absent.append(f"--{DISPATCHER} alltoall tokens are gathered for the experts")
    if absent:
        said.tell(f"In Megatron without {', and without '.join(absent)}; the problem says otherwise.")


# ---- layouts -------------------------------------------------------------------------------------------


def read_layout(problem: TrainingProblem, given: Given, pipeline: int) -> tuple[list[int] | None, int]:
    """Units of each chunk (None: layers alike, with embedding and head beside them), and number of chunks on a rank."""
    text = given.text(NAMES["layout"])
    if text is not None:
        stages = expanded(text)
        if len(stages) % pipeline:
            raise given.wrong(
                NAMES["layout"], f"has {len(stages)} stages for {pipeline} ranks", "give each rank equally many"
            )
        _same_letters(problem, given, stages)
        return [len(stage) for stage in stages], len(stages) // pipeline
    ends = [given.amount(name, least=0) for name in (FIRST, LAST)]
    counted = given.flag(WITH_EMBEDDING), given.flag(WITH_LOSS)
    layers = _layers_of_ranks(problem, given, pipeline, ends, counted)
    virtual = _virtual(given, layers[0] if ends == [None, None] else None)
    if ends == [None, None] and not any(counted):
        return None, virtual
    return _units(problem, given, layers, virtual, counted), virtual


def _same_letters(problem: TrainingProblem, given: Given, stages: tuple[str, ...]) -> None:
    letters = {"embedding": "E", "prediction": "m", "head": "L"}
    row = "".join(letters.get(unit, "t") for unit in problem.model.units)
    if "".join(stages) != row:
        raise given.wrong(
            NAMES["layout"],
            f"holds {len(''.join(stages))} letters that are not the model's {len(row)}",
            f"give E, {row.count('t')} times t{', m' * row.count('m')} and L in this order",
        )


def _layers_of_ranks(
    problem: TrainingProblem, given: Given, pipeline: int, ends: list[int | None], counted: tuple[bool, bool]
) -> list[int]:
    """Layers of each rank; embedding and head count as layers where the flags say so."""
    fixed = sum(count or 0 for count in ends)
    left = problem.model.layers + sum(counted) - fixed
    among = pipeline - sum(count is not None for count in ends)
    if left < 0 or (left % among if among > 0 else left) or among < 0:
        raise given.wrong(
            NAMES["pipeline"],
            f"is {pipeline}, and {left} layers do not divide among {max(among, 0)} ranks",
            f"give --{NAMES['layout']}, or other numbers",
        )
    share = left // among if among else 0
    layers = [share] * pipeline
    for place, count in zip((0, -1), ends, strict=True):
        if count is not None:
            layers[place] = count
    return layers


def _virtual(given: Given, layers_of_rank: int | None) -> int:
    chunks, of_chunk = given.amount(NAMES["virtual"]), given.amount(LAYERS_OF_CHUNK)
    if chunks is not None:
        return chunks
    if of_chunk is None:
        return 1
    if layers_of_rank is None:
        raise given.wrong(LAYERS_OF_CHUNK, "stands beside uneven ends", f"give --{NAMES['virtual']}")
    if layers_of_rank % of_chunk:
        raise given.wrong(
            LAYERS_OF_CHUNK, f"is {of_chunk} of {layers_of_rank} layers of a rank", "give a divisor of them"
        )
    return layers_of_rank // of_chunk


def _units(
    problem: TrainingProblem, given: Given, layers: list[int], virtual: int, counted: tuple[bool, bool]
) -> list[int]:
    """Units of each chunk: layers of a rank divided evenly, the embedding in the first chunk, the head in the last."""
    for count in layers:
        if count % virtual:
            raise given.wrong(
                NAMES["virtual"], f"is {virtual} for {count} layers of a rank", "give a divisor of them"
            )
    units = [count // virtual for _ in range(virtual) for count in layers]
    row = problem.model.units
    units[0] += not counted[0]
    units[-1] += row.count("prediction") + (not counted[1])
    return units


# ---- recomputation -------------------------------------------------------------------------------------


def read_recomputation(said: Said, given: Given, problem: TrainingProblem) -> str:
    """Our word for what the options --recompute-* say."""
    granularity = given.choice("recompute-granularity", ("full", "selective"), NONE)
    method = given.choice("recompute-method", ("uniform", "block"), "")
    layers = given.amount("recompute-num-layers")
    modules = given.words("recompute-modules")
    if given.flag("recompute-activations") and granularity == NONE:
        granularity = "selective"
    if granularity == "full":
        return _whole_layers(said, given, method, layers)
    if granularity == NONE:
        if modules or layers or method:
            said.tell("Nothing is computed again without --recompute-granularity.")
        return NONE
    names = [name for word in (modules or ("core_attn",)) for name in word.strip("[]").split(",") if name]
    for name in names:
        if name not in MODULES:
            raise InputError("--recompute-modules", f"holds {show(name)}", "give some of " + ", ".join(MODULES))
    return _shortest(said, Recompute(tuple(names)), problem).word


def _shortest(said: Said, word: Recompute, problem: TrainingProblem) -> Recompute:
    """The word without what changes nothing in this model, which Megatron puts aside as well; it refuses mla_up_proj
    without latent attention."""
    shortest = effective(problem.model, word)
    if problem.model.own or shortest == word or {"mla_up_proj"} & {*word.modules} - {*problem.model.modules}:
        return word
    said.tell(f"--recompute-modules {' '.join(word.modules)} says no more of this model than {shortest.word}.")
    return shortest


def _whole_layers(said: Said, given: Given, method: str, layers: int | None) -> str:
    if not method:
        raise given.wrong("recompute-method", "is missing", "give uniform or block, as full recomputation needs")
    if method == "block":
        return f"full:{layers or 1}"
    if layers not in (None, 1):
        said.tell(
            f"--recompute-num-layers {layers} keeps one input for {layers} layers; here each layer keeps its own, "
            "so that memory is judged too large."
        )
    return "full"


# ---- what the flags say of the problem -------------------------------------------------------------------


def compare_problem(said: Said, given: Given, problem: TrainingProblem, tensor: int) -> None:
    """Tell where the flags differ from the problem in batch, sequence, number format and the like."""
    compare(said, given, "global-batch-size", problem.batch, "the batch")
    for name in ("seq-length", "encoder-seq-length"):
        compare(said, given, name, problem.sequence, "the sequence")
    compare(said, given, "world-size", problem.devices, "the number of GPUs")
    compare_devices(said, given, problem, "nnodes", "nproc-per-node")
    formats = {"bf16": given.flag("bf16"), "fp16": given.flag("fp16")}
    precision = "fp8" if given.text("fp8-format") else next((name for name, on in formats.items() if on), None)
    if precision is not None and precision != problem.precision:
        said.tell(f"The flags ask for {precision}, and the precision of the problem is {problem.precision}.")
    on = given.flag("sequence-parallel")
    if tensor > 1 and on != problem.sequence_parallel:
        word = ("With", "without") if on else ("Without", "with")
        said.tell(f"{word[0]} --sequence-parallel here, and the problem is one {word[1]} sequence parallelism.")
    if given.flag(FUSED_LOSS) and not problem.fused_loss:
        said.tell("--cross-entropy-loss-fusion is set, and the problem's loss is not fused.")
    backend = given.choice("attention-backend", BACKENDS, "auto")
    flash = True if given.flag("use-flash-attn") else BACKENDS[backend]
    if flash not in (None, problem.flash_attention):
        said.tell(
            f"The matrix of attention is {'not ' if flash else ''}kept by the flags, and the problem says otherwise."
        )
    dropout = [given.text(name) for name in DROPOUTS]
    if any(text is not None and text.strip("0.") for text in dropout) and not problem.dropout:
        said.tell("The flags ask for dropout, and the problem is one without.")


def compare_model(said: Said, given: Given, problem: TrainingProblem, tensor: int) -> None:
    """Tell where the command line states other shapes than the problem's model has."""
    model, experts = problem.model, problem.model.experts
    if model.own:
        return
    expert_size = None if experts is None else experts.hidden
    mlp = expert_size if model.mlp is None else model.mlp.hidden
    described = given.options.get("hidden-size") is not None
    compare(said, given, "num-layers", model.layers, "the number of layers")
    compare(said, given, "hidden-size", model.hidden, "the hidden size")
    compare(said, given, "ffn-hidden-size", mlp, "the hidden size of the MLP")
    compare(said, given, "mtp-num-layers", model.prediction_layers, "the number of prediction layers")
    _compare_vocabulary(said, given, model, tensor)
    compare(said, given, "num-experts", None if experts is None else experts.count, "the number of experts")
    compare(
        said, given, "moe-router-topk", None if experts is None else experts.per_token, "the experts of a token"
    )
    compare(said, given, "moe-ffn-hidden-size", expert_size, "the hidden size of an expert")
    shared = None if experts is None else experts.shared_hidden
    compare(said, given, "moe-shared-expert-intermediate-size", shared, "the hidden size of shared experts")
    _compare_experts(said, given, model)
    if model.attention is not None:
        _compare_attention(said, given, model.attention, described)
    gated = (model.mlp or experts).gated  # type: ignore[union-attr]  # one of them is there
    _compare_switch(said, given, "swiglu", gated, described, "A gated MLP")
    name = "untie-embeddings-and-output-weights"
    _compare_switch(said, given, name, not model.tied, described, "A head with weights of its own")
    norm = given.text("normalization")
    if norm is not None and ("rms" in norm.lower()) != (model.norm == "rms"):
        said.tell(f"--normalization is {norm}, and the norm of the problem's model is {model.norm}.")
    positions = given.text("position-embedding-type")
    if positions is not None and (positions == "learned_absolute") != (model.positions > 0):
        said.tell(
            f"Learned positions (--position-embedding-type {positions}) are on one side alone: in the flags or in the "
            "problem's model."
        )
    for name in ("disable-bias-linear", "num-query-groups", "max-position-embeddings"):
        given.words(name)


def _compare_switch(said: Said, given: Given, name: str, known: bool, described: bool, what: str) -> None:
    """Tell where a switch is set and the problem is otherwise, or is absent from flags that describe the model."""
    if given.flag(name) != known and (described or not known):
        said.tell(f"{what} ({given.shown(name)}) is on one side alone: in the flags or in the problem's model.")


def _compare_vocabulary(said: Said, given: Given, model: Model, tensor: int) -> None:
    """The vocabulary, and what it is padded to: a multiple of a number for each tensor-parallel rank."""
    compare(said, given, "vocab-size", model.vocabulary, "the vocabulary")
    compare(said, given, "padded-vocab-size", model.vocabulary, "the vocabulary")
    name = "make-vocab-size-divisible-by"
    multiple = (given.amount(name) or 1) * tensor
    padded = -(-model.vocabulary // multiple) * multiple
    if padded > model.vocabulary * (1 + MOST_PADDING):
        said.tell(
            f"{given.shown(name)} pads the vocabulary to {padded}, and that of the problem is {model.vocabulary}."
        )


def _compare_experts(said: Said, given: Given, model: Model) -> None:
    """Which layers have experts."""
    name = "moe-layer-freq"
    pattern = given.text(name)
    if pattern is None or model.experts is None:
        return
    row = [unit == "experts" for unit in model.units if unit in ("dense", "experts")]
    if _layers_with_experts(pattern, model.layers) != row:
        said.tell(
            f"{given.shown(name)} {pattern} is not the row of dense layers and experts in the problem's model."
        )


def _layers_with_experts(pattern: str, layers: int) -> list[bool] | None:
    """Has each layer experts? Of Megatron's two forms: a number N for every N-th layer, and a sum of lists such as
    ([0]*3+[1]*58); None: it is neither."""
    every = whole_number(pattern)
    if every:
        return [layer % every == 0 for layer in range(layers)]
    row: list[bool] = []
    for part in pattern.strip("'\" ").removeprefix("(").removesuffix(")").split("+"):
        match = _LISTED.fullmatch(part.strip())
        numbers = None if match is None else whole_numbers(match[1])
        count = 1 if match is None or match[2] is None else whole_number(match[2])
        if numbers is None or count is None or len(numbers) * count > layers:
            return None
        row += [bool(number) for number in numbers] * count
    return row


def _compare_attention(said: Said, given: Given, attention: Attention, described: bool) -> None:
    compare(said, given, "num-attention-heads", attention.heads, "the number of heads")
    grouped = given.flag("group-query-attention")
    if grouped and not attention.latent:
        compare(said, given, "num-query-groups", attention.key_value_heads, "the number of key-value heads")
    compare(said, given, "q-lora-rank", attention.query_rank, "the rank of queries")
    compare(said, given, "kv-lora-rank", attention.key_value_rank, "the rank of keys and values")
    compare(said, given, "qk-head-dim", attention.head_size, "the size of a head")
    compare(said, given, "qk-pos-emb-head-dim", attention.rope_size, "the size of positions in a head")
    compare(said, given, "v-head-dim", attention.values, "the size of a head's values")
    _compare_switch(said, given, "multi-latent-attention", attention.latent, described, "Latent attention")
    bias = given.flag("add-qkv-bias") or (described and not given.flag("disable-bias-linear"))
    if bias != attention.bias and (described or bias):
        said.tell(
            "Biases of queries, keys and values (--add-qkv-bias, or no --disable-bias-linear) are on one side alone: "
            "in the flags or in the problem's model."
        )
    if not attention.latent:  # whose size of a head and norms are stated otherwise
        compare(said, given, "kv-channels", attention.head_size, "the size of a head")
        _compare_switch(
            said, given, "qk-layernorm", attention.query_key_norm, described, "A norm of queries and keys"
        )
    window = given.words("window-size")
    tokens = None if not window else whole_number(window[0].strip("(").partition(",")[0])
    if window is not None and (tokens is None or attention.window not in (tokens, tokens + 1)):
        known = "none" if attention.window is None else f"one of {attention.window} tokens"
        said.tell(f"--window-size is {' '.join(window)}, and the window of the problem's model is {known}.")
    softmax = given.text("softmax-type")
    if softmax is not None and (softmax == "learnable") != attention.sinks:
        said.tell(
            "A learned number beside the keys (--softmax-type) is on one side alone: in the flags or the model."
        )
    for name in ("kv-channels", "qk-layernorm"):
        given.words(name)
