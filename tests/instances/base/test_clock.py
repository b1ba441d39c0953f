"""The product has one clock, which can be made to run fast or slow, and nothing else tells it the time."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeplan.instances.base import clock
from pipeplan.planners.backends.model import MatrixModel
from pipeplan.planners.backends.records import Task
from pipeplan.planners.backends.session import Session
from pipeplan.planners.options import SolveOptions

ROOT = Path(__file__).resolve().parents[3]

# ---- a clock that is faster or slower than the true one ---------------------------------------------------------

TELL = "from pipeplan.instances.base import clock; print(clock.speed())"


def test_a_process_and_what_it_starts_have_the_speed_of_the_environment() -> None:
    own = {**os.environ, clock.SPEED: "20"}
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TELL!r}], check=True)"
    for program in (TELL, starts):
        said = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, check=True)
        assert said.stdout == "20.0\n"


def test_a_fast_clock_goes_on_faster_and_a_limit_on_it_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    true = iter((10.0, 13.0))
    monkeypatch.setattr(clock, "speed", lambda: 20.0)
    monkeypatch.setattr(clock.time, "monotonic", lambda: next(true))
    before = clock.wall()
    assert clock.wall() - before == 60.0
    assert clock.true_seconds(3.0) == pytest.approx(0.15)


@pytest.mark.parametrize("speed", [20.0, 0.05])
def test_a_solver_is_told_the_true_seconds_that_are_left(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "speed", lambda: speed)
    empty = MatrixModel.__new__(MatrixModel)
    session = Session(Task(1, empty, SolveOptions(time_limit_s=1e6), clock.wall()), lambda message: None)
    assert session.seconds_left() == pytest.approx(1e6, rel=0.01)
    assert session.solver_seconds_left() == pytest.approx(1e6 / speed, rel=0.01)


@pytest.mark.parametrize("told", ["fast", "0", "-1", "inf", "nan", ""])
def test_a_speed_that_is_none_is_refused_in_a_sentence(told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeplan", "solve", "tiny-chain", "--planner", "greedy"],
        env={**os.environ, clock.SPEED: told},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: PIPEPLAN_CLOCK_SPEED is {told!r}, which is no number above 0; give one like 20 or 0.05, or unset it.\n"
    )


# ---- who reads the time -----------------------------------------------------------------------------------------

PACKAGES = ("instances", "formulations", "planners", "pipeplan", "plugins")

READ_THE_TIME = {
    "instances/base/clock.py": "is the clock",
    "pipeplan/models/torch_profile.py": "measures models and the passes of a run, in true seconds",
    "pipeplan/show/page.py": "writes the day on a page",
    "pipeplan/studies/tune.py": "writes when a run began and ended, and how long one has run that outlived its program",
}
"""Modules that read the time without the clock, each with the reason."""

ASIDE = {"sleep", "struct_time"}
"""Names of the module `time` that tell no time."""


def readings(tree: ast.AST) -> Iterator[str]:
    """What of `time` and `datetime` a module uses to learn the time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{alias.name}" for alias in node.names if alias.name not in ASIDE)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", None)
            told = owner == "time" and node.attr not in ASIDE
            if told or (owner in ("date", "datetime") and node.attr in ("now", "today", "utcnow")):
                yield f"{owner}.{node.attr}"


def imports_time(tree: ast.AST) -> bool:
    nodes = list(ast.walk(tree))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None}
    return not names.isdisjoint({"time", "datetime"})


def test_nothing_but_the_clock_reads_the_time() -> None:
    found = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"import.*\b(date)?time\b|from (date)?time import", text):
            continue  # to parse all would take seconds
        tree = ast.parse(text)
        if imports_time(tree) and list(readings(tree)):
            found.add(path.relative_to(ROOT).as_posix())
    assert found == READ_THE_TIME.keys()


@pytest.mark.parametrize(
    "program",
    ["import time\ntime.monotonic()", "from time import process_time", "from datetime import date\ndate.today()"],
)
def test_whoever_reads_the_time_is_found(program: str) -> None:
    tree = ast.parse(program)
    assert imports_time(tree)
    assert list(readings(tree))


def test_to_wait_is_not_to_read() -> None:
    assert not list(readings(ast.parse("import time\nfrom time import sleep\ntime.sleep(1)")))
