"""Megatron's flags, as its megatron/training/arguments.py defines them."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isclose

from ..base.errors import InputError, show
from ..base.quantities import whole_number, whole_numbers
from ..networks.megatron_layout import expanded
from ..physics.efficiencies import OVERLAPPED_TENSOR
from ..physics.optimizers import FORMATS, OPTIMIZERS, USUAL_OPTIMIZER
from .flag_options import Flags, words_of_options
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
PREDICTION = "mtp-num-layers"
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

GRADIENTS, WEIGHTS, TENSOR = "overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap"
DISPATCHER, GROUPED = "moe-token-dispatcher-type", "moe-grouped-gemm"
PRECISION_AWARE, AWARE = "adam-precision-aware", "use-precision-aware-optimizer"
FORMATS_OF = OPTIMIZERS[PRECISION_AWARE].formats
# Formats that need no word: those of the record of this optimizer, and of gradients in general.
OF_RECORD = {"first": "bf16", "second": "bf16", "master": "bf16", "gradients": "fp32"}
REDUCED, ACCUMULATED = "grad-reduce-in-bf16", "accumulate-allreduce-grads-in-fp32"
FUSED_LOSS, DROPOUTS = "cross-entropy-loss-fusion", ("attention-dropout", "hidden-dropout")


def read_megatron(flags: Flags) -> None:
    """Degrees, layout and recomputation in Megatron's flags; what is absent is as Megatron takes it."""
    flags.names = NAMES
    predicting = flags.whole(PREDICTION, 0, least=0)
    flags.decide_prediction(predicting, f"--{PREDICTION} {predicting}" if predicting else f"no --{PREDICTION}")
    problem = flags.problem
    tensor, pipeline = flags.whole("tensor", 1), flags.whole("pipeline", 1)
    experts = problem.model.experts is not None
    expert_tensor = flags.amount("expert-tensor")
    if expert_tensor is None:
        expert_tensor = tensor if experts else 1
        if experts and tensor > 1:
            flags.tell(f"Without --{NAMES['expert-tensor']} experts are divided by the tensor degree, {tensor}.")
    expert = flags.whole("expert", 1)
    if expert > 1 and not experts:
        flags.tell(f"--{NAMES['expert']} is {expert}, and the problem's model has no experts.")
    layout, virtual = read_layout(problem, flags, pipeline)
    zero = _zero(flags)
    flags.keys = {
        "tensor": str(tensor),
        "context": str(flags.whole("context", 1)),
        "pipeline": str(pipeline),
        "virtual": str(virtual),
        "expert": str(expert if experts else 1),
        "expert-tensor": str(expert_tensor if experts else 1),
        "micro-batch": str(flags.whole("micro-batch", 1)),
        "zero": str(zero),
        "recompute": read_recomputation(flags, problem),
    }
    if layout is not None:
        flags.keys["layout"] = "/".join(map(str, layout))
    data = flags.amount("data")
    if data is not None:
        flags.keys["data"] = str(data)
    flags.compare("the group of micro-batches", pipeline, GROUP, of_job=False)
    compare_problem(flags, problem, tensor)
    compare_model(flags, problem, tensor)
    _absent(flags, problem)
    _optimizer(flags)
    _hidden(flags, flags.problem, zero)


def _zero(flags: Flags) -> int:
    """ZeRO stage; a strategy counts with Megatron's own sharding alone, whose two names are one option."""
    strategy, distributed = flags.choice(STRATEGY, SHARDING, "no_shard"), flags.flag("use-distributed-optimizer")
    sharded = [name for name in ("use-megatron-fsdp", "use-custom-fsdp") if flags.flag(name)]
    if sharded:
        most = max(flags.problem.states)
        if SHARDING[strategy] > most:
            flags.tell(
                f"With --{sharded[0]}, --{STRATEGY} {strategy} divides gradients or weights as well, which is not "
                f"modelled here: memory is too large, and time lacks the gathers, as with zero={most}."
            )
            return most
        flags.tell(
            f"With --{sharded[0]}, --{STRATEGY} {strategy} decides what is divided (zero={SHARDING[strategy]})."
        )
        return SHARDING[strategy]
    if strategy != "no_shard":
        flags.tell(f"--{STRATEGY} counts only with --use-megatron-fsdp, which is absent.")
    if distributed:
        return 1
    flags.tell("Without --use-distributed-optimizer the optimizer is whole on every rank (zero=0).")
    return 0


