"""The pages of models: every row of the code has its formula, and one notation serves the lessons and the models."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import pipeplan
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.studies.export import export_model

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "docs" / "models"
PAGES = sorted(path for path in MODELS.glob("*.md") if path.stem not in ("index", "notation"))
FORMULA = re.compile(r"^\$\$(.*?)\$\$\n\n((?:Rows: |No rows)[^\n]*)?", re.MULTILINE | re.DOTALL)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pytest.fixture
def model_pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("model_pages")


def keys_on(page: Path, model_pages: Any) -> list[str]:
    return [
        key for line in model_pages.LISTED.findall(page.read_text("utf-8")) for key in model_pages.keys_of(line)
    ]


# ---- rows and formulas -----------------------------------------------------------------------------------


def test_every_row_of_the_code_is_on_a_page_once_and_no_page_has_others(model_pages: Any) -> None:
    written = Counter(key for page in PAGES for key in keys_on(page, model_pages))
    coded = {row.key for row in model_pages.rows_of_code()}
    assert {"without a formula": sorted(coded - set(written)), "not in the code": sorted(set(written) - coded)} == {
        "without a formula": [],
        "not in the code": [],
    }
    assert [key for key, count in written.items() if count > 1] == []


def test_the_pages_count_the_rows_of_each_model(model_pages: Any) -> None:
    """As many as these: a model that loses its rows, or whose rows are no longer seen, is noticed here."""
    at_least = {
        "ip-tarnawski": 47, "latency": 56, "ilp-beaumont": 44, "cp-beaumont": 84, "mip-piper": 23,
        "cp-graphpipe": 19, "schedules": 24, "periodic": 21, "configurations": 0,
    }  # fmt: skip
    counted = {page.stem: len(keys_on(page, model_pages)) for page in PAGES}
    assert counted.keys() == at_least.keys()
    assert all(counted[name] >= least for name, least in at_least.items()), counted


def test_every_formulation_has_a_page(model_pages: Any) -> None:
    overview = (MODELS / "index.md").read_text("utf-8")
    assert {name for name in FORMULATIONS if f"`{name}`" not in overview} == set()
    assert {path.stem for path in PAGES} == set(re.findall(r"\]\(([\w-]+)\.md\) \|", overview))


@pages
def test_formulas_have_numbers_of_their_own_and_rows_unless_they_say_what_is_minimised(page: Path) -> None:
    for section in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE):
        numbers = []
        for formula, rows in FORMULA.findall(section):
            tags = re.findall(r"\\tag\{(\w+)\}", formula)
            assert (len(tags) == 1 and rows) or formula.startswith(r"\min"), formula
            numbers += tags
        assert len(numbers) == len(set(numbers)), section.splitlines()[0]


@pages
def test_a_formula_with_a_number_breaks_its_lines_as_mathjax_takes_it(page: Path) -> None:
    r"""Sphinx puts a formula with `\\` into an environment in which a number is an error; `\cr` breaks lines, too."""
    assert [formula for formula, _ in FORMULA.findall(page.read_text("utf-8")) if r"\\" in formula] == []


def test_every_numbered_equation_of_the_papers_is_on_its_page() -> None:
    """Those of Beaumont et al. and the conditions of GraphPipe; and of Piper, whose formulas have no numbers, five."""
    tags = {
        name: re.findall(r"\\tag\{([A-Z]?\d+)[a-z]?\}", (MODELS / f"{name}.md").read_text("utf-8"))
        for name in ("ilp-beaumont", "mip-piper", "cp-graphpipe", "latency", "ip-tarnawski")
    }
    assert {tag for tag in tags["ilp-beaumont"] if tag.isdigit()} == {str(number) for number in range(1, 37)}
    assert [tag for tag in tags["cp-graphpipe"] if tag.startswith("C")] == ["C1", "C2", "C3", "C4"]
    assert {tag for tag in tags["latency"] if tag.isdigit()} == {str(number) for number in range(1, 10)}
    assert "16" in tags["ip-tarnawski"]
    assert [tag for tag in tags["mip-piper"] if tag.startswith("P")] == ["P1", "P2", "P3", "P4", "P5"]


@pages
def test_a_number_in_the_name_of_a_row_is_the_number_of_its_formula(page: Path) -> None:
    for formula, rows in FORMULA.findall(page.read_text("utf-8")):
        for number in re.findall(r"\.eq_(\d+)", rows):
            assert re.search(rf"\\tag\{{{number}[a-z]?\}}", formula), (rows, formula)


def test_rows_of_exported_models_are_on_the_pages_by_their_names(model_pages: Any, tmp_path: Path) -> None:
    named = {row.key.rpartition(".")[2] for row in model_pages.rows_of_code()}
    models: dict[str, dict[str, Any]] = {
        "tiny-chain": {"formulation": "ip-tarnawski", "options": {"variant": "plain"}},
        "tiny-stages": {"formulation": "mip-piper"},
        "three-chain": {"formulation": "ilp-beaumont"},
    }
    for instance, method in models.items():
        export_model(pipeplan.load_packaged(instance), str(tmp_path / "model.lp"), **method)
        rows = re.findall(r"\beq_\w+", (tmp_path / "model.lp").read_text("utf-8"))
        assert rows, instance
        assert not [row for row in rows if not f"{row}_".startswith(tuple(f"{name}_" for name in named))], instance


CODE = """
class Model:
    def build(self):
        self.model.hello = pyo.Constraint(rule=None)
        frame.rows("there", {}, "what it asks for")
        self.model.add(x <= 1).only_enforce_if(y)
        self.model.add_hint(x, 1)
        seen.add(x)
        model.late = pyo.ConstraintList(doc="what it asks for")
        model.late.add(x >= y)
        return add_rows(model, ("eq_1", "edges", self.paths()), ("eq_2", "memory", self.memory()))

    def paths(self):
        yield x <= 1
        yield from rows
