"""The texts, letter by letter, for Llama-3-8B on four devices: 8, 9, 9 and 6 of its 32 layers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from command_line import has
from export_samples import llama, on_stages, placed, row, stage_graph, staged

import pipeplan
from pipeplan import LeveledPlan, LeveledStage, PatternPlan, Profile, ProfileNode, ProfileTensor, StagedPlan
from pipeplan.instances.base.result import Asked
from pipeplan.instances.staging.from_profile import RECOMPUTE
from pipeplan.models.export.contract import export_files
from pipeplan.models.export.serving import divided

LLAMA = llama(32)
STAGES = on_stages(LLAMA, (8, 9, 9, 6))
PATTERN = PatternPlan(1.0, (0,) * 9 + (2,) * 9 + (1,) * 9 + (3,) * 8, ((0.0,) * 70,), ({},))
PLANS: dict[str, Any] = {
    "staging": staged(STAGES),
    "placement": placed(STAGES),
    "chain": PATTERN,
    "graph pipeline": stage_graph(STAGES),
    "levels": LeveledPlan(
        (
            LeveledStage((), 1, children=tuple(LeveledStage(nodes, 1) for nodes in STAGES[:2])),
            LeveledStage((), 1, children=tuple(LeveledStage(nodes, 1) for nodes in STAGES[2:])),
        )
    ),
}

SHORT = {
    "megatron": '--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "Et*8|t*9|t*9|t*6,L"\n',
    "vllm": "VLLM_PP_LAYER_PARTITION=8,9,9,6\n",
    "sglang": "SGLANG_PP_LAYER_PARTITION=8,9,9,6\n",
    "trtllm": "pp_partition: [8, 9, 9, 6]\n",
}


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("to", SHORT)
def test_every_kind_of_plan_is_said_alike(kind: str, to: str) -> None:
    assert pipeplan.export(PLANS[kind], LLAMA, to=to) == SHORT[to]


def test_llama_cpp_takes_proportions_of_plans_for_inference() -> None:
    """Slot i of layers and output goes to the first device whose share ends behind i / slots."""
    assert [divided(*of) for of in (([1, 1], 31), ([3, 1], 4))] == [[16, 15], [4, 0]]
    found = export_files(placed(STAGES, training=False), LLAMA, to="llamacpp")
    assert found.text == "--split-mode layer --tensor-split 8,9,9,6\n"
    assert any("it makes [9, 9, 9, 5]; --tensor-split 8,9,9,7 makes [8, 9, 9, 6]" in note for note in found.notes)


def test_torch_is_told_the_modules_of_each_stage_where_to_split_and_the_order_of_all_passes() -> None:
    """1F1B: a stage holds as many micro-batches as there are stages from it to the end."""
    found = export_files(PLANS["staging"], LLAMA, to="torch", micro_batches=3)
    told = json.loads(found.text)
    assert told["stages"] == [list(nodes) for nodes in STAGES]
    assert told["split_spec"] == {f"model.layers.{i}": "BEGINNING" for i in (8, 17, 26)}
    assert found.files["schedule.csv"].splitlines() == [
        "0F0,0F1,0F2,0B0,0B1,0B2",
        "1F0,1F1,1F2,1B0,1B1,1B2",
        "2F0,2F1,2B0,2F2,2B1,2B2",
        "3F0,3B0,3F1,3B1,3F2,3B2",
    ]


def test_torchtitan_is_told_its_own_names() -> None:
    """Torchtitan's Llama has other names than that of Hugging Face."""
    plan, profile = staged(on_stages(llama(2), (1, 1))), llama(2)
    found = export_files(plan, profile, to="torchtitan", micro_batches=2)
    assert "modules have torchtitan's names" in " ".join(found.notes)
    assert found.text.splitlines() == [
        "[parallelism]",
        "pipeline_parallel_degree = 2",
        'module_fqns_per_model_part = [["tok_embeddings","layers.0"],["layers.1","norm","output"]]',
        'pipeline_parallel_schedule = "1F1B"',
        'pipeline_parallel_schedule_csv = "schedule.csv"',
    ]


def test_deepspeed_is_given_parts_of_its_list_of_layers() -> None:
    text = pipeplan.export(staged(on_stages(llama(3), (2, 1))), llama(3), to="deepspeed")
    found: dict[str, Any] = {}
    exec(text.replace("from deepspeed.pipe import PipelineModule", "PipelineModule = object"), found)
    assert found["parts"] == [0, 3, 6]
    assert tuple(found["planned_layers"]) == llama(3).ids


