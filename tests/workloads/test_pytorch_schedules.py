"""The schedule files that PyTorch tests itself with, of different ages: read, verified, shown and written anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeplan.cli import main

pytestmark = pytest.mark.workloads

TWO_BY_TWO = ("interleaved-pipeline", "--devices", "2", "--virtual", "2", "--micro-batches", "8")
THERE_AND_BACK = ("v-pipeline", "--devices", "4", "--virtual", "2", "--micro-batches", "10")
FILES = {
    "zb1p_2rank_2stagep_compute": (TWO_BY_TWO, 247),
    "zb1p_2rank_2stagep_comms": (TWO_BY_TWO, 247),
    "dualpipev_4rank_10mb": (THERE_AND_BACK, 321),
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_read_verified_and_shown(
    name: str, workloads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline, makespan = FILES[name]
    problem, theirs = str(tmp_path / "problem.json"), str(workloads / "pytorch" / f"{name}.csv")
    assert main(["generate", *pipeline, "-o", problem]) == 0
    assert main(["verify", problem, theirs]) == 0
    assert f"verified: yes, recomputed makespan {makespan}" in capsys.readouterr().out
    assert main(["show", problem, theirs]) == 0
    assert "d1 |" in capsys.readouterr().out
