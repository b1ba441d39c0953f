"""Options of a command line: what each says, and what those change that are not modelled here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..base.errors import InputError, nearest, show
from ..base.quantities import whole_number
from .plan import LARGEST
from .problem import TrainingProblem

# ---- what options change ------------------------------------------------------------------------------
#
# Options that decide something are asked for by the readers in `flags` and `flags_megatron`. All others are looked up
# here: a framework's effects by whole names, then its harmless ones by beginnings. What is in neither is not
# understood, and is named. Megatron's are those of megatron/training/arguments.py from 2024 to 2026.


Changes = Literal["memory", "time", "memory and time", "model"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What an option changes that is not modelled."""

    changes: Changes
    what: str
    """In words, for the user."""
    usual: tuple[str, ...] = ()
    """Values with which the option changes nothing."""


def _effects(**sorts: Mapping[str, str]) -> dict[str, Effect]:
    """Effects by option, from what is changed and by which options; behind `=` are values with which an option changes
    nothing. The argument says what it is that changes: `memory_and_time` for both."""
    effects = {}
    for sort, entries in sorts.items():
        for what, options in entries.items():
            for option in options.split():
                name, *usual = option.replace("=", "|").split("|")
                effects[name] = Effect(_SORTS[sort], what, tuple(usual))
    return effects


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SORTS: Mapping[str, Changes] = {
    "memory": "memory",
    "time": "time",
    "memory_and_time": "memory and time",
    "model": "model",
}


