"""Pictures of the documentation are what their commands draw today."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import done

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COMMANDS = {
    "first-plan.svg": ("plan solve resnet18-training-chain --picture first-plan.svg",),
    "schedules.svg": (
        "plan generate pipeline --stages 4 --micro-batches 12 --limit 10 -o pipeline.json",
        "plan solve pipeline.json --objective span -o best.json",
        "plan show pipeline.json best.json --picture schedules.svg",
    ),
    "case-study-row.svg": ("python benchmarks/case_study.py --output .",),
    "case-study-graph.svg": ("python benchmarks/case_study.py --output .",),
}
"""What draws each; the others show what took hours, or how long something took."""
MEASURED = {
    "dynamic-program.svg": "benchmarks/dynamic_program.py",
    "graphpipe.svg": "benchmarks/graphpipe.py",
    "piper-table.svg": "benchmarks/piper.py",
    **{path.name: "benchmarks/pareto.py" for path in DOCS.glob("pareto-*.svg")},
}
"""Their scripts write the page around them as well."""
ONE_OF_SEVERAL = {"schedules.svg": "span"}
"""Several schedules are best, and any may be found: then the headline, with this word, is the same as far as the idle
time of each device."""


def words(path: Path) -> list[str]:
    """What stands in a picture, and what its shapes say below the pointer: names, numbers, starts and ends."""
    return re.findall(r"<(?:text|title)[^>]*>([^<]*)<", path.read_text("utf-8"))


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_has_the_font_of_its_words(path: Path) -> None:
    assert path.read_text("utf-8").count("@font-face") == 1


def test_every_picture_has_a_command() -> None:
    assert {path.name for path in DOCS.glob("*.svg")} == {*COMMANDS, *MEASURED}
    assert all((ROOT / script).is_file() for script in MEASURED.values())


@pytest.mark.sweeps
@pytest.mark.slow("case-study-graph.svg", "case-study-row.svg", "first-plan.svg")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_is_what_its_command_draws(
    plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[name]:
        program, *arguments = shlex.split(command)
        if program == "plan":
            done(plan(*arguments))
        else:
            script, *rest = arguments
            subprocess.run([sys.executable, str(ROOT / script), *rest], check=True, cwd=tmp_path)
    told = ONE_OF_SEVERAL.get(name, "")
    drawn, kept = ([text for text in words(folder / name) if told in text] for folder in (tmp_path, DOCS))
    if told:
        drawn, kept = ([text.partition(", devices idle")[0] for text in texts] for texts in (drawn, kept))
    assert drawn
    assert drawn == kept
