"""Whatever the pages tell a reader to type runs: every block of every page, in order, from a clean folder."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import has
from page_blocks import PAGES, REASONS, ROOT, Block, blocks_of, follow, run, same

import pipeplan
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.models.from_torch import EXTRA_OF

QUICK = {"docs/start.md", "docs/explore.md"}
"""Pages whose commands take seconds; the others are run with `--sweeps`."""


def test_dots_stand_for_what_differs_from_run_to_run() -> None:
    assert same("1 0.1 s\n...\n3 ...\n", "1 0.1 s\n2 0.1 s\n2 0.2 s\n3 0.3 s\n")
    assert not same("1 ...\n3 ...\n", "1 0.1 s\n2 0.1 s\n")


def cases() -> Iterator[Any]:
    for name, path in PAGES.items():
        blocks = [block for block in blocks_of(path) if block.runs]
        if any("needs" not in block.marks for block in blocks):
            yield pytest.param(path, {""}, id=name, marks=[] if name in QUICK else pytest.mark.sweeps)
        for package in sorted({block.marks["needs"] for block in blocks if "needs" in block.marks}):
            yield pytest.param(
                path, {"", package}, id=f"{name} with {package}", marks=getattr(pytest.mark, package)
            )


@pytest.mark.slow("docs/schedules.md", "docs/tutorial.md")
@pytest.mark.parametrize(("page", "packages"), list(cases()))
def test_a_page_runs_as_it_is_written(page: Path, packages: set[str], tmp_path: Path) -> None:
    for package in packages - {""}:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    follow(page, tmp_path, packages)


def test_what_is_not_run_has_one_of_few_reasons() -> None:
    reasons = [
        block.marks["not run"] for path in PAGES.values() for block in blocks_of(path) if "not run" in block.marks
    ]
    assert set(reasons) == set(REASONS)
    assert len(reasons) <= 16


def test_what_needs_an_extra_says_so_right_above_it() -> None:
    needing = [(name, block) for name, path in PAGES.items() for block in blocks_of(path) if "needs" in block.marks]
    assert needing
    for name, block in needing:
        extra = EXTRA_OF[block.marks["needs"]]
        assert f"pip install -e '.[{extra}]'" in block.before.rpartition("\n\n")[2], (name, block.line)


def test_extras_are_installed_from_the_checkout_and_exist() -> None:
    """There is no package of this name to be had elsewhere."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for name, path in PAGES.items():
        text = path.read_text("utf-8")
        assert "pipeplan[" not in text, name
        extras = {extra for group in re.findall(r"-e '\.\[([\w,]+)\]'", text) for extra in group.split(",")}
        assert extras <= set(known), name


def test_the_page_of_abilities_is_made_of_the_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    page = (ROOT / "docs" / "abilities.md").read_text("utf-8")
    made = importlib.import_module("generate").with_abilities(page)
    assert page == made, "python docs/generate.py writes it anew"


def abilities() -> set[str]:
    """Words for what the registries hold: commands, kinds, methods and frameworks."""
    from pipeplan.cli.app import app
    from pipeplan.instances.registry import KINDS
    from pipeplan.models.export.contract import TARGETS
    from pipeplan.planners.registry import all_methods

    commands: Any = typer.main.get_command(app)
    words = {*commands.commands, *KINDS, *TARGETS, *(entry.name for entry in all_methods())}
    titles = {"interleaved-1f1b": "interleaved 1F1B", "zb-h1": "zero.bubble", "import": "readers?"}
    return {re.sub("[-_]", "[-_ ]", word) for word in words} | {titles[name] for name in titles.keys() & words}


ACTS = "runs|measures|exports|imports|simulates|schedules|verifies|compares"


def denials(text: str) -> list[str]:
    """Sentences by which a page says that there is no such command, kind, method or framework."""
    any_of = "|".join(sorted(abilities(), key=len, reverse=True))
    pattern = re.compile(
        rf"\b(?:{ACTS}) nothing\b|\b(?:has|have|is|are) (?:no|not yet an?) (?:{any_of})s?\b|, no (?:{any_of}) to\b"
        rf"|\bno code generation and no (?:{any_of})\b"
        rf"|\b(?:{any_of})\b[^.]{{0,60}} (?:(?:do|does) not exist|(?:are|is) not among|(?:are|is) not supported)"
        rf"|\bnot with pipeplan\b",
        re.IGNORECASE,
    )
    return [found[0] for found in pattern.finditer(" ".join(text.split()))]