def _hidden(flags: Flags, problem: TrainingProblem, zero: int) -> None:
    """How much of the communication that can be hidden the flags hide: without them Megatron hides none of it."""
    gradients, weights = flags.flag(GRADIENTS), flags.flag(WEIGHTS)
    if weights and not gradients:
        raise flags.wrong(WEIGHTS, f"is set without --{GRADIENTS}, which Megatron refuses", "add that")
    if weights and not zero:
        raise flags.wrong(WEIGHTS, "is set, and the optimizer is not divided", "add --use-distributed-optimizer")
    if not gradients:
        absent = f"--{GRADIENTS}" if not zero else f"--{GRADIENTS} and --{WEIGHTS}"
        flags.hides(0, f"Without {absent} Megatron hides no data-parallel communication")
    elif zero and not weights:
        flags.hides(_share_of_gradients(problem, zero), f"Without --{WEIGHTS} Megatron hides no gathers of weights")


def _share_of_gradients(problem: TrainingProblem, zero: int) -> float:
    """The share of sums of gradients in what data-parallel ranks send: the rest gathers weights after the update."""
    states = problem.states.get(zero)
    if states is None:  # which the framework's rules refuse
        return 1.0
    gradients, weights = (kind.whole + kind.shared for kind in (states.gradients, states.weights))
    return gradients / (gradients + weights)


def _optimizer(flags: Flags) -> None:
    """The optimizer of these flags, where a record has their words; of others nothing is modelled."""
    usual = {"optimizer": ("adam",), **flags.options}
    named = [
        (own.name, words_of_options(own.megatron))
        for own in OPTIMIZERS.values()
        if own.mixed and own.megatron and not own.formats
    ]
    meant = [pair for pair in named if all(usual.get(name) == words for name, words in pair[1].items())]
    name, options = max(meant, key=lambda pair: len(pair[1]), default=(USUAL_OPTIMIZER, {}))
    for option in (*options, "sgd-momentum"):
        flags.words(option)
    parts = _formats(flags)
    name = PRECISION_AWARE if "master" in parts else name
    own = [f"{part}={given}" for part, given in parts.items() if given != OF_RECORD[part]]
    name += ":" * bool(own) + ",".join(own)
    shown = [flags.shown(option) for option in (*options, AWARE, *FORMATS_OF.values(), REDUCED)]
    said = [option for option in shown if option.strip("-") in flags.asked] or ["no --optimizer"]
    flags.decide("optimizer", name, f"the optimizer {name} ({' '.join(said)})")


def _formats(flags: Flags) -> dict[str, str]:
    """Number formats of the optimizer's parts, where the flags can choose them. Of a master copy in fp32 beside weights
    in bf16 a precision-aware optimizer keeps the bits that these lack; in fp16 gradients are summed as they are."""
    parts = {part: flags.choice(option, FORMATS, "fp32") for part, option in FORMATS_OF.items()}
    fp16, fp32 = flags.flag("fp16"), flags.flag(ACCUMULATED)
    if flags.flag(REDUCED) or (fp16 and not fp32) or parts["gradients"] != "fp32":
        parts["gradients"] = "fp16" if fp16 else "bf16"
    if flags.flag(AWARE):
        return parts if fp16 else {**parts, "master": "bf16"}
    for option in FORMATS_OF.values():
        if flags.choice(option, FORMATS, "fp32") != "fp32":
            raise flags.wrong(option, f"is set without --{AWARE}, which Megatron refuses", "add that")
    return {"gradients": parts["gradients"]}


