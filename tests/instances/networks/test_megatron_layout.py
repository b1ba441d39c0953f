"""Layouts read back: the documented language, and plans that come out as they went in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from export_samples import cut, llama, on_stages, placed, stage_graph, staged
from hypothesis import given
from hypothesis import strategies as st

import pipeplan
from pipeplan import InputError, PlacementPlan, Profile, ProfileOptions, UsageError
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.networks.megatron_layout import expanded, read_layout
from pipeplan.models.export.training import plan_of_layout, result_of_layout


def megatron_stages(text: str) -> list[str]:
    """The rules that Megatron-LM documents, in other words: groups first, then single letters, commas mean nothing."""
    text = "".join(text.split(","))
    while found := re.search(r"\(([^)]+)\)\*(\d+)", text):
        text = text.replace(found[0], found[1] * int(found[2]), 1)
    while found := re.search(r"(.)\*(\d+)", text):
        text = text.replace(found[0], found[1] * int(found[2]), 1)
    return text.split("|")


@pytest.mark.parametrize(
    "text", ["Et*8|t*9|t*9|t*6,L", "Et*3|(tt|)*29,m|L", "E||t|L", "Ettt|(tt|)*29,m|L", "E|(t*2|)*3t,L", "E|*3t*2,L"]
)
def test_the_language_is_megatrons(text: str) -> None:
    """The third is the documentation's example of an empty stage, the second its example for DeepSeek-V3."""
    assert list(expanded(text)) == megatron_stages(text)


@pytest.mark.parametrize("text", [
    "8,9,9,6",
    "VLLM_PP_LAYER_PARTITION=8,9,9,6\n",
    "SGLANG_PP_LAYER_PARTITION=8,9,9,6",
    "pp_partition: [8, 9, 9, 6]",
    "Et*8|t*9|t*9|t*6,L",
    '--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "Et*8|t*9|t*9|t*6,L"',
    "--seq-length 4096 --pipeline-model-parallel-size=4 --pipeline-model-parallel-layout='Et*8|t*9|t*9|t*6L'",
    "torchrun pretrain_gpt.py --save /a/b \\\n --pipeline-model-parallel-layout Et*8|t*9|t*9|t*6L --bf16",
    "export VLLM_PP_LAYER_PARTITION=8,9,9,6",
    "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 8 --decoder-last-pipeline-num-layers 6",
])  # fmt: skip
def test_people_write_the_same_in_many_ways(text: str) -> None:
    stages = read_layout(text, 32).stages
    assert stages == ("E" + "t" * 8, "t" * 9, "t" * 9, "t" * 6 + "L")


def test_one_stage_has_all_layers_whichever_option_counts_them() -> None:
    for option in ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"):
        assert read_layout(f"--pipeline-model-parallel-size 1 {option} 32", 32).stages == ("E" + "t" * 32 + "L",)


BAD = {
    "": "layout is empty",
    "Et*8|x*8,L": "layout holds 'x'; give E (the embedding)",
    "Et*16|t*15,L": "holds 31 times t (a transformer layer), and the profile has 32",
    "t*16|t*16,L": "holds E (the embedding) 0 times",
    "Et*16|t*16": "holds L (the head) 0 times",
    "Et*16|Et*16,L": "holds E (the embedding) 2 times",
    "t*16,E|t*16,L": "does not begin with E",
    "Em|t*32,L": "holds t behind m",
    "Et*99999999999|L": "has more than 1000000 letters",
    "Et*0000000000009999999999|L": "has more than 1000000 letters",
    f"Et*{'9' * 5000}|L": "has more than 1000000 letters",
    "9" * 5000: "has more than 1000000 letters",
    "E" + "t*999999|" * 600 + "L": "has more than 1000000 letters",
    "(((t)*9)*9)*9": "layout holds '('",
    "8,9,9,7": "holds 33 times t",
    "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*16|t*16L": "has 2 stages for 3 ranks",
    "--pipeline-model-parallel-size x --pipeline-model-parallel-layout Et*16|t*16L": "is 'x'; give a whole number",
    "--pipeline-model-parallel-size 5": "leaves 32 of 32 transformer layers for 5 ranks, which does not divide",
    "--num-layers 32": "has neither --pipeline-model-parallel-layout nor --pipeline-model-parallel-size",
    "--pipeline-model-parallel-layout 'Et*32L": "cannot be read as options (no closing quotation)",
}


