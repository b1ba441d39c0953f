"""The pages of the documentation: what they tell a reader to type works as it is written there."""

from __future__ import annotations

import importlib
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
    assert [line[0] for line in lines] == ["solve", "show", "report", "compare", "report"]
    for line in lines:
        assert plan(*line).code == 0, line
    assert (own_model.parent / "comparison.html").stat().st_size > 10_000
    assert "*proven*" in (own_model.parent / "comparison" / "tables.md").read_text("utf-8")


def test_the_suite_of_the_page_on_comparisons_is_one(plan: Plan, own_model: Path) -> None:
    from pipeplan.studies.compare.suite import expand
    from pipeplan.studies.compare.suite_file import load_suite

    (text,) = blocks("howto.md", "toml")
    path = own_model.with_name("suite.toml")
    path.write_text(text, encoding="utf-8")
    assert len(expand(load_suite(str(path))).runs) == 6


def test_every_command_of_the_pages_has_options_that_exist(plan: Plan) -> None:
    for page in ("tutorial.md", "howto.md"):
        for name, *words in commands(page):
            known = plan(name, "--help").out
            assert not [word for word in words if word.startswith("--") and word not in known], (page, name)


def test_plans_are_written_as_the_page_on_formats_shows_them() -> None:
    from pipeplan.instances.kinds import plan_types

    (text,) = blocks("formats.md", "json")
    assert {json.loads(line)["kind"] for line in text.splitlines()} <= set(plan_types())


def test_the_page_on_the_api_lists_the_public_names_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import pipeplan

    monkeypatch.syspath_prepend(DOCS)
    page = importlib.import_module("generate").api()
    listed = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in pipeplan.__all__ if not name.startswith("_"))
    for argument in ("cross_check", "micro_batches", "bandwidth_share", "max_bytes", "contiguity", "precision"):
        assert re.search(rf"^`{argument}` \(.*\)\n: \w", page, re.MULTILINE), argument


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