def _absent(flags: Flags, problem: TrainingProblem) -> None:
    """Tell where Megatron's default of an absent flag is not what memory and time are computed with."""
    if not (flags.flag("bf16") or flags.flag("fp16")):
        flags.tell(
            f"Without --bf16 and --fp16 Megatron trains in fp32; memory and time here are of {problem.precision}."
        )
    dropout = [flags.text(name) for name in DROPOUTS]
    shown = [f"--{name} {text or 'absent'}" for name, text in zip(DROPOUTS, dropout, strict=True)]
    on = any(text is None or bool(text.strip("0.")) for text in dropout)
    flags.decide("dropout", on, f"{'' if on else 'no '}dropout ({', '.join(shown)})")
    flags.decide_switch("fused_loss", flags.flag(FUSED_LOSS), FUSED_LOSS, ("a fused loss", "an unfused loss"))
    own, overlaps = problem.efficiencies, flags.flag(TENSOR)
    share = (own.tensor_hidden or OVERLAPPED_TENSOR) if overlaps else 0.0
    if not overlaps or flags.keys["tensor"] != "1":
        hidden = f"{100 * share:g} % hidden (--{TENSOR})" if overlaps else f"that nothing hides (no --{TENSOR})"
        both = flags.problem.with_rates(lambda rates: replace(rates, tensor_hidden=share))
        flags.problem = flags.problem.replace(second=both.second)
        flags.decide("efficiencies", both.efficiencies, f"tensor-parallel communication {hidden}")
    absent = []
    if flags.keys["expert"] != "1" and DISPATCHER not in flags.options:
        absent.append(f"--{DISPATCHER} alltoall tokens are gathered for the experts")
    if problem.model.experts is not None and not flags.flag(GROUPED):
        absent.append(f"--{GROUPED} experts are computed one after the other")
    if absent:
        flags.tell(f"In Megatron without {', and without '.join(absent)}, which is not modelled here.")


# ---- layouts -------------------------------------------------------------------------------------------


def read_layout(problem: TrainingProblem, flags: Flags, pipeline: int) -> tuple[list[int] | None, int]:
    """Units of each chunk (None: layers alike, with embedding and head beside them), and number of chunks on a rank."""
    text = flags.text("layout")
    if text is not None:
        stages = expanded(text)
        if len(stages) % pipeline:
            raise flags.wrong(
                "layout", f"has {len(stages)} stages for {pipeline} ranks", "give each rank equally many"
            )
        _same_letters(problem, flags, stages)
        counts = [len(stage) for stage in stages]
        counts[0] += problem.model.embedding_at  # an encoder is in the first chunk
        return counts, len(stages) // pipeline
    ends = [flags.amount(name, least=0) for name in (FIRST, LAST)]
    counted = flags.flag(WITH_EMBEDDING), flags.flag(WITH_LOSS)
    layers = _layers_of_ranks(problem, flags, pipeline, ends, counted)
    virtual = _virtual(flags, layers[0] if ends == [None, None] else None)
    if ends == [None, None] and not any(counted):
        return None, virtual
    return _units(problem, flags, layers, virtual, counted), virtual


def _same_letters(problem: TrainingProblem, flags: Flags, stages: tuple[str, ...]) -> None:
    row, layers = problem.model.letters, flags.maybe("num-layers")
    if "".join(stages) != row:
        if layers not in (None, problem.model.layers):
            raise InputError(
                flags.shown("num-layers"),
                f"is {layers}, but {problem.model.name} has {problem.model.layers} layers: these flags are of "
                "another model",
                "judge them without MODEL, or give those of this model",
            )
        raise flags.wrong(
            "layout",
            f"holds {len(''.join(stages))} letters that are not the model's {len(row)}",
            f"give E, {row.count('t')} times t{', m' * row.count('m')} and L in this order",
        )


