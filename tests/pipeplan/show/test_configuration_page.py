"""The page of a training: the shortlist, time by part, and why judged configurations are not the best."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from command_line import has
from page_samples import JUDGED, TRAINING, configured, page_text, small_training

from pipeplan.instances.base.result import Result
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.show.configurations import drawn_parts, layout_in_short
from pipeplan.show.palette import COMPUTATION, LOADS
from pipeplan.show.report import result_page
from pipeplan.studies.configure.answer import MOST_JUDGED


@pytest.fixture(scope="module")
def stored() -> Result:
    return configured(JUDGED)


def page_of(stored: Result, **changes: Any) -> str:
    data = deepcopy(stored.to_json())
    data["choices"].update(changes)
    return result_page(small_training(), result_from_json(data))


def part(page: str, name: str) -> str:
    """The text of a section, without its tags."""
    found = re.search(rf'<section data-part="{name}">(.*?)</section>', page, re.DOTALL)
    return "" if found is None else " ".join(re.sub(r"<[^>]*>", " ", found[1]).split())


def test_the_shortlist_says_whose_times_it_has(stored: Result) -> None:
    listed = deepcopy(stored.to_json())["choices"]["shortlist"]
    assert len(listed) > MOST_JUDGED
    said = part(page_of(stored), "shortlist")
    has(
        said,
        f"the fastest one is among these {len(listed)}",
        f"times of places 1 to {MOST_JUDGED} are the referee's, those of the others are what the search said",
    )


def test_a_time_that_the_referee_contradicts_is_told_and_not_shown(stored: Result) -> None:
    listed = deepcopy(stored.to_json())["choices"]["shortlist"]
    listed[1] = {**listed[1], "seconds": 123.0}
    said = part(page_of(stored, shortlist=listed), "shortlist")
    has(said, "The file claims other times", "place 2: 123.0 s, the referee computes")
    assert "The file claims other times" not in part(page_of(stored), "shortlist")


def test_what_is_faster_than_the_best_but_may_not_fit_says_so(stored: Result) -> None:
    """The list begins with it: its time is less, and it fits only if memory is wrong."""
    said = part(page_of(stored), "shortlist")
    assert re.search(r"\b1 0\.111\d* -0\.\d+ % [\d.]+ maybe", said)
    assert re.search(r"\b2 0\.112\d* 0\.00 % [\d.]+ yes", said)


def test_each_judged_configuration_says_what_it_loses_by_part(stored: Result) -> None:
    said = part(page_of(stored), "judged")
    for asked in JUDGED:
        assert asked in said
    has(said, "tensor communication", "recomputation", "does not fit", "rank 0 is over by")


def test_text_of_a_file_is_only_text(stored: Result) -> None:
    judged = deepcopy(stored.to_json())["choices"]["judged"]
    judged[0] = {**judged[0], "asked": "<script>alert(1)</script>", "notes": ["<img src=x>"]}
    page = page_of(stored, judged=judged)
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page


def test_without_a_plan_the_list_and_the_judged_ones_are_shown_all_the_same() -> None:
    page = result_page(small_training(2**30), configured(("pipeline=2",), 2**30))
    assert "No plan" in page
    assert "does not fit" in part(page, "judged")
    assert part(page, "shortlist") == ""


def test_a_result_of_another_command_has_no_such_parts(stored: Result) -> None:
    data = deepcopy(stored.to_json())
    del data["choices"]
    page = result_page(small_training(), result_from_json(data))
    assert not any(part(page, name) for name in ("shortlist", "judged", "time by part"))


@pytest.mark.parametrize("words", JUDGED)
def test_parts_that_are_drawn_have_colours_of_their_own_and_add_up_to_the_iteration(words: str) -> None:
    own = evaluate_configuration(small_training(), configuration_from_words(small_training(), words))
    drawn = drawn_parts(own)
    assert sum(drawn.values()) == pytest.approx(own.timing.seconds, rel=1e-4)
    assert len({LOADS[name] for name in drawn}) == len(drawn)
    assert LOADS["computation"] == COMPUTATION


@pytest.mark.parametrize(
    ("layout", "words"), [((34,), "34"), ((3, 3, 3, 1), "3×3, 1"), ((1, 2, 2, 1), "1, 2×2, 1")]
)
def test_layouts_are_written_in_short(layout: tuple[int, ...], words: str) -> None:
    assert layout_in_short(layout) == words


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    assert "//" not in page_text(TRAINING, tmp_path).partition("<main>")[2].partition("<script>")[0]