MEGATRON_EFFECTS = _effects(
    memory={
        "the optimizer's states": "optimizer=adam",
        "bytes of the optimizer's states": "use-precision-aware-optimizer",
        "bytes of Adam's moments": "exp-avg-dtype=fp32 exp-avg-sq-dtype=fp32",
        "bytes of the master weights": (
            "main-params-dtype=fp32 store-param-remainders megatron-fsdp-main-params-dtype"
        ),
        "bytes of gradients": "main-grads-dtype=fp32 megatron-fsdp-main-grads-dtype",
        "ranks that share an optimizer": "num-distributed-optimizer-instances=1",
        "saved inputs of layers": "distribute-saved-activations",
        "recomputation of experts": "moe-layer-recompute",
        "tokens of an expert": "moe-expert-capacity-factor moe-pad-expert-input-to-capacity",
        "saved inputs of experts": "moe-apply-probs-on-input",
        "dense weights at the beginning": "moe-use-upcycling",
        "inputs of the head, kept for later": "defer-embedding-wgrad-compute wgrad-deferral-limit=0",
        "copies of weights in fp8": (
            "keep-fp8-weight-transpose-cache keep-fp8-transpose-cache "
            "keep-fp8-transpose-cache-when-using-custom-fsdp"
        ),
        "a buffer for weights in fp8": "reuse-grad-buf-for-mxfp8-param-ag",
        "bytes of the logits": "fp16-lm-cross-entropy output-logit-dtype",
        "buffers of gathered weights": (
            "fsdp-double-buffer fsdp-db-use-persist-buf-on-alloc-fail megatron-fsdp-max-pool-double-buffer"
        ),
        "activations of attention": "ep-overlap-early-attn-memory-release",
        "lengths of sequences": "decoder-seq-length",
        "weights that are not initialized": "no-initialization",
    },
    memory_and_time={
        "gradients of 2 bytes, in memory and on links": "grad-reduce-in-bf16",
        "gradients in buffers of their own": "no-gradient-accumulation-fusion",
        "activations of 4 bytes between layers": "fp32-residual-connection",
        "what lies in the host's memory": (
            "cpu-offloading cpu-offloading-num-layers=0 cpu-offloading-activations cpu-offloading-weights "
            "optimizer-cpu-offload optimizer-offload-fraction=0|0.0 fine-grained-activation-offloading "
            "offload-modules min-offloaded-tensor-size"
        ),
        "fully sharded weights": (
            "use-torch-fsdp2 torch-fsdp2-no-reshard-after-forward outer-dp-sharding-strategy=no_shard "
            "enable-full-sharding-in-hsdp megatron-fsdp-version megatron-fsdp-grad-comm-dtype "
            "megatron-fsdp-enable-fine-grained-param-gather"
        ),
        "registered buffers": "fsdp-manual-registration nccl-ub use-nccl-ub disable-symmetric-registration",
        "the recipe of fp8": "fp8-recipe=delayed|tensorwise",
        "weights in fp8": "fp8-param-gather",
        "products and activations in fp4": "fp4-format fp4-recipe",
        "weights in fp4": "fp4-param fp4-param-gather",
        "layers that stay in 16 bits": (
            "first-last-layers-bf16 num-layers-at-start-in-bf16=0 num-layers-at-end-in-bf16=0"
        ),
        "formats of numbers": (
            "kitchen-config-file kitchen-recipe-number te-precision-config-file fp8-quantizer-factory "
            "fp4-quantizer-factory"
        ),
        "kernels that are not fused": (
            "transformer-impl=transformer_engine no-masked-softmax-fusion no-bias-gelu-fusion "
            "no-bias-swiglu-fusion no-bias-dropout-fusion no-persist-layer-norm no-rope-fusion disable-jit-fuser"
        ),
        "bytes of attention's scores, where they are kept": "attention-softmax-in-fp32",
        "a fused activation function": "use-fused-weighted-squared-relu",
        "the kernel of the activation function": "use-te-activation-func",
        "a fused norm": "fused-residual-rmsnorm",
        "CUDA graphs and their buffers": (
            "enable-cuda-graph external-cuda-graph cuda-graph-impl=none cuda-graph-scope cuda-graph-modules "
            "optimizer-cuda-graph"
        ),
        "when gradients of weights are computed": "delay-wgrad-compute",
        "hiding of expert parallelism": "overlap-moe-expert-parallel-comm",
        "tokens of an expert": (
            "moe-router-padding-for-fp8 moe-router-padding-for-quantization moe-token-drop-policy=probs "
            "moe-token-dropping"
        ),
        "how experts are divided": "moe-extended-tp",
        "balance of the experts": "moe-router-load-balancing-type=aux_loss|seq_aux_loss|global_aux_loss",
        "batches at the beginning": "rampup-batch-size step-batch-size-schedule",
        "lengths of sequences": "variable-seq-lengths max-seqlen-per-dp-cp-rank hybrid-context-parallel",
        "collectives of context parallelism": "hierarchical-context-parallel-sizes",
        "degrees of an encoder": "encoder-tensor-model-parallel-size",
        "stages of an encoder": "encoder-pipeline-model-parallel-size=0 pipeline-model-parallel-split-rank",
        "a stage of the embedding alone": "standalone-embedding-stage",
        "another sort of training": "lora-rank freeze-all-layers sft perform-rl-step",
        "recomputation, in a flag of earlier versions": "checkpoint-activations",
        "the micro-batch, in a flag of earlier versions": "batch-size",
        "the tensor degree, in a flag of earlier versions": "model-parallel-size",
    },
    time={
        "hiding of tensor parallelism; --efficiency tensor_hidden=SHARE stands for it": "tp-comm-overlap",
        "hiding of tensor parallelism": (
            "tp-comm-overlap-cfg tp-comm-overlap-rs-dgrad disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad "
            "disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-split-ag "
            "disable-tp-comm-split-rs no-async-tensor-model-parallel-allreduce"
        ),
        "hiding of what stages send": "no-overlap-p2p-communication overlap-p2p-communication-warmup-flush",
        "what stages send": (
            "no-scatter-gather-tensors-in-pipeline use-ring-exchange-p2p batch-p2p-communication "
            "pipeline-model-parallel-comm-backend=nccl"
        ),
        "hiding of gathers of weights": (
            "overlap-param-gather-with-optimizer-step delay-param-gather align-param-gather no-align-param-gather"
        ),
        "what lies in the host's memory": (
            "overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload no-pin-cpu-grads no-pin-cpu-params"
        ),
        "hiding of sums of gradients": (
            "delay-grad-reduce no-delay-grad-reduce align-grad-reduce no-align-grad-reduce"
        ),
        "buckets of gradients": (
            "ddp-bucket-size ddp-num-buckets ddp-pad-buckets-for-high-nccl-busbw ddp-average-in-collective"
        ),
        "sums of gradients": (
            "ddp-reduce-scatter-with-fp32-accumulation ddp-param-name-patterns-for-fp32-local-accumulation"
        ),
        "collectives of context parallelism": "cp-comm-type=p2p",
        "which ranks talk over which links": "use-tp-pp-dp-mapping",
        "sums in the network": "use-sharp sharp-enabled-group",
        "groups of collectives": "create-all-gather-group",
        "priorities of collectives": "high-priority-stream-groups",
        "settings of collectives": "nccl-communicator-config-path",
        "collectives": "distributed-backend=nccl",
        "how tokens are sent to experts": (
            "moe-token-dispatcher-type=alltoall moe-flex-dispatcher-backend moe-enable-deepep moe-deepep-num-sms "
            "moe-hybridep-num-sms moe-router-topk-limited-devices moe-router-group-topk"
        ),
        "a fused permutation of tokens": "moe-permute-fusion",
        "products of experts": "moe-use-legacy-grouped-gemm",
        "hiding of expert parallelism": "moe-shared-expert-overlap",
        "the router's number format": "moe-router-dtype",
        "a fused router": "moe-router-fusion",
        "fused products of latent attention": "mla-down-proj-fusion",
        "the kernel of the loss": "cross-entropy-fusion-impl",
        "the recipe of fp8": (
            "fp8-margin fp8-interval fp8-amax-history-len fp8-amax-compute-algo fp8-wgrad no-fp8-wgrad"
        ),
        "products of matrices": "disable-bf16-reduced-precision-matmul",
        "deterministic kernels": "deterministic-mode batch-invariant-mode",
        "waiting for the GPU": "train-sync-interval",
        "emptying of the allocator's cache": "empty-unused-memory-level=0",
        "batches at the beginning": "decrease-batch-size-if-needed",
        "which layers have a window": "window-attn-skip-freq",
        "the kernel of attention": "kitchen-attention-backend use-kitchen-attention",
    },
    model={
        "experts in a smaller space": "moe-latent-size",
        "the activation function": "openai-gelu quick-geglu squared-relu onnx-safe",
        "norms of queries and keys": "qk-l2-norm",
        "a limit of attention's scores": "qk-clip",
        "a gate behind attention": "attention-output-gate",
        "the place of norms": "apply-residual-connection-post-layernorm",
        "layers without positions": "no-rope-freq",
        "another attention": "experimental-attention-variant",
        "layers of another sort": (
            "linear-attention-freq linear-attention-type heterogeneous-layers-config-path "
            "heterogeneous-layers-config-encoded-json is-hybrid-model hybrid-attention-ratio hybrid-mlp-ratio "
            "hybrid-override-pattern hybrid-layer-pattern retro-project-dir retro-add-retriever mamba-state-dim "
            "mamba-head-dim mamba-num-groups mamba-num-heads dsa-indexer-n-heads dsa-indexer-head-dim "
            "dsa-indexer-topk linear-conv-kernel-dim linear-key-head-dim linear-value-head-dim "
            "linear-num-key-heads linear-num-value-heads"
        ),
        "layers of an encoder": "encoder-num-layers=0",
        "layers of a decoder": "decoder-num-layers",
        "options in a file that is not read": "yaml-cfg",
        "options of a checkpoint that is not read": "use-checkpoint-args use-mp-args-from-checkpoint-args",
    },
)