def _layers_of_ranks(
    problem: TrainingProblem, flags: Flags, pipeline: int, ends: list[int | None], counted: tuple[bool, bool]
) -> list[int]:
    """Layers of each rank; embedding and head count as layers where the flags say so."""
    fixed = sum(count or 0 for count in ends)
    left = problem.model.layers + sum(counted) - fixed
    among = pipeline - sum(count is not None for count in ends)
    if left < 0 or (left % among if among > 0 else left) or among < 0:
        raise flags.wrong(
            "pipeline",
            f"is {pipeline}, and {left} layers do not divide among {max(among, 0)} ranks",
            f"give --{NAMES['layout']}, or other numbers",
        )
    share = left // among if among else 0
    layers = [share] * pipeline
    for place, count in zip((0, -1), ends, strict=True):
        if count is not None:
            layers[place] = count
    return layers


def _virtual(flags: Flags, layers_of_rank: int | None) -> int:
    chunks, of_chunk = flags.amount("virtual"), flags.amount(LAYERS_OF_CHUNK)
    if chunks is not None:
        return chunks
    if of_chunk is None:
        return 1
    if layers_of_rank is None:
        raise flags.wrong(LAYERS_OF_CHUNK, "stands beside uneven ends", f"give --{NAMES['virtual']}")
    if layers_of_rank % of_chunk:
        raise flags.wrong(
            LAYERS_OF_CHUNK, f"is {of_chunk} of {layers_of_rank} layers of a rank", "give a divisor of them"
        )
    return layers_of_rank // of_chunk


