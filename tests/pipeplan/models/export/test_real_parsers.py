"""The programs themselves read the texts: torch's loader of schedules and its splitter, accelerate, DeepSpeed.

Training configurations are read by frameworks that are installed, which takes no GPU. Megatron's flags are defined in
megatron/training/arguments.py (NVIDIA/Megatron-LM, commit 000c4ac2), which its package leaves out: the same names and
types stand here, and its package reads the layout and the configuration that follow.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from export_samples import cut, llama, on_stages, placed, row, staged
from problems.exported_plans import PLANS, outcome
from problems.exported_trainings import CASES, Case

import pipeplan
from pipeplan.models.export.contract import Exported, export, export_files

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
import exported_stages  # noqa: E402
from exported_stages import Model, loaded  # noqa: E402


@pytest.mark.parametrize("name", PLANS)
def test_torch_reads_the_schedules_of_plans_of_all_kinds(tmp_path: Path, name: str) -> None:
    found = outcome(name, "torch")
    if isinstance(found, Exported) and "schedule.csv" in found.files and name != "a schedule":
        path, text = tmp_path / "schedule.csv", found.files["schedule.csv"]
        path.write_text(text, "utf-8")
        stages = len(json.loads(found.text)["stages"])
        runtime = loaded(path, stages, len(text.splitlines()), 4)
        assert set(runtime.stage_index_to_group_rank) == set(range(stages))


def test_accelerate_finds_every_module_and_parameter() -> None:
    modeling = pytest.importorskip("accelerate.utils.modeling")
    profile, model = llama(4), Model(4)
    plan = placed([("model.embed_tokens", "lm_head"), profile.ids[1:4], profile.ids[4:-1]], cpus=[2])
    told = json.loads(export(plan, profile, to="accelerate"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns of keys that are no modules
        modeling.check_device_map(model, told)
    del told["model.norm"]
    with pytest.raises(ValueError, match="norm"):
        modeling.check_device_map(model, told)


@pytest.mark.parametrize("cut_at", [3, 5])
def test_a_model_of_hugging_face_is_split_by_its_own_names(tmp_path: Path, cut_at: int) -> None:
    """From its configuration to accelerate's check and to torch's splitter."""
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip("accelerate.utils.modeling")
    from torch.distributed.pipelining import SplitPoint, pipeline

    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=50, use_cache=False, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()), "utf-8")
    profile = pipeplan.import_hf(path, batch=1, sequence=8, dtype="float32", hardware="h100-80gb")
    plan = staged([profile.ids[:cut_at], profile.ids[cut_at:]])
    model = transformers.LlamaForCausalLM(config).eval()
    modeling.check_device_map(model, json.loads(export(plan, profile, to="accelerate")))
    told = json.loads(export(plan, profile, to="torch"))
    assert set(told["split_spec"]) == {profile.ids[cut_at]}
    tokens = torch.arange(8).reshape(1, 8)
    split = {name: SplitPoint[where] for name, where in told["split_spec"].items()}
    pipe = pipeline(model, mb_args=(), mb_kwargs={"input_ids": tokens, "use_cache": False}, split_spec=split)
    held = {name for name, _ in pipe.get_stage_module(1).named_parameters()}
    assert held == {
        n for n, _ in model.named_parameters() if n.startswith(tuple(m + "." for m in told["stages"][1]))
    }


def test_deepspeed_builds_the_layers_of_each_stage() -> None:
    """The real class, without the process group that its constructor asks for."""
    topology = pytest.importorskip("deepspeed.runtime.pipe.topology")
    names = ["embed", *(f"layers.{i}" for i in range(4)), "head"]
    text = export(staged(cut(names, (3, 1, 2))), row(names), to="deepspeed")
    space: dict[str, Any] = {}
    exec(text, space)
    layers = [torch.nn.Linear(2, 2) for _ in names]
    for rank, expected in enumerate(([0, 1, 2], [3], [4, 5])):
        module = space["PlannedPipelineModule"].__new__(space["PlannedPipelineModule"])
        torch.nn.Module.__init__(module)
        module.num_stages, module.global_rank, module.seed_layers = 3, rank, False
        module._layer_specs, module._topo = layers, topology.PipeDataParallelTopology(num_pp=3, num_dp=1)
        module.forward_funcs, module.fwd_map = [], {}
        module.tied_modules, module.tied_weight_attrs = torch.nn.ModuleDict(), {}
        module._partition_layers(method="parameters")
        module._build()
        assert module.parts == [0, 3, 4, 6]
        assert module.forward_funcs == [layers[i] for i in expected]
    module._layer_specs = layers[:-1]
    with pytest.raises(ValueError, match="3 stages and 6 layers"):
        module._partition_layers()


MODEL = """
import sys
sys.path.insert(0, {tests!r})
import torch
from exported_stages import Model, loss_of

