"""The frameworks themselves read the exported configurations where they are installed, which takes no GPU.

Megatron's flags are defined in megatron/training/arguments.py (NVIDIA/Megatron-LM, commit 000c4ac2), which its package
leaves out: the same names and types stand here, and its package reads the layout and the configuration that follow.
"""

from __future__ import annotations

import argparse
import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from problems.exported_trainings import CASES, Case

from pipeplan.models.export.registry import export

pytestmark = pytest.mark.torch


def said_by(to: str) -> list[Case]:
    return [case for case in CASES if to not in dict(case.refused)]


# ---- Megatron ------------------------------------------------------------------------------------------

WHOLE = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"),
    *("expert-model-parallel-size", "expert-tensor-parallel-size", "num-layers", "mtp-num-layers"),
    *("num-virtual-stages-per-pipeline-rank", "micro-batch-size", "global-batch-size", "seq-length"),
    "recompute-num-layers",
)
SWITCHES = (
    *("sequence-parallel", "use-distributed-optimizer", "bf16", "fp16", "moe-grouped-gemm"),
    *("cross-entropy-loss-fusion", "overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap"),
)
CHOICES = {
    "recompute-granularity": ["full", "selective"],
    "recompute-method": ["uniform", "block"],
    "fp8-format": ["e4m3", "hybrid"],
    "fp8-recipe": ["tensorwise", "delayed", "mxfp8", "blockwise", "custom"],
    "moe-token-dispatcher-type": ["allgather", "alltoall", "flex"],
    "attention-backend": ["flash", "fused", "unfused", "local", "auto"],
}


SAME = """tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size sequence_parallel mtp_num_layers
recompute_granularity recompute_method recompute_num_layers recompute_modules"""
"""Flags that the configuration has under the same names."""


