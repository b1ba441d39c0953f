"""The shortlist in a result: what is written is read again, and what a file claims is checked or judged anew."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from page_samples import JUDGED, configured, small_training
from referencing import Registry, Resource

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Result
from pipeplan.instances.schemas import NAMES, read_schema
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.run.claims import recompute
from pipeplan.studies.configure.answer import Answer
from pipeplan.studies.configure.choices import MOST_CHARACTERS, MOST_JUDGED, stored_answer

REGISTRY: Any = Registry().with_resources(
    [(read_schema(name)["$id"], Resource.from_contents(read_schema(name))) for name in NAMES]
)
VALIDATOR = jsonschema.Draft202012Validator(read_schema("result-1"), registry=REGISTRY)


@pytest.fixture(scope="module")
def written() -> Result:
    return configured(JUDGED)


def read(result: Result) -> Answer:
    answer = stored_answer(small_training(), result)
    assert answer is not None
    return answer


def test_the_list_and_what_was_judged_come_back_as_they_were_found(written: Result) -> None:
    VALIDATOR.validate(written.to_json())
    assert result_from_json(written.to_json()) == written
    answer, stored = read(written), written.choices
    assert stored is not None
    assert answer.best is not None
    assert answer.best.plan == written.plan
    assert written.plan in [own.plan for own in answer.listed]
    assert [own.seconds for own in answer.listed] == [entry["seconds"] for entry in stored["shortlist"]]
    assert [own.asked for own in answer.judged] == list(JUDGED)
    assert [own.fits for own in answer.judged] == ["yes", "yes", "no"]
    for own, entry in zip(answer.judged, stored["judged"], strict=True):
        assert own.evaluation.timing.seconds == entry["seconds"]
        assert answer.lost(own) == pytest.approx(entry["lost"])
        assert sum(entry["lost"].values()) == pytest.approx(entry["seconds"] - answer.best.timing.seconds)


def test_losses_and_times_of_judged_configurations_are_never_taken_from_the_file(written: Result) -> None:
    first, *_ = read(
        changed(written, lambda top: top["judged"][0].update(seconds=1e-9, lost={"the bubble": -9.0}))
    ).judged
    assert first.evaluation.timing.seconds == read(written).judged[0].evaluation.timing.seconds


def test_a_plan_that_the_referee_has_not_accepted_is_no_best_one(written: Result) -> None:
    assert read(recompute(small_training(), written).result).best is not None
    assert read(replace(written, verified=False)).best is None


def test_results_of_other_commands_have_no_list(written: Result) -> None:
    other = replace(written, choices=None)
    assert stored_answer(small_training(), other) is None
    assert "choices" not in other.to_json()


BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a share beyond all": (lambda top: top.update(error=1.5), "choices.error is 1.5; give a share"),
    "a count below zero": (lambda top: top.update(considered=-1), "choices.considered is -1; give a count from 0"),
    "no list": (lambda top: top.pop("shortlist"), "choices.shortlist is missing"),
    "a list that is none": (lambda top: top.update(shortlist={}), "choices.shortlist is an object, not a list"),
    "words that say nothing": (
        lambda top: top["shortlist"][1].update(words="fast=yes"),
        "choices.shortlist[1].words says configuration, which has the key 'fast'",
    ),
    "another cluster": (
        lambda top: top["shortlist"][0].update(words="tensor=8"),
        "choices.shortlist[0].words says configuration, which has 8 x 1 x 1 ranks for 4 GPUs",
    ),
    "what cannot be run": (
        lambda top: top["shortlist"][0].update(words="tensor=1 data=4 zero=0 schedule=zb-v"),
        "choices.shortlist[0].words cannot be run",
    ),
    "flags for words": (
        lambda top: top["judged"][0].update(words="--tensor-model-parallel-size 2"),
        "choices.judged[0].words says configuration, which holds",
    ),
    "an unknown framework": (
        lambda top: top["judged"][0].update(framework="x"),
        "choices.judged[0].framework is 'x'",
    ),
    "endless words": (
        lambda top: top["judged"][0].update(words="x" * (MOST_CHARACTERS + 1)),
        f"choices.judged[0].words has {MOST_CHARACTERS + 1} characters",
    ),
    "too many": (
        lambda top: top.update(judged=top["judged"][:1] * (MOST_JUDGED + 1)),
        f"choices.judged has {MOST_JUDGED + 1} entries; give at most {MOST_JUDGED}",
    ),
    "time that is none": (
        lambda top: top["shortlist"][0].update(seconds="1"),
        "choices.shortlist[0].seconds is '1'",
    ),
}


def changed(result: Result, change: Callable[[Any], Any]) -> Result:
    data = deepcopy(result.to_json())
    change(data["choices"])
    return result_from_json(data)


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_is_refused_with_its_place(written: Result, name: str) -> None:
    change, told = BROKEN[name]
    with pytest.raises(InputError) as said:
        read(changed(written, change))
    assert told in str(said.value)
