"""What stands between a command and its first answer: the libraries that it loads, and `PIPEPLAN_PROFILE=1`, which
tells where its time went."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import pipeplan
from pipeplan.cli.app import COMMANDS, GROUPS, _check_if_given, build
from pipeplan.instances.base import clock
from pipeplan.instances.base.clock import STANDARD, by_package, part

NOT_FOR_SMALL_ONES = {
    "scipy", "pydantic", "pyomo", "networkx", "pandas", "numba", "matplotlib",
    "pipeplan.instances.networks.profile.profile", "pipeplan.instances.graph_pipeline.problem",
    "pipeplan.instances.timeline.model",
}  # fmt: skip
"""Each takes longer to load than a small placement takes to plan; the last ones are for other kinds alone."""
COMMAND = """
import sys
from pipeplan.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""


def loaded_by(*words: str) -> set[str]:
    """The modules that a command has loaded when it has answered."""
    done = subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "optimal, proven" in " ".join(done.stdout.split())
    return set(done.stderr.split())


def test_a_small_placement_loads_no_large_library_and_nothing_of_other_kinds() -> None:
    assert not loaded_by("solve", "tiny-chain") & NOT_FOR_SMALL_ONES


def test_a_model_of_pyomo_loads_no_statistics() -> None:
    loaded = loaded_by("solve", "--formulation", "ilp-beaumont")
    assert "pyomo.environ" in loaded
    assert not loaded & {"scipy.stats", "scipy.integrate", "scipy.spatial", "pydantic", "networkx"}


def all_commands() -> Iterator[Any]:
    listed = typer.main.get_command(build([*COMMANDS, *GROUPS])).commands.values()  # type: ignore[attr-defined]
    for command in listed:
        yield from command.commands.values() if hasattr(command, "commands") else (command,)


@pytest.mark.parametrize("command", list(all_commands()), ids=lambda command: command.name)
def test_defaults_are_what_typer_would_make_of_them(command: Any) -> None:
    """They are taken as they are, since the check of typer loads another library."""
    for parameter in command.params:
        if parameter.required or parameter.is_eager:
            continue
        context = command.make_context(command.name, [], resilient_parsing=True)
        value, source = parameter.consume_value(context, {})
        context.set_parameter_source(parameter.name, source)
        checked = type(parameter).process_value(parameter, context, value)
        _check_if_given(parameter)
        left = parameter.process_value(context, value)
        assert (type(left), left) == (type(checked), checked), parameter.name


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A small file."""
    path = tmp_path / "chain.json"
    pipeplan.save(pipeplan.load_packaged("tiny-chain"), path)
    return path


def told(chain: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> dict[str, float]:
    """Milliseconds by row of the table on stderr, whose first line is words."""
    monkeypatch.delenv("PIPEPLAN_CLOCK_SPEED", raising=False)  # what takes no time by a slow clock has no row
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "pipeplan", "solve", str(chain), "--planner", "dp"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "optimal" in done.stdout
    return {name: float(ms) for name, ms in re.findall(r"^(.+?) +(-?[\d.]+) ms$", done.stderr, re.MULTILINE)}


def test_the_table_names_every_part_and_adds_up(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = told(chain, monkeypatch, PIPEPLAN_PROFILE="1")
    assert next(iter(rows)) == "start of Python (processor time)"
    assert list(rows)[-6:] == ["reading", "planning", "verifying", "showing", "rest", "in all"]
    assert {"import pipeplan", "import numpy", "import typer", f"import {STANDARD}"} <= set(rows)
    *parts, whole = rows.values()
    assert sum(parts) == pytest.approx(whole, abs=1.0)
    assert min(parts) >= 0.0


def test_a_part_within_another_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 4.0, 10.0, 20.0])  # start; outer begins, inner begins, inner ends, outer ends
    watch = clock.start_watch()
    try:
        monkeypatch.setattr(clock, "wall", lambda: next(times))
        watch.began = next(times)
        with part("outer"), part("inner"):
            pass
    finally:
        clock.stop_watch()
    assert watch.parts == {"outer": 19.0 - 6.0, "inner": 6.0}


def test_packages_of_next_to_nothing_are_told_together() -> None:
    sums = by_package({"numpy": 0.05, "json": 0.002, "re": 0.002, "mdurl": 0.001, "attr": 0.0005})
    assert sums == {"numpy": 0.05, STANDARD: 0.004, "others": 0.0015}
    assert list(sums) == ["numpy", STANDARD, "others"]


def test_a_finder_that_asks_all_others_does_not_ask_without_end() -> None:
    """Pyomo has one, which waits for packages that it may need."""

    class AsksAll:
        def find_spec(self, name: str, path: object = None, target: object = None) -> object:
            finders = [finder for finder in sys.meta_path if finder is not self]
            return next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)  # type: ignore[arg-type]

    asks_all = AsksAll()
    clock.start_watch()
    sys.meta_path.insert(0, asks_all)  # type: ignore[arg-type]
    try:
        sys.modules.pop("colorsys", None)
        import colorsys

        assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    finally:
        sys.meta_path.remove(asks_all)  # type: ignore[arg-type]
        clock.stop_watch()


@pytest.mark.slow
def test_methods_without_a_solver_do_without_a_modelling_language() -> None:
    """It takes longer to import than a plan takes to find, and has numba's packages import more than they need."""
    body = (
        "import sys, pipeplan\n"
        "for name, planner in [('tiny-chain', 'dp'), ('tiny-stages', 'dp-piper'), ('tiny-graph', 'graphpipe'),\n"
        "                      ('tiny-levels', 'dp-piper'), ('tiny-chain', 'device-sets')]:\n"
        "    pipeplan.solve(name, planner=planner)\n"
        "    assert 'pyomo' not in sys.modules, (name, planner)\n"
    )
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
