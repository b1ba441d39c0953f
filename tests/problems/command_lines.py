"""Command lines and files of the frameworks' public tests, examples and recipes, as data with their source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.problem import TrainingProblem


@dataclass(frozen=True)
class Line:
    """What somebody ran, on which problem, and what it is in our words."""

    source: str
    text: str
    model: str | Model
    devices: str
    batch: int
    sequence: int
    words: str
    unknown: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """Beginnings of the sentences, in their order."""
    more: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    """A file that the text names; its path stands in place of {file}."""

    def problem(self) -> TrainingProblem:
        facts = {"framework": "megatron"} | dict(self.more)
        return problem_of(self.model, self.devices, batch=self.batch, sequence=self.sequence, **facts)


def small(layers: int, hidden: int, heads: int, mlp: int, *, key_values: int, gated: bool, norm: Any) -> Model:
    """A model that only a test or an example has."""
    attention = Attention(heads, hidden // heads, key_values)
    return Model(
        "small", hidden, layers, vocabulary=32000, attention=attention, mlp=Mlp(mlp, gated=gated), norm=norm
    )


# Options that most of Megatron's tests share; none of them says anything of a configuration.
TRAINING = """
--distributed-timeout-minutes 60 --overlap-grad-reduce --overlap-param-gather --use-mcore-models
--disable-bias-linear --train-samples 38400 --exit-duration-in-mins 230 --transformer-impl transformer_engine
--data-cache-path /data/cache --tokenizer-type Llama2Tokenizer --tokenizer-model /data/tokenizer.model
--data-path 1.0 /data/text_document --split 99,1,0 --no-mmap-bin-files --num-workers 6
--position-embedding-type rope --rotary-percent 1.0 --make-vocab-size-divisible-by 128 --clip-grad 1.0
--weight-decay 0.1 --lr-decay-samples 255126953 --lr-warmup-samples 162761 --lr 1.2e-5 --min-lr 1.2e-6
--lr-decay-style cosine --adam-beta1 0.9 --adam-beta2 0.95 --eval-iters 32 --eval-interval 500 --finetune
--auto-detect-ckpt-format --load /data/load --save /data/save --save-interval 500 --init-method-std 0.008
--log-timers-to-tensorboard --log-num-zeros-in-grad --log-throughput --log-interval 1
--tensorboard-dir /data/tensorboard --wandb-project megatron-core-release-runs
"""
MOE = """
--moe-router-load-balancing-type aux_loss --moe-router-topk 2 --moe-grouped-gemm --moe-aux-loss-coeff 1e-2
--moe-token-dispatcher-type alltoall
"""
SHARED = """
--untie-embeddings-and-output-weights --normalization RMSNorm --swiglu --group-query-attention
--attention-dropout 0.0 --hidden-dropout 0.0 --bf16 --use-flash-attn --sequence-parallel
--use-distributed-optimizer
"""
UNLIKE = "Judged as the options say, unlike the problem: "
NOT_FUSED = UNLIKE + "an unfused loss"
NOT_MODELLED = "Memory and time are computed as without "
TIMES_WITHOUT = "The time is computed as without "

LINES = (
    Line(
        "NVIDIA/Megatron-LM tests/functional_tests/test_cases/mixtral/mixtral_8x22b_tp2pp8ep8vpp1_release/"
        "model_config.yaml",
        TRAINING
        + MOE
        + SHARED
        + """
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 --expert-model-parallel-size 8
--micro-batch-size 1 --global-batch-size 256 --num-layers 56 --hidden-size 6144 --ffn-hidden-size 16384
--num-attention-heads 48 --num-query-groups 8 --num-experts 8 --seq-length 4096 --max-position-embeddings 4096
--no-rope-fusion
""",
        "mixtral-8x22b",
        "128xh100-80gb",
        256,
        4096,
        "tensor=2 pipeline=8 expert=8 expert-tensor=2 data=8",
        told=(
            "Without --expert-tensor-parallel-size experts are divided by the tensor degree",
            NOT_FUSED,
            NOT_MODELLED,
        ),
    ),
    Line(
        "NVIDIA/Megatron-LM tests/functional_tests/model_configs/mixtral/mixtral_8x7b_tp1pp4ep8vpp8_release.yaml",
        TRAINING
        + MOE
        + SHARED
        + """