def test_accelerate_knows_a_cpu_and_devices_whose_modules_do_not_follow_each_other() -> None:
    plan = placed([("model.embed_tokens", "lm_head"), LLAMA.ids[1:20], LLAMA.ids[20:-1]], cpus=[2])
    told = json.loads(pipeplan.export(plan, LLAMA, to="accelerate"))
    assert (told["model.embed_tokens"], told["lm_head"]) == (0, 0)
    assert (told["model.layers.0"], told["model.norm"]) == (1, "cpu")
    turned = json.loads(pipeplan.export(placed([LLAMA.ids[20:], LLAMA.ids[:20]]), LLAMA, to="accelerate"))
    assert turned == {name: int(i >= 20) for i, name in enumerate(LLAMA.ids)}  # in the order of the stages


def test_a_module_that_is_divided_is_named_by_its_parts_and_parameters() -> None:
    """A container with a parameter of its own: hooks would move all of it to one device."""
    nodes = (
        ProfileNode("emb", 1.0, parameters={"emb.token": 4.0}, modules=("emb",)),
        ProfileNode("emb.patch", 1.0, parameters={"emb.patch.weight": 4.0}, modules=("emb.patch",)),
        ProfileNode("add", 1.0),
    )
    tensors = (ProfileTensor("a", "emb", ("emb.patch",), 1.0), ProfileTensor("b", "emb.patch", ("add",), 1.0))
    profile = Profile(nodes, tensors, training=False)
    apart = pipeplan.export(placed([("emb",), ("emb.patch", "add")], training=False), profile, to="accelerate")
    assert json.loads(apart) == {"emb.patch": 1, "emb.token": 0}
    together = pipeplan.export(placed([("emb", "emb.patch"), ("add",)], training=False), profile, to="accelerate")
    assert json.loads(together) == {"emb": 0}


def test_nodes_are_the_modules_that_they_are_and_not_all_that_runs_in_them() -> None:
    """As profiles of PyTorch models list them: parts of a block, containers in between, a dropout that runs twice."""
    h0 = ("net.h.0.ln", "net.h.0.mlp", "net.h.0")
    nodes = (
        ProfileNode("net.wte", 1.0, 2.0, parameters={"net.wte.weight": 1.0}, modules=("net.wte", "net.drop")),
        ProfileNode("net/add", 1.0, 2.0, modules=("net", "net.first")),
        ProfileNode("net.h.0", 1.0, 2.0, parameters={"net.h.0.mlp.weight": 1.0}, modules=h0),
        ProfileNode(
            "net.h.1", 1.0, 2.0, parameters={"net.h.1.mlp.weight": 1.0}, modules=("net.h.1.ln", "net.h.1.mlp")
        ),
        ProfileNode("net.ln", 1.0, 2.0, parameters={"net.ln.weight": 1.0}, modules=("net.ln", "net", "net.drop")),
    )
    tensors = tuple(
        ProfileTensor(n.id, n.id, (nodes[i + 1].id,) if i < 4 else (), 1.0) for i, n in enumerate(nodes)
    )
    profile = Profile(nodes, tensors)
    plan = staged([profile.ids[:3], profile.ids[3:]])
    told = json.loads(pipeplan.export(plan, profile, to="torch"))
    assert told["stages"] == [["net.wte", "net.drop", "net.first", "net.h.0"], ["net.h.1", "net.ln", "net.drop"]]
    assert told["split_spec"] == {"net.h.1": "BEGINNING"}
    told = json.loads(pipeplan.export(plan, profile, to="accelerate"))
    assert told == {"net.wte": 0, "net.h.0": 0, "net.h.1": 1, "net.ln": 1}
    assert pipeplan.export(plan, profile, to="vllm") == "VLLM_PP_LAYER_PARTITION=1,1\n"


def test_ranks_with_several_stages() -> None:
    """Stage i on rank i mod 2, as Megatron, torchtitan and torch interleave them."""
    profile = llama(6)
    held = on_stages(profile, (1, 2, 2, 1))
    plan = placed([(*held[0], *held[2]), (*held[1], *held[3])])
    has(pipeplan.export(plan, profile, to="megatron"), '"Et|t*2|t*2|t,L"', "--pipeline-model-parallel-size 2")
    found = export_files(plan, profile, to="torchtitan", micro_batches=2)
    assert 'pipeline_parallel_schedule = "Interleaved1F1B"' in found.text
    passes = [line.split(",") for line in found.files["schedule.csv"].splitlines()]
    assert [sorted({cell[0] for cell in row}) for row in passes] == [["0", "2"], ["1", "3"]]
    assert all(len(row) == len(set(row)) == 8 for row in passes)


def test_what_a_text_leaves_out_is_said() -> None:
    tied = llama(4, tied=True)
    plan = staged(on_stages(tied, (2, 2)), replicas=2, tensor=4)
    found = export_files(plan, tied, to="megatron")
    assert found.text.strip().endswith("--tensor-model-parallel-size 4 --sequence-parallel")
    assert any(note.startswith("start it on 16 devices: torchrun") for note in found.notes)
    notes = export_files(staged(on_stages(tied, (2, 2))), tied, to="torch").notes
    assert any("model.embed_tokens.weight (stage 0) and lm_head.weight (stage 1) are one" in note for note in notes)
    assert any("no schedule.csv" in note for note in notes)
    assert any("made for training" in note for note in export_files(PLANS["placement"], LLAMA, to="vllm").notes)
    assert "ranks are 0 = gpu 0, 1 = gpu 2, 2 = gpu 1, 3 = gpu 3" in export_files(PATTERN, LLAMA, to="vllm").notes


