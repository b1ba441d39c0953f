"""Code is made once, outside of all limits, and `plan warm-up` makes all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from pipeplan import Stop, load_packaged, solve
from pipeplan.instances.base import clock
from pipeplan.planners.contract import Board
from pipeplan.planners.registry import all_methods
from pipeplan.planners.run import solve as solving

PLAN = [sys.executable, "-m", "pipeplan"]


def test_the_clock_of_limits_stands_still_while_code_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    true = clock.wall()
    monkeypatch.setattr(clock, "wall", lambda: true)
    board = Board()
    clock.stop()
    clock.stop()
    true += 2
    clock.go_on()
    assert board.seconds == 0, "what is compiled within another compilation is counted once"
    true += 1
    clock.go_on()
    assert (board.seconds, board.compile_seconds) == (0, pytest.approx(3))
    true += 1
    assert board.seconds == pytest.approx(1), "and now it goes on"


def test_who_listens_hears_once_that_something_is_compiled() -> None:
    heard: list[str] = []
    clock.when_compiling(lambda: heard.append("compiling"))
    for _ in range(2):
        clock.stop()
        clock.go_on()
    assert heard == ["compiling"]


def test_every_kind_with_compiled_methods_names_problems_that_need_the_code() -> None:
    kinds = {entry.problem_kind for entry in all_methods() if entry.compiles_on}
    assert kinds == {"placement", "chain", "staging", "graph-pipeline", "schedule", "training"}


def test_no_limit_keeps_a_method_from_asking_for_all_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a limit would be over before that. Where a run would be long, it has fewer cycles."""
    runs: dict[str, dict[str, Any]] = {}

    def run(problem: object, *, planner: str = "", formulation: str = "", **named: Any) -> None:
        runs[formulation or planner] = named

    monkeypatch.setattr(solving, "solve", run)
    solving.warm_up(lambda name: None)
    assert runs.keys() == {entry.name for entry in all_methods() if entry.compiles_on}
    assert {name for name, named in runs.items() if named["options"]} == {"lns", "latency-lns"}
    assert all("limits" not in named and "time_limit_s" not in named for named in runs.values())


@pytest.mark.slow
def test_after_a_warm_up_nothing_is_compiled(tmp_path: Path) -> None:
    """It is made on a slow machine, where seconds are over sooner."""
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([*PLAN, "warm-up"], env={**cold, clock.SPEED: "20"}, check=True)
    cases = (
        ("memory-tight", "dp"), ("gpt2-xl-training", "dp"), ("gnmt-training", "lns"),
        ("bert-base-operators", "latency-lns"), ("gpt2-medium-stages", "dp-piper"), ("tiny-levels", "dp-piper"),
        ("resnet50-chain", "exact-beaumont"), ("mmt-8", "graphpipe"), ("dlrm-8", "spp-pipedream"),
    )  # fmt: skip
    for instance, planner in cases:
        command = [*PLAN, "solve", instance, "--planner", planner, "--time-limit", "3s", "--gap", "0.01"]
        done = subprocess.run(command, env=cold, capture_output=True, text=True)
        assert done.returncode == 0, (instance, planner, done.stderr)
        assert "compiling" not in done.stderr, (instance, planner)


@pytest.mark.timing
@pytest.mark.sweeps
def test_a_cold_cache_costs_no_time_limit(tmp_path: Path) -> None:
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    few = ("--option", "cycles=1", "--option", "steps=1000")
    command = [*PLAN, "solve", "bert-large-training", "--planner", "lns", *few, "--time-limit", "60s", "--json"]
    done = subprocess.run(command, env=cold, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "plan warm-up" in done.stderr
    assert '"compile"' in done.stdout


@pytest.mark.machine_code
@pytest.mark.timing
@pytest.mark.parametrize("name", ["bert-large-stages", "gpt2-medium-stages", "resnet50-stages", "figure-4"])
def test_a_small_problem_is_planned_without_machine_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing on disk yet its making took a quarter of a minute, where plain loops take less than a second. Here
    they take no time at all: a chain's search makes machine code where they take longer, as on a slow machine."""

    def refuse(unit: ModuleType, entry: str) -> NoReturn:
        raise AssertionError(f"{unit.__name__}.{entry} was compiled")

    monkeypatch.setattr("pipeplan.instances.base.compiled._compiled", refuse)
    for seconds in ("now", "processor_seconds"):
        monkeypatch.setattr(f"pipeplan.planners.chain.exact.{seconds}", lambda: 0.0)
    assert solve(load_packaged(name)).stop == Stop.PROVEN
