"""The referee of plans on devices within devices: the largest over levels by hand, and rules broken one at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.staging.plan import MAX_DEPTH, LeveledPlan, LeveledStage
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import NotAStagingError, evaluate_leveled, full_weight, verify_leveled

RULES = {
    "levels", "assignment", "configuration", "contiguity", "devices", "batches", "memory",
}  # fmt: skip

WAY, HALF = Configuration("way", 6.0, 8.0, 2.0, 1.0), Configuration("way", 4.0, 4.0, 1.0, 0.5, gather_in={"a": 1.0})
PROBLEM = StagingProblem(
    layers=(Layer("a", {1: (WAY,)}), Layer("b", {1: (WAY,), 2: (HALF,)}), Layer("c", {1: (WAY,)})),
    edges=(Edge("a", "b", 10.0), Edge("b", "c", 5.0)),
    devices=12,
    bandwidth=10.0,
    micro_batches=8,
    memory_bytes=20.0,
    levels=(StagingLevel(4, 10.0), StagingLevel(3, 1.0)),
)


def leaf(nodes: str, d: int = 1, t: int = 1) -> LeveledStage:
    return LeveledStage(tuple(nodes), d, t, dict.fromkeys(nodes, "way"))


def group(d: int, *children: LeveledStage) -> LeveledStage:
    return LeveledStage(tuple(v for child in children for v in child.nodes), d, children=children)


GOOD = LeveledPlan((group(2, leaf("a", 2), leaf("b", 1, 2)), group(1, leaf("c", 2))))


# ---- costs by hand -------------------------------------------------------------------------------------


def test_stages_of_level_1_cost_what_they_cost_on_a_flat_network() -> None:
    """a: (6 + (2 x 10 + 4 x 8 / 2) / 10) / 2; b on a pair: 4 + 2 (10 + 1 + 5) / 10; c: (6 + (10 + 16) / 10) / 2."""
    loads = [cost.load for cost in evaluate_leveled(PROBLEM, GOOD).leaves]
    assert loads == pytest.approx([4.8, 7.2, 4.3])


def test_a_higher_stage_takes_the_largest_of_its_levels() -> None:
    """First: links (4 x 16 / 2 + 2 x 5) / 2 / 1 = 21 beat 7.2 / 2 inside. Second: links 2 x 5 = 10 beat 4.3."""
    found = evaluate_leveled(PROBLEM, GOOD)
    assert found.loads == pytest.approx((21.0, 10.0))
    assert found.time_per_micro_batch == pytest.approx(21.0)


def test_on_fast_links_what_is_inside_decides() -> None:
    """Half of b's load, as two copies of the group take turns; not the sum with the links."""
    fast = PROBLEM.replace(levels=(PROBLEM.levels[0], StagingLevel(3, 1e3)))
    assert evaluate_leveled(fast, GOOD).loads == pytest.approx((3.6, 4.3))


def test_copies_multiply_over_levels_and_ceilings_nest() -> None:
    """Copies 4, 2, 2; suffix sums 8, 4, 2; in flight 8 / 4, 4 / 2, 2 / 2."""
    found = evaluate_leveled(PROBLEM, GOOD)
    assert [(cost.copies, cost.suffix_sum, cost.in_flight) for cost in found.leaves] == [
        (4, 8, 2),
        (2, 4, 2),
        (2, 2, 1),
    ]
    assert found.degrees == 8
    assert [cost.memory_bytes for cost in found.leaves] == [2 * 2 + 1, 2 * 1 + 0.5, 2 * 1 + 1]


def test_the_crude_count_divides_all_devices_by_local_copies() -> None:
    """12 devices, and 2, 1, 2 copies on level 1."""
    assert [cost.in_flight for cost in evaluate_leveled(PROBLEM, GOOD, "crude").leaves] == [6, 12, 6]


def test_weights_above_level_1_are_those_of_whole_layers() -> None:
    """On the smallest degree that is offered, over all of its devices."""
    assert full_weight(PROBLEM.layers[1]) == 8.0
    assert full_weight(Layer("x", {2: (HALF, replace(WAY, id="heavier")), 4: (), 1: ()})) == 2 * 8.0


# ---- rules ---------------------------------------------------------------------------------------------

