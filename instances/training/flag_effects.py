"""What frameworks' options change that is not modelled here, as data: memory, time, both, or the model.

Options that decide something are asked for by the readers (`flags_megatron` and its siblings). All others are looked up
here: a framework's effects by whole names, then its harmless ones by beginnings. What is in neither is not understood,
and is named. Megatron's are those of megatron/training/arguments.py from 2024 to 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