--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1
--expert-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 256 --no-position-embedding
--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8
--num-experts 8 --seq-length 4096
""",
        "mixtral-8x7b",
        "64xh100-80gb",
        256,
        4096,
        "pipeline=4 virtual=8 expert=8",
        told=(NOT_FUSED,),
    ),
    Line(
        "NVIDIA/Megatron-LM tests/functional_tests/test_cases/core/models/gpt/"
        "deepseekv3_proxy_flex_tp1pp4emp16etp1cp1_release_sm/model_config.yaml",
        TRAINING
        + SHARED
        + """
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4
--pipeline-model-parallel-layout 'Et*2|(tt|)*5t|tmL' --expert-model-parallel-size 16 --context-parallel-size 1
--expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 512 --seq-length 4096 --num-layers 14
--hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --kv-channels 128 --multi-latent-attention
--mtp-num-layers 1 --mtp-loss-scaling-factor 0.1 --num-experts 64 --moe-layer-freq '([0]*3+[1]*11)'
--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8
--moe-router-group-topk 4 --moe-router-score-function sigmoid --moe-token-dispatcher-type flex
--moe-flex-dispatcher-backend hybridep --moe-grouped-gemm --moe-permute-fusion --q-lora-rank 1536
--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --rotary-scaling-factor 40
--mscale 1.0 --mscale-all-dim 1.0 --qk-layernorm --cross-entropy-loss-fusion --cross-entropy-fusion-impl native
--manual-gc --enable-experimental
""",
        "deepseek-v3",
        "64xh100-80gb",
        512,
        4096,
        "tensor=2 pipeline=4 virtual=2 expert=16 data=8 layout=3/2/2/2/2/2/1/3",
        told=("--num-experts is 64, and the number of experts of the problem is 256", TIMES_WITHOUT),
        more={"layers": 14, "dense_layers": 3},
    ),
    Line(
        "NVIDIA/Megatron-LM tests/functional_tests/test_cases/core/models/gpt/"
        "gpt3_mcore_te_tp1_pp4_vp1_uneven_pipeline/model_config.yaml",
        """
--num-layers 12 --hidden-size 512 --num-attention-heads 8 --log-params-norm --micro-batch-size 4
--global-batch-size 32 --seq-length 1024 --max-position-embeddings 1024 --train-iters 50 --timing-log-level 0
--lr-decay-iters 320000 --vocab-file /data/vocab.json --merge-file /data/merges.txt --split 949,50,1
--distributed-backend nccl --lr-warmup-fraction .01 --transformer-impl transformer_engine
--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --untie-embeddings-and-output-weights
--deterministic-mode --no-gradient-accumulation-fusion --attention-softmax-in-fp32 --use-mcore-models
--ckpt-format torch_dist --dist-ckpt-strictness log_all --bf16 --decoder-first-pipeline-num-layers 2
--decoder-last-pipeline-num-layers 2 --attention-backend unfused --log-memory-to-tensorboard --async-save
--use-persistent-ckpt-worker
""",
        small(12, 512, 8, 2048, key_values=8, gated=False, norm="layer"),
        "8xa100-80gb",
        32,
        1024,
        "pipeline=4 micro-batch=4 zero=0 layout=3/4/4/3",
        told=(
            "Without --use-distributed-optimizer",
            "Biases of queries, keys and values (--add-qkv-bias, or no --disable-bias-linear) are on one side alone",
            UNLIKE + "the matrix of attention, which is kept",
            TIMES_WITHOUT,
            NOT_MODELLED,
        ),
    ),
    Line(
        "NVIDIA/Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh",
        "torchrun --nproc_per_node 8 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 6000 "
        "examples/classes/pretrain_gpt.py \\\n"
        + """\
--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 --rotary-base 1000000
--attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --attention-backend fused --apply-layernorm-1p
--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 --global-batch-size 128
--decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5 --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion
--calculate-per-token-loss --manual-gc --empty-unused-memory-level 1 --fp8-format hybrid
--fp8-amax-history-len 1024 --fp8-amax-compute-algo max --fp8-param-gather --tensor-model-parallel-size 1
--context-parallel-size 1 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --mock-data
--tokenizer-type NullTokenizer --vocab-size 128256 --tiktoken-pattern v2
--no-create-attention-mask-in-dataloader --profile-step-start 4 --profile-step-end 6
""",
        "llama-3-8b",
        "8xh100-80gb",
        128,
        8192,
        "data=8",
        told=(
            UNLIKE + "the optimizer adam-mixed:gradients=bf16 (--grad-reduce-in-bf16)",
            TIMES_WITHOUT,
            NOT_MODELLED,
        ),
        more={"precision": "fp8"},
    ),
    Line(
        "NVIDIA/Megatron-LM examples/gpt3/train_gpt3_175b_distributed.sh",
        "torchrun --nproc_per_node 8 --nnodes 1 examples/classes/pretrain_gpt.py "
        + """
--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
--attention-backend auto --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375
--train-iters 500000 --init-method-std 0.006 --fp16 --lr-warmup-fraction .001 --tensor-model-parallel-size 8
--pipeline-model-parallel-size 16 --vocab-file /data/gpt2-vocab.json --merge-file /data/gpt2-merges.txt
--eval-iters 10
""",
        "gpt-3-175b",
        "128xa100-80gb",
        1536,
        2048,
        "tensor=8 pipeline=16 zero=0",
        told=(
            "Without --use-distributed-optimizer",
            "The launcher starts 8 processes, and the problem has 128 GPUs.",
            UNLIKE + "fp16 (--fp16), no sequence parallelism (no --sequence-parallel), dropout",
            NOT_MODELLED,
        ),
    ),
    Line(
        "pytorch/torchtitan torchtitan/models/llama3/train_configs/llama3_70b.toml",
        "{file}",
        "llama-3-70b",
        "64xa100-80gb",
        64,
        8192,
        "tensor=8 micro-batch=8 zero=3 recompute=full",
        more={"framework": "torchtitan"},
        file="""