# Beginnings of the names of options that change neither memory nor time of an iteration nor the model: data, logs,
# checkpoints, learning rates, inference. Each stands for itself and what follows it behind a dash or dot.
MEGATRON_HARMLESS = _names(
    "lr min-lr decoupled warmup weight-decay start-weight-decay end-weight-decay adam sgd-momentum muon lion "
    "clip-grad loss-scale initial-loss-scale min-loss-scale hysteresis override-opt use-checkpoint-opt "
    "head-lr-mult apply-wd-to-qk-layernorm no-weight-decay-cond train-iters train-samples train-data-path "
    "valid-data-path test-data-path eval skip-train full-validation multiple-validation-sets exit "
    "phase-transition-iterations iterations-to-skip save load finetune no-load no-save ckpt dist-ckpt "
    "use-dist-ckpt auto-detect-ckpt no-ckpt async-save use-persistent-ckpt pretrained non-persistent "
    "override-ckpt-iteration distrib-optim no-strict-fsdp-dtensor-load replication no-use-tokenizer "
    "refit-method log no-log logging-level timing no-barrier-with-level-1-timing tensorboard wandb one-logger "
    "no-one-logger enable-one-logger app-tag-run otel config-logger-dir dump-param profile "
    "use-pytorch-profiler record-memory memory-snapshot run-workload-inspector-server data-path data-impl "
    "data-cache-path data-args per-split per-dataset split mock-data tiktoken tokenizer vocab-file merge-file "
    "vocab-extra legacy-tokenizer trust-remote-code num-workers dataloader no-create-attention-mask no-mmap "
    "mmap-bin num-dataset reset mid-level-dataset-surplus renormalize-blend-weights object-storage "
    "s3-cache-path fim no-data eod-mask-loss allow-ambiguous-pad-tokens use-one-sent-docs sample-rate "
    "enable-msc disable-msc seed data-parallel-random-init use-same-sampling-seed te-rng-tracker init-method "
    "embedding-init use-cpu-init init-model-with-meta-device lazy-mpu-init initialize-socket "
    "distributed-timeout local-rank rank node-rank master rdzv max-restarts tee fake-process-group "
    "adlr-autoresume manual-gc no-manual-gc-eval check-for no-check-for check-weight-hash rerun "
    "result-rejected error-injection inprocess enable-gloo disable-gloo straggler disable-straggler "
    "log-straggler ft enable-ft calc-ft test-mode use-mcore-models use-legacy-models spec enable-experimental "
    "use-rotary use-rope-scaling accumulate-allreduce-grads-in-fp32 gradient-accumulation-fusion "
    "calculate-per-token-loss no-gradient-reduce-div-fusion deallocate-pipeline-outputs "
    "tp-comm-bootstrap-backend no-clone-scatter-output-in-embedding apply-query-key-layer-scaling "
    "no-query-key-layer-scaling rotary rope no-rope-scaling yarn no-yarn mrope mscale beta-fast beta-slow "
    "no-position-embedding norm-epsilon layernorm-epsilon apply-layernorm-1p mtp-loss-scaling "
    "moe-aux-loss-coeff moe-z-loss-coeff moe-input-jitter-eps moe-per-layer-logging "
    "moe-router-bias-update-rate moe-router-enable-expert-bias moe-router-force-load-balancing "
    "moe-router-num-groups moe-router-pre-softmax moe-router-score-function moe-router-topk-scaling "
    "moe-upcycling-granularity moe-grouped-gemm moe-pad-experts-for-cuda-graph moe-shared-expert-gate "
    "qk-clip-alpha qk-clip-threshold dsa-indexer-loss-coeff cuda-graph-warmup-steps inference flash-decode "
    "cache-mla-latents enable-chunked-prefill disable-chunked-prefill mlp-chunks-for-prefill "
    "decode-only-cuda-graphs use-legacy-static-engine symmetric-ar-type nccl-all-reduce-for-prefill "
    "num-speculative-tokens max-tokens-to-oom output-bert-embeddings"
)


