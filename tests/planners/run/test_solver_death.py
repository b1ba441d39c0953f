"""A solver that dies costs its proof: the run ends with a sentence, and with the best plan that there is.

Asked of every formulation, where its processes are killed and where they need more memory than they may have, with
the solver named by the user and without; and of the planners that ask solvers themselves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import pipeplan
from pipeplan import Found, Result, SolveOptions, Stop
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base import clock
from pipeplan.planners import exact
from pipeplan.planners.backends import Job, client

pytestmark = [pytest.mark.timing, pytest.mark.xdist_group("death")]

# Problems that no bound or heuristic settles before a solver is asked; where there is nothing else, without a start.
PROBLEMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ip-tarnawski": ("bert-large-training", "auto", {}),
    "ip-tarnawski-latency": ("tiny-chain", "none", {}),
    "ilp-beaumont": ("golden-4", "auto", {}),
    "cp-beaumont": ("golden-4", "auto", {}),
    "mip-piper": ("tiny-stages", "none", {}),
    "cp-graphpipe": ("tiny-graph", "auto", {}),
    "cp-schedule": ("zero-bubble-4x12", "auto", {"objective": "makespan"}),
    "ilp-zero-bubble": ("zero-bubble-4x12", "auto", {"objective": "span"}),
    "cp-periodic": ("nn-shape-4", "auto", {}),
}
DEATHS = {"memory": Stop.MEMORY, "killed": Stop.ERROR}
QUICK = ("cp-beaumont", "cp-graphpipe", "cp-periodic")
SEARCHES = {"exact-beaumont": ("golden-4", {}), "exact-schedule": ("zero-bubble-4x12", {"objective": "span"})}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The solvers that were asked; their processes are killed at once where the test is about that."""
    asked: list[str] = []
    killed = request.getfixturevalue("death") == "killed"
    submit = client.submit

    def watched(*arguments: Any, **named: Any) -> Job:
        job = submit(*arguments, **named)
        asked.append(job.backend)
        if killed:
            os.kill(job.pid, signal.SIGKILL)
        return job

    client.end_workers()  # a process that still loads its solver cannot have answered before its memory is looked at
    for module in (exact, client):
        monkeypatch.setattr(module, "submit", watched)
    yield asked
    client.end_workers()


def limits(death: str) -> SolveOptions:
    return SolveOptions(time_limit_s=600, threads=1, memory_limit_bytes=1 if death == "memory" else None)


def check(result: Result, jobs: list[str], death: str, has_plan: bool) -> None:
    assert jobs, "a solver must have been asked"
    assert result.stop == DEATHS[death] or result.found == Found.OPTIMAL  # by a bound that needs no solver
    assert any("was killed" in message for message in result.messages)
    assert result.verified == has_plan


def test_every_formulation_is_asked() -> None:
    assert list(PROBLEMS) == list(FORMULATIONS)


@pytest.mark.parametrize("named", [False, True], ids=["auto", "named"])
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.sweeps) for name in PROBLEMS]
)
def test_the_death_of_solvers_leaves_the_plan_of_a_heuristic(
    name: str, death: str, named: bool, jobs: list[str]
) -> None:
    instance, start, options = PROBLEMS[name]
    result = pipeplan.solve(
        instance,
        formulation=name,
        solver=("cp-sat" if name.startswith("cp-") else "highs") if named else "auto",
        options=options,
        warm_start=start,  # type: ignore[arg-type]
        limits=limits(death),
    )
    check(result, jobs, death, has_plan=start == "auto")


@pytest.mark.at_once(2)
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_asks_solvers_itself_keeps_its_best_plan(name: str, death: str, jobs: list[str]) -> None:
    instance, options = SEARCHES[name]
    result = pipeplan.solve(instance, planner=name, options=options, limits=limits(death))
    check(result, jobs, death, has_plan=True)


def test_a_solver_that_dies_late_leaves_time_for_a_heuristic(monkeypatch: pytest.MonkeyPatch) -> None:
    """When most of the time is over, and with it what a quick planner has as a start."""
    submit, seconds = client.submit, 0.0

    def dies_late(*arguments: Any, **named: Any) -> Job:
        nonlocal seconds
        job = submit(*arguments, **named)
        os.kill(job.pid, signal.SIGSTOP)  # or it may have proven its answer by then
        seconds = 1.5
        os.kill(job.pid, signal.SIGKILL)
        return job

    monkeypatch.setattr(exact, "submit", dies_late)
    monkeypatch.setattr(clock, "wall", lambda: seconds)
    result = pipeplan.solve(
        "zero-bubble-4x12", formulation="cp-schedule", solver="cp-sat", options={"objective": "span"},
        warm_start="none", limits=SolveOptions(time_limit_s=2, threads=1),
    )  # fmt: skip
    client.end_workers()
    assert (result.stop, result.verified) == (Stop.ERROR, True), result.messages
