"""The project's papers keep what they promise: README's two commands, links, versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import has

import pipeplan
from pipeplan.formulations.registry import FORMULATIONS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """The lines of README's first block, as .ci/run reads them."""
    block = README.split("```")[1]
    return [line for line in block.splitlines()[1:] if line.strip()]


def test_readme_opens_with_two_commands_for_a_fresh_machine() -> None:
    install, test = commands()
    has(install, "python3 -m venv", " && ")
    assert install.endswith("plan solve --formulation ip-tarnawski")
    assert "python -m pytest" in test


def test_ci_runs_the_readmes_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    has(script, "README.md", "${commands[0]}", "${commands[1]}")


@pytest.mark.parametrize("paper", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_and_folders_exist(paper: str) -> None:
    text = (ROOT / paper).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text) + re.findall(r"`([a-z]+/[a-z_./]*)`", text)
    for target in targets:
        assert (ROOT / target).exists(), f"{paper} names {target}"


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == pipeplan.__version__
    assert f"version: {pipeplan.__version__}\n" in citation


@pytest.mark.parametrize("line", [line for line in README.splitlines() if line.startswith("plan ")])
def test_commands_in_the_readme_have_options_that_exist(line: str) -> None:
    """Each example's options are known to its command (nothing is run)."""
    import typer

    from pipeplan.cli.app import GROUPS, app

    words = line.split("#")[0].split()
    root: Any = typer.main.get_command(app)
    command = root.commands[words[1]]
    command = command.commands[words[2]] if words[1] in GROUPS else command
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    for word in words[2:]:
        if word.startswith("-"):
            assert word in known, f"`{line}` uses {word}"


def test_contributing_says_which_paper_plans_which_kind() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"\| `formulations/(\w+)/` \| ([a-z-]+) \| `planners/", text))
    assert rows == {entry.module.split(".")[2]: entry.problem_kind for entry in FORMULATIONS.values()}
    for folder in re.findall(r"`((?:planners|formulations)/[\w/]+/)`", text):
        assert (ROOT / folder).is_dir(), folder
