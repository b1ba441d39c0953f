"""Wherever a text becomes a whole number, one reader decides: other digits and long rows of them are no crash."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.base.quantities import levels, tokens, whole_number, whole_numbers
from pipeplan.instances.chain.plan import PatternPlan, read_allocation
from pipeplan.instances.networks.megatron_layout import expanded
from pipeplan.instances.networks.profile.options import efficiencies_of
from pipeplan.instances.physics.hardware import devices_given
from pipeplan.instances.schedule.plan import exact
from pipeplan.instances.staging.kind_functions import _by_degree, _way_from_json
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.flags import configuration_from_flags
from pipeplan.instances.training.plan import read_recompute
from pipeplan.instances.training.scope import read_scope
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.training.runs import _whole

PROBLEM = problem_of("llama-3-8b", "8xh100-80gb", sequence=8192, batch=64)
# A superscript, an Arabic and a full-width digit, what Python reads as numbers and people do not, and more digits
# than Python converts.
NO_NUMBERS = ("²", "٣", "３", "1_000", "0x10", "1e3", "9" * 5000)

READERS: dict[str, Callable[[str], object]] = {
    "tokens": tokens,
    "thousands of tokens": lambda text: tokens(f"{text}k"),
    "recompute of a configuration": lambda text: read_recompute("recompute", f"full:{text}"),
    "recompute in words": lambda text: configuration_from_words(PROBLEM, f"recompute=full:{text}"),
    "degree in words": lambda text: configuration_from_words(PROBLEM, f"tensor={text}"),
    "layout in words": lambda text: configuration_from_words(PROBLEM, f"pipeline=2 layout=17/{text}"),
    "letters of a layout": lambda text: expanded(f"Et*{text}"),
    "fixed degree": lambda text: read_scope([f"tensor={text}"]),
    "fixed recompute": lambda text: read_scope([f"recompute=full:{text}"]),
    "flag": lambda text: configuration_from_flags(PROBLEM, f"--tensor-model-parallel-size {text}"),
    "row of runs": lambda text: _whole({"batch": text}, "batch"),
    "devices": lambda text: devices_given(text),
    "levels": lambda text: levels(f"{text}x8GB/s"),
    "allocation": lambda text: read_allocation(f"0,{text}"),
    "edge of a pattern": lambda text: PatternPlan.from_json(
        {"kind": "pattern", "allocation": [0], "period": 1, "starts": [0, 1], "transfers": {text: 0}}
    ),
    "tensor-parallel degree of a staging": lambda text: _by_degree("configurations", {text: []}, _way_from_json),
    "efficiencies by degree": lambda text: efficiencies_of(f"{text}:0.9"),
    "exact time": lambda text: exact("period", text),
}


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:8])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_number_is_refused_in_a_sentence(reader: str, text: str) -> None:
    with pytest.raises((PipeplanError, typer.BadParameter, ValueError)) as found:
        READERS[reader](text)
    message = str(found.value)
    assert "invalid literal" not in message
    assert "Exceeds the limit" not in message
    assert len(message) < 11_000


@pytest.mark.parametrize("reader", READERS)
def test_a_number_is_read(reader: str) -> None:
    READERS[reader]("17" if reader == "layout in words" else "2")


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("007", 7), ("0", 0), ("9" * 12, 10**12 - 1)])
def test_digits_are_read_as_a_whole_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", [*NO_NUMBERS, "", " 7", "+7", "-7", "7.0", "9" * 13])
def test_other_texts_are_no_whole_number(text: str) -> None:
    assert whole_number(text) is None
    assert whole_numbers(f"1, {text.strip()},2") == ((1, 7, 2) if text == " 7" else None)


def test_a_k_of_tokens_is_1024_of_them() -> None:
    assert [tokens(text) for text in ("8192", "8k", "8K", " 128k ")] == [8192, 8192, 8192, 131_072]