TORCHTITAN_EFFECTS = _effects(
    memory={
        "the optimizer's states": "optimizer.name=adam|adamw|Adam|AdamW|FusedAdam",
        "bytes of the weights": "training.dtype=float32",
    },
    memory_and_time={
        "what lies in the host's memory": "training.enable-cpu-offload",
        "the number format of products": "training.mixed-precision-param=bfloat16",
        "bytes of gradients on links": "training.mixed-precision-reduce=float32",
        "fused kernels": "compile.enable parallelism.enable-compiled-autograd",
        "the head and the loss, which are not divided": "parallelism.disable-loss-parallel",
        "the order of passes": "parallelism.pipeline-parallel-schedule-csv",
    },
    time={
        "the kernel of the update": "optimizer.implementation=fused|foreach",
        "fused kernels": "compile.backend=inductor",
        "hiding of tensor parallelism": "parallelism.enable-async-tensor-parallel",
        "collectives of context parallelism": (
            "parallelism.context-parallel-rotate-method parallelism.context-parallel-load-balancer"
        ),
        "how tokens are sent to experts": "parallelism.expert-parallel-comm-backend",
        "hiding of expert parallelism": "parallelism.pipeline-parallel-expert-parallel-overlap",
        "recomputation": (
            "activation-checkpoint.early-stop activation-checkpoint.preserve-rng-state "
            "activation-checkpoint.per-op-sac-force-recompute-mm-shapes-by-fqns"
        ),
        "sums of gradients": "fault-tolerance.enable",
    },
)