@pytest.mark.parametrize("text", BAD)
def test_a_layout_of_another_model_or_language_is_refused(text: str) -> None:
    with pytest.raises(InputError) as raised:
        read_layout(text, 32)
    assert BAD[text] in str(raised.value)


# ---- as plans ------------------------------------------------------------------------------------------


def plan_of(text: str, profile: Profile, devices: int, kind: str | None = None) -> Any:
    cluster = Cluster(devices, memory_bytes=float("inf"), bandwidth=1e9, profile=ProfileOptions(kind=kind))
    lowered, plan = plan_of_layout(text, profile, cluster)
    result = result_of_layout(lowered.problem, plan, text)
    assert result.verified, result.violations
    assert pipeplan.evaluate(lowered.problem, plan)
    return plan


def homes(plan: Any) -> Any:
    """The stages of a plan, or where each node of a placement is."""
    if isinstance(plan, PlacementPlan):
        return {node: d for d, device in enumerate(plan.devices) for node in device.nodes}
    return [stage.nodes for stage in plan.stages]


KINDS: dict[str, Any] = {"staging": staged, "placement": placed, "graph-pipeline": stage_graph}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.sampled_from(sorted(KINDS)), st.data())
def test_rows_come_back_as_they_were(layers: list[int], kind: str, data: st.DataObject) -> None:
    """As Megatron's layout, and as counts of layers."""
    profile = llama(sum(layers))
    made = KINDS[kind](on_stages(profile, layers))
    to = data.draw(st.sampled_from(["megatron", "vllm", "sglang", "trtllm"]))
    text = pipeplan.export(made, profile, to=to)
    back = plan_of(text, profile, len(layers), kind)
    assert pipeplan.export(back, profile, to=to) == text
    assert homes(back) == homes(made)


@given(st.integers(2, 4), st.integers(2, 3), st.data())
def test_ranks_with_several_stages_come_back_as_they_were(ranks: int, rounds: int, data: st.DataObject) -> None:
    layers = data.draw(st.lists(st.integers(1, 3), min_size=ranks * rounds, max_size=ranks * rounds))
    profile = llama(sum(layers))
    held = on_stages(profile, layers)
    made = placed([[node for part in held[rank::ranks] for node in part] for rank in range(ranks)])
    text = pipeplan.export(made, profile, to="megatron")
    assert f"--pipeline-model-parallel-size {ranks} " in text
    assert homes(plan_of(text, profile, ranks)) == homes(made)


def test_empty_stages_are_ranks_without_work() -> None:
    profile = llama(4)
    plan = plan_of("Et*2||t*2|L", profile, 4)
    assert [stage.nodes for stage in plan.stages] == cut(profile.ids, (3, 2, 2))


def test_a_chain_gets_the_best_pattern_of_the_stages() -> None:
    profile = llama(6)
    plan = plan_of("Et*2|t*2|t*2L", profile, 3, "chain")
    assert plan.allocation == (0,) * 3 + (1,) * 2 + (2,) * 4


def test_what_a_kind_cannot_hold_is_refused() -> None:
    levels = Cluster(levels=((2, 1e9), (2, 1e9)), devices=4, memory_bytes=1e9)
    on_two, four = Cluster(2, memory_bytes=1e9, bandwidth=1e9), "Et|t|t|tL"
    staging = replace(on_two, profile=ProfileOptions(kind="staging"))
    for text, cluster, message in (
        (four, staging, "which no staging has; give --kind placement"),
        ("Et|t|t*2L", on_two, "has 3 stages for 2 ranks; give as many --devices"),
        ("Et|t|t*2L", Cluster(), "give --devices"),
        (four, levels, "nothing of devices within devices"),
    ):
        with pytest.raises((InputError, UsageError), match=message):
            plan_of_layout(text, llama(4), cluster)