@pytest.mark.parametrize("sentence", [
    "It runs nothing.",
    "It measures nothing.",
    "There is no runtime, no code generation and no export to a training framework yet.",
    "Interleaved 1F1B and zero-bubble schedules are not among them.",
    "Direct readers for PyTorch modules and tables do not exist yet.",
    "Not with pipeplan. Take the stages to your framework.",
])  # fmt: skip
def test_a_denial_is_seen(sentence: str) -> None:
    assert denials(sentence)


@pytest.mark.parametrize("page", PAGES)
def test_no_page_denies_what_exists(page: str) -> None:
    assert denials(PAGES[page].read_text("utf-8")) == []


LEAKS = re.compile(
    r"\bspecification(?:'s|,? (?:of \w+, )?\(?sections?)|\bas wanted\b|\| wanted\b|refsem|\bare wanted in\b"
)


def test_no_words_leak_from_how_it_was_made() -> None:
    """Neither papers that a reader does not have, nor what somebody wanted of a measurement."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    read = [
        ROOT / name for name in files if name.endswith((".py", ".md", ".ipynb", ".toml")) and "tests/" not in name
    ]
    assert len(read) > 100
    assert not [(path.name, found[0]) for path in read for found in LEAKS.finditer(path.read_text("utf-8"))]


README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_takes_a_minute() -> None:
    assert len(README.split()) <= 900


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_its_commands_say(tmp_path: Path) -> None:
    cluster = "--devices 4 --memory 80GiB --bandwidth 450GB/s --optimizer adam-mixed"
    layout = Block("sh", f"plan import megatron-layout 8,8,8,8 llama-3-8b {cluster} -o even.json 2>&1", "", 0, {})
    (even,) = re.findall(r"([\d.]+) ms per micro-batch", run(layout, tmp_path))
    best, schedule = (
        json.loads(run(Block("sh", f"{line} --json", "", 0, {}), tmp_path))
        for line in re.findall(r"^(plan solve (?:llama|zero).*)$", README, re.MULTILINE)
    )
    counts = [sum(".layers." in name for name in stage["nodes"]) for stage in best["plan"]["stages"]]
    assert f"| 8/8/8/8: {float(even):.1f} ms per micro-batch | {'/'.join(map(str, counts))}: " in README
    assert f": {1e3 * best['objective']:.1f} ms |" in README
    assert float(even) / (1e3 * best["objective"]) == pytest.approx(1.126, abs=5e-4)
    assert (best["stop"], schedule["stop"]) == ("proven", "proven")
    assert f"| {schedule['objective']:g} | 2 |" in README


@pytest.mark.slow
@pytest.mark.workloads
def test_the_printed_value_of_the_readme_is_beaten(workloads: Path, tmp_path: Path) -> None:
    (line,) = re.findall(r"^(plan solve workloads/.*)$", README, re.MULTILINE)
    (tmp_path / "workloads").symlink_to(workloads)
    result = json.loads(run(Block("sh", f"{line} --json", "", 0, {}), tmp_path))
    assert result["stop"] == "proven"
    assert f"| 61.21, as printed | {result['objective']:.2f} | 3 |" in README


# ---- The project's papers keep what they promise: README's two commands, links, versions.


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


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == pipeplan.__version__
    assert f"version: {pipeplan.__version__}\n" in citation


def test_contributing_says_which_paper_plans_which_kind() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"\| `formulations/(\w+)/` \| ([a-z-]+) \| `planners/", text))
    assert rows == {entry.module.split(".")[2]: entry.problem_kind for entry in FORMULATIONS.values()}
    for folder in re.findall(r"`((?:planners|formulations)/[\w/]+/)`", text):
        assert (ROOT / folder).is_dir(), folder