TORCHTITAN_HARMLESS = _names(
    "job profiling profiler metrics optimizer lr-scheduler dataloader checkpoint comm validation debug "
    "fault-tolerance experimental memory-estimation tokenizer model training.dataset* training.steps "
    "training.max-norm training.gc-freq training.gc-debug training.dataloader training.seed "
    "training.deterministic rdzv master tee role local-ranks-filter module config compile.components"
)


DEEPSPEED_EFFECTS = {
    **MEGATRON_EFFECTS,
    **_effects(
        memory={
            "the optimizer's states": "optimizer.type=adam|adamw|Adam|AdamW|FusedAdam",
            "bytes of gradients": "data-types.grad-accum-dtype=bf16|fp16",
            "buffers of gradients": "bf16.immediate-grad-update",
            "bytes of the master weights": "fp16.fp16-master-weights-and-grads",
            "ranks that share the weights": "zero-optimization.mics-shard-size",
            "gathered weights": (
                "zero-optimization.stage3-max-live-parameters zero-optimization.stage3-max-reuse-distance "
                "zero-optimization.stage3-prefetch-bucket-size zero-optimization.stage3-param-persistence-threshold"
            ),
            "buffers of gathered weights": "zero-optimization.allgather-bucket-size",
            "buckets of gradients": "zero-optimization.reduce-bucket-size zero-optimization.contiguous-gradients",
        },
        memory_and_time={
            "what lies in the host's memory": (
                "zero-optimization.offload-optimizer.device=none zero-optimization.offload-param.device=none "
                "activation-checkpointing.cpu-checkpointing"
            ),
            "a second copy of the weights": "zero-optimization.zero-hpz-partition-size=1",
            "quantized gathers of weights": "zero-optimization.zero-quantized-weights",
            "quantized sums of gradients": "zero-optimization.zero-quantized-gradients",
            "saved inputs of layers": (
                "activation-checkpointing.partition-activations "
                "activation-checkpointing.contiguous-memory-optimization"
            ),
            "the number format of products": "torch-autocast.enabled amp.enabled",
            "compressed weights": "compression-training",
            "gradients of the embedding": "sparse-gradients",
            "lengths of sequences": "curriculum-learning.enabled",
        },
        time={
            "bytes of gradients on links": "communication-data-type",
            "sums of gradients": "prescale-gradients zero-optimization.round-robin-gradients",
            "what stages send": "pipeline.pipe-partitioned pipeline.grad-partitioned",
        },
    ),
}

DEEPSPEED_HARMLESS = MEGATRON_HARMLESS + _names(
    "deepspeed deepspeed-config deepspeed-mpi no-pipeline-parallel steps-per-print scheduler "
    "gradient-clipping gradient-predivide-factor wall-clock-breakdown dump-state flops-profiler "
    "fp16.loss-scale* fp16.initial-scale-power fp16.hysteresis fp16.min-loss-scale fp16.auto-cast "
    "fp16.consecutive-hysteresis comms-logger monitor-config csv-monitor dataloader-drop-last "
    "memory-breakdown zero-allow-untested-optimizer zero-force-ds-cpu-optimizer optimizer.params checkpoint "
    "elasticity autotuning hostfile num-gpus num-nodes include exclude launcher force-multi master-addr "
    "data-efficiency curriculum-learning train-tokens lr-decay-tokens lr-warmup-tokens universal-checkpoint "
    "use-pin-memory output-dir mlp-type topk moe-train-capacity-factor moe-eval-capacity-factor "
    "moe-min-capacity moe-loss-coeff expert-parallel.preset-model expert-parallel.enabled tensor-parallel.tp "
    "pipeline.seed-layers zero-optimization.reduce-scatter zero-optimization.allgather-partitions "
    "zero-optimization.load-from-fp32-weights zero-optimization.stage3-gather-16bit-weights-on-model-save "
    "zero-optimization.elastic-checkpoint zero-optimization.sub-group-size "
    "zero-optimization.ignore-unused-parameters zero-optimization.offload-optimizer "
    "zero-optimization.offload-param activation-checkpointing.number-checkpoints "
    "activation-checkpointing.profile activation-checkpointing.synchronize-checkpoint-boundary "
    "bf16.check-grad-overflow"
)


# ---- what flags say ------------------------------------------------------------------------------------

