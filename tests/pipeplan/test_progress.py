"""Progress on stderr: for machines, for logs, for eyes, or not at all."""

from __future__ import annotations

import json

import pytest

from pipeplan.cli.progress import JsonLines, LiveLine, PlainLines, Reporter, reporter
from pipeplan.planners.options import Progress

RECORDS = (
    Progress(0.1, None, 1.0),
    Progress(0.2, 4.0, 1.0, source="greedy"),
    Progress(0.3, 4.0, 2.0),
    Progress(9.0, 4.0, 3.0),
)


def tell(watch: Reporter) -> None:
    with watch:
        for record in RECORDS:
            watch(record)


def test_json_lines_hold_every_record(capsys: pytest.CaptureFixture[str]) -> None:
    tell(JsonLines())
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["bound"] for line in lines] == [1.0, 1.0, 2.0, 3.0]
    assert lines[0]["incumbent"] is None
    assert lines[1] == {
        "seconds": 0.2, "incumbent": 4.0, "bound": 1.0, "nodes": None, "source": "greedy", "gap": 0.75,
    }  # fmt: skip


def test_plain_lines_come_with_a_better_plan_or_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    tell(PlainLines())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "incumbent 4  bound 1  gap 75.000 %  greedy" in lines[0]
    assert "9.0 s" in lines[1]


def test_the_live_line_leaves_nothing_behind_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveLine())
    assert "incumbent" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "kind"), [(None, Reporter), ("none", Reporter), ("auto", PlainLines), ("json", JsonLines)]
)
def test_what_is_drawn_where_stderr_is_no_terminal(mode: str | None, kind: type) -> None:
    assert type(reporter(mode)) is kind


def test_a_terminal_is_drawn_on_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert type(reporter(None)) is LiveLine
    assert type(reporter("none")) is Reporter
