"""The journal: what is written stays, what was half-written never was, and strange lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems.made_up_runs import record as finished_run
from problems.made_up_runs import run

from pipeplan.instances.base.errors import InputError
from pipeplan.studies.compare.comparison import finished, journal_in
from pipeplan.studies.compare.run import Record


def record(seed: int, wall_s: float = 1.0) -> Record:
    return finished_run(run("one", "a", seed), 1.0, wall_s=wall_s)


def test_records_come_back_by_key(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    assert finished(journal) == {}
    for seed in range(3):
        journal.append(record(seed).to_json())
    assert finished(journal) == {record(seed).run.key: record(seed) for seed in range(3)}


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.sweeps)])
def test_cut_at_any_byte_whole_lines_survive_and_writing_goes_on(tmp_path: Path, step: int) -> None:
    path = tmp_path / "runs.jsonl"
    journal_in(tmp_path).extend([record(0).to_json(), record(1).to_json()])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        journal = journal_in(tmp_path)
        assert len(finished(journal)) == (length >= first)
        journal.append(record(2).to_json())
        assert set(finished(journal)) == {record(seed).run.key for seed in ([0, 2] if length >= first else [2])}


def test_the_last_record_of_a_run_counts(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.extend([record(0, 1.0).to_json(), record(0, 2.0).to_json()])
    (only,) = finished(journal).values()
    assert only.wall_s == 2.0


@pytest.mark.parametrize("line", ["{", "[]", '{"schema": "other"}', '{"schema": "pipeplan.run/1"}'])
def test_a_strange_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"runs\.jsonl: line 1 is no record of a run"):
        finished(journal_in(tmp_path))