# The most characters of an option in a sentence.
MOST_SHOWN = 80


@dataclass
class Said:
    """What a reader of flags gives: a configuration in our words, and sentences for the user."""

    names: Mapping[str, str]
    """The framework's name for each of our keys, for messages."""
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """What known options change that is not modelled."""
    harmless: tuple[str, ...] = ()
    """Beginnings of the names of options that change neither memory nor time nor the model."""
    words: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    hidden_share: float = 1.0
    """Share that the options hide of the data-parallel communication that is usually hidden."""
    optimizer: str | None = None
    """The optimizer that the options name, as `instances/physics/optimizers.py` calls it; None: they name none."""
    why_not_hidden: str | None = None
    """What keeps the rest from being hidden: a sentence without its end."""

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)

    def hides(self, share: float, why: str) -> None:
        self.hidden_share, self.why_not_hidden = share, why

    def is_harmless(self, name: str) -> bool:
        """Does an option change nothing here? A beginning in `harmless` must end where the name does, or at a dash or
        dot; with a star it ends anywhere."""
        return any(
            name.startswith(beginning[:-1])
            if beginning.endswith("*")
            else name == beginning or name.startswith((beginning + "-", beginning + "."))
            for beginning in self.harmless
        )


# How each sort of effect begins its sentence.
_SUBJECTS: Mapping[Changes, str] = {
    "memory": "The memory is",
    "time": "The time is",
    "memory and time": "Memory and time are",
    "model": "The model is",
}


def tell_effects(said: Said, given: Given) -> None:
    """Name every option that changes what is not modelled, in one sentence for each sort of change."""
    changing: dict[Changes, list[str]] = {sort: [] for sort in _SUBJECTS}
    for name in given.left():
        effect = said.effects.get(name)
        words = () if effect is None else given.words(name) or ()
        if effect is not None and (not words or words[0] not in (*effect.usual, *NO)):
            shown = " ".join((given.shown(name), *words))
            changing[effect.changes].append(f"{shown[:MOST_SHOWN]} ({effect.what})")
    for sort, options in changing.items():
        if options:
            those = "this option" if len(options) == 1 else "these options"
            said.tell(f"{_SUBJECTS[sort]} computed as without {those}, not modelled here: {', '.join(options)}.")


def meant(given: Given, unknown: Iterable[str]) -> dict[str, str]:
    """The options that somebody may have meant by unknown ones, each as its program spells it."""
    near = {name: nearest(name, sorted(given.seen)) for name in unknown}
    return {given.shown(name): given.shown(close) for name, close in near.items() if close is not None}


def share_of_gradients(problem: TrainingProblem, zero: int) -> float:
    """The share of sums of gradients in what data-parallel ranks send: the rest gathers weights after the update."""
    states = problem.states.get(zero)
    if states is None:  # which the framework's rules refuse
        return 1.0
    gradients, weights = (kind.whole + kind.shared for kind in (states.gradients, states.weights))
    return gradients / (gradients + weights)


def compare(said: Said, given: Given, name: str, known: int | None, what: str) -> None:
    """Tell where an option says another number than the problem does."""
    value = given.amount(name, least=0)
    if value is not None and value != (known or 0):
        said.tell(f"{given.shown(name)} is {value}, and {what} of the problem is {known or 0}.")


def compare_devices(said: Said, given: Given, problem: TrainingProblem, nodes: str, each: str) -> None:
    """Tell where a launcher starts another number of processes."""
    per_node = given.amount(each)
    count = given.amount(nodes)
    if per_node is not None and per_node * (count or 1) != problem.devices:
        said.tell(
            f"The launcher starts {per_node * (count or 1)} processes, and the problem has {problem.devices} GPUs."
        )


# ---- options of a command line -------------------------------------------------------------------------

WHERE = "command line"
MOST_CHARACTERS = 1_000_000
# Ends of words that name programs, which belong to no option.
PROGRAMS = (".py", ".sh")
# What files write behind an option that is set, or is not.
YES, NO = ("true", "yes", "1"), ("false", "no", "0")


def is_path(text: str) -> bool:
    """Is the text a file, or does it look like one? Words of a configuration have "=", and flags begin with dashes."""
    looks_like_one = "=" not in text and "--" not in text and os.path.splitext(text)[1][1:].isalpha()
    return looks_like_one or os.path.isfile(text)


