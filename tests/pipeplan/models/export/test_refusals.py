"""Plans that a framework has no words for: one sentence that names the node, the rule and what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from export_samples import cut, llama, on_stages, placed, row, stage_graph, staged

import pipeplan
from pipeplan import GraphStage, InputError, PlannedStage, StagedPlan, StageGraphPlan, UsageError
from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
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
NESTED = Profile(
    (ProfileNode("h.0", 1.0, 2.0, modules=("h.0",)), ProfileNode("h.0.mlp", 1.0, 2.0, modules=("h.0.mlp",))),
    (ProfileTensor("x", "h.0", ("h.0.mlp",), 1.0),),
)


OUT_OF_TURN = placed([(*EIGHT.ids[:2], *EIGHT.ids[6:]), EIGHT.ids[2:4], EIGHT.ids[4:6]])
LATE_TABLE = Profile(
    tuple(ProfileNode(name, 1.0) for name in ("model.embed_tokens", "model.layers.0", "model.layers.1")),
    (ProfileTensor("x", "model.layers.0", ("model.layers.1",), 1.0),),
)
# A plan, its profile, a framework that has no words for it, and a node and a part of the rule that its sentence names.
WORDLESS: list[tuple[Any, Profile | None, str, str, str]] = [
    (BACK_AND_FORTH, EIGHT, "megatron", "model.layers.5", "rank"),
    (BACK_AND_FORTH, EIGHT, "vllm", "model.layers.2", "one row of layers"),
    (BACK_AND_FORTH, EIGHT, "deepspeed", "model.layers.5", "one row of layers"),
    (OUT_OF_TURN, EIGHT, "torchtitan", "model.layers.5", "equally many stages"),
    (staged(cut(FINE.ids, (2, 4))), FINE, "vllm", "layers.0.mlp", "layers are moved whole"),
    (staged(cut(T5.ids, (3, 3))), T5, "megatron", "decoder.block.0", "layers of one list"),
    (staged([("a",), ("b",)]), row(["a", "b"]), "vllm", "'a'", "numbered module"),
    (staged(cut(TWICE.ids, (2, 2))), TWICE, "megatron", "layers.0@1", "runs several times"),
    (MIXED, EIGHT, "megatron", "model.layers.4", "equally many"),
    (MIXED, EIGHT, "trtllm", "model.layers.4", "equally many"),
    (staged(ROW, replicas=2), EIGHT, "torch", "model.embed_tokens", "one device there"),
    (staged(ROW, tensor=2), EIGHT, "deepspeed", "model.embed_tokens", "one device there"),
    (
        *(placed([("model.layers.0",), ("model.embed_tokens", "model.layers.1")]), LATE_TABLE, "sglang"),
        *("model.embed_tokens", "the embedding must be on the first stage"),
    ),
    (staged([EIGHT.ids[:9], EIGHT.ids[9:]]), EIGHT, "vllm", "model.norm", "no layer"),
    (staged([("layers.0",), ("layers.1",), ("layers.2",)]), SKIP, "torch", "layers.2", "next stage alone"),
    (placed(ROW, cpus=[1]), EIGHT, "megatron", "model.layers.4", "a CPU"),
    (SIZES, EIGHT, "torch", "model.layers.4", "the same"),
    (staged([("layers.0",), ("add",)]), WITHOUT_MODULE, "torch", "'add'", "no module"),
    (staged([("h.0",), ("h.0.mlp",)]), NESTED, "torchtitan", "h.0.mlp", "a part of"),
    (staged(cut(TWICE.ids, (2, 2))), TWICE, "accelerate", "layers.0@1", "on one device"),
    (staged([("block 1",), ("block 2",)]), None, "accelerate", "block 1", "names like"),
    (placed(ROW), None, "vllm", "model.embed_tokens", "order its devices"),
    (placed(ROW), EIGHT, "llamacpp", "model.embed_tokens", "--inference"),
]


@pytest.mark.parametrize(("plan", "profile", "to", "node", "rule"), WORDLESS)
def test_the_sentence_names_node_and_rule(
    plan: Any, profile: Profile | None, to: str, node: str, rule: str
) -> None:
    with pytest.raises(UsageError) as raised:
        pipeplan.export(plan, profile, to=to)
    said = str(raised.value)
    assert node in said
    assert rule in said
    assert said.count("\n") == 0
    assert said.endswith(".")


PATTERN = pipeplan.PatternPlan(1.0, (0, 1), ((0.0,) * 4,), ({},))
NO_MODEL = "plan lacks the node 'model.layers.8', so it is no plan of the profile 'llama'"
BROKEN: list[tuple[Any, Any, str, dict[str, Any], str]] = [
    (staged(ROW), llama(9), "vllm", {}, NO_MODEL),
    (staged(ROW), llama(7), "vllm", {}, "holds the node 'model.layers.7', so it is no plan"),
    (staged([*ROW, ROW[1]]), EIGHT, "vllm", {}, "holds the node 'model.layers.4' twice"),
    (staged(ROW[::-1]), EIGHT, "vllm", {}, "reads from 'model.layers.3' on stage 1, a later one"),
    (stage_graph(ROW, [(0, 1), (1, 0)]), EIGHT, "torch", {}, "lead around in a circle"),
    (stage_graph(ROW, [(0, 2)]), EIGHT, "torch", {}, "name the stage 2"),
    (stage_graph(cut("abc", (1, 1, 1)), [(0, 2), (1, 2)]), None, "torch", {}, "form a graph; give the profile"),
    (PATTERN, None, "vllm", {}, "names no node; give the profile"),
    (PATTERN, EIGHT, "vllm", {}, "has 2 layers where the profile makes 11"),
    (StagedPlan(()), None, "vllm", {}, "holds no node"),
    (staged(ROW), EIGHT, "torch", {"rename": {"model.layer": "layers"}}, "names the module 'model.layer'"),
    (staged(ROW), EIGHT, "vllm", {"rename": {"model": "m"}},
     "not for vllm; it is for torch, torchtitan, accelerate"),
    (staged(ROW), EIGHT, "megatron", {"micro_batches": 4}, "--micro-batches is not for megatron"),
    (staged(ROW), EIGHT, "torch", {"micro_batches": 0}, "--micro-batches is 0"),
    ("best.json", EIGHT, "vllm", {}, "argument planned is the text 'best.json'"),
    (staged(ROW), "my.json", "vllm", {}, "argument profile is the text"),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "profile", "to", "options", "sentence"), BROKEN)
def test_what_is_no_plan_of_the_model_is_refused(
    plan: Any, profile: Any, to: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((InputError, UsageError), match=re.escape(sentence)):
        pipeplan.export(plan, profile, to=to, **options)


def test_every_target_is_refused_something() -> None:
    """So that no target forgets its rules."""
    assert {to for _, _, to, _, _ in WORDLESS} == set(TARGETS)