def test_without_a_profile_nodes_are_modules() -> None:
    assert pipeplan.export(PLANS["staging"], to="megatron") == SHORT["megatron"]
    backwards = staged([nodes[::-1] for nodes in STAGES])
    found = export_files(backwards, to="torch")
    assert json.loads(found.text)["stages"] == [list(nodes) for nodes in STAGES]
    assert "names of modules, and the stages as a row" in found.notes[0]


def test_models_with_other_parts() -> None:
    """Layers of tables, layers that predict several tokens, an embedding and a head on stages of their own."""
    profile = row(["embedding", *(f"block {i}" for i in range(1, 5)), "head"])
    plan = staged([profile.ids[:2], profile.ids[2:]])
    assert pipeplan.export(plan, profile, to="vllm") == "VLLM_PP_LAYER_PARTITION=1,3\n"
    profile = row(["embed", *(f"layers.{i}" for i in range(3)), "mtp.layers.0", "head"])
    found = export_files(staged([profile.ids[:3], profile.ids[3:]]), profile, to="megatron")
    assert '"Et*2|t,m,L"' in found.text
    assert "give --mtp-num-layers 1 as well" in found.notes
    profile = llama(4)
    plan = staged([profile.ids[:1], profile.ids[1:3], profile.ids[3:6], profile.ids[6:]])
    assert '"E|t*2|t*2|L"' in pipeplan.export(plan, profile, to="megatron")


# ---- complete commands -----------------------------------------------------------------------------------


def planned_for(plan: StagedPlan, **cluster: Any) -> pipeplan.Result:
    """A result that was asked for on a cluster, as `plan solve` writes it."""
    problem = LLAMA.to_staging(devices=4, memory_bytes=1e9, bandwidth=1e9)
    result = pipeplan.solve(problem, planner="equi")
    return replace(result, plan=plan, asked=Asked("llama.json", cluster, ()), problem={"name": LLAMA.name})


def test_megatron_is_told_batches_optimizer_and_recomputation() -> None:
    plan = staged(STAGES, tensor=2)
    again = tuple(
        replace(
            stage, configurations={node: RECOMPUTE if i < 2 else "vanilla" for i, node in enumerate(stage.nodes)}
        )
        for stage in plan.stages[:1]
    )
    mixed = replace(plan, stages=(*again, *plan.stages[1:]))
    result = planned_for(mixed, devices=8, batch=16, optimizer="adam-mixed")
    profile = LLAMA.replace(micro_batch=2, source={"sequence": 4096})
    found = export_files(result, profile, to="megatron")
    assert found.text.endswith(
        "--tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity full --recompute-method block "
        "--recompute-num-layers 2 --micro-batch-size 2 --global-batch-size 32 --seq-length 4096 "
        "--optimizer adam --bf16\n"
    )
    assert "layers that recompute, by stage: 2, 0, 0, 0; Megatron has one number" in " ".join(found.notes)
    assert "start it on 8 devices" in " ".join(found.notes)


def test_megatron_is_told_what_zero_divides_and_where_it_starts() -> None:
    result = planned_for(PLANS["staging"], devices=8, zero=2, levels="4x300GB/s,2x50GB/s")
    found = export_files(result, LLAMA, to="megatron")
    assert "--use-distributed-optimizer" in found.text
    assert "memory was counted with ZeRO 2" in " ".join(found.notes)
    alone = export_files(planned_for(PLANS["staging"], devices=8), LLAMA, to="megatron")
    assert "--use-distributed-optimizer" not in alone.text
    on_levels = planned_for(staged(STAGES, tensor=2), devices=8, levels="4x300GB/s,2x50GB/s")
    (start,) = (n for n in export_files(on_levels, LLAMA, to="megatron").notes if n.startswith("start it on 8"))
    assert start.endswith("torchrun --nproc-per-node 4 --nnodes 2 pretrain_gpt.py")


def test_the_script_of_torch_is_started_on_the_servers_of_the_plan() -> None:
    """The command has the loss where it is outside of the model."""
    planned = planned_for(PLANS["staging"], devices=4, levels="2x300GB/s,2x50GB/s")
    for source, words in (({}, "my.py:build trains"), ({"loss": "mine"}, "my.py:build my.py:loss trains")):
        found = export_files(planned, LLAMA.replace(source=source), to="torch", micro_batches=4)
        assert (
            f"torchrun --nproc-per-node 2 --nnodes 2 train.py {words} it, with my.py for the file of your model"
            in found.notes
        )
