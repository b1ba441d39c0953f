"""Plans that a framework has no words for: one sentence that names the node, the rule and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from export_samples import cut, llama, on_stages, placed, row, stage_graph, staged

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.models.export.contract import TARGETS

EIGHT = llama(8)
ROW = on_stages(EIGHT, (4, 4))
BACK_AND_FORTH = placed([(*EIGHT.ids[:3], *EIGHT.ids[6:]), EIGHT.ids[3:6]])
FINE = row(["embed", *(f"layers.{i}.{part}" for i in range(2) for part in ("attn", "mlp")), "head"], name="fine")
T5 = row(["shared", "encoder.block.0", "encoder.block.1", "decoder.block.0", "decoder.block.1", "lm_head"])
MIXED = StagedPlan(
    (
        PlannedStage(ROW[0], 2, 1, dict.fromkeys(ROW[0], "vanilla")),
        PlannedStage(ROW[1], 1, 1, dict.fromkeys(ROW[1], "vanilla")),
    )
)
SIZES = StageGraphPlan((GraphStage(ROW[0], 1, 2, 1, 4), GraphStage(ROW[1], 1, 1, 1, 1)), ((0, 1),))
SKIP = Profile(
    tuple(ProfileNode(f"layers.{i}", 1.0, 2.0, modules=(f"layers.{i}",)) for i in range(3)),
    (
        ProfileTensor("x", "layers.0", ("layers.1", "layers.2"), 1.0),
        ProfileTensor("y", "layers.1", ("layers.2",), 1.0),
    ),
)
TWICE = row(["embed", "layers.0", "layers.0@1", "head"])
WITHOUT_MODULE = Profile(
    (ProfileNode("layers.0", 1.0, 2.0, modules=("layers.0",)), ProfileNode("add", 1.0, 2.0)),
    (ProfileTensor("x", "layers.0", ("add",), 1.0),),
)
IN_GROUPS = PlacementPlan(
    (Device("acc0", "accelerator", EIGHT.ids[:5], group="node 0"), Device("acc1", "accelerator", EIGHT.ids[5:])),
    (DeviceGroup("node 0", 2, 3),),
)
NESTED = Profile(
    (ProfileNode("h.0", 1.0, 2.0, modules=("h.0",)), ProfileNode("h.0.mlp", 1.0, 2.0, modules=("h.0.mlp",))),
    (ProfileTensor("x", "h.0", ("h.0.mlp",), 1.0),),
)


class Refused(NamedTuple):
    plan: Any
    profile: Profile | None
    to: str
    node: str
    rule: str
    legacy: bool = False


WORDLESS = {
    "non-contiguous to megatron": Refused(BACK_AND_FORTH, EIGHT, "megatron", "model.layers.5", "rank"),
    "non-contiguous to vllm": Refused(BACK_AND_FORTH, EIGHT, "vllm", "model.layers.2", "one row of layers"),
    "non-contiguous to deepspeed": Refused(
        BACK_AND_FORTH, EIGHT, "deepspeed", "model.layers.5", "one row of layers"
    ),
    "a rank that is not its turn": Refused(
        placed([(*EIGHT.ids[:2], *EIGHT.ids[6:]), EIGHT.ids[2:4], EIGHT.ids[4:6]]),
        EIGHT,
        "torchtitan",
        "model.layers.5",
        "equally many stages",
    ),
    "a layer on two stages": Refused(
        staged(cut(FINE.ids, (2, 4))), FINE, "vllm", "layers.0.mlp", "layers are moved whole"
    ),
    "several lists of layers": Refused(
        staged(cut(T5.ids, (3, 3))), T5, "megatron", "decoder.block.0", "layers of one list"
    ),
    "no numbered layer": Refused(staged([("a",), ("b",)]), row(["a", "b"]), "vllm", "'a'", "numbered module"),
    "a layer that runs twice": Refused(
        staged(cut(TWICE.ids, (2, 2))), TWICE, "megatron", "layers.0@1", "runs several times"
    ),
    "different replicas": Refused(MIXED, EIGHT, "megatron", "model.layers.4", "equally many"),
    "replicas within replicas": Refused(IN_GROUPS, EIGHT, "trtllm", "model.layers.4", "equally many"),
    "replicas to torch": Refused(staged(ROW, replicas=2), EIGHT, "torch", "model.embed_tokens", "one device there"),
    "tensor parallelism to deepspeed": Refused(
        staged(ROW, tensor=2), EIGHT, "deepspeed", "model.embed_tokens", "one device there"
    ),
    "the embedding later": Refused(
        placed([("model.layers.0",), ("model.embed_tokens", "model.layers.1")]),
        Profile(
            tuple(ProfileNode(n, 1.0) for n in ("model.embed_tokens", "model.layers.0", "model.layers.1")),
            (ProfileTensor("x", "model.layers.0", ("model.layers.1",), 1.0),),
        ),
        "sglang",
        "model.embed_tokens",
        "the embedding must be on the first stage",
    ),
    "a stage without a layer": Refused(
        staged([EIGHT.ids[:9], EIGHT.ids[9:]]), EIGHT, "vllm", "model.norm", "no layer"
    ),
    "a skip to torch": Refused(
        staged([("layers.0",), ("layers.1",), ("layers.2",)]), SKIP, "torch", "layers.2", "next stage alone"
    ),
    "a CPU to megatron": Refused(placed(ROW, cpus=[1]), EIGHT, "megatron", "model.layers.4", "a CPU"),
    "an uneven middle to older megatrons": Refused(
        staged(on_stages(EIGHT, (2, 3, 1, 2))), EIGHT, "megatron", "model.layers.5", "all but", True
    ),
    "two sizes of micro-batches": Refused(SIZES, EIGHT, "torch", "model.layers.4", "the same"),
    "a stage without a module": Refused(
        staged([("layers.0",), ("add",)]), WITHOUT_MODULE, "torch", "'add'", "no module"
    ),
    "a part of a module elsewhere": Refused(
        staged([("h.0",), ("h.0.mlp",)]), NESTED, "torchtitan", "h.0.mlp", "a part of"
    ),
    "a module on two devices": Refused(
        staged(cut(TWICE.ids, (2, 2))), TWICE, "accelerate", "layers.0@1", "on one device"
    ),
    "a table to accelerate": Refused(
        staged([("block 1",), ("block 2",)]), None, "accelerate", "block 1", "names like"
    ),
    "a placement without its profile": Refused(
        placed(ROW), None, "vllm", "model.embed_tokens", "order its devices"
    ),
    "training to llama.cpp": Refused(placed(ROW), EIGHT, "llamacpp", "model.embed_tokens", "--inference"),
}


@pytest.mark.parametrize("name", WORDLESS)
def test_the_sentence_names_node_and_rule(name: str) -> None:
    case = WORDLESS[name]
    with pytest.raises(UsageError) as raised:
        pipeplan.export(case.plan, case.profile, to=case.to, legacy=case.legacy)
    said = str(raised.value)
    assert case.node in said
    assert case.rule in said
    assert said.count("\n") == 0
    assert said.endswith(".")


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "another model's plan": (
        lambda: pipeplan.export(staged(ROW), llama(9), to="vllm"),
        "plan lacks the node 'model.layers.8', so it is no plan of the profile 'llama'",
    ),
    "a node too many": (
        lambda: pipeplan.export(staged(ROW), llama(7), to="vllm"),
        "holds the node 'model.layers.7', so it is no plan",
    ),
    "a node twice": (
        lambda: pipeplan.export(staged([*ROW, ROW[1]]), EIGHT, to="vllm"),
        "holds the node 'model.layers.4' twice",
    ),
    "stages in a wrong order": (
        lambda: pipeplan.export(staged(ROW[::-1]), EIGHT, to="vllm"),
        "reads from 'model.layers.3' on stage 1, a later one",
    ),
    "a circle of stages": (
        lambda: pipeplan.export(stage_graph(ROW, [(0, 1), (1, 0)]), EIGHT, to="torch"),
        "lead around in a circle",
    ),
    "a stage that is not there": (
        lambda: pipeplan.export(stage_graph(ROW, [(0, 2)]), EIGHT, to="torch"),
        "name the stage 2",
    ),
    "a graph without its profile": (
        lambda: pipeplan.export(stage_graph([("a",), ("b",), ("c",)], [(0, 2), (1, 2)]), to="torch"),
        "The stages of the plan form a graph; give the profile",
    ),
    "a chain without its profile": (
        lambda: pipeplan.export(pipeplan.PatternPlan(1.0, (0, 1), ((0.0,) * 4,), ({},)), to="vllm"),
        "names no node; give the profile",
    ),
    "another model's chain": (
        lambda: pipeplan.export(pipeplan.PatternPlan(1.0, (0, 1), ((0.0,) * 4,), ({},)), EIGHT, to="vllm"),
        "has 2 layers where the profile makes 11",
    ),
    "no node": (lambda: pipeplan.export(StagedPlan(()), to="vllm"), "holds no node"),
    "a rename of nothing": (
        lambda: pipeplan.export(staged(ROW), EIGHT, to="torch", rename={"model.layer": "layers"}),
        "names the module 'model.layer'",
    ),
    "a rename to vllm": (
        lambda: pipeplan.export(staged(ROW), EIGHT, to="vllm", rename={"model": "m"}),
        "--rename is not for vllm; it is for torch, torchtitan, accelerate",
    ),
    "micro-batches to megatron": (
        lambda: pipeplan.export(staged(ROW), EIGHT, to="megatron", micro_batches=4),
        "--micro-batches is not for megatron",
    ),
    "no micro-batch": (
        lambda: pipeplan.export(staged(ROW), EIGHT, to="torch", micro_batches=0),
        "--micro-batches is 0",
    ),
    "an older vllm": (
        lambda: pipeplan.export(staged(ROW), EIGHT, to="vllm", legacy=True),
        "no words of earlier versions",
    ),
    "no plan": (lambda: pipeplan.export("best.json", EIGHT, to="vllm"), "argument planned is the text 'best.json'"),  # type: ignore[arg-type]
    "no profile": (lambda: pipeplan.export(staged(ROW), "my.json", to="vllm"), "argument profile is the text"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_plan_of_the_model_is_refused(name: str) -> None:
    call, sentence = BROKEN[name]
    with pytest.raises((InputError, UsageError)) as raised:
        call()
    assert sentence in str(raised.value)


def test_every_target_is_refused_something() -> None:
    """So that no target forgets its rules."""
    assert {case.to for case in WORDLESS.values()} == set(TARGETS)
