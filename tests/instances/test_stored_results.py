"""Results come back from their files as they were; nothing that a file claims is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.malformed import EXPERT, PLAN, RESULT

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Found, Result, StartOutcome, Stop, WarmStart
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.stored_results import load_result, plan_from_json, result_from_json

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


@given(results)
def test_a_round_trip_keeps_everything(result: Result) -> None:
    assert result_from_json(json.loads(json.dumps(result.to_json()))) == result


def test_what_is_absent_is_none_and_later_keys_are_ignored() -> None:
    minimal = {key: RESULT[key] for key in ("schema", "problem", "stop", "found")}
    result = result_from_json({**minimal, "plan": None, "energy": {"joules": 5}})
    assert (result.plan, result.objective, result.bound, result.gap) == (None, None, None, None)
    assert result == Result(problem=RESULT["problem"], stop=Stop.PROVEN, found=Found.OPTIMAL)


def test_a_stored_gap_is_not_believed() -> None:
    assert result_from_json({**RESULT, "objective": 4.0, "bound": 3.0, "gap": 0.0}).gap == 0.25


def test_a_plan_is_found_in_each_kind_of_file() -> None:
    plan = PlacementPlan.from_json(PLAN)
    assert plan_from_json(PLAN) == plan
    assert plan_from_json(RESULT) == plan
    assert [device.nodes for device in plan_from_json(EXPERT).devices] == [(1, 2), (3, 4), ()]


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**RESULT, "stop": "bored"}))
    with pytest.raises(InputError, match=r"result\.json: stop is 'bored'; give one of proven"):
        load_result(path)
