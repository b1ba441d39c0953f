"""Whatever stands in a file, the answer is a value or one helpful sentence: no other exception, ever."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from problems.graph_pipelines_with_plans import random_graph_problem, random_plan
from problems.malformed import EXPERT, OWN, PLAN, PROFILE, PROFILE_CLUSTER, PUBLISHED, RESULT

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.graph_pipeline.kind_functions import graph_pipeline_to_json
from pipeplan.instances.lookup import load
from pipeplan.instances.stored_results import load_plan

GRAPH = graph_pipeline_to_json(random_graph_problem(5))
STAGE_GRAPH = random_plan(random_graph_problem(5), 5).to_json()
PROBLEMS = [json.dumps(OWN), json.dumps(PUBLISHED), PROFILE, json.dumps(GRAPH)]
PLANS = [json.dumps(PLAN), json.dumps(RESULT), json.dumps(EXPERT), json.dumps(STAGE_GRAPH)]
SPLICES = st.sampled_from(
    ["", "NaN", "-1", "1e999", "9" * 5000, "null", "[]", "{}", '"', ",", "[" * 2000, "true", "\t", "\0", "\ufeff"]
)


def read_or_refuse(text: bytes, reader: Any) -> None:
    """Read the text as a file; what is raised is an `InputError` of the usual form."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fuzz")
        path.write_bytes(text)
        try:
            reader(path)
        except InputError as error:
            sentence = str(error)
        else:
            return
    assert sentence.isprintable()
    assert sentence.startswith(f"{path}: ")
    assert "; " in sentence


@given(st.sampled_from(PROBLEMS), st.data())
def test_a_spoilt_problem_never_crashes_the_reader(good: str, data: st.DataObject) -> None:
    read_or_refuse(splice(good, data), partial(load, **PROFILE_CLUSTER) if good is PROFILE else load)


@given(st.sampled_from(PLANS), st.data())
def test_a_spoilt_plan_never_crashes_the_reader(good: str, data: st.DataObject) -> None:
    read_or_refuse(splice(good, data), load_plan)


def splice(good: str, data: st.DataObject) -> bytes:
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 20)))
    middle = data.draw(SPLICES | st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
    return (good[:start] + middle + good[end:]).encode()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**400, "a", "b", 1, 2]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from([OWN, PUBLISHED, PLAN, RESULT, EXPERT, GRAPH, STAGE_GRAPH]), st.data())
def test_any_value_in_any_place_never_crashes_the_reader(good: dict[str, Any], data: st.DataObject) -> None:
    copied = json.loads(json.dumps(good))
    place: Any = copied
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(VALUES)
    text = json.dumps(copied).encode()
    read_or_refuse(text, load_plan)
    read_or_refuse(text, load)
