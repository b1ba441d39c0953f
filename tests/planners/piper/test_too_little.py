"""Without a plan, the result says in one sentence what is missing."""

from __future__ import annotations

from typing import Any

import pytest

import pipeplan

PROBLEM = pipeplan.load_packaged("tiny-stages")


@pytest.mark.parametrize("method", [{"planner": "dp-piper"}, {"formulation": "mip-piper"}, {"planner": "equi"}])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exact_batches": True}, "must sum to exactly 8, and 4 devices give 4 at most"),
        ({"memory_bytes": 9.0}, "layer 'a' alone needs 10 bytes of each device"),
    ],
)
def test_what_is_missing(method: dict[str, str], changes: dict[str, Any], words: str) -> None:
    result = pipeplan.solve(PROBLEM.replace(**changes), **method)
    assert result.found == "nothing"
    assert words in result.messages[-1]


def test_what_would_be_enough_is() -> None:
    (message,) = pipeplan.solve(PROBLEM.replace(memory_bytes=11.0)).messages
    assert "bytes of memory are enough" in message
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=11.0), planner="equi").messages == ("no equal stages fit",)
    enough = float(message.split()[0])
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=enough)).objective is not None


def test_a_run_that_was_stopped_gives_no_reason() -> None:
    limits = pipeplan.SolveOptions(time_limit_s=0.0)
    assert pipeplan.solve(PROBLEM, planner="dp-piper", limits=limits).messages == ()
