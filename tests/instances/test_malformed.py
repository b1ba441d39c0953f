"""Every malformed file is answered with one sentence on one line: file, field, remedy. Never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems.malformed import MALFORMED, MALFORMED_PLANS, PROFILE_CLUSTER, Malformed, write

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.lookup import load
from pipeplan.instances.stored_results import load_plan

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