def words_of_options(text: str) -> dict[str, tuple[str, ...]]:
    """Each option with the words after it, as a shell divides them; the last of several counts.

    Programs are left out. Names are compared with dashes, which some programs write as underscores.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(WHERE, f"has {len(text)} characters", f"give at most {MOST_CHARACTERS}")
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", text))
    except ValueError as error:
        raise InputError(WHERE, f"cannot be read ({str(error).lower()})", "close every quote") from None
    options: dict[str, tuple[str, ...]] = {}
    name = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            key, equals, value = word[2:].partition("=")
            name = dashed(key.rstrip(":"))
            options[name] = (value,) if equals else ()
        elif name is not None and not word.endswith(PROGRAMS):
            options[name] = (*options[name], word)
    return options


def dashed(name: str) -> str:
    return name.strip().replace("_", "-")


def flattened(data: Mapping[str, Any], above: str = "") -> dict[str, tuple[str, ...]]:
    """A file's entries as options: `seq_len` of the section `training` is training.seq-len."""
    options: dict[str, tuple[str, ...]] = {}
    for key, value in data.items():
        name = above + dashed(str(key))
        if isinstance(value, Mapping):
            options |= flattened(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(entry, list) for entry in value):
            options[name] = tuple(
                ",".join(map(str, entry)) if isinstance(entry, list) else str(entry) for entry in value
            )
        elif isinstance(value, list):
            options[name] = tuple(map(str, value))
        elif value is not None:
            options[name] = (str(value).lower() if isinstance(value, bool) else str(value),)
    return options


@dataclass
class Given:
    """The options of a command line or file, which readers ask for one by one."""

    options: Mapping[str, tuple[str, ...]]
    asked: dict[str, str] = field(default_factory=dict)
    """Options that were asked for and are there, with their words."""
    prefix: str = "--"
    seen: set[str] = field(default_factory=set)
    """Options that were asked for, there or not."""

    def words(self, name: str) -> tuple[str, ...] | None:
        """All words after the option; None where it is absent."""
        self.seen.add(name)
        words = self.options.get(name)
        if words is not None:
            self.asked[name] = " ".join(words)
        return words

    def text(self, name: str) -> str | None:
        """The one word behind the option; None where the option is absent."""
        words = self.words(name)
        if words is None:
            return None
        if not words:
            raise self.wrong(name, "has no value", "give it one")
        return words[0]

    def whole(self, name: str, usual: int, least: int = 1) -> int:
        """The option's whole number; `usual` where the option is absent."""
        number = self.amount(name, least)
        return usual if number is None else number

    def amount(self, name: str, least: int = 1) -> int | None:
        """The option's whole number; None where the option is absent."""
        text = self.text(name)
        if text is None:
            return None
        digits = text.removeprefix("-")
        negative = digits != text
        number = whole_number(digits)
        if number is None:
            raise self.wrong(name, f"is {show(text)}", "give a whole number")
        value = -number if negative else number
        if not least <= value <= LARGEST * 1000:
            raise self.wrong(name, f"is {show(text)}", f"give a whole number from {least} on")
        return value

    def flag(self, name: str) -> bool:
        """Is the option set? Files write `true` after it."""
        words = self.words(name)
        if words is None:
            return False
        if not words or words[0].lower() in YES:
            return True
        if words[0].lower() in NO:
            return False
        raise self.wrong(name, f"is {show(words[0])}", "give true or false, or the option alone")

    def choice(self, name: str, known: Collection[str], usual: str) -> str:
        """The option's word, which must be a known one; `usual` where the option is absent."""
        text = self.text(name)
        if text is None:
            return usual
        if text not in known:
            close = nearest(text, known)
            raise self.wrong(
                name, f"is {show(text)}", f'write "{close}"' if close else "give " + " or ".join(known)
            )
        return text

    def wrong(self, name: str, problem: str, remedy: str) -> InputError:
        return InputError(self.shown(name), problem, remedy)

    def left(self) -> tuple[str, ...]:
        """Options that nobody asked for."""
        return tuple(name for name in self.options if name not in self.asked)

    def shown(self, name: str) -> str:
        """The option as its program spells it: files, and options with sections, have underscores."""
        return (
            f"{self.prefix}{name}" if self.prefix and "." not in name else f"{self.prefix}{name.replace('-', '_')}"
        )
