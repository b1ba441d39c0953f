"""Without a plan, the result says in one sentence what is missing."""

from __future__ import annotations

from typing import Any

import pytest

import pipeplan
from pipeplan.instances.staging.problem import Configuration, Layer

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


def test_what_would_be_enough_is_and_a_byte_less_is_not() -> None:
    (message,) = pipeplan.solve(PROBLEM.replace(memory_bytes=11.0)).messages
    assert message == "18 bytes of memory per device is the least with a plan (proven); give --memory 18"
    (message,) = pipeplan.solve(PROBLEM.replace(memory_bytes=11.0), planner="equi").messages
    assert message.startswith("no equal stages fit, not even the smallest: A device of stage ")
    assert message.endswith("more than its memory of 11 bytes")
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=18.0)).objective is not None
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=17.0)).objective is None


def test_one_amount_of_memory_is_asked_for_whatever_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest layer alone needs 10 bytes, which is no reason to ask for 10 where 18 are needed."""
    monkeypatch.setattr("pipeplan.planners.run.solve.ENOUGH_S", 600.0)
    messages = pipeplan.solve(PROBLEM.replace(memory_bytes=9.0)).messages
    assert [message.partition("; give ")[2] for message in messages] == ["--memory 18", ""]
    assert messages[1] == "layer 'a' alone needs 10 bytes of each device that it runs on"


def test_a_large_layer_is_told_in_a_unit_that_can_be_read() -> None:
    ways = {1: (Configuration("only", 1.0, memory_fixed=1.87e9),)}
    problem = PROBLEM.replace(layers=(Layer("a", ways),), edges=(), memory_bytes=1e9)
    assert "layer 'a' alone needs 1.87 GB of each device" in pipeplan.solve(problem).messages[-1]


def test_a_run_that_was_stopped_gives_no_reason() -> None:
    limits = pipeplan.SolveOptions(time_limit_s=0.0)
    assert pipeplan.solve(PROBLEM, planner="dp-piper", limits=limits).messages == ()
