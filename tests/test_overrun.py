"""The script that measures how far runs go beyond their limits: whom it asks, what it calls late, and one real run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import overrun
import pytest

from pipeplan.instances.catalogue import load_packaged

pytestmark = pytest.mark.timing

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "overrun.py"


@pytest.mark.parametrize(
    ("instance", "default"),
    [
        ("tiny-chain", "ip-tarnawski"),
        ("golden-4", "exact-beaumont"),
        ("tiny-levels", "dp-piper"),
        ("tiny-graph", "graphpipe"),
    ],
)
def test_the_default_method_comes_first_then_quick_ones(instance: str, default: str) -> None:
    methods = overrun.methods_for(load_packaged(instance))
    assert methods[0].name == default
    assert not methods[1].exact
    assert not {"expert", "latency-expert", "exact"} & {entry.name for entry in methods}


@pytest.mark.parametrize(
    ("wall", "work", "late"),
    [(4.0, 0.0, False), (6.4, 3.0, False), (6.6, 3.0, True), (9.0, 1.0, False), (9.0, 2.0, True)],
)
def test_late_is_who_works_too_long(wall: float, work: float, late: bool) -> None:
    """Who only waits for a processor is not."""
    run = overrun.Run("i", "m", 5.0, wall, work, 0.0, 0, "time", True, True)
    assert run.is_late == late
    compiled = overrun.Run("i", "m", 5.0, wall + 60.0, work, 60.0, 0, "time", True, True)
    assert compiled.is_late == late


def test_only_who_owes_a_plan_is_wrong_without_one() -> None:
    for code, verified, owes, right in ((0, True, True, True), (1, False, True, False), (1, False, False, True)):
        assert overrun.Run("i", "m", 5.0, 1.0, 0.0, 0.0, code, "completed", verified, owes).is_right == right


@pytest.mark.slow
def test_one_run() -> None:
    asked = [
        sys.executable, SCRIPT, "--only", "tiny-levels", "--method", "equi", "--time-limit", "30", "--cold",
        "warm",
    ]  # fmt: skip
    said = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    first, equi, last = said.stdout.splitlines()[0], said.stdout.splitlines()[1], said.stdout.splitlines()[-1]
    assert first.split() == ["instance", "method", "wall", "compile", "overrun", "work", "stop"]
    assert equi.split()[:2] == ["tiny-levels", "equi"]
    assert last.endswith(
        "0 went more than 10% + 1 s beyond the limit, and 0 ended without the answer that they owe"
    )
