"""The JSON Schemas say what the readers do: what a reader accepts, its schema accepts."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from oracles.extended_placement import tiny_types
from problems.graph_pipelines_with_plans import random_graph_problem, random_plan
from problems.malformed import DROP, OWN, PLAN, RESULT, changed
from problems.profiles import DIAMOND
from problems.schedules import random_schedule
from problems.stagings import random_staging
from problems.strategies import placement_problems
from problems.trainings import random_configuration, random_own_training, random_training
from referencing import Registry, Resource

from pipeplan import Device, InputError, PatternPlan, PlacementPlan, PlacementProblem, StageGraphPlan
from pipeplan.instances.chain.kind_functions import chain_from_json
from pipeplan.instances.files import problem_from_text, problem_to_text
from pipeplan.instances.graph_pipeline.kind_functions import graph_pipeline_from_json, graph_pipeline_to_json
from pipeplan.instances.networks.profile.profile import profile_from_json, profile_to_json
from pipeplan.instances.physics.efficiencies import ABOUT
from pipeplan.instances.placement.kind_functions import placement_from_json
from pipeplan.instances.registry import Problem, any_plan_from_json
from pipeplan.instances.schedule.kind_functions import schedule_from_json, schedule_to_json
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schemas import NAMES, read_schema
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_to_json
from pipeplan.instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import DeviceType, StagingLevel
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.kind_functions import training_from_json, training_to_json
from pipeplan.instances.training.plan import Configuration

CHAIN = {
    "schema": "pipeplan.chain/1", "forward": [1, 2.5], "backward": [2, 0], "activations": [1, 2, 3], "weights": [0, 1],
    "gpus": 2, "memory": None, "transfer_times": [1, 0, 1], "duplex": "full", "name": "c", "time_unit": "s",
    "weight_copies": 3, "memory_mode": "strict", "exclusive_buffers": True,
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
SCHEDULE = schedule_to_json(random_schedule(micro_batches=3, seed=9))
SCHEDULE_PLAN = {"kind": "schedule", "starts": {"F0": [0, 2.5, "37/3"], "B0": [5, 7, 20]}}
PERIODIC_PLAN = {"kind": "periodic-schedule", "period": "37/3", "starts": {"F0": 0, "B0": "25/3"}}
STAGE_GRAPH = random_plan(random_graph_problem(5), 5).to_json()
TRAINING = training_to_json(random_training(3))
CONFIGURATION = random_configuration(random_training(3), 3).to_json()
GOOD = {
    "chain-1": CHAIN, "placement-1": {**OWN, "name": "p", "time_unit": "s"}, "plan-1": PLAN,
    "result-1": {**RESULT, "seconds": {"solve": 1.5}, "warm_start": {"outcome": "accepted"}, "verified": True},
    "staging-1": STAGING, "staged-plan-1": STAGED_PLAN, "graph-pipeline-1": GRAPH_PIPELINE,
    "stage-graph-1": STAGE_GRAPH, "profile-1": PROFILE, "schedule-1": SCHEDULE, "schedule-plan-1": SCHEDULE_PLAN,
    "training-1": TRAINING, "configuration-plan-1": CONFIGURATION,
}  # fmt: skip


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


def comes_back(problem: Problem) -> None:
    """It obeys its schema and is read as what it was."""
    text = problem_to_text(problem)
    data = json.loads(text)
    VALIDATORS[data["schema"].removeprefix("pipeplan.").replace("/", "-")].validate(data)
    again = problem_from_text(text)
    assert again == problem
    assert again.hash == problem.hash


@given(placement_problems())
def test_a_placement_comes_back(problem: PlacementProblem) -> None:
    comes_back(problem)


def test_what_we_write_of_any_kind_comes_back() -> None:
    kinds = (DeviceType("fast", 1, 2.0, 10.0), DeviceType("slow", 2))
    comes_back(chain_from_json(CHAIN))
    comes_back(staging_from_json(STAGING))
    comes_back(random_schedule(3, 8, 4, 0).replace(leaks=True))
    for seed in range(12):
        graph, training = random_graph_problem(seed), random_training(seed)
        comes_back(tiny_types(seed))
        comes_back(random_staging(seed))
        comes_back(random_staging(seed).replace(devices=3, memory_bytes=None, device_types=kinds))
        comes_back(graph)
        comes_back(random_schedule(3, 8, seed or None, seed))
        comes_back(training)
        comes_back(random_own_training(seed))
        for name, plan in (
            ("stage-graph-1", random_plan(graph, seed)),
            ("configuration-plan-1", random_configuration(training, seed)),
        ):
            VALIDATORS[name].validate(plan.to_json())
            assert any_plan_from_json(plan.to_json()) == plan


@pytest.mark.parametrize("plan", [None, STAGED_PLAN, STAGE_GRAPH, SCHEDULE_PLAN, PERIODIC_PLAN, CONFIGURATION])
def test_a_written_result_passes_with_a_plan_of_any_kind(plan: Any) -> None:
    VALIDATORS["result-1"].validate(result_from_json(RESULT).to_json())
    VALIDATORS["result-1"].validate(result_from_json({**RESULT, "plan": plan}).to_json())


def test_the_schema_of_trainings_knows_every_efficiency_with_its_bounds() -> None:
    listed = read_schema("training-1")["properties"]["efficiencies"]["properties"]
    bounds = {name: (about.least, 1e100 if about.most is None else about.most) for name, about in ABOUT.items()}
    assert {name: (own["minimum"], own["maximum"]) for name, own in listed.items()} == bounds


TREE = LeveledPlan((LeveledStage((1, "1"), 2, children=(LeveledStage((1, "1"), 2, 1, {1: "x", "1": "y"}),)),))
TYPED = PlacementPlan((Device("acc0", "accelerator", ("a",), None, "fast"), Device("cpu0", "cpu", ("b",))))
TYPES = {
    "other_types": [{"name": "fast", "count": 1, "memory_bytes": 3}],
    "nodes": [{**node, "other_times": [2]} for node in OWN["nodes"]],
}
TYPED_PLAN = StagedPlan((PlannedStage((1,), 1, 1, {1: "vanilla"}, device_type="fast"),)).to_json()
WRITTEN_PLANS = (
    *(("staged-plan-1", plan) for plan in (STAGED_PLAN, TYPED_PLAN, TREE.to_json())),
    *(("schedule-plan-1", plan) for plan in (SCHEDULE_PLAN, PERIODIC_PLAN)),
    ("plan-1", TYPED.to_json()),
)


@pytest.mark.parametrize(("name", "plan"), WRITTEN_PLANS)
def test_a_plan_is_written_as_it_was_read(name: str, plan: dict[str, Any]) -> None:
    written = any_plan_from_json(json.loads(json.dumps(plan))).to_json()
    assert written == plan
    VALIDATORS[name].validate(written)


EXAMPLES: dict[str, tuple[str, Any, Callable[[Any], object]]] = {
    **{name: (name, GOOD[name], reader) for name, reader in READERS.items()},
    "pattern": ("plan-1", PATTERN, PatternPlan.from_json),
    "periodic schedule": ("schedule-plan-1", PERIODIC_PLAN, _schedule_plan),
    "tree of stages": ("staged-plan-1", TREE.to_json(), LeveledPlan.from_json),
    "devices of types": ("plan-1", TYPED.to_json(), PlacementPlan.from_json),
    "types of accelerators": ("placement-1", {**OWN, **TYPES}, placement_from_json),
}
ODD = (None, True, -1, 0.5, "zz", [], {"zz": []}, DROP)
# What lies there may name or count something else in the file, which a schema cannot see.
OF_MEANING = {
    *(0, 1, "id", "name", "from", "to", "producer", "memory", "d0", "zz"),
    *("accelerators", "devices", "edges", "other_types", "configurations", "parameters", "stem.weight"),
    *("flops", "bf16", "transfers", "batches_per_period", "hidden", "layers", "vocabulary", "attention", "mlp"),
    *("node_link", "devices_per_node", "children"),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key, a further one of each object, and the first entry of each list."""
    keys: Iterable[Any] = value if isinstance(value, dict) else [0] if isinstance(value, list) and value else []
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))
    if isinstance(value, dict):
        yield (*path, "zz")