def documented() -> argparse.ArgumentParser:
    """Flags that an export may hold, as they are documented."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name in WHOLE:
        parser.add_argument(f"--{name}", type=int)
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true")
    for name, known in CHOICES.items():
        parser.add_argument(f"--{name}", choices=known)
    for name in ("attention-dropout", "hidden-dropout"):
        parser.add_argument(f"--{name}", type=float, default=0.1)
    parser.add_argument("--pipeline-model-parallel-layout", type=str)
    parser.add_argument("--recompute-modules", nargs="*", type=str)
    return parser


@pytest.mark.parametrize("case", said_by("megatron"), ids=lambda case: case.name)
def test_megatron_knows_every_flag(case: Case) -> None:
    text = export(case.plan, case.problem(), to="megatron")
    read, unknown = documented().parse_known_args(shlex.split(text))
    assert unknown == []
    d = case.plan.degrees
    assert (read.tensor_model_parallel_size, read.pipeline_model_parallel_size) == (d.tensor, d.pipeline)
    # arguments.py: no more than one of layout and number of virtual stages
    assert None in (read.pipeline_model_parallel_layout, read.num_virtual_stages_per_pipeline_rank)


@pytest.mark.parametrize("case", said_by("megatron"), ids=lambda case: case.name)
def test_megatron_core_accepts_the_configuration(case: Case) -> None:
    """Its configuration checks recomputation and layout, and counts the layers of every chunk."""
    pytest.importorskip("megatron.core")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

    read = documented().parse_args(shlex.split(export(case.plan, case.problem(), to="megatron")))
    d, model = case.plan.degrees, case.problem().model
    assert model.attention is not None
    facts: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.attention.heads,
        "pipeline_dtype": pytest.importorskip("torch").bfloat16,
        **{name: getattr(read, name) for name in SAME.split()},
    }
    if d.virtual > 1:
        facts["virtual_pipeline_model_parallel_size"] = d.virtual
    if read.pipeline_model_parallel_layout is not None:
        layout = PipelineParallelLayerLayout(read.pipeline_model_parallel_layout, d.pipeline)
        layout.validate_layer_layout(model.layers, model.prediction_layers)
        chunks = [layout.layout[chunk % d.pipeline][chunk // d.pipeline] for chunk in range(d.chunks)]
        assert tuple(map(len, chunks)) == case.plan.layout
        facts["pipeline_model_parallel_layout"] = read.pipeline_model_parallel_layout
    if model.experts is not None:
        facts |= {
            "num_moe_experts": model.experts.count,
            "moe_grouped_gemm": read.moe_grouped_gemm,
            "expert_model_parallel_size": read.expert_model_parallel_size,
            "expert_tensor_parallel_size": read.expert_tensor_parallel_size,
            "add_bias_linear": False,
        }
    if model.attention.latent:
        config = MLATransformerConfig(**facts, multi_latent_attention=True)
    else:
        config = TransformerConfig(**facts)
    word = case.plan.recompute[0]
    assert config.recompute_granularity == (
        None if not word.modules else "full" if word.modules == ("full",) else "selective"
    )
    if config.recompute_granularity == "selective":
        assert tuple(config.recompute_modules) == word.modules


# ---- torchtitan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", said_by("torchtitan"), ids=lambda case: case.name)
def test_torchtitan_reads_the_file(case: Case, tmp_path: Path) -> None:
    """Versions with TOML files, 0.2 the last; an unknown key is an error of theirs."""
    config = pytest.importorskip("torchtitan.config")
    if not hasattr(config, "JobConfig"):
        pytest.skip("this version has no TOML files")
    path = tmp_path / "own.toml"
    path.write_text(export(case.plan, case.problem(), to="torchtitan"), "utf-8")
    own = config.ConfigManager().parse_args([f"--job.config_file={path}"]).parallelism
    d = case.plan.degrees
    assert (own.tensor_parallel_degree, own.context_parallel_degree) == (d.tensor, d.context)
    assert own.data_parallel_replicate_degree * own.data_parallel_shard_degree == d.data
    from torchtitan.distributed.parallel_dims import ParallelDims

    ParallelDims(
        dp_replicate=own.data_parallel_replicate_degree, dp_shard=own.data_parallel_shard_degree,
        cp=own.context_parallel_degree, tp=own.tensor_parallel_degree, pp=own.pipeline_parallel_degree,
        ep=own.expert_parallel_degree, etp=own.expert_tensor_parallel_degree, world_size=case.problem().devices,
    )  # fmt: skip
    if d.pipeline > 1:
        from torch.distributed.pipelining.schedules import get_schedule_class

        assert get_schedule_class(own.pipeline_parallel_schedule) is not None
        parts = [[name for name in part if name != "norm"] for part in own.module_fqns_per_model_part]
        assert tuple(map(len, parts)) == case.plan.layout


# ---- DeepSpeed -----------------------------------------------------------------------------------------


class Ranks:
    """Stands for a program's groups of ranks, of which its configuration asks one size."""

    def __init__(self, data: int) -> None:
        self.data = data

    def get_data_parallel_world_size(self) -> int:
        return self.data


@pytest.mark.parametrize("case", said_by("deepspeed"), ids=lambda case: case.name)
def test_deepspeed_reads_the_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks that batch, micro-batch and steps go together on so many ranks."""
    theirs = pytest.importorskip("deepspeed.runtime.config")
    monkeypatch.setattr(theirs.dist, "get_rank", lambda: 0)
    d = case.plan.degrees
    data = json.loads(export(case.plan, case.problem(), to="deepspeed"))
    config = theirs.DeepSpeedConfig(data, mpu=Ranks(d.data))
    assert config.train_micro_batch_size_per_gpu == case.plan.micro_batch
    assert config.gradient_accumulation_steps == case.plan.micro_batches(case.batch)
    assert config.zero_optimization_stage == case.plan.zero
    assert max(config.tensor_parallel_config.autotp_size, 1) == d.tensor
    if d.pipeline > 1:
        assert config.pipeline["stages"] == d.pipeline


@pytest.mark.parametrize("case", said_by("deepspeed"), ids=lambda case: case.name)
def test_deepspeed_divides_layers_as_planned(case: Case) -> None:
    pytest.importorskip("deepspeed")
    from deepspeed.runtime.utils import partition_uniform

    parts = partition_uniform(len(case.problem().model.units), case.plan.degrees.pipeline)
    assert tuple(end - start for start, end in pairwise(parts)) == case.plan.layout
