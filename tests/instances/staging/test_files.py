"""Staging problems in files: our own JSON and Piper's, there and back, and faults that are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from problems.malformed import DROP, changed

from pipeplan import Configuration, Edge, InputError, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_from_published, staging_to_json
from pipeplan.instances.staging.plan import MAX_DEPTH, LeveledPlan, LeveledStage, PlannedStage, StagedPlan

WAY = Configuration("w", 2, 3, 4, 5, {1: 6}, {})
EVERYTHING = StagingProblem(
    layers=(Layer(1, {1: (Configuration("w", 1.5),)}, "first"), Layer("1", {1: (WAY,), 2: (), 4: (WAY,)})),
    edges=(Edge(1, "1", 7.25),), devices=4, bandwidth=0.5, micro_batches=3, memory_bytes=1e9,
    levels=(StagingLevel(2, 3.0), StagingLevel(2, 0.5)), name="everything", time_unit=None,
)  # fmt: skip
PLAIN = EVERYTHING.replace(levels=())


def through_text(data: object) -> Any:
    return json.loads(json.dumps(data))


# ---- there and back ------------------------------------------------------------------------------------


def test_a_field_that_went_is_read_where_it_says_nothing() -> None:
    data = staging_to_json(PLAIN)
    assert staging_from_json({**data, "exact_batches": False}) == PLAIN
    with pytest.raises(InputError, match="exact_batches"):
        staging_from_json({**data, "exact_batches": True})


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "layers", "edges"), [
    ("bert32a100.json", 37, 67), ("resnet.json", 177, 193),
], ids=["bert32", "resnet50"])  # fmt: skip
def test_published_files_are_read(workloads: Path, name: str, layers: int, edges: int) -> None:
    data = json.loads((workloads / "piper" / name).read_text("utf-8"))
    problem = staging_from_published(data)
    assert (len(problem.layers), len(problem.edges)) == (layers, edges)
    assert staging_from_json(through_text(staging_to_json(problem))) == problem.replace(name="staging")


# ---- the published format in detail ---------------------------------------------------------------------

PUBLISHED: dict[str, Any] = {
    "maxDevices": 2, "maxMemoryPerDevice": 100.0, "bandwidth": 10.0, "mbsInBatch": 8,
    "nodes": [
        {"id": i, "name": f"node {i}", "TMPCs": {"1": [{
            "id": "vanilla", "timePerSample": 1.0 + i, "parameterSize": 2.0, "memoryUsageA": 3.0, "memoryUsageB": 4.0,
            "syncTimeFw": {"0": 0.5} if i == 1 else {}, "syncTimeBw": {"1": 0.25} if i == 0 else {},
        }]}}
        for i in (0, 1)
    ],
    "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 9.0}],
}  # fmt: skip


def test_forward_sync_is_about_incoming_and_backward_sync_about_outgoing_edges() -> None:
    first, second = staging_from_published(PUBLISHED).layers
    assert first.configurations[1][0] == Configuration("vanilla", 1.0, 2.0, 3.0, 4.0, {}, {1: 0.25})
    assert second.configurations[1][0] == Configuration("vanilla", 2.0, 2.0, 3.0, 4.0, {0: 0.5}, {})


@pytest.mark.parametrize("batches", [8, 8.0])
def test_the_readmes_name_for_the_batch_is_understood(batches: float) -> None:
    data = {key: value for key, value in PUBLISHED.items() if key != "mbsInBatch"}
    assert staging_from_published({**data, "maxBatchSize": batches}) == staging_from_published(PUBLISHED)
    assert staging_from_published(PUBLISHED).time_unit is None  # units are not guessed


# ---- faults --------------------------------------------------------------------------------------------


OWN = through_text(staging_to_json(EVERYTHING))
WAY_PATH = ("layers", 1, "configurations", "1", 0)
PUBLISHED_WAY = ("nodes", 1, "TMPCs", "1", 0)
TREE = LeveledPlan((LeveledStage((1, "1"), 2, children=(LeveledStage((1, "1"), 2, 1, {1: "x", "1": "y"}),)),))
LEAF = ("stages", 0, "children", 0, "configurations")
# What `test_schemas` does not find by trying every place of our own formats, and the published one.
FAULTS: list[tuple[Callable[[object], object], Any, tuple[str | int, ...], object, str]] = [
    (staging_from_json, OWN, ("layers", 0, "configurations", "01"), [], "layers[0].configurations"),
    (staging_from_json, OWN, (*WAY_PATH, "gather_in"), {"1": 6}, "layers[1].configurations.1[0].gather_in"),
    (staging_from_json, OWN, (*WAY_PATH, "gather_in"), [[1, 6], [1, 7]],
     "layers[1].configurations.1[0].gather_in[1]"),
    (LeveledPlan.from_json, TREE.to_json(), LEAF, [["a"]], "plan.stages[0].children[0].configurations[0]"),
    (LeveledPlan.from_json, TREE.to_json(), LEAF, [["a", "x"]] * 2, "plan.stages[0].children[0].configurations[1]"),
    *(
        (staging_from_published, PUBLISHED, path, value, field)
        for path, value, field in (
            (("mbsInBatch",), DROP, "mbsInBatch"),
            (("nodes",), None, "nodes"),
            (("nodes", 0, "TMPCs"), DROP, "nodes[0].TMPCs"),
            (("nodes", 0, "TMPCs", "x"), [], "nodes[0].TMPCs"),
            (("edges", 0, "destId"), DROP, "edges[0].destId"),
            (("maxDevices",), 0, "maxDevices"),
            (("mbsInBatch",), 0, "mbsInBatch"),
            (("edges", 0, "communicationCost"), "much", "edges[0].communicationCost"),
            ((*PUBLISHED_WAY, "timePerSample"), -1, "nodes[1].TMPCs[1][0].timePerSample"),
            ((*PUBLISHED_WAY, "memoryUsageA"), DROP, "nodes[1].TMPCs.1[0].memoryUsageA"),
            ((*PUBLISHED_WAY, "syncTimeFw"), [0], "nodes[1].TMPCs.1[0].syncTimeFw"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("read", "good", "path", "value", "field"), FAULTS, ids=[fault[-1] for fault in FAULTS])
def test_a_fault_is_named(
    read: Callable[[object], object], good: Any, path: tuple[str | int, ...], value: object, field: str
) -> None:
    read(good)
    with pytest.raises(InputError) as caught:
        read(changed(good, path, value))
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "staging", 7])
def test_a_file_that_holds_no_object_is_refused(data: object) -> None:
    for read in (staging_from_json, staging_from_published, StagedPlan.from_json, LeveledPlan.from_json):
        with pytest.raises(InputError):
            read(data)


# ---- plans ---------------------------------------------------------------------------------------------


def test_ids_that_look_alike_stay_apart() -> None:
    """1 and "1" would be one key of an object: then configurations are pairs."""
    chosen: dict[int | str, str] = {1: "keep", "1": "again"}
    plan = StagedPlan((PlannedStage((1, "1"), 1, 1, chosen), PlannedStage((2,), 1, 1, {2: "keep"})))
    data = through_text(plan.to_json())
    assert [stage["configurations"] for stage in data["stages"]] == [[[1, "keep"], ["1", "again"]], {"2": "keep"}]
    assert StagedPlan.from_json(data) == plan
    for spoilt_pairs in ([[1]], [[1, "keep"], [1, "again"]], [[1, 2]], [1]):
        data["stages"][0]["configurations"] = spoilt_pairs
        with pytest.raises(InputError, match="configurations"):
            StagedPlan.from_json(data)


def test_bottomless_trees_are_refused() -> None:
    data: dict[str, Any] = {"nodes": ["a"], "data_parallel": 1, "children": []}
    for _ in range(MAX_DEPTH + 5):
        data = {**data, "children": [data]}
    with pytest.raises(InputError, match="too deep"):
        LeveledPlan.from_json({"kind": "leveled-stages", "stages": [data]})
