"""The lessons as pages of the site: notebooks/ as it is, but that links lead from the site's own folders.

MyST-NB executes the pages; what is added here is what a notebook has no need of: a line to download it, and folds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from textwrap import shorten
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
# What lessons share, and import from the folder in which they run.
MODULES = tuple(sorted(path.name for path in NOTEBOOKS.glob("*.py") if path.name != "assignment.py"))


def write_all(folder: Path) -> None:
    """Every lesson, what they share and their overview."""
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    pages = {path.name: lesson(path) for path in notebooks}
    pages |= {name: (NOTEBOOKS / name).read_text("utf-8") for name in MODULES}
    pages["index.md"] = overview(notebooks)
    write_pages(folder, pages)


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """These pages and no others; one that has not changed is not touched, so that a build stays short."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")


def lesson(path: Path) -> str:
    """A notebook as a page."""
    notebook = json.loads(path.read_text("utf-8"))
    title, *others = notebook["cells"]
    head, rest = "".join(title["source"]).split("\n\n", 1)
    title["source"] = "\n\n".join(filter(None, (head, download(path), rest, called(path))))
    for cell in others:
        if "solution" in cell["metadata"].get("tags", ()):
            fold(cell, "Show the solution")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = from_lessons("".join(cell["source"]))
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def download(path: Path) -> str:
    files = {path.name: "the notebook"} | {name: name for name in shared_files(path)}
    notebook, *others = [f"{{download}}`{said} <../../notebooks/{name}>`" for name, said in files.items()]
    beside = f" and {', '.join(others)}, to lie beside it" if others else ""
    return f"Download {notebook}{beside}."


def shared_files(path: Path) -> list[str]:
    """What a lesson reads, from its own folder."""
    text = path.read_text("utf-8")
    data = sorted(f"data/{file.name}" for file in (NOTEBOOKS / "data").iterdir() if file.name in text)
    modules = [name for name in MODULES if f"from {name.removesuffix('.py')} import" in text]
    return [*modules, *data]


def called(path: Path) -> str:
    """Links to the code behind a lesson."""
    links = ", ".join(f"[`{source}`](../code/{page_of(source)})" for source in sources(path))
    return f"Code that it calls: {links}." if links else ""


def sources(path: Path) -> list[str]:
    """The files, from the root of the repository, of the modules from which a lesson imports."""
    modules = set(re.findall(r"from pipeplan\.([\w.]+) import", path.read_text("utf-8")))
    return sorted(source_of(module.replace(".", "/")) for module in modules)


def source_of(module: str) -> str:
    names = (f"{top}{module}{end}" for top in ("", "pipeplan/") for end in (".py", "/__init__.py"))
    return next(name for name in names if (ROOT / name).exists())


def page_of(source: str) -> str:
    return source.removesuffix(".py").replace("/", ".") + ".md"


def listing(source: str) -> str:
    """A page with a file of ours."""
    include = f"```{{literalinclude}} ../../{source}\n:language: python\n:linenos:\n```"
    return f"---\norphan: true\n---\n\n# `{source}`\n\n{include}\n"


def fold(cell: dict[str, Any], prompt: str) -> None:
    """Input and output: the output of a solution gives it away as well."""
    kept = [tag for tag in cell["metadata"]["tags"] if tag != "hide-input"]
    cell["metadata"] |= {"tags": [*kept, "hide-cell"], "mystnb": {"code_prompt_show": prompt}}


def overview(notebooks: list[Path]) -> str:
    """The README of the notebooks up to what is for those who execute them, with all lessons in order."""
    readme = (NOTEBOOKS / "README.md").read_text("utf-8")
    told = from_lessons(readme.partition("\n## With outputs")[0])
    names = "\n".join(path.stem for path in notebooks)
    return f"{told.rstrip()}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def descriptions() -> dict[str, str]:
    """What search engines say of each lesson: what the overview says is learnt, as far as they show it."""
    readme = (NOTEBOOKS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[\d+ ([^]]+)\]\(([\w-]+)\.ipynb\) \| (.*?) \| \d+ \|$", readme, re.MULTILINE)
    told = {
        f"lessons/{name}": f"{title}: {learnt}".replace("`", "").replace("*", "") for title, name, learnt in rows
    }
    return {page: shorten(text, 160, placeholder=" ...") for page, text in told.items()}


def from_lessons(text: str) -> str:
    """Links of notebooks/, where a reader of the repository follows them, as links of docs/lessons/."""
    return text.replace("](../docs/", "](../")


def from_docs(text: str) -> str:
    """The same for links of docs/ and its folder of models to the notebooks."""
    readme, notebook = r"\]\(\.\./notebooks/README\.md", r"\]\(((?:\.\./)*)\.\./notebooks/"
    return re.sub(notebook, r"](\1lessons/", re.sub(readme, "](lessons/index.md", text))


def state_of_the_code() -> str:
    """A name for all that the lessons compute with, so that no output outlives the code that made it."""
    folders = ("instances", "formulations", "planners", "pipeplan", "notebooks")
    paths = {path for folder in folders for path in (ROOT / folder).rglob("*") if is_read(path)}
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in sorted(paths))).hexdigest()[:16]


def is_read(path: Path) -> bool:
    """Not what is compiled, by Python or by numba, and not what is only words."""
    return path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".ipynb", ".md")
