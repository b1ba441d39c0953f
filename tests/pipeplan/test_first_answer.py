"""What stands between a command and its first answer: the libraries that it loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pipeplan.cli.app import COMMANDS, GROUPS, _check_if_given, build

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
    assert "Proven optimal" in " ".join(done.stdout.split())
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