BROKEN: list[tuple[str, LeveledPlan, dict[str, Any], str, str]] = [
    ("undivided", LeveledPlan((leaf("a"), group(1, leaf("b"), leaf("c")))), {}, "levels", "divided further"),
    (
        "too deep",
        LeveledPlan((group(1, group(1, leaf("a")), leaf("b"), leaf("c")),)),
        {},
        "levels",
        "no level below",
    ),
    ("left out", LeveledPlan((group(1, leaf("a"), leaf("b")),)), {}, "assignment", "leaves out layer 'c'"),
    (
        "left out below",
        LeveledPlan((LeveledStage(("a", "b", "c"), 1, children=(leaf("a"), leaf("b"))),)),
        {},
        "assignment",
        "leaves out layer 'c'",
    ),
    (
        "twice",
        LeveledPlan((group(1, leaf("a"), leaf("b")), group(1, leaf("b"), leaf("c")))),
        {},
        "assignment",
        "'b' in two places",
    ),
    ("unknown", LeveledPlan((group(1, leaf("ab"), leaf("c")), group(1, leaf("x")))), {}, "assignment", "'x'"),
    ("degree 0", LeveledPlan((group(0, leaf("ab"), leaf("c")),)), {}, "configuration", "below 1"),
    ("no such degree", LeveledPlan((group(1, leaf("ab"), leaf("c", 1, 2)),)), {}, "configuration", "of degree 2"),
    ("backwards", LeveledPlan((group(1, leaf("b")), group(1, leaf("a"), leaf("c")))), {}, "contiguity", "'a'"),
    ("backwards inside", LeveledPlan((group(1, leaf("b"), leaf("a"), leaf("c")),)), {}, "contiguity", "'a'"),
    (
        "full above",
        LeveledPlan((group(3, leaf("a")), group(1, leaf("b"), leaf("c")))),
        {"memory_bytes": None},
        "devices",
        "use 4 devices of level 2, where only 3",
    ),
    (
        "full below",
        LeveledPlan((group(1, leaf("a", 3), leaf("b", 1, 2)), group(1, leaf("c")))),
        {},
        "devices",
        "use 5 devices of level 1, where only 4",
    ),
    ("too many batches", GOOD, {"micro_batches": 7}, "batches", "sum to 8 and must sum to at most 7"),
    ("too few batches", GOOD, {"micro_batches": 9, "exact_batches": True}, "batches", "exactly 9"),
    ("memory", GOOD, {"memory_bytes": 4.9}, "memory", "begins with layer 'a' holds 5 bytes with 2 micro-batches"),
]


@pytest.mark.parametrize(("plan", "changes", "rule", "words"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_a_broken_rule_is_reported_alone(plan: LeveledPlan, changes: dict[str, Any], rule: str, words: str) -> None:
    found = verify_leveled(PROBLEM.replace(**changes), plan)
    assert [violation.rule for violation in found] == [rule]
    assert words in found[0].message
    if rule in ("levels", "assignment", "configuration"):
        with pytest.raises(NotAStagingError):
            evaluate_leveled(PROBLEM, plan)


def test_every_rule_has_an_example() -> None:
    assert {case[3] for case in BROKEN} == RULES


def test_a_good_plan_has_no_faults() -> None:
    assert not verify_leveled(PROBLEM, GOOD)
    assert not verify_leveled(PROBLEM.replace(micro_batches=8, exact_batches=True), GOOD)


def test_variants_judge_what_they_count() -> None:
    tight = PROBLEM.replace(memory_bytes=4.9, micro_batches=1)
    assert not verify_leveled(tight, GOOD, "basic")
    assert {v.rule for v in verify_leveled(tight, GOOD, "crude")} == {"memory"}
    assert {v.rule for v in verify_leveled(tight, GOOD, "precise")} == {"memory", "batches"}


def test_an_empty_stage_is_reported() -> None:
    assert "empty stage" in verify_leveled(PROBLEM, LeveledPlan((*GOOD.stages, group(1, leaf("")))))[0].message


# ---- files ---------------------------------------------------------------------------------------------


def test_plans_come_back() -> None:
    assert LeveledPlan.from_json(json.loads(json.dumps(GOOD.to_json()))) == GOOD


def test_ids_1_and_text_1_stay_apart() -> None:
    plan = LeveledPlan((LeveledStage((1, "1"), 1, 1, {1: "x", "1": "y"}),))
    assert LeveledPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


LEAF = GOOD.to_json()["stages"][0]["children"][0]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "plan"),
        ({"kind": "stages", "stages": []}, "plan.kind"),
        ({"kind": "leveled-stages"}, "plan.stages"),
        *(
            ({"kind": "leveled-stages", "stages": [{**LEAF, **change}]}, f"plan.stages[0].{field}")
            for change, field in (
                ({"nodes": 1}, "nodes"),
                ({"data_parallel": -1}, "data_parallel"),
                ({"tensor_parallel": 1.5}, "tensor_parallel"),
                ({"children": {}}, "children"),
                ({"children": [7]}, "children[0]"),
                ({"configurations": {}}, "configurations"),
                ({"configurations": [["a"]]}, "configurations[0]"),
                ({"configurations": [["a", 1]]}, "configurations[0][1]"),
                ({"configurations": [[None, "way"]]}, "configurations[0][0]"),
                ({"configurations": [["a", "way"], ["a", "way"]]}, "configurations[1]"),
            )
        ),
    ],
)
def test_a_fault_of_a_file_is_named(data: object, field: str) -> None:
    with pytest.raises(InputError) as caught:
        LeveledPlan.from_json(data)
    assert caught.value.field == field


def test_bottomless_files_are_refused() -> None:
    data: dict[str, Any] = LEAF
    for _ in range(MAX_DEPTH + 5):
        data = {"nodes": ["a"], "data_parallel": 1, "children": [data]}
    with pytest.raises(InputError, match="too deep"):
        LeveledPlan.from_json({"kind": "leveled-stages", "stages": [data]})