[job]
dump_folder = "./outputs"
description = "Llama 3 70B training"
[profiling]
enable_profiling = true
[metrics]
log_freq = 10
enable_tensorboard = true
[model]
name = "llama3"
flavor = "70B"
hf_assets_path = "./assets/hf/Llama-3.1-70B"
[optimizer]
name = "AdamW"
lr = 1.5e-4
[lr_scheduler]
warmup_steps = 200
[training]
local_batch_size = 8
seq_len = 8192
max_norm = 1.0
steps = 1000
dataset = "c4"
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
pipeline_parallel_degree = 1
context_parallel_degree = 1
[checkpoint]
enable_checkpoint = false
interval = 500
[activation_checkpoint]
mode = "full"
[compile]
enable = false
components = ["model", "loss"]
[float8]
enable_fsdp_float8_all_gather = false
filter_fqns = ["output"]
[validation]
enabled = false
""",
    ),
    Line(
        "pytorch/torchtitan torchtitan/models/llama3/train_configs/llama3_405b.toml",
        "--job.config_file {file} --training.local_batch_size 2",
        "llama-3-405b",
        "128xh100-80gb",
        32,
        8192,
        "tensor=8 micro-batch=2 zero=3 recompute=full",
        unknown=("--training.batch_size", "--training.compile"),
        told=(f"{TIMES_WITHOUT}this option, not modelled here: --parallelism.enable_async_tensor_parallel true",),
        more={"framework": "torchtitan", "precision": "fp8"},
        file="""
[model]
name = "llama3"
flavor = "405B"
converters = "float8"
[training]
batch_size = 2
seq_len = 8192
compile = true
dataset = "c4"
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
pipeline_parallel_degree = 1
[activation_checkpoint]
mode = 'full'
[float8]
enable_fsdp_float8_all_gather = true
""",
    ),
    Line(
        "pytorch/torchtitan tests/integration_tests/features.py: PP+DP 1F1B 2D test, and CPU offload",
        "--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_schedule 1F1B "
        "--parallelism.pipeline_parallel_layers_per_stage 4 --parallelism.data_parallel_shard_degree 2 "
        "--training.local_batch_size=8 --activation_checkpoint.mode='full' --training.enable_cpu_offload",
        small(6, 256, 16, 768, key_values=16, gated=True, norm="rms"),
        "4xa100-80gb",
        16,
        2048,
        "pipeline=2 data=2 zero=2 layout=4/4 recompute=full",
        told=(f"{NOT_MODELLED}this option, not modelled here: --training.enable_cpu_offload",),
        more={"framework": "torchtitan"},
    ),
    Line(
        "microsoft/Megatron-DeepSpeed examples_deepspeed/pretrain_llama2_distributed.sh",
        "torchrun --nproc_per_node 8 --nnodes 1 --node_rank 0 pretrain_gpt.py "
        + """
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 24 --hidden-size 2048
--ffn-hidden-size 5504 --num-attention-heads 16 --micro-batch-size 4 --global-batch-size 32 --seq-length 2048
--train-iters 250000 --data-path 1 ./tmp/data/bookcorpus --data-impl mmap
--tokenizer-type GPTSentencePieceTokenizer --lr 3e-4 --optimizer adam --bf16 --no-query-key-layer-scaling
--use-rotary-position-embeddings --untie-embeddings-and-output-weights --swiglu --normalization rmsnorm
--disable-bias-linear --num-key-value-heads 4 --zero-stage 0 --deepspeed_config {file} --deepspeed
""",
        small(24, 2048, 16, 5504, key_values=4, gated=True, norm="rms"),
        "8xa100-80gb",
        32,
        2048,
        "tensor=2 pipeline=2 micro-batch=4 zero=0 layout=13/13",
        told=("Layers are divided by their parameters, and here evenly",),
        more={"framework": "deepspeed", "sequence_parallel": False},
        file="""{
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 4,
  "steps_per_print": 1,
  "zero_optimization": {"stage": 0},
  "bf16": {"enabled": true}
}""",
    ),
    Line(
        "microsoft/Megatron-DeepSpeed examples_deepspeed/rebase/ds_config_gbs256_mbs32_log1_zero1.json",
        """{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 32, "steps_per_print": 1,
 "zero_optimization": {"stage": 1}, "gradient_clipping": 1.0, "prescale_gradients": false,
 "fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1,
 "initial_scale_power": 11}, "wall_clock_breakdown": false}""",
        "llama-3-8b",
        "8xa100-80gb",
        256,
        2048,
        "micro-batch=32 zero=1",
        told=(UNLIKE + "fp16 (fp16.enabled)",),
        more={"framework": "deepspeed"},
    ),
)
