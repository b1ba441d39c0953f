"""The tools of `.ci`: a wrong exit code in a plain install is seen, and lowest versions are those of pyproject.toml."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["run", "matrix"])
def test_the_scripts_are_bash(name: str) -> None:
    subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)


def test_every_lower_bound_becomes_a_constraint(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        "[project]\ndependencies = ['one>=1.2', \"two>=3,<4; python_version < '3.13'\", 'any']\n"
        "[project.optional-dependencies]\nmore = ['one>=1.2', 'three[x]>=2024.1']\n",
        encoding="utf-8",
    )
    assert tool("lowest").constraints(project) == ["one==1.2", "two==3; python_version < '3.13'", "three==2024.1"]


def test_everything_that_is_installed_with_pipeplan_has_a_lower_bound() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = {line.partition(">=")[0] for line in wanted}
    assert names <= {line.partition("==")[0] for line in tool("lowest").constraints()}


def rows_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, bool]]:
    """What comes out for a page: commands, codes, and whether they are complained about."""
    plain = tool("plain")
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    monkeypatch.setitem(plain.PAGES, "page", tmp_path / "page.md")
    return [(row.command, row.code, bool(row.complaint)) for row in plain.page("page", tmp_path)]


def test_every_command_of_a_page_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("```sh\nplan --version\nplan --none || echo 'that was wrong'\n```\n", tmp_path, monkeypatch)
    assert rows == [("plan --version", 0, False), ("plan --none", 2, False), ("(all blocks of page)", 0, False)]


def test_a_page_that_stops_is_complained_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("```sh\nplan --none\nplan --version\n```\n", tmp_path, monkeypatch)
    assert rows == [("plan --none", 2, False), ("(all blocks of page)", 1, True)]


def test_commands_that_nothing_runs_are_named() -> None:
    plain = tool("plain")
    rows = [plain.Row(f"plan {command}", 0) for command in plain.LISTED]
    assert plain.not_typed(rows) == [f"import {word}" for word in plain.GROUPS["import"][1]]
