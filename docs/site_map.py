"""What the site adds to the pages of the repository: its sidebar, raw tables as pages, and old addresses.

Pages are read on GitHub as well, so they hold no directives. The sidebar is made of the lists on the home page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import lesson_pages

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"

# Pages that are made from the code, and what the list of them says.
MADE = {
    "reference/cli": ("Command line", "every command with its arguments and options"),
    "reference/api": ("Python", "every public function and type"),
    "reference/methods": ("Formulations and planners", "every method with its options and its paper"),
    "reference/schemas": ("Schemas", "every file that pipeplan writes"),
    "reference/suites": ("Packaged suites", "the comparisons that come with pipeplan"),
}

# Where a page went that is no longer one, as it is found in its folder.
MOVED = {
    "platforms": "start.html#windows-macos-and-the-cloud",
    "real-models": "from-your-model.html#predicted-against-measured",
    "tables": "profiles.html#tables-of-layers",
    "data": "reproduce.html#published-inputs",
    "formats": "profiles.html#file-formats",
    "piper-extensions": "hierarchy.html#pipelines-that-are-flushed",
    "leaderboard": "reproduce.html#join-the-leaderboard",
    "agents": "howto.html",
    "ten-lines": "howto.html#python-in-ten-lines",
    "calibrate": "accuracy.html#what-your-own-gpu-reaches",
    "benchmarks": "evidence.html",
    "proofs": "evidence.html#known-inputs",
    "ablation": "evidence.html#parts-of-the-searches",
    "case-study": "evidence.html#stages-in-a-graph",
    "chains": "evidence.html#chains",
    "dynamic-program": "evidence.html#placements",
    "graphpipe": "evidence.html#stages-in-a-graph",
    "latency": "evidence.html#latency-of-one-sample",
    "pareto": "evidence.html#chains",
    "piper": "evidence.html#stages-with-degrees",
    "throughput": "evidence.html#placements",
    "time-limits": "evidence.html#time-limits-speed-and-crashes",
}


def sidebar(home: str) -> str:
    """The home page with a hidden table of contents for each section that lists pages: `- [Title](page.md): ...`."""
    parts = []
    for section in re.split(r"^## ", home, flags=re.MULTILINE)[1:]:
        pages = listed(section)
        if pages:
            lines = [f"{title} <{page}>" for title, page in pages]
            head = ["```{toctree}", ":hidden:", ":maxdepth: 1", f":caption: {section.partition(chr(10))[0]}"]
            parts.append("\n".join([*head, "", *lines, "```"]))
    return "\n\n".join([home, *parts, ""])


def listed(text: str) -> list[tuple[str, str]]:
    """The pages of lists, by their titles: those of the first link of each item."""
    return re.findall(r"^- \[([^\]]+)\]\(([\w/-]+)\.md\)", text, re.MULTILINE)


def models(overview: str) -> str:
    """The overview with a table of contents: the pages of models, by their names in its table, and the notation."""
    rows = re.findall(r"^\| \[([^\]]+)\]\(([\w-]+)\.md\) \|", overview, re.MULTILINE)
    lines = [f"{title} <{page}>" for title, page in [*rows, ("Notation", "notation")]]
    return "\n".join([overview, "```{toctree}", ":hidden:", ":maxdepth: 1", "", *lines, "```", ""])


def reference(text: str) -> str:
    """The page with a list of those that are made from the code."""
    items = [f"- [{title}]({page}.md): {words}" for page, (title, words) in MADE.items()]
    tree = [f"{title} <{page}>" for page, (title, _) in MADE.items()]
    return "\n".join([text, "## On this site", "", *items, "", "```{toctree}", ":hidden:", "", *tree, "```", ""])


def explorer(text: str) -> str:
    """The page with links to the sliders and to the bars, which are files of the site alone."""
    for words, file in (("open it now", "explorer.html"), ("open this one", "memory.html")):
        assert f"**{words}**" in text
        text = text.replace(f"**{words}**", f'<a href="{file}"><strong>{words}</strong></a>')
    return text


ADDED = {"index": sidebar, "models/index": models, "reference": reference, "explore": explorer}
"""What the site adds, by page."""


def from_docs(text: str) -> str:
    """Links of docs/ and its folder of models to raw tables; pictures beside them are read where they are."""
    return re.sub(r"\]\(((?:\.\./)*)\.\./benchmarks/results/([\w-]+\.md)", r"](\1tables/\2", text)


def write_tables(folder: Path) -> None:
    """The raw tables as pages that stand in no list."""
    lesson_pages.write_pages(folder, {path.name: table(path) for path in sorted(RESULTS.glob("*.md"))})


def table(path: Path) -> str:
    text = path.read_text("utf-8").replace("](../../docs/", "](../")
    text = re.sub(r"\]\(([\w-]+\.svg)\)", r"](../../benchmarks/results/\1)", text)
    return f"---\norphan: true\n---\n\n{text}"


def redirects() -> Iterator[tuple[str, str]]:
    """A page for each old address, which leads to the new one."""
    for old, new in MOVED.items():
        target = escape(new, quote=True)
        yield (
            f"{old}.html",
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Moved</title>'
            f'<link rel="canonical" href="{target}"><meta http-equiv="refresh" content="0; url={target}">'
            f'</head><body>This page is now <a href="{target}">here</a>.</body></html>\n',
        )
