"""Pages of models: each formula of `docs/models/` beside the lines of code that write its rows.

A page names rows as the code does, below the formula: `Rows: tarnawski.plain.assignment`. A block of rows that has a
name in the model goes by that name, behind its module; other rows go by the function that adds them and by their place
in it, as `tarnawski.cp.stage_order/2`. The build turns these names into links to lines; a test finds each of them once.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import lesson_pages

ROOT = Path(__file__).parents[1]
FORMULATIONS = ROOT / "formulations"
MODELS = Path(__file__).parent / "models"
LISTED = re.compile(r"^Rows: (.*)$", re.MULTILINE)

# Functions of CP-SAT and of ours that add one row, or a clause; `add` does on what is named so.
ADDERS = {
    *("add_all_different", "add_bool_or", "add_bool_xor", "add_exactly_one", "add_implication"),
    *("add_linear_constraint", "add_max_equality", "add_min_equality", "add_no_overlap", "require", "row"),
}
# What adders are made of, themselves no part of any model.
TOOLS = {"native.py"}


@dataclass(frozen=True, slots=True)
class Row:
    """A statement that adds rows to a model."""

    key: str
    path: Path
    line: int


@cache
def rows_of_code() -> tuple[Row, ...]:
    """All that the formulations add to their models."""
    paths = (path for path in sorted(FORMULATIONS.rglob("*.py")) if _place(path) not in TOOLS)
    return tuple(row for path in paths for row in _rows_in(path))


def _place(path: Path) -> str:
    return path.relative_to(FORMULATIONS).as_posix()


def _rows_in(path: Path) -> Iterator[Row]:
    text = path.read_text("utf-8")
    tree, module = ast.parse(text), _place(path).removesuffix(".py").replace("/", ".")
    numbers = _numbers(module) if "\nEQUATIONS = " in text else {}
    handed_on = {name for function in _functions(tree) for name in _generators(function)}
    grown = {"model", *_lists(tree)}
    for function in _functions(tree):
        places = []
        for node in ast.walk(function):
            name = _block(node)
            if name is not None:
                number = numbers.get(name)
                yield Row(f"{module}.{name if number is None else f'eq_{number}_{name}'}", path, node.lineno)
            elif (function.name in handed_on and isinstance(node, ast.Yield | ast.YieldFrom)) or (
                _adds(node, grown) and function.name not in ("require", "row")
            ):
                places.append((node.lineno, node.col_offset))
        for number, (line, _) in enumerate(sorted(places), 1):
            yield Row(f"{module}.{function.name}/{number}", path, line)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods of a module; those inside of another one belong to it."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (inner for inner in node.body if isinstance(inner, ast.FunctionDef))


def _block(node: ast.AST) -> str | None:
    """The name of a block of rows that is assigned to a model, or given to a frame's `rows`."""
    if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Attribute):
        return target.attr if _calls(node.value, "Constraint") else None
    if isinstance(node, ast.Call) and _calls(node, "rows") and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def _lists(tree: ast.Module) -> Iterator[str]:
    """Names of the lists of rows that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "ConstraintList(" in ast.unparse(node.value):
            yield from (target.attr for target in node.targets if isinstance(target, ast.Attribute))


def _adds(node: ast.AST, grown: Collection[str]) -> bool:
    """Does it add to a model, or to one of these lists?"""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "ExtraRow"
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "add":
        adds = ast.unparse(node.func.value).rpartition(".")[2] in grown
        return adds and not isinstance(node.args[0], ast.Tuple) and ast.unparse(node.args[0]) != "row"
    return node.func.attr in ADDERS


def _generators(function: ast.FunctionDef) -> Iterator[str]:
    """Methods whose rows `add_rows` adds, block by block: `add_rows(model, ("eq_1", "edges", self.paths()))`."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    if any(ast.unparse(call.func) == "add_rows" for call in calls):
        found = (call.func for call in calls if not call.args)
        yield from (
            own.attr for own in found if isinstance(own, ast.Attribute) and ast.unparse(own.value) == "self"
        )


def _calls(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == name


def _numbers(module: str) -> Mapping[str, str]:
    """The module's table of the numbers of equations in print."""
    found: Mapping[str, str] = importlib.import_module(f"pipeplan.formulations.{module}").EQUATIONS
    return found


# ---- pages ---------------------------------------------------------------------------------------------


def keys_of(listed: str) -> list[str]:
    """The rows that a line of a page names; `order/2-3` are the second and the third ones."""
    keys = []
    for name in re.findall(r"`([^`]+)`", listed):
        found = re.fullmatch(r"(.*)/(\d+)-(\d+)", name)
        keys += [name] if found is None else [f"{found[1]}/{n}" for n in range(int(found[2]), int(found[3]) + 1)]
    return keys


def linked(text: str) -> str:
    """The page with links from the names of rows to their lines, and its modules at the end."""
    places: dict[str, list[Row]] = {}
    for row in rows_of_code():
        places.setdefault(row.key, []).append(row)
    paths = dict.fromkeys(
        row.path for found in LISTED.findall(text) for key in keys_of(found) for row in places[key]
    )
    if not paths:
        return text
    text = LISTED.sub(lambda found: _links([row for key in keys_of(found[1]) for row in places[key]]), text)
    modules = [f"- [`{_source(path)}`](../code/{_page(path)}.md): {_first_line(path)}" for path in paths]
    return "\n".join([text.rstrip(), "", "## Code", "", *modules, ""])


def _links(rows: list[Row]) -> str:
    links = [
        f'<a href="../code/{_page(row.path)}.html#L-{row.line}">{_place(row.path)}:{row.line}</a>' for row in rows
    ]
    return f'<p class="rows">{", ".join(links)}</p>'


def _source(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _page(path: Path) -> str:
    return lesson_pages.page_of(_source(path)).removesuffix(".md")


def _first_line(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(told.split("\n\n")[0].split()).replace("[", r"\[")


def write_listings(folder: Path) -> None:
    """A page for each file of ours that models and lessons link to; it stands in no list of pages."""
    lessons = {source for path in lesson_pages.NOTEBOOKS.glob("*.ipynb") for source in lesson_pages.sources(path)}
    listed = sorted(lessons | {_source(row.path) for row in rows_of_code()})
    lesson_pages.write_pages(
        folder, {lesson_pages.page_of(source): lesson_pages.listing(source) for source in listed}
    )
