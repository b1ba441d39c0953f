"""Megatron's flags, as its megatron/training/arguments.py defines them."""

from __future__ import annotations

from ..base.errors import InputError, show
from ..networks.megatron_layout import expanded
from .flag_words import Given
from .frameworks import effective
from .model import MODULES
from .plan import NONE, Recompute
from .problem import TrainingProblem
from .said import Said, compare, compare_devices

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
# ZeRO stages by the values of --data-parallel-sharding-strategy, which counts with --use-megatron-fsdp.
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
# Whether the matrix of attention is never kept, by the values of --attention-backend; None: the value leaves
# it open.
BACKENDS = {"flash": True, "fused": True, "unfused": False, "local": False, "auto": None}

# Beginnings of the names of options that say nothing of a configuration.
BESIDE = (
    *(
        "lr",
        "min-lr",
        "decoupled",
        "warmup",
        "weight-decay",
        "start-weight-decay",
        "end-weight-decay",
        "adam",
        "sgd-momentum",
    ),
    *("optimizer", "clip-grad", "loss-scale", "initial-loss-scale", "min-loss-scale", "override-opt"),
    *("use-checkpoint-opt", "train-iters", "train-samples", "train-data-path", "eval", "full-validation", "exit"),
    *("save", "load", "finetune", "no-load", "no-save", "ckpt", "dist-ckpt", "use-dist-ckpt", "auto-detect-ckpt"),
    *("no-ckpt", "async-save", "use-persistent-ckpt", "pretrained", "log", "timing", "tensorboard", "wandb"),
    *("one-logger", "enable-one-logger", "profile", "use-pytorch-profiler", "record-memory", "memory-snapshot"),
    *(
        "data-path",
        "data-impl",
        "data-cache-path",
        "tiktoken",
        "data-args",
        "per-split",
        "split",
        "mock-data",
        "tokenizer",
        "vocab-file",
    ),
    *("merge-file", "vocab-extra", "make-vocab-size", "legacy-tokenizer", "trust-remote-code", "num-workers"),
    *("dataloader", "no-create-attention-mask", "no-mmap", "mmap-bin", "num-dataset", "reset", "eod-mask-loss"),
    *("seed", "data-parallel-random-init", "te-rng-tracker", "init-method", "embedding-init", "use-cpu-init"),
    *("distributed-timeout", "distributed-backend", "local-rank", "rank", "node-rank", "node_rank", "master"),
    *("rdzv", "max-restarts", "tee", "manual-gc", "check-for-nan", "no-check-for-nan", "check-weight-hash"),
    *("rerun", "result-rejected", "error-injection", "inprocess", "nccl", "enable-gloo", "disable-gloo"),
    *("use-mcore-models", "use-legacy-models", "transformer-impl", "spec", "enable-experimental", "deterministic"),
    *("no-bias", "no-rope-fusion", "no-masked-softmax", "apply-residual", "apply-query-key", "attention-softmax"),
    *("no-persist-layer-norm", "no-gradient-accumulation-fusion", "accumulate-allreduce", "ddp", "overlap"),
    *("no-overlap", "tp-comm", "disable-tp-comm", "delay-wgrad", "align-grad-reduce", "no-align", "batch-p2p"),
    *("microbatch-group-size", "cp-comm-type", "deallocate-pipeline-outputs", "defer-embedding", "use-ring"),
    *(
        "grad-reduce-in",
        "calculate-per-token",
        "test-mode",
        "straggler",
        "ft",
        "hybrid-override",
        "first-last-layers",
    ),
    *("rotary", "use-rope-scaling", "use-rotary", "rope", "position-embedding", "no-position-embedding"),
    *("max-position-embeddings", "norm-epsilon", "layernorm-epsilon", "apply-layernorm-1p", "mscale", "beta-fast"),
    *("kv-channels", "qk-layernorm", "add-qkv-bias", "window-size", "softmax", "mtp-loss-scaling", "squared-relu"),
    *("moe-aux-loss", "moe-z-loss", "moe-router", "moe-input-jitter", "moe-per-layer-logging", "moe-layer-freq"),
    *("moe-shared-expert-gate", "moe-apply-probs", "bf16-main", "main-grads-dtype", "main-params-dtype"),
    *(
        "moe-grouped-gemm",
        "fp8-recipe",
        "exp-avg",
        "use-precision-aware",
        "no-query-key",
        "fp32-residual",
        "gradient-accumulation",
    ),
)
# Known options that change times or memory somewhat, of which the model here knows nothing.
WITHOUT_WORDS = (
    *("moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-permute-fusion"),
    *("moe-enable-deepep", "moe-token-drop-policy", "moe-pad-expert-input-to-capacity"),
    *("moe-shared-expert-overlap", "cross-entropy-fusion-impl"),
    *("fp8-margin", "fp8-interval", "fp8-amax-history-len", "fp8-amax-compute-algo"),
    *("fp8-param-gather", "fp8-wgrad", "no-fp8-wgrad", "enable-cuda-graph", "external-cuda-graph"),
    *("cuda-graph-impl", "cuda-graph-scope", "mla-down-proj-fusion"),
)
# Known options that change what ranks hold, of which the model here knows nothing.
WITH_MEMORY = (
    *("cpu-offloading", "cpu-offloading-num-layers", "optimizer-cpu-offload", "optimizer-offload-fraction"),
    *("moe-expert-capacity-factor", "distribute-saved-activations", "fine-grained-activation-offloading"),
    *("moe-layer-recompute", "use-torch-fsdp2"),
)