def is_there(field: str, path: tuple[Any, ...]) -> bool:
    """Does the name of a field lead to this place, or towards it? Members of pairs have names of their own."""
    words = [word.strip("'") for word in re.findall(r"'[^']*'|[\w-]+", field)]
    words = words[words[:1] == ["plan"] and path[:1] != ("plan",) :]
    return all(
        word == str(key) or (key in (0, 1) and not word.isdigit()) for word, key in zip(words, path, strict=False)
    )


def refusal(reader: Callable[[Any], object], data: Any) -> InputError | None:
    try:
        reader(data)
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize("example", EXAMPLES)
def test_schema_and_reader_refuse_the_same_and_the_reader_says_where(example: str) -> None:
    """A value of another type, one out of range, a key too many or nothing, in every place in turn."""
    name, good, reader = EXAMPLES[example]
    for path, odd in itertools.product(places(good), ODD):
        if odd is DROP and path[-1] == "zz":
            continue
        data = changed(good, path, odd)
        valid, error = VALIDATORS[name].is_valid(data), refusal(reader, data)
        if error is None or valid:
            assert valid, (path, odd)
            assert error is None or path[-1] in OF_MEANING, (path, odd, str(error))
        else:
            assert is_there(error.field, path[:-1] if odd is DROP else path), (path, odd, str(error))
