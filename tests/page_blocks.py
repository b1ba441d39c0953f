"""The blocks of commands on the pages: what a reader types, in which order, and what the page says about it.

It is read by tests and by `.ci/plain.py`, which runs in an environment without pytest.

Above a block a page may say, in a comment that readers of its source see:
`<!-- file: my.py -->` the reader writes the block to that file, as the text says; `<!-- needs: torch -->` it runs where
that package is installed; `<!-- not run: REASON -->` it is for the reader alone, for one of the few `REASONS`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (".", "docs", "docs/models", "notebooks", "benchmarks", "benchmarks/results", "plugins/*")
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for pattern in (f"{folder}/*.md" for folder in FOLDERS)
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
}
REASONS = {
    "changes the checkout": "what it installs or writes belongs to the reader's checkout",
    "needs other machines": "a scheduler and workers on a cluster",
    "needs published inputs": "files of other repositories, which the reader gets first",
    "takes hours": "a whole table of a paper",
}
"""Why a block is not run here; anything else is."""
LONGEST_S = 900
"""Seconds after which a block is ended: something hangs, on however slow a machine."""
HERE: Mapping[str, str] = MappingProxyType({})
"""Nothing that differs from the environment of this process."""
PROGRAMS = {
    "sh": ["bash", "-euo", "pipefail", "-c"],
    "bash": ["bash", "-euo", "pipefail", "-c"],
    "python": [sys.executable, "-c"],
}


@dataclass(frozen=True)
class Block:
    """A fenced block, the text before it, and what the comment above it says."""

    language: str
    text: str
    before: str
    line: int
    marks: dict[str, str]

    @property
    def runs(self) -> bool:
        return self.language in (*PROGRAMS, "console") and not self.marks.keys() & {"not run", "file"}


def blocks_of(path: Path) -> Iterator[Block]:
    text = path.read_text("utf-8")
    end = 0
    for found in re.finditer(r"^```(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[end : found.start()]
        marks = re.findall(r"<!-- ([a-z ]+): (.+?) -->\s*(?=\Z|<!--)", before)
        words = re.sub(r"<!--.*?-->", "", before, flags=re.DOTALL).strip()
        yield Block(found[1], found[2], words, text[: found.start()].count("\n") + 1, dict(marks))
        end = found.end()


def write_files(path: Path, folder: Path) -> None:
    """The files that a page has its reader write."""
    for block in blocks_of(path):
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.text, encoding="utf-8")


def shown(blocks: list[Block], i: int) -> str | None:
    """The block of text after this one, where the page says that it is what comes out."""
    after = blocks[i + 1] if i + 1 < len(blocks) else None
    return (
        after.text
        if after and after.language == "text" and "prints" in after.before.rpartition("\n\n")[2]
        else None
    )


def run(block: Block, folder: Path, environment: Mapping[str, str] = HERE) -> str:
    """What the block prints, with `plan` beside this Python; the terminal has 80 columns."""
    usual = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(
        [*PROGRAMS[block.language], block.text], cwd=folder, env=usual | dict(environment), capture_output=True,
        text=True, timeout=LONGEST_S,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"line {block.line}: {done.returncode}\n{block.text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    return done.stdout


def sessions(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a session at the terminal, each with what the page shows below it."""
    for found in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        yield found[1], found[2]


def same(shown: str, printed: str) -> bool:
    """Whether lines are the same; a line of three dots stands for any number of them, dots at an end for its rest."""
    parts = [
        re.escape(part).replace(re.escape("...\n"), ".*\n")
        for part in re.split(r"^\.\.\.\n", shown.replace("\r", ""), flags=re.MULTILINE)
    ]
    lines = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("(?:.*\n)*".join(parts), lines) is not None


def follow(path: Path, folder: Path, packages: Collection[str], environment: Mapping[str, str] = HERE) -> None:
    """Types what the page says, in its order: blocks that need no package or one of these (`""` stands for none)."""
    blocks = list(blocks_of(path))
    for i, block in enumerate(blocks):
        if "file" in block.marks:
            name = block.marks["file"]
            assert f"`{name}`" in block.before, f"the page does not say to write {name}"
            (folder / name).write_text(block.text, encoding="utf-8")
        elif block.runs and block.marks.get("needs", "") in packages:
            if block.language == "console":
                for command, output in sessions(block):
                    printed = run(Block("sh", command, "", block.line, {}), folder, environment)
                    assert same(output, printed), f"line {block.line}: {command}\n{printed}"
            else:
                printed, output = run(block, folder, environment), shown(blocks, i)
                assert output is None or same(output, printed), f"line {block.line}:\n{printed}"