def read_megatron(problem: TrainingProblem, given: Given) -> Said:
    """Degrees, layout and recomputation in Megatron's flags; what is absent is as Megatron takes it."""
    said = Said(NAMES, BESIDE)
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
    said.words = {
        "tensor": str(tensor),
        "context": str(given.whole(NAMES["context"], 1)),
        "pipeline": str(pipeline),
        "virtual": str(virtual),
        "expert": str(expert if experts else 1),
        "expert-tensor": str(expert_tensor if experts else 1),
        "micro-batch": str(given.whole(NAMES["micro-batch"], 1)),
        "zero": str(_zero(said, given)),
        "recompute": read_recomputation(said, given, problem),
    }
    if layout is not None:
        said.words["layout"] = "/".join(map(str, layout))
    data = given.amount(NAMES["data"])
    if data is not None:
        said.words["data"] = str(data)
    compare_problem(said, given, problem, tensor)
    compare_model(said, given, problem)
    _without_words(said, given)
    return said


def _zero(said: Said, given: Given) -> int:
    strategy = given.choice("data-parallel-sharding-strategy", SHARDING, "no_shard")
    if given.flag("use-megatron-fsdp") or given.flag("use-custom-fsdp"):
        return SHARDING[strategy]
    if given.flag("use-distributed-optimizer"):
        return 1
    said.tell("Without --use-distributed-optimizer the optimizer is whole on every rank (zero=0).")
    return 0


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
    compare(said, given, "seq-length", problem.sequence, "the sequence")
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
    if given.flag("cross-entropy-loss-fusion") and not problem.fused_loss:
        said.tell("--cross-entropy-loss-fusion is set, and the problem's loss is not fused.")
    backend = given.choice("attention-backend", BACKENDS, "auto")
    flash = True if given.flag("use-flash-attn") else BACKENDS[backend]
    if flash not in (None, problem.flash_attention):
        said.tell(
            f"The matrix of attention is {'not ' if flash else ''}kept by the flags, and the problem says otherwise."
        )
    dropout = [given.text(name) for name in ("attention-dropout", "hidden-dropout")]
    if any(text is not None and text.strip("0.") for text in dropout) and not problem.dropout:
        said.tell("The flags ask for dropout, and the problem is one without.")


def compare_model(said: Said, given: Given, problem: TrainingProblem) -> None:
    """Tell where the command line states other shapes than the problem's model has."""
    model, attention, experts = problem.model, problem.model.attention, problem.model.experts
    if model.own:
        return
    expert_size = None if experts is None else experts.hidden
    mlp = expert_size if model.mlp is None else model.mlp.hidden
    described = given.options.get("hidden-size") is not None
    compare(said, given, "num-layers", model.layers, "the number of layers")
    compare(said, given, "hidden-size", model.hidden, "the hidden size")
    compare(said, given, "ffn-hidden-size", mlp, "the hidden size of the MLP")
    compare(said, given, "mtp-num-layers", model.prediction_layers, "the number of prediction layers")
    compare(said, given, "vocab-size", model.vocabulary, "the vocabulary")
    compare(said, given, "num-experts", None if experts is None else experts.count, "the number of experts")
    compare(
        said, given, "moe-router-topk", None if experts is None else experts.per_token, "the experts of a token"
    )
    compare(said, given, "moe-ffn-hidden-size", expert_size, "the hidden size of an expert")
    shared = None if experts is None else experts.shared_hidden
    compare(said, given, "moe-shared-expert-intermediate-size", shared, "the hidden size of shared experts")
    if attention is not None:
        compare(said, given, "num-attention-heads", attention.heads, "the number of heads")
        grouped = given.flag("group-query-attention")
        if grouped and not attention.latent:
            compare(said, given, "num-query-groups", attention.key_value_heads, "the number of key-value heads")
        compare(said, given, "q-lora-rank", attention.query_rank, "the rank of queries")
        compare(said, given, "kv-lora-rank", attention.key_value_rank, "the rank of keys and values")
        compare(said, given, "qk-head-dim", attention.head_size, "the size of a head")
        compare(said, given, "qk-pos-emb-head-dim", attention.rope_size, "the size of positions in a head")
        compare(said, given, "v-head-dim", attention.values, "the size of a head's values")
        if described and given.flag("multi-latent-attention") != attention.latent:
            said.tell("Latent attention is on one side alone: in the flags or in the problem's model.")
    gated = (model.mlp or experts).gated  # type: ignore[union-attr]  # one of them is there
    if given.flag("swiglu") != gated and described:
        said.tell(f"The model's MLP is {'' if gated else 'not '}gated, and the flags say otherwise (--swiglu).")
    if given.flag("untie-embeddings-and-output-weights") == model.tied and described:
        said.tell(
            "Embedding and head share their weight on one side alone: in the flags or in the problem's model."
        )
    for name in ("normalization", "disable-bias-linear", "num-query-groups"):
        given.words(name)


def _without_words(said: Said, given: Given) -> None:
    held = [name for name in WITH_MEMORY if given.words(name) is not None]
    if held:
        said.tell(f"What {given.named(held)} change in memory is not part of the model here.")
    timed = [name for name in WITHOUT_WORDS if given.words(name) is not None]
    if timed:
        said.tell(f"What {given.named(timed)} change is part of the efficiencies here, not of a configuration.")
