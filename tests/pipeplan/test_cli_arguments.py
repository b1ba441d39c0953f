"""What options take: quantities as people write them; and progress on stderr, for machines, for logs, for eyes, or not
at all."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from command_line import Plan

import pipeplan
from pipeplan.cli import signatures as quantities
from pipeplan.cli.arguments import reporter
from pipeplan.instances.base.quantities import plural, several, share, singular, written_bytes
from pipeplan.instances.schedule.generators import GENERATORS
from pipeplan.planners.options import Progress
from pipeplan.show.words import percent
from pipeplan.studies.generate import PARAMETERS

ROOT = Path(__file__).resolve().parents[2]


READ: dict[Callable[[str], float], dict[str, float]] = {
    quantities.duration: {
        "30": 30, "30s": 30, "5min": 300, "5 min": 300, "1.5h": 5400, "250ms": 0.25, "0": 0, "1e2s": 100,
    },
    quantities.size: {"8GiB": 2**33, "8GB": 8e9, "8e9": 8e9, "1.5 kB": 1500, "1KiB": 1024, ".5MiB": 2**19},
    quantities.rate: {"25GiB/s": 25 * 2**30, "1e9": 1e9},
    quantities.size_or_none: {"none": math.inf, "1kB": 1000},
    share: {"0.01": 0.01, "1%": 0.01, "57%": 0.57, "100%": 1.0, "0": 0.0},
}  # fmt: skip


@pytest.mark.parametrize("read", READ)
def test_quantities_are_read_as_people_write_them(read: Callable[[str], float]) -> None:
    assert {text: read(text) for text in READ[read]} == READ[read]


def test_options_by_name_are_checked_by_callbacks_of_one_argument_and_of_two() -> None:
    """As typer calls them: a choice takes the value alone."""
    for callback in (quantities.among("--shape", ["v", "x"]), lambda context, value: value):
        option = inspect.Parameter(
            "shape",
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[str | None, typer.Option(callback=callback)],
        )
        assert quantities._value(None, option, "shape", "v") == "v"


@pytest.mark.parametrize(
    "text", ["", "-1", "nan", "inf", "8 GiBs", "8GiB/s", "five", "1e999", "0x10", "1_000", "٣"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="8GiB"):
        quantities.size(text)


@pytest.mark.parametrize(("read", "text", "words"), [
    (quantities.size, "40gb", "did you mean 40GB?"),
    (quantities.size, "1.5 gib", "did you mean 1.5GiB?"),
    (quantities.rate, "5gb/s", "did you mean 5GB/s?"),
    (quantities.rate, "5Gb/s", "5Gb/s are 0.625GB/s"),
    (quantities.rate, "100Gbps", "100Gbps are 12.5GB/s"),
    (quantities.duration, "3MIN", "did you mean 3min?"),
])  # fmt: skip
def test_a_unit_in_other_letters_is_guessed_and_not_taken(read: Any, text: str, words: str) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(words)):
        read(text)


@pytest.mark.parametrize("amount", [1.0, 40e9, 2.0**33, 1.5e9, 123456789.0, 0.5, 3.0e11, 1e15 / 3])
def test_bytes_are_written_as_they_are_read(amount: float) -> None:
    assert quantities.size(written_bytes(amount)) == amount


def test_nouns_agree_with_their_number() -> None:
    nouns = {"layer": "layers", "micro-batch": "micro-batches", "entry": "entries", "pass": "passes", "GPU": "GPUs"}
    for one, many in nouns.items():
        assert [several(count, one) for count in (0, 1, 2)] == [f"0 {many}", f"1 {one}", f"2 {many}"]
        assert (plural(one), singular(many)) == (many, one)
    assert several(28_292, "choice", ",") == "28,292 choices"


def test_no_sentence_is_written_with_a_plural_of_its_own() -> None:
    """A noun behind a number comes from `several`."""
    own = re.compile(r"removesuffix\([\"']s[\"']\)|[\"']s[\"'] \* \(|else [\"']s[\"']\}")
    folders = (
        ROOT / name for name in ("pipeplan/cli", "pipeplan/show", "pipeplan/studies", "instances", "planners")
    )
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 200
    assert [str(path) for path in files if own.search(path.read_text("utf-8"))] == []


def test_what_rounding_leaves_over_is_nothing() -> None:
    assert percent(1.78e-16) == percent(-1e-12) == "0 %"
    assert percent(5e-7) == "0.00005 %"


def test_bytes_are_written_in_the_unit_in_which_they_are_shortest() -> None:
    assert [written_bytes(amount) for amount in (40e9, 2.0**33, 1.5e9)] == ["40GB", "8GiB", "1.5GB"]


RECORDS = (
    Progress(0.1, None, 1.0),
    Progress(0.2, 4.0, 1.0, source="greedy"),
    Progress(0.3, 4.0, 2.0),
    Progress(9.0, 4.0, 3.0),
)


def told(capsys: pytest.CaptureFixture[str], mode: str | None) -> list[str]:
    """The lines that stand on stderr after all records."""
    with reporter(mode) as watch:
        for record in RECORDS:
            watch(record)
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def test_json_lines_hold_every_record(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in told(capsys, "json")]
    assert [line["bound"] for line in lines] == [1.0, 1.0, 2.0, 3.0]
    assert lines[0]["incumbent"] is None
    assert lines[1] == {
        "seconds": 0.2, "incumbent": 4.0, "bound": 1.0, "nodes": None, "source": "greedy", "gap": 0.75,
    }  # fmt: skip


def test_plain_lines_come_with_a_better_plan_or_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = told(capsys, "auto")
    assert "incumbent 4  bound 1  gap 75.000 %  greedy" in first
    assert "9.0 s" in last


@pytest.mark.parametrize("mode", [None, "none"])
def test_where_stderr_is_no_terminal_nothing_is_said_unasked(
    capsys: pytest.CaptureFixture[str], mode: str | None
) -> None:
    assert told(capsys, mode) == []


@pytest.mark.parametrize(("mode", "drawn"), [(None, True), ("auto", True), ("none", False)])
def test_a_terminal_is_drawn_on_without_being_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: str | None, drawn: bool
) -> None:
    """One line that is redrawn in place, and vanishes at the end."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert any("incumbent 4" in line for line in told(capsys, mode)) is drawn


# ---- cli generate ------------------------------------------------------------------------------------------
# `plan generate`: pipelines, with options that belong to somebody.


def test_without_a_name_everything_is_listed(plan: Plan) -> None:
    rows = plan("generate", "--json").json
    text = plan("generate").out
    assert {"pipeline", "v-pipeline", "interleaved-pipeline"} == {row["name"] for row in rows}
    assert all(row["name"] in text for row in rows)


def test_every_parameter_is_explained_and_every_explained_one_is_some_generators() -> None:
    assert {name for generator in GENERATORS.values() for name in generator.parameters} == set(PARAMETERS)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_parameter_may_be_left_out(name: str) -> None:
    assert pipeplan.generate(name) == GENERATORS[name].build()


def test_what_is_printed_is_a_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "printed.json"
    path.write_text(plan("generate", "pipeline", "--stages", 3).out)
    assert len(pipeplan.load(path).blocks) == len(json.loads(path.read_text())["blocks"]) == 9
