"""The JSON Schemas say what the readers do: what a reader accepts, its schema accepts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.graph_pipelines_with_plans import random_graph_problem, random_plan
from problems.malformed import MALFORMED, MALFORMED_PLANS, OWN, PLAN, RESULT
from problems.profiles import DIAMOND
from problems.stagings import random_staging
from problems.strategies import placement_problems
from problems.trainings import random_configuration, random_own_training, random_training
from referencing import Registry, Resource

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.chain.kind_functions import chain_from_json, chain_to_json
from pipeplan.instances.chain.plan import PatternPlan
from pipeplan.instances.graph_pipeline.kind_functions import graph_pipeline_from_json, graph_pipeline_to_json
from pipeplan.instances.graph_pipeline.plan import StageGraphPlan
from pipeplan.instances.networks.profile.profile import profile_from_json, profile_to_json
from pipeplan.instances.physics.efficiencies import ABOUT
from pipeplan.instances.placement.kind_functions import placement_from_json, placement_to_json
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.schedule.generators import random_schedule
from pipeplan.instances.schedule.kind_functions import schedule_from_json, schedule_to_json
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schemas import NAMES, read_schema
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_to_json
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import StagingLevel
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.kind_functions import training_from_json, training_to_json
from pipeplan.instances.training.plan import Configuration

CHAIN = {
    "schema": "pipeplan.chain/1", "forward": [1, 2.5], "backward": [2, 0], "activations": [1, 2, 3], "weights": [0, 1],
    "gpus": 2, "memory": None, "transfer_times": [1, 0, 1], "duplex": "full",
}  # fmt: skip
PATTERN = {
    "kind": "pattern", "period": 4, "batches_per_period": 1, "allocation": [0, 1], "starts": [0, 1, 3.5, 5],
    "transfers": {"1": 1, "3": 4},
}  # fmt: skip
REGISTRY: Any = Registry().with_resources(
    [(read_schema(name)["$id"], Resource.from_contents(read_schema(name))) for name in NAMES]
)
VALIDATORS = {name: jsonschema.Draft202012Validator(read_schema(name), registry=REGISTRY) for name in NAMES}


def _schedule_plan(data: Any) -> AnySchedule:
    periodic = isinstance(data, dict) and data.get("kind") == PeriodicSchedulePlan.kind
    return (PeriodicSchedulePlan if periodic else SchedulePlan).from_json(data)


READERS = {
    "chain-1": chain_from_json,
    "placement-1": placement_from_json,
    "plan-1": PlacementPlan.from_json,
    "result-1": result_from_json,
    "staging-1": staging_from_json,
    "staged-plan-1": StagedPlan.from_json,
    "graph-pipeline-1": graph_pipeline_from_json,
    "stage-graph-1": StageGraphPlan.from_json,
    "profile-1": profile_from_json,
    "schedule-1": schedule_from_json,
    "schedule-plan-1": _schedule_plan,
    "training-1": training_from_json,
    "configuration-plan-1": Configuration.from_json,
}
WRITTEN = ("configurations-1",)
"""Of answers that nothing reads; their tests stand where they are written."""
STAGING = staging_to_json(random_staging(3).replace(devices=4, levels=(StagingLevel(2, 3.0), StagingLevel(2, 1.0))))
STAGED_PLAN = StagedPlan((PlannedStage((1, "b"), 2, 1, {1: "vanilla", "b": "small"}),)).to_json()
GRAPH_PIPELINE = graph_pipeline_to_json(random_graph_problem(5))
PROFILE = profile_to_json(DIAMOND)
SCHEDULE = schedule_to_json(random_schedule(micro_batches=3))
SCHEDULE_PLAN = {"kind": "schedule", "starts": {"F0": [0, 2.5, "37/3"], "B0": [5, 7, 20]}}
PERIODIC_PLAN = {"kind": "periodic-schedule", "period": "37/3", "starts": {"F0": 0, "B0": "25/3"}}
STAGE_GRAPH = random_plan(random_graph_problem(5), 5).to_json()
TRAINING = training_to_json(random_training(3))
CONFIGURATION = random_configuration(random_training(3), 3).to_json()
GOOD = {
    "chain-1": CHAIN,
    "placement-1": OWN,
    "plan-1": PLAN,
    "result-1": RESULT,
    "staging-1": STAGING,
    "staged-plan-1": STAGED_PLAN,
    "graph-pipeline-1": GRAPH_PIPELINE,
    "stage-graph-1": STAGE_GRAPH,
    "profile-1": PROFILE,
    "schedule-1": SCHEDULE,
    "schedule-plan-1": SCHEDULE_PLAN,
    "training-1": TRAINING,
    "configuration-plan-1": CONFIGURATION,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_valid_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(read_schema(name))


def test_an_unknown_schema_names_the_known_ones() -> None:
    with pytest.raises(
        KeyError,
        match="chain-1, configuration-plan-1, configurations-1, graph-pipeline-1, placement-1, plan-1, profile-1, "
        "result-1, schedule-1, schedule-plan-1, stage-graph-1, staged-plan-1, staging-1, training-1",
    ):
        read_schema("chain-9")


def test_every_schema_is_of_what_is_read_or_written() -> None:
    assert {*READERS, *WRITTEN} == set(NAMES)


@pytest.mark.parametrize("name", READERS)
def test_good_examples_pass(name: str) -> None:
    VALIDATORS[name].validate(GOOD[name])
    READERS[name](GOOD[name])


@pytest.mark.parametrize("batches", [1, 2])
def test_a_written_pattern_passes(batches: int) -> None:
    one = PatternPlan.from_json(PATTERN)
    plan = PatternPlan(one.period, one.allocation, one.starts * batches, one.transfers * batches)
    VALIDATORS["plan-1"].validate(plan.to_json())
    assert PatternPlan.from_json(plan.to_json()) == plan


@given(placement_problems())
def test_what_we_write_passes(problem: PlacementProblem) -> None:
    VALIDATORS["placement-1"].validate(placement_to_json(problem))


@pytest.mark.parametrize("seed", range(20))
def test_what_we_write_of_any_kind_passes(seed: int) -> None:
    graph, training = random_graph_problem(seed), random_training(seed)
    written = [
        ("chain-1", chain_to_json(chain_from_json(CHAIN))),
        ("staging-1", staging_to_json(random_staging(seed))),
        ("graph-pipeline-1", graph_pipeline_to_json(graph)),
        ("stage-graph-1", random_plan(graph, seed).to_json()),
        ("schedule-1", schedule_to_json(random_schedule(3, 8, seed or None, seed))),
        ("training-1", training_to_json(training)),
        ("training-1", training_to_json(random_own_training(seed))),
        ("configuration-plan-1", random_configuration(training, seed).to_json()),
    ]
    for name, data in written:
        VALIDATORS[name].validate(data)


@pytest.mark.parametrize("plan", [None, STAGED_PLAN, STAGE_GRAPH, SCHEDULE_PLAN, PERIODIC_PLAN, CONFIGURATION])
def test_a_written_result_passes_with_a_plan_of_any_kind(plan: Any) -> None:
    VALIDATORS["result-1"].validate(result_from_json(RESULT).to_json())
    VALIDATORS["result-1"].validate(result_from_json({**RESULT, "plan": plan}).to_json())


def test_the_schema_of_trainings_knows_every_efficiency_with_its_bounds() -> None:
    listed = read_schema("training-1")["properties"]["efficiencies"]["properties"]
    bounds = {name: (about.least, 1e100 if about.most is None else about.most) for name, about in ABOUT.items()}
    assert {name: (own["minimum"], own["maximum"]) for name, own in listed.items()} == bounds


@pytest.mark.parametrize("plan", [SCHEDULE_PLAN, PERIODIC_PLAN], ids=lambda plan: plan["kind"])
def test_what_we_write_of_schedule_plans_passes(plan: dict[str, Any]) -> None:
    written = _schedule_plan(plan).to_json()
    assert written == plan
    VALIDATORS["schedule-plan-1"].validate(written)


BEYOND_A_SCHEMA = (
    "cycle", "self-loop", "unknown id", "number id", "control characters", "duplicate", "half a character",
    "zero devices", "backward to forward", "transfer of a sink", "too large", "unsupported", "without a plan",
    "5000 digits", "bound is enormous",
)  # fmt: skip
"""Faults of meaning, of encoding or of what floats can hold, which a schema cannot see."""


def structural(prefix: str, cases: list[Any]) -> list[Any]:
    return [
        pytest.param(case, id=case.name)
        for case in cases
        if case.name.startswith(prefix) and not any(fault in case.name for fault in BEYOND_A_SCHEMA)
    ]


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, *parameter.values, id=parameter.id)
        for name, prefix, cases in (
            ("placement-1", "own", MALFORMED),
            ("plan-1", "plan", MALFORMED_PLANS),
            ("result-1", "result", MALFORMED_PLANS),
        )
        for parameter in structural(prefix, cases)
    ],
)
def test_malformed_examples_fail(name: str, case: Any) -> None:
    # Schemas know only the numbers of JSON: NaN and Infinity stand for themselves as texts.
    data = json.loads(case.content, parse_constant=lambda word: word)
    assert not VALIDATORS[name].is_valid(data)


def _without(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}


_LAYER: dict[str, Any] = {"id": 1, "configurations": {"1": [{"id": "way", "time": 1}]}}
_STAGE: dict[str, Any] = STAGED_PLAN["stages"][0]
MALFORMED_STAGINGS: list[tuple[str, dict[str, Any]]] = [
    *(("staging-1", _without(STAGING, key)) for key in ("schema", "devices", "bandwidth", "layers", "edges")),
    *(
        ("staging-1", {**STAGING, **change})
        for change in (
            {"devices": 0}, {"bandwidth": 0}, {"micro_batches": 0}, {"memory_bytes": "8GiB"}, {"batch": 3},
            {"exact_batches": 1}, {"levels": [{"devices": 4}]}, {"edges": [[0, 1]]}, {"layers": []},
        )
    ),
    *(
        ("staging-1", {**STAGING, "edges": [], "layers": [layer]})
        for layer in (
            _without(_LAYER, "id"),
            {**_LAYER, "ways": {}},
            {**_LAYER, "configurations": {"0": []}},
            {**_LAYER, "configurations": {"1": [{"id": "way"}]}},
            {**_LAYER, "configurations": {"1": [{"id": "way", "time": -1}]}},
            {**_LAYER, "configurations": {"1": [{"id": "way", "time": 1, "gather_in": {"0": 1}}]}},
            {**_LAYER, "configurations": {"1": [{"id": "way", "time": 1, "gather_in": [[0]]}]}},
        )
    ),
    *(("staged-plan-1", {**STAGED_PLAN, **change}) for change in ({"kind": "placement"}, {"stages": {}})),
    *(("staged-plan-1", {**STAGED_PLAN, "stages": [_without(_STAGE, key)]}) for key in _STAGE),
    *(("staged-plan-1", {**STAGED_PLAN, "stages": [{**_STAGE, key: None}]}) for key in _STAGE),
]  # fmt: skip


_OPERATOR: dict[str, Any] = GRAPH_PIPELINE["operators"][0]
_CURVE: dict[str, Any] = _OPERATOR["forward"]
_GRAPH_STAGE: dict[str, Any] = STAGE_GRAPH["stages"][0]
MALFORMED_GRAPHS: list[tuple[str, dict[str, Any]]] = [
    *(("graph-pipeline-1", _without(GRAPH_PIPELINE, key)) for key in ("schema", "mini_batch", "devices", "operators")),
    *(
        ("graph-pipeline-1", {**GRAPH_PIPELINE, **change})
        for change in (
            {"devices": 0}, {"mini_batch": 0}, {"memory_bytes": -1}, {"link": None}, {"link": {"bandwidth": 0}},
            {"link": {"latency": 1}}, {"devices_per_node": 0}, {"edges": [[0, 1, 2]]}, {"operators": []}, {"gpus": 2},
        )
    ),
    *(
        ("graph-pipeline-1", {**GRAPH_PIPELINE, "edges": [], "operators": [entry]})
        for entry in (
            _without(_OPERATOR, "id"),
            _without(_OPERATOR, "backward"),
            {**_OPERATOR, "time": 1},
            {**_OPERATOR, "forward": 1},
            {**_OPERATOR, "forward": {**_CURVE, "samples": []}},
            {**_OPERATOR, "forward": {**_CURVE, "samples": [0, 1, 2]}},
            {**_OPERATOR, "forward": {**_CURVE, "seconds": [-1, 1, 2]}},
            {**_OPERATOR, "stash_bytes": "1 MiB"},
        )
    ),
    *(
        ("stage-graph-1", {**STAGE_GRAPH, **change})
        for change in ({"kind": "stages"}, {"edges": [[0]]}, {"stages": {}})
    ),
    *(
        ("stage-graph-1", {**STAGE_GRAPH, "stages": [_without(_GRAPH_STAGE, key)]})
        for key in ("nodes", "devices", "micro_batch", "in_flight")
    ),
    *(("stage-graph-1", {**STAGE_GRAPH, "stages": [{**_GRAPH_STAGE, key: -1}]}) for key in _GRAPH_STAGE),
]  # fmt: skip


_MODEL, _GPU = TRAINING["model"], TRAINING["gpu"]
MALFORMED_TRAININGS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("training-1", _without(TRAINING, key))
        for key in ("schema", "model", "gpu", "devices", "levels", "batch", "sequence")
    ),
    *(
        ("training-1", {**TRAINING, **change})
        for change in (
            {"schema": "pipeplan.training/2"}, {"devices": 0}, {"batch": 1.5}, {"sequence": -1}, {"levels": []},
            {"framework": "megatrn"}, {"framework": []}, {"precision": "fp32"}, {"precision": {}}, {"dropout": 1},
            {"reserve_bytes": "1GiB"}, {"reserve_bytes": -1}, {"flash": True}, {"efficiencies": {"products": 2}},
            {"efficiencies": {"product": 0.5}}, {"efficiencies": [0.5]}, {"model": "llama-3-8b"}, {"gpu": "h100-80gb"},
            {"model": {**_MODEL, "hidden": "128"}}, {"model": {**_MODEL, "norm": "batch"}},
            {"model": {**_MODEL, "attention": None, "heads": 8}}, {"model": _without(_MODEL, "name")},
            {"gpu": _without(_GPU, "flops")}, {"gpu": {**_GPU, "flops": {"int8": 1e12}}},
            {"gpu": {**_GPU, "memory_rate": 0}}, {"levels": [{"count": 4}]},
        )
    ),
    *(("configuration-plan-1", _without(CONFIGURATION, key)) for key in CONFIGURATION),
    *(
        ("configuration-plan-1", {**CONFIGURATION, **change})
        for change in (
            {"degrees": {"tensor": 0}}, {"degrees": {"tensors": 2}}, {"degrees": []}, {"micro_batch": 0}, {"zero": 4},
            {"schedule": "2f2b"}, {"layout": [0]}, {"layout": "4/4"}, {"recompute": "none"}, {"recompute": [None]},
        )
    ),
]  # fmt: skip


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False).filter(lambda x: not x.is_integer())
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


# Keys that are read as well, and that the good examples leave out.
OMITTED = {
    "chain-1": ("name", "time_unit", "bandwidth", "weight_copies", "memory_mode", "exclusive_buffers"),
    "placement-1": ("name", "time_unit"),
    "result-1": ("seconds", "warm_start", "verified"),
}


@given(st.sampled_from([*READERS, "pattern"]), st.data())
def test_a_reader_accepts_nothing_that_its_schema_refuses(name: str, data: st.DataObject) -> None:
    """What is in `choices` is read where it is used, by a reader of its own."""
    good, reader, schema = (
        (PATTERN, PatternPlan.from_json, "plan-1") if name == "pattern" else (GOOD[name], READERS[name], name)
    )
    spoilt = {
        **good,
        data.draw(st.sampled_from([*sorted(good.keys() - {"choices"}), *OMITTED.get(name, ())])): data.draw(VALUES),
    }
    try:
        reader(spoilt)
    except InputError:
        return
    assert VALIDATORS[schema].is_valid(spoilt)


_DEVICE: dict[str, Any] = {"name": "d", "memory": 10, "standing": 1}
_BLOCK: dict[str, Any] = {"id": "F", "kind": "F", "devices": ["d"], "time": 5}
_EDGE: dict[str, Any] = {"from": "F", "to": "F", "offset": 1}
SMALL_SCHEDULE = {"schema": "pipeplan.schedule/1", "devices": [_DEVICE], "blocks": [_BLOCK], "edges": [_EDGE]}
MALFORMED_SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    *(("schedule-1", _without(SMALL_SCHEDULE, key)) for key in ("schema", "devices", "blocks")),
    *(
        ("schedule-1", {**SMALL_SCHEDULE, **change})
        for change in (
            {"schema": "pipeplan.schedule/2"}, {"devices": []}, {"blocks": []}, {"edges": {}}, {"micro_batches": 0},
            {"micro_batches": 1.5}, {"leaks": "yes"}, {"name": 3}, {"memory_unit": 7},
        )
    ),
    *(("schedule-1", {**SMALL_SCHEDULE, "devices": [device]}) for device in (
        _without(_DEVICE, "name"), {**_DEVICE, "memory": "10GB"}, {**_DEVICE, "memory": -1},
        {**_DEVICE, "standing": -1}, {**_DEVICE, "standing": None},
    )),
    *(("schedule-1", {**SMALL_SCHEDULE, "edges": [], "blocks": [block]}) for block in (
        *(_without(_BLOCK, key) for key in _BLOCK),
        {**_BLOCK, "kind": "forward"}, {**_BLOCK, "devices": []}, {**_BLOCK, "devices": "d"}, {**_BLOCK, "time": -1},
        {**_BLOCK, "memory": {"d": "2"}}, {**_BLOCK, "memory": [2]}, {**_BLOCK, "workspace": {"d": -1}},
        {**_BLOCK, "stage": [0]},
    )),
    *(("schedule-1", {**SMALL_SCHEDULE, "edges": [edge]}) for edge in (
        _without(_EDGE, "from"), _without(_EDGE, "to"), {**_EDGE, "lag": -1}, {**_EDGE, "offset": -1},
        {**_EDGE, "offset": 0.5}, {**_EDGE, "from": 3},
    )),
    *(("schedule-plan-1", _without(SCHEDULE_PLAN, key)) for key in SCHEDULE_PLAN),
    *(("schedule-plan-1", _without(PERIODIC_PLAN, key)) for key in PERIODIC_PLAN),
    *(("schedule-plan-1", {"kind": "schedule", "starts": starts}) for starts in (
        [0], {"F": 0}, {"F": [None]}, {"F": ["1.5"]}, {"F": ["a third"]},
    )),
    ("schedule-plan-1", {**PERIODIC_PLAN, "starts": {"F": [0]}}),
    ("schedule-plan-1", {**PERIODIC_PLAN, "period": None}),
    ("schedule-plan-1", {**SCHEDULE_PLAN, "kind": "placement"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data"), [*MALFORMED_STAGINGS, *MALFORMED_GRAPHS, *MALFORMED_TRAININGS, *MALFORMED_SCHEDULES]
)
def test_schema_and_reader_refuse_the_same(name: str, data: dict[str, Any]) -> None:
    assert not VALIDATORS[name].is_valid(data)
    with pytest.raises(InputError):
        READERS[name](data)


def test_the_small_schedule_that_is_spoilt_is_read() -> None:
    READERS["schedule-1"](SMALL_SCHEDULE)