class Inside(torch.nn.Module):
    def __init__(self):
        super().__init__()
        inner = Model(4)
        self.model, self.lm_head = inner.model, inner.lm_head

    def forward(self, tokens, labels=None):
        output = Model.forward(self, tokens)
        return output if labels is None else loss_of(output, labels)

def inside():
    tokens = torch.arange(8).reshape(2, 4) % 7
    return Inside(), (tokens,), {{"labels": tokens.clone()}}

def outside():
    return Inside(), (torch.arange(8).reshape(2, 4) % 7,), {{}}

def loss(output, tokens):
    return loss_of(output, tokens)
"""


@pytest.mark.slow("functions1")
@pytest.mark.parametrize("functions", [("inside",), ("outside", "loss")])
def test_the_script_trains_with_the_loss_inside_or_outside(tmp_path: Path, functions: tuple[str, ...]) -> None:
    """Two ranks, told by nothing but the export: the losses are those of one process."""
    profile = llama(4)
    plan = staged(on_stages(profile, (2, 2)))
    for name, text in export_files(plan, profile, to="torch", micro_batches=4).files.items():
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "my.py").write_text(MODEL.format(tests=str(Path(exported_stages.__file__).parent)), "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "train.py"]
    words = [f"my.py:{name}" for name in functions]
    done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    told = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("step ")]
    torch.manual_seed(0)
    model, tokens = Model(4), torch.arange(8).reshape(2, 4) % 7
    optimizer, wanted = torch.optim.AdamW(model.parameters()), []
    for _ in told:
        loss = exported_stages.loss_of(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        wanted.append(float(loss.detach()))
    assert len(told) == 3
    assert told == pytest.approx(wanted, rel=1e-4)


# ---- training configurations ---------------------------------------------------------------------------


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
def test_megatron_core_accepts_the_configuration(case: Case) -> None:
    """It knows every flag; its configuration checks recomputation and layout, and counts the layers of every chunk."""
    read, unknown = documented().parse_known_args(shlex.split(export(case.plan, case.problem(), to="megatron")))
    d, model = case.plan.degrees, case.problem().model
    assert unknown == []
    assert (read.tensor_model_parallel_size, read.pipeline_model_parallel_size) == (d.tensor, d.pipeline)
    # arguments.py: no more than one of layout and number of virtual stages
    assert None in (read.pipeline_model_parallel_layout, read.num_virtual_stages_per_pipeline_rank)
    pytest.importorskip("megatron.core")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

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


@pytest.mark.parametrize("case", said_by("deepspeed"), ids=lambda case: case.name)
def test_deepspeed_reads_the_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks that batch, micro-batch and steps go together on so many ranks."""
    theirs = pytest.importorskip("deepspeed.runtime.config")
    monkeypatch.setattr(theirs.dist, "get_rank", lambda: 0)
    d = case.plan.degrees
    data = json.loads(export(case.plan, case.problem(), to="deepspeed"))
    config = theirs.DeepSpeedConfig(data, mpu=SimpleNamespace(get_data_parallel_world_size=lambda: d.data))
    assert config.train_micro_batch_size_per_gpu == case.plan.micro_batch
    assert config.gradient_accumulation_steps == case.plan.micro_batches(case.batch)
    assert config.zero_optimization_stage == case.plan.zero
    assert max(config.tensor_parallel_config.autotp_size, 1) == d.tensor
    if d.pipeline > 1:
        assert config.pipeline["stages"] == d.pipeline
    from deepspeed.runtime.utils import partition_uniform

    parts = partition_uniform(len(case.problem().model.units), d.pipeline)
    assert tuple(end - start for start, end in pairwise(parts)) == case.plan.layout
