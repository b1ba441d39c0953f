"""Every malformed file is answered with one sentence on one line: file, field, remedy. Never a traceback."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.graph_pipelines_with_plans import random_graph_problem, random_plan
from problems.malformed import (
    EXPERT,
    MALFORMED,
    MALFORMED_PLANS,
    OWN,
    PLAN,
    PROFILE,
    PROFILE_CLUSTER,
    PUBLISHED,
    RESULT,
    Malformed,
    write,
)

from pipeplan import InputError, load, load_plan
from pipeplan.instances.graph_pipeline.kind_functions import graph_pipeline_to_json

LONGEST_MESSAGE = 800


def by_name(cases: list[Malformed]) -> list[object]:
    return [pytest.param(case, id=case.name.replace(" ", "-")) for case in cases]


def assert_helpful(error: InputError, path: Path, case: Malformed) -> None:
    sentence = str(error)
    assert sentence.isprintable(), "one line, nothing that a terminal would obey"
    assert sentence.startswith(f"{path}: {case.field}"), sentence
    problem, semicolon, remedy = sentence.removeprefix(f"{path}: ").partition("; ")
    assert semicolon
    assert case.remedy in remedy
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert ". " not in problem + remedy, "one sentence"
    assert len(sentence) - len(str(path)) < LONGEST_MESSAGE


@pytest.mark.parametrize("case", by_name(MALFORMED))
def test_a_malformed_problem_is_refused_in_one_sentence(case: Malformed, tmp_path: Path) -> None:
    path = write(case, tmp_path)
    with pytest.raises(InputError) as caught:
        load(path, **(PROFILE_CLUSTER if case.is_profile else {}))
    assert_helpful(caught.value, path, case)


@pytest.mark.parametrize("case", by_name(MALFORMED_PLANS))
def test_a_malformed_plan_is_refused_in_one_sentence(case: Malformed, tmp_path: Path) -> None:
    path = write(case, tmp_path)
    with pytest.raises(InputError) as caught:
        load_plan(path)
    assert_helpful(caught.value, path, case)


def test_names_of_cases_are_distinct() -> None:
    for cases in (MALFORMED, MALFORMED_PLANS):
        assert len({case.name for case in cases}) == len(cases)


def test_a_file_name_with_control_characters_is_shown_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n.json"
    path.write_text("{")
    with pytest.raises(InputError) as caught:
        load(path)
    assert r"a\x1b[31m\n.json: line 1, column 2" in str(caught.value)
    assert str(caught.value).isprintable()


# ---- Whatever stands in a file, the answer is a value or one helpful sentence: no other exception, ever.


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