"""


def test_rows_are_seen_however_a_model_adds_them(
    model_pages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pages, "FORMULATIONS", tmp_path)
    (tmp_path / "new.py").write_text(CODE, encoding="utf-8")
    rows = [row.key for row in model_pages._rows_in(tmp_path / "new.py")]
    assert sorted(rows) == ["new.build/1", "new.build/2", "new.hello", "new.paths/1", "new.paths/2", "new.there"]


def test_names_of_rows_become_links_to_their_lines(model_pages: Any) -> None:
    page = model_pages.linked((MODELS / "ip-tarnawski.md").read_text("utf-8"))
    source = (ROOT / "formulations/tarnawski/plain.py").read_text("utf-8").splitlines()
    lines = [
        int(line) for line in re.findall(r'href="\.\./code/formulations\.tarnawski\.plain\.html#L-(\d+)"', page)
    ]
    assert len(lines) > 10
    assert all("Constraint(" in source[line - 1] for line in lines), lines


# ---- one notation ----------------------------------------------------------------------------------------

COMMANDS = re.compile(
    r"\\(?:le|ge|ne|sum|max|min|l?dots|cdot|q?quad|t?frac|[lr]ceil|[lr]floor|[Bb]ig[lr]?|setminus|subset|supset|emptyset"
    r"|infty|bmod|times|to|in|notin|forall|square|partial|left|right|textstyle|tilde|bar|hat|vec)(?![A-Za-z])"
    r"|\\(?:text|mathrm|begin|end)\s*\{[^}]*\}|\\[,;! ]"
)
"""What is no letter: signs, accents, spaces and words."""


def formulas(text: str) -> Iterator[str]:
    plain = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (shown or within for shown, within in re.findall(r"\$\$(.*?)\$\$|\$([^$]+?)\$", plain, re.DOTALL))


def letters(formula: str) -> set[str]:
    """The letters of a formula, Greek ones by their names."""
    found = re.findall(r"\\([A-Za-z]+)|([A-Za-z])", COMMANDS.sub(" ", formula))
    return {name or letter for name, letter in found}


def table_of_notation() -> dict[int, set[str]]:
    """By lesson, the letters that the table explains for it."""
    known: dict[int, set[str]] = {}
    text = (MODELS / "notation.md").read_text("utf-8")
    for symbols, means, lessons in re.findall(r"^\| (\$.*?) \| (.*) \| ([\d, ]+) \|$", text, re.MULTILINE):
        for lesson in map(int, lessons.split(",")):
            for formula in formulas(f"{symbols} {means}"):
                known.setdefault(lesson, set()).update(letters(formula))
    return known


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_table_of_notation_has_every_letter_of_the_lessons(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    used = {letter for text in texts for formula in formulas(text) for letter in letters(formula)}
    assert used - table_of_notation().get(int(path.stem[:2]), set()) == set()


# ---- what search engines say -----------------------------------------------------------------------------


def test_every_page_of_the_site_has_a_description_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    lesson_pages = importlib.import_module("lesson_pages")
    told = tomllib.loads((ROOT / "docs/descriptions.toml").read_text("utf-8")) | lesson_pages.descriptions()
    stems = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*.md")}
    stems |= {f"models/{path.name}" for path in MODELS.glob("*.md")}
    stems |= {f"lessons/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")} | {"lessons/index.md"}
    stems |= {f"reference/{name}.md" for name in ("api", "cli", "methods", "schemas", "suites")}
    assert {f"{name}.md" for name in told} == stems
    assert len(set(told.values())) == len(told)
    assert {name: text for name, text in told.items() if not 50 <= len(text) <= 160} == {}


# ---- what the site's own search finds ----------------------------------------------------------------------

TITLES = {
    path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path.read_text("utf-8").partition("\n")[0][2:]
    for path in (*(ROOT / "docs").glob("*.md"), *MODELS.glob("*.md"))
} | {"lessons/01": "1 · What pipelines cost in memory", "lessons/12": "12 · Which parallelism?"}


@pytest.mark.skipif(shutil.which("node") is None, reason="the search is JavaScript")
@pytest.mark.parametrize(("typed", "found"), [
    ("memory 1F1B", "training-memory"),
    ("pipeline stages", "from-your-model"),
    ("which parallelism", "configure"),
    ("How do I choose pipeline stages for my model?", "from-your-model"),
    ("ip-tarnawski", "models/ip-tarnawski"),
])  # fmt: skip
def test_a_question_finds_the_page_that_answers_it_first(typed: str, found: str) -> None:
    """Every page has the words somewhere, for which Sphinx gives 5, or 15 where one is in its title."""
    code = (ROOT / "docs/search_score.js").read_text("utf-8")
    window = json.dumps({"location": {"search": f"?q={quote(typed)}"}})
    pages = json.dumps([[name, title, "", None, 5] for name, title in sorted(TITLES.items(), reverse=True)])
    best = "pages.sort((a, b) => Scorer.score(b) - Scorer.score(a))[0][0]"
    program = f"const window = {window};{code};const pages = {pages};console.log({best})"
    said = subprocess.run(["node", "-e", program], capture_output=True, text=True)
    assert said.stdout == f"{found}\n", said.stderr


@pytest.mark.parametrize("entry", FORMULATIONS.values(), ids=lambda entry: entry.name)
def test_a_formulation_names_its_page_of_equations(plan: Callable[..., Any], entry: Entry) -> None:
    page = entry.explained_in[0]
    assert f"`{entry.name}`" in (ROOT / page).read_text("utf-8")
    assert f"its equations: {page}" in plan("formulations", entry.name).out
