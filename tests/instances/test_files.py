"""One door: the format of a problem is told from its content, and what is saved can be loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.malformed import EXPERT, OWN, PLAN, PROFILE, PROFILE_CLUSTER, PUBLISHED, RESULT

from pipeplan import InputError, PlacementPlan, UsageError, load, save
from pipeplan.instances.base.result import Found, Result, StartOutcome, Stop, WarmStart, relative_gap
from pipeplan.instances.placement.kind_functions import placement_from_json
from pipeplan.instances.stored_results import plan_from_json, result_from_json


def put(folder: Path, name: str, data: object) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("format", "data", "options", "unit"),
    [("own", OWN, {}, "s"), ("published", PUBLISHED, {}, None), ("pipedream", PROFILE, PROFILE_CLUSTER, "ms")],
)
def test_the_format_is_told_from_the_content_or_given(
    tmp_path: Path, format: str, data: Any, options: dict[str, Any], unit: str | None
) -> None:
    path = put(tmp_path, "whatever.xyz", data)
    problem = load(path, **options)
    assert problem.time_unit == unit
    assert load(path, format=format, **options) == problem


def test_a_wrong_format_is_refused_on_the_file_s_terms(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", PUBLISHED)
    with pytest.raises(InputError, match='schema is missing; add the key "schema"'):
        load(path, format="own")
    with pytest.raises(InputError, match="line 1 is neither a node nor an edge"):
        load(path, format="pipedream", **PROFILE_CLUSTER)
    with pytest.raises(UsageError, match="'xml' is unknown; give one of own, published, pipedream"):
        load(path, format="xml")


@pytest.mark.parametrize("data", [OWN, PUBLISHED])
def test_the_caller_s_cluster_overrides_the_file_s(tmp_path: Path, data: dict[str, Any]) -> None:
    problem = load(put(tmp_path, "a.json", data), devices=7, cpus=3, memory_bytes=99.0)
    assert (problem.accelerators, problem.cpus, problem.memory_bytes) == (7, 3, 99.0)
    assert load(put(tmp_path, "a.json", data), memory_bytes=math.inf).memory_bytes is None


def test_an_override_can_mend_what_the_file_lacks(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", {**OWN, "accelerators": 0})
    with pytest.raises(InputError, match="accelerators is 0 and there is no CPU"):
        load(path)
    assert load(path, cpus=1).cpus == 1


def test_the_size_limit_is_the_caller_s(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give a file of at most 10 bytes"):
        load(put(tmp_path, "a.json", OWN), max_bytes=10)


def test_a_saved_problem_can_be_loaded(tmp_path: Path) -> None:
    problem = placement_from_json({**OWN, "name": "kept"})
    save(problem, tmp_path / "a.json")
    assert load(tmp_path / "a.json") == problem


# ---- Results come back from their files as they were; nothing that a file claims is believed.


numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | numbers
words = st.text(max_size=8)

results = st.builds(
    Result,
    problem=st.fixed_dictionaries({"kind": st.just("placement"), "name": words, "hash": words}),
    stop=st.sampled_from(Stop),
    found=st.sampled_from(Found),
    formulation=st.none() | words,
    planner=st.none() | words,
    plan=st.none() | st.just(PlacementPlan.from_json(PLAN)),
    objective=maybe,
    claimed=maybe,
    bound=maybe,
    verified=st.booleans(),
    violations=st.lists(words, max_size=2).map(tuple),
    warm_start=st.builds(WarmStart, st.sampled_from(StartOutcome), st.none() | words, maybe),
    backend=st.dictionaries(words, words, max_size=2),
    options=st.dictionaries(words, st.none() | st.booleans() | numbers | words, max_size=2),
    seconds=st.dictionaries(words, numbers, max_size=2),
    model_size=st.dictionaries(words, st.integers(0, 10**6), max_size=2),
    messages=st.lists(words, max_size=2).map(tuple),
)


@pytest.mark.parametrize(
    ("objective", "bound", "gap"), [(4, 3, 0.25), (0, 0, 0), (0, -1, None), (1e-57, 1e300, None), (4, None, None)]
)
def test_a_gap_is_a_number_or_none(objective: float, bound: float | None, gap: float | None) -> None:
    assert relative_gap(objective, bound) == gap


@given(results)
def test_a_round_trip_keeps_everything(result: Result) -> None:
    assert result_from_json(json.loads(json.dumps(result.to_json()))) == result


def test_what_is_absent_is_none_and_later_keys_are_ignored() -> None:
    minimal = {key: RESULT[key] for key in ("schema", "problem", "stop", "found")}
    result = result_from_json({**minimal, "plan": None, "energy": {"joules": 5}})
    assert (result.plan, result.objective, result.bound, result.gap) == (None, None, None, None)
    assert result == Result(problem=RESULT["problem"], stop=Stop.PROVEN, found=Found.OPTIMAL)


def test_a_plan_is_found_in_each_kind_of_file() -> None:
    plan = PlacementPlan.from_json(PLAN)
    assert plan_from_json(PLAN) == plan
    assert plan_from_json(RESULT) == plan
    assert [device.nodes for device in plan_from_json(EXPERT).devices] == [(1, 2), (3, 4), ()]
