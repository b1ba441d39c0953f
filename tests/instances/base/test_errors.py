"""Messages are one short printable line, whatever the input holds."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.instances.base.errors import SHOWN_CHARACTERS, InputError, PipeplanError, nearest, printable, show


def test_the_sentence_names_file_field_and_remedy() -> None:
    error = InputError("nodes[3].size", "is NaN", "give a finite number", "a.json")
    assert str(error) == "a.json: nodes[3].size is NaN; give a finite number."
    assert isinstance(error, PipeplanError)


def test_a_reader_adds_its_file_and_its_own_field_names() -> None:
    error = InputError("nodes[3].accelerator_time", "is NaN", "give a finite number")
    assert str(error.in_file("a.json")) == "a.json: nodes[3].accelerator_time is NaN; give a finite number."
    renamed = error.in_file("a.json").renamed({"accelerator_time": "fpgaLatency"})
    assert str(renamed) == "a.json: nodes[3].fpgaLatency is NaN; give a finite number."
    assert renamed.renamed({"fpgaLatency": "x"}).file == "a.json"


def test_an_error_survives_the_way_between_processes() -> None:
    error = InputError("cpus", "is -1", "give 0", "a.json")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(("value", "shown"), [
    (None, "null"), (True, "true"), (False, "false"), ({"a": 1}, "an object"), ([1], "a list"), (1.5, "1.5"),
    ("a\n", r"'a\n'"), (10**29, "1" + "0" * 29), (-(10**4000), "a whole number of 13288 bits"),
    ("x" * 100, "'" + "x" * 57 + "...'"), (range(10**60, 10**61), "range(" + "1" + "0" * 50 + "..."),
])  # fmt: skip
def test_values_are_quoted_as_json_says_them(value: object, shown: str) -> None:
    assert show(value) == shown


@given(st.text() | st.integers() | st.floats() | st.binary())
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    # A character may take ten to escape: \U0010ffff.
    assert len(show(value)) <= 10 * SHOWN_CHARACTERS + 2
    assert show(value).isprintable()


@given(st.text(st.characters()))
def test_printable_texts_stay_and_others_are_escaped(text: str) -> None:
    assert printable(text).isprintable()
    assert text.isprintable() == (printable(text) == text)


def test_every_part_of_a_message_is_escaped() -> None:
    assert str(InputError("a\x1b", "b\n", "c\u202e", "d\ud800")) == r"d\ud800: a\x1b b\n; c\u202e."


NEAR = [
    ("acc_time", ["id", "cpu_time", "accelerator_time", "transfer_time"], "accelerator_time"),
    ("memory_bytes", ["gpus", "memory", "memory_mode"], "memory"),
    ("bert-larg", ["t5-large", "bert-base-operators", "bert-large-inference"], "bert-large-inference"),
    ("a10g", ["a100-80gb", "a10", "l40s"], "a10"),
    ("a10g", ["a100-80gb", "h100-80gb"], None),
    ("two", ["64xh100-80gb", "8xa100-80gb"], None),
    ("llama38b", ["llama-3-70b", "llama-3-8b"], "llama-3-8b"),
    ("microbatches", ["microbatch-group-size", "micro-batch-size"], "micro-batch-size"),
    ("tensor-parallel-size", ["tensor-parallel-comm", "tensor-model-parallel-size"], "tensor-model-parallel-size"),
    ("tarnawski", ["ip-tarnawski-latency", "cp-beaumont"], None),
    ("slove", ["show", "solve"], "solve"),
    ("dq", ["dp", "lp"], None),
    ("", ["a", ""], None),
]


@pytest.mark.parametrize(("word", "known", "meant"), NEAR)
def test_the_nearest_name_is_one_that_somebody_means(word: str, known: list[str], meant: str | None) -> None:
    assert nearest(word, known) == meant
