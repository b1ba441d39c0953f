"""The pages of the documentation: what they tell a reader to type works as it is written there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
Plan = Callable[..., Any]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The `plan` commands of a page, as words."""
    joined = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    words = [shlex.split(line) for line in joined.splitlines()]
    return [line[1:] for line in words if line and line[0] == "plan"]


def run(plan: Plan, line: list[str]) -> None:
    """A command of a page, which may write its output to a file."""
    words, target = (line[:-2], line[-1]) if ">" in line else (line, None)
    said = plan(*words)
    assert said.code == 0, (line, said)
    if target is not None:
        Path(target).write_text(said.out, encoding="utf-8")


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mine.json` as the tutorial says, in the folder where the commands run."""
    (model,) = blocks("tutorial.md", "json")
    path = tmp_path / "mine.json"
    path.write_text(model, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


def test_the_tutorial_leads_to_a_comparison_of_ones_own_model(plan: Plan, own_model: Path) -> None:
    lines = [line for line in commands("tutorial.md") if line[:2] != ["solve", "--formulation"]]
    table, own = ["import", "solve", "report"], ["solve", "show", "report", "compare", "report"]
    assert [line[0] for line in lines] == [*table, *own]
    for line in lines:
        run(plan, line)
    assert (own_model.parent / "my.html").stat().st_size > 10_000
    assert (own_model.parent / "comparison.html").stat().st_size > 10_000
    assert "*proven*" in (own_model.parent / "comparison" / "tables.md").read_text("utf-8")


def test_the_commands_and_the_lines_of_python_of_the_page_on_tables_work(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in commands("tables.md"):
        run(plan, line)
    (program,) = blocks("tables.md", "python")
    known: dict[str, Any] = {}
    exec(program, known)
    assert (known["problem"].kind, known["lowered"].problem.kind) == ("placement", "staging")


def test_the_suite_of_the_page_on_comparisons_is_one(plan: Plan, own_model: Path) -> None:
    from pipeplan.studies.compare.suite import expand
    from pipeplan.studies.compare.suite_file import load_suite

    (text,) = blocks("howto.md", "toml")
    path = own_model.with_name("suite.toml")
    path.write_text(text, encoding="utf-8")
    assert len(expand(load_suite(str(path))).runs) == 6


def test_every_command_of_the_pages_has_options_that_exist(plan: Plan) -> None:
    for page in ("tutorial.md", "howto.md", "tables.md"):
        for name, *words in commands(page):
            known = plan(*([name, words[0]] if name == "import" else [name]), "--help").out
            assert not [word for word in words if word.startswith("--") and word not in known], (page, name)


def test_plans_are_written_as_the_page_on_formats_shows_them() -> None:
    from pipeplan.instances.kinds import plan_types

    (text,) = blocks("formats.md", "json")
    assert {json.loads(line)["kind"] for line in text.splitlines()} <= set(plan_types())


ROOT = DOCS.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(ROOT.glob("notebooks/*.ipynb")),
]
FOLDERS = "instances|formulations|planners|pipeplan|plugins|tests|benchmarks|notebooks|docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_on_the_pages_exist(page: Path) -> None:
    """What a page names in our folders is there; <kind> and * stand for anything."""
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w./*<>-]*)`", page.read_text("utf-8")))
    patterns = {path: re.sub(r"<[^>]*>", "*", path).rstrip("/") for path in named}
    made_later = ("docs/reference", "docs/_build")
    missing = [
        path for path, pattern in patterns.items() if not pattern.startswith(made_later) and not any(ROOT.glob(pattern))
    ]
    assert not missing
