"""What version 1 promises not to change: commands and options, exit codes, keys of JSON files, public Python names.

`tests/stable.json` has the names. One that is gone fails, and so does a new one that is not written down yet: then
`python tests/pipeplan/test_stable.py` adds it. To take a name out is a new major version.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import pipeplan
from pipeplan.cli.app import app
from pipeplan.instances.schemas import NAMES, read_schema

ROOT = Path(__file__).parents[2]
PROMISED = ROOT / "tests" / "stable.json"


def commands() -> dict[str, list[str]]:
    listed = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {name: sorted(set(_options(command))) for name, command in listed.items()}


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            yield from (word for word in parameter.opts if word.startswith("-"))


def keys() -> dict[str, list[str]]:
    """The keys of each format at its top, wherever its schema has them."""
    return {name: sorted(_properties(read_schema(name))) for name in NAMES}


def _properties(schema: dict[str, Any]) -> set[str]:
    parts = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    return set(schema.get("properties", ())).union(*(_properties(part) for part in parts))


def python() -> dict[str, list[str]]:
    """Public names, functions with their parameters."""
    return {
        name: list(inspect.signature(value).parameters)
        if inspect.isfunction(value := getattr(pipeplan, name))
        else []
        for name in sorted(pipeplan.__all__)
    }


def exit_codes() -> list[str]:
    """As the page on scripts lists them."""
    page = (ROOT / "docs" / "howto.md").read_text("utf-8")
    return re.findall(r"^\| (\d+) \|", page.partition("## Exit codes")[2], re.MULTILINE)


def today() -> dict[str, Any]:
    return {"commands": commands(), "exit codes": exit_codes(), "json": keys(), "python": python()}


@pytest.mark.parametrize("part", ["commands", "exit codes", "json", "python"])
def test_what_is_promised_is_there_and_what_is_there_is_promised(part: str) -> None:
    promised, found = json.loads(PROMISED.read_text("utf-8"))[part], today()[part]
    if part == "exit codes":
        assert found == promised
        return
    for name, words in promised.items():
        gone = set(words) - set(found.get(name, ())) if name in found else {name}
        assert not gone, f"{name} promises {gone}"
    assert found == promised, (
        "new names: run `python tests/pipeplan/test_stable.py`, and tell of them in CHANGELOG.md"
    )


def test_the_versions_agree_and_the_changelog_begins_with_them() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    version, date = re.findall(
        r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )[0]
    assert f'\nversion = "{version}"\n' in project
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
    assert pipeplan.__version__ == version


if __name__ == "__main__":
    PROMISED.write_text(json.dumps(today(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
