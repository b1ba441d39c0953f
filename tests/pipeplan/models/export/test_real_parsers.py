"""The programs themselves read the texts: torch's loader of schedules and its splitter, accelerate, DeepSpeed."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from export_samples import cut, llama, on_stages, placed, row, staged
from problems.exported_plans import PLANS, outcome

import pipeplan
from pipeplan.models.export.contract import Exported
from pipeplan.models.export.registry import export, export_files

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
import exported_stages  # noqa: E402
from exported_stages import MICRO_BATCHES, RANKS, Model, loaded  # noqa: E402


@pytest.mark.parametrize("micro_batches", [1, 3, 8])
@pytest.mark.parametrize(("layers", "ranks"), [((3, 2, 2, 1), 4), ((2, 2, 2, 2), 2), ((1, 2, 3), 3)])
def test_torch_runs_the_order_of_the_plan(
    tmp_path: Path, layers: tuple[int, ...], ranks: int, micro_batches: int
) -> None:
    """Its own lowering adds sends and receives, and refuses what waits for itself."""
    profile = llama(sum(layers))
    held = on_stages(profile, layers)
    plan = placed([[node for part in held[rank::ranks] for node in part] for rank in range(ranks)])
    files = export_files(plan, profile, to="torch", micro_batches=micro_batches).files
    path = tmp_path / "schedule.csv"
    path.write_text(files["schedule.csv"], "utf-8")
    runtime = loaded(path, len(layers), ranks, micro_batches)
    assert runtime.stage_index_to_group_rank == {stage: stage % ranks for stage in range(len(layers))}
    computed = [action for row in runtime.pipeline_order.values() for action in row]
    assert len(computed) == 2 * len(layers) * micro_batches


@pytest.mark.parametrize("name", PLANS)
def test_torch_reads_the_schedules_of_plans_of_all_kinds(tmp_path: Path, name: str) -> None:
    found = outcome(name, "torch")
    if isinstance(found, Exported) and "schedule.csv" in found.files and name != "a schedule":
        path, text = tmp_path / "schedule.csv", found.files["schedule.csv"]
        path.write_text(text, "utf-8")
        stages = len(json.loads(found.text)["stages"])
        runtime = loaded(path, stages, len(text.splitlines()), 4)
        assert set(runtime.stage_index_to_group_rank) == set(range(stages))


def test_torch_trains_by_the_texts_alone(tmp_path: Path) -> None:
    """Two processes with two stages each and no other word of the plan: the gradients are those of one process."""
    profile = llama(4)
    held = on_stages(profile, (1, 1, 1, 1))
    plan = placed([[node for part in held[rank::RANKS] for node in part] for rank in range(RANKS)])
    for name, text in export_files(plan, profile, to="torch", micro_batches=MICRO_BATCHES).files.items():
        (tmp_path / name).write_text(text, "utf-8")
    command = [sys.executable, exported_stages.__file__]
    running = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank in range(RANKS)
    ]
    said = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    found = [json.loads(out) for out, _ in said]
    assert sum(rank["parameters"] for rank in found) == len(list(Model(4).parameters()))
    assert max(rank["worst"] for rank in found) < 1e-6


def test_torch_splits_where_the_plan_does() -> None:
    """Stage by stage the parameters of the modules that the text lists, and the same output."""
    from torch.distributed.pipelining import SplitPoint, pipeline

    profile, model, tokens = llama(4), Model(4), torch.tensor([[1, 2, 3]])
    told = json.loads(export(staged(on_stages(profile, (1, 2, 1))), profile, to="torch"))
    split = {name: SplitPoint[where] for name, where in told["split_spec"].items()}
    pipe = pipeline(model, mb_args=(tokens,), split_spec=split)
    for number, modules in enumerate(told["stages"]):
        found = {name for name, _ in pipe.get_stage_module(number).named_parameters()}
        wanted = {name for name, _ in model.named_parameters() if name.startswith(tuple(m + "." for m in modules))}
        assert found == wanted
    assert torch.equal(pipe(tokens)[0], model(tokens))


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