def _units(
    problem: TrainingProblem, flags: Flags, layers: list[int], virtual: int, counted: tuple[bool, bool]
) -> list[int]:
    """Units of each chunk: layers of a rank divided evenly, the embedding in the first chunk, the head in the last."""
    for count in layers:
        if count % virtual:
            raise flags.wrong("virtual", f"is {virtual} for {count} layers of a rank", "give a divisor of them")
    units = [count // virtual for _ in range(virtual) for count in layers]
    row = problem.model.units
    units[0] += (not counted[0]) + problem.model.embedding_at
    units[-1] += row.count("prediction") + (not counted[1])
    return units


# ---- recomputation -------------------------------------------------------------------------------------


def read_recomputation(flags: Flags, problem: TrainingProblem) -> str:
    """Our word for what the options --recompute-* say."""
    granularity = flags.choice("recompute-granularity", ("full", "selective"), NONE)
    method = flags.choice("recompute-method", ("uniform", "block"), "")
    layers = flags.amount("recompute-num-layers")
    modules = flags.words("recompute-modules")
    if flags.flag("recompute-activations") and granularity == NONE:
        granularity = "selective"
    if granularity == "full":
        return _whole_layers(flags, method, layers)
    if granularity == NONE:
        if modules or layers or method:
            flags.tell("Nothing is computed again without --recompute-granularity.")
        return NONE
    names = [name for word in (modules or ("core_attn",)) for name in word.strip("[]").split(",") if name]
    for name in names:
        if name not in MODULES:
            raise InputError("--recompute-modules", f"holds {show(name)}", "give some of " + ", ".join(MODULES))
    return _shortest(flags, Recompute(tuple(names)), problem).word


def _shortest(flags: Flags, word: Recompute, problem: TrainingProblem) -> Recompute:
    """The word without what changes nothing in this model, which Megatron puts aside as well; it refuses mla_up_proj
    without latent attention."""
    shortest = effective(problem.model, word)
    if problem.model.own or shortest == word or {"mla_up_proj"} & {*word.modules} - {*problem.model.modules}:
        return word
    flags.tell(f"--recompute-modules {' '.join(word.modules)} says no more of this model than {shortest.word}.")
    return shortest


def _whole_layers(flags: Flags, method: str, layers: int | None) -> str:
    if not method:
        raise flags.wrong("recompute-method", "is missing", "give uniform or block, as full recomputation needs")
    if method == "block":
        return f"full:{layers or 1}"
    if layers not in (None, 1):
        flags.tell(
            f"--recompute-num-layers {layers} keeps one input for {layers} layers; here each layer keeps its own, "
            "so that memory is judged too large."
        )
    return "full"


# ---- what the flags say of the problem -------------------------------------------------------------------


def compare_problem(flags: Flags, problem: TrainingProblem, tensor: int) -> None:
    """Tell where the flags differ from the problem in batch, sequence, number format and the like."""
    flags.compare("the batch", problem.batch, "global-batch-size")
    flags.compare("the sequence", problem.sequence, "seq-length", "encoder-seq-length")
    flags.compare("the number of GPUs", problem.devices, "world-size")
    flags.compare_devices(problem, "nnodes", "nproc-per-node")
    formats = {"bf16": flags.flag("bf16"), "fp16": flags.flag("fp16")}
    precision = "fp8" if flags.text("fp8-format") else next((name for name, on in formats.items() if on), None)
    if precision is not None:
        flags.decide_precision(precision, "fp8-format" if precision == "fp8" else precision)
    on = flags.flag("sequence-parallel")
    if tensor > 1:
        words = ("sequence parallelism", "no sequence parallelism")
        flags.decide_switch("sequence_parallel", on, "sequence-parallel", words)
    backend = flags.choice("attention-backend", BACKENDS, "auto")
    flash = True if flags.flag("use-flash-attn") else BACKENDS[backend]
    if flash is not None:
        kept = "a matrix of attention that is never kept" if flash else "the matrix of attention, which is kept"
        flags.decide("flash_attention", flash, f"{kept} (--attention-backend)")


def compare_model(flags: Flags, problem: TrainingProblem, tensor: int) -> None:
    """Tell where the command line states other shapes than the problem's model has."""
    model, experts = problem.model, problem.model.experts
    if model.own:
        return
    expert_size = None if experts is None else experts.hidden
    mlp = expert_size if model.mlp is None else model.mlp.hidden
    described = flags.options.get("hidden-size") is not None
    flags.compare("the number of layers", model.layers, "num-layers")
    flags.compare("the hidden size", model.hidden, "hidden-size")
    flags.compare("the hidden size of the MLP", mlp, "ffn-hidden-size")
    _compare_vocabulary(flags, model, tensor)
    flags.compare("the number of experts", None if experts is None else experts.count, "num-experts")
    flags.compare("the experts of a token", None if experts is None else experts.per_token, "moe-router-topk")
    flags.compare("the hidden size of an expert", expert_size, "moe-ffn-hidden-size")
    shared = None if experts is None else experts.shared_hidden
    flags.compare("the hidden size of shared experts", shared, "moe-shared-expert-intermediate-size")
    gate = "moe-shared-expert-gate"
    flags.compare_switch("A gate of shared experts", experts is not None and experts.shared_gate, gate, described)
    _compare_experts(flags, model)
    if model.attention is not None:
        _compare_attention(flags, model.attention, described)
    gated = (model.mlp or experts).gated  # type: ignore[union-attr]  # one of them is there
    flags.compare_switch("A gated MLP", gated, "swiglu", described)
    untied = "untie-embeddings-and-output-weights"
    flags.compare_switch("A head with weights of its own", not model.tied, untied, described)
    norm = flags.text("normalization")
    if norm is not None and ("rms" in norm.lower()) != (model.norm == "rms"):
        flags.tell(f"--normalization is {norm}, and the norm of the problem's model is {model.norm}.")
    rotary = flags.flag("use-rotary-position-embeddings") | flags.flag("no-position-embedding")
    positions = flags.text("position-embedding-type") or ("rope" if rotary else None)
    if positions is not None and (positions == "learned_absolute") != (model.positions > 0):
        flags.tell(
            f"Learned positions (--position-embedding-type {positions}) are on one side alone: in the flags or in the "
            "problem's model."
        )
    if model.positions:
        flags.compare("the number of learned positions", model.positions, "max-position-embeddings")
    for name in ("disable-bias-linear", "num-query-groups", "max-position-embeddings"):
        flags.words(name)


def _compare_vocabulary(flags: Flags, model: Model, tensor: int) -> None:
    """The vocabulary, and what it is padded to: a multiple of a number for each tensor-parallel rank."""
    flags.compare("the vocabulary", model.vocabulary, "vocab-size", "padded-vocab-size")
    name = "make-vocab-size-divisible-by"
    multiple = (flags.amount(name) or 1) * tensor
    padded = -(-model.vocabulary // multiple) * multiple
    if padded > model.vocabulary * (1 + MOST_PADDING):
        flags.tell(
            f"{flags.shown(name)} pads the vocabulary to {padded}, and that of the problem is {model.vocabulary}."
        )


def _compare_experts(flags: Flags, model: Model) -> None:
    """Which layers have experts."""
    name = "moe-layer-freq"
    pattern = flags.text(name)
    if pattern is None or model.experts is None:
        return
    row = [unit == "experts" for unit in model.units if unit in ("dense", "experts")]
    if layers_with_experts(pattern, model.layers) != row:
        flags.tell(
            f"{flags.shown(name)} {pattern} is not the row of dense layers and experts in the problem's model."
        )


def layers_with_experts(pattern: str, layers: int) -> list[bool] | None:
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


def _compare_attention(flags: Flags, attention: Attention, described: bool) -> None:
    flags.compare("the number of heads", attention.heads, "num-attention-heads")
    grouped = flags.flag("group-query-attention")
    if grouped and not attention.latent:
        flags.compare("the number of key-value heads", attention.key_value_heads, "num-query-groups")
    flags.compare("the rank of queries", attention.query_rank, "q-lora-rank")
    flags.compare("the rank of keys and values", attention.key_value_rank, "kv-lora-rank")
    flags.compare("the size of a head", attention.head_size, "qk-head-dim")
    flags.compare("the size of positions in a head", attention.rope_size, "qk-pos-emb-head-dim")
    flags.compare("the size of a head's values", attention.values, "v-head-dim")
    flags.compare_switch("Latent attention", attention.latent, "multi-latent-attention", described)
    bias = flags.flag("add-qkv-bias") or (described and not flags.flag("disable-bias-linear"))
    if bias != attention.bias and (described or bias):
        flags.tell(
            "Biases of queries, keys and values (--add-qkv-bias, or no --disable-bias-linear) are on one side alone: "
            "in the flags or in the problem's model."
        )
    if not attention.latent:  # whose size of a head and norms are stated otherwise
        flags.compare("the size of a head", attention.head_size, "kv-channels")
        flags.compare_switch("A norm of queries and keys", attention.query_key_norm, "qk-layernorm", described)
    window = flags.words("window-size")
    tokens = None if not window else whole_number(window[0].strip("(").partition(",")[0])
    if window is not None and (tokens is None or attention.window not in (tokens, tokens + 1)):
        known = "none" if attention.window is None else f"one of {attention.window} tokens"
        flags.tell(f"--window-size is {' '.join(window)}, and the window of the problem's model is {known}.")
    full = flags.amount("window-attn-skip-freq")  # every so many layers one has no window
    share = 1 - (0 if full is None else 1 / full)
    told = full is not None or (window is not None and attention.window is not None)
    if told and not isclose(share, attention.windowed_share):
        flags.tell(
            f"By --window-attn-skip-freq {full or 'absent'} {share:.0%} of the layers have a window, and "
            f"{attention.windowed_share:.0%} of the problem's model."
        )
    softmax = flags.text("softmax-type")
    if softmax is not None and (softmax == "learnable") != attention.sinks:
        flags.tell(
            "A learned number beside the keys (--softmax-type) is on one side alone: in the flags or the model."
        )
    for name in ("kv-channels", "qk-layernorm"):
        flags.words(name)
