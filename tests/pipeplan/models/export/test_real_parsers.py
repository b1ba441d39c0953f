"""The programs themselves read the texts: torch's loader of schedules and its splitter, accelerate, DeepSpeed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from export_samples import cut, llama, on_stages, placed, row, staged

from pipeplan.models.export.registry import export, export_files

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return x + self.mlp(x)


class Model(torch.nn.Module):
    """With the names of a Llama of Hugging Face."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(7, 4)
        self.model.layers = torch.nn.ModuleList([Block() for _ in range(layers)])
        self.model.norm = torch.nn.LayerNorm(4)
        self.lm_head = torch.nn.Linear(4, 7)

    def forward(self, tokens: Any) -> Any:
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


def loaded(path: Path, stages: int, ranks: int, micro_batches: int) -> Any:
    """What torch's runtime makes of the file; it needs no process group for that."""
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    runtime = _PipelineScheduleRuntime.__new__(_PipelineScheduleRuntime)
    runtime.pipeline_order, runtime._stages = {}, []
    runtime.pp_group_size, runtime._num_stages, runtime._n_microbatches = ranks, stages, micro_batches
    runtime._defer_pp_recv, runtime._comp_type_to_function_map = False, {}
    runtime._load_csv(str(path), format="compute_only")
    return runtime


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
