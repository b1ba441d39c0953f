"""The lessons: one form for all, and exercises that take a solution and refuse plausible wrong answers with a hint.

The build of the documentation site executes the lessons from beginning to end. Here only those cells of a lesson run
that an exercise needs.
"""

from __future__ import annotations

import ast
import importlib
import json
import math
import re
import symtable
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

LESSONS = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(LESSONS.glob("*.ipynb"))
lessons = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@dataclass(frozen=True)
class Cell:
    kind: str
    source: str
    tags: tuple[str, ...]
    folded: bool


def cells_of(path: Path) -> list[Cell]:
    return [
        Cell(
            cell["cell_type"],
            "".join(cell["source"]),
            tuple(cell["metadata"].get("tags", ())),
            cell["metadata"].get("jupyter", {}).get("source_hidden", False),
        )
        for cell in json.loads(path.read_text("utf-8"))["cells"]
    ]


def headings(path: Path) -> list[str]:
    """Without what stands in fences."""
    texts = (cell.source for cell in cells_of(path) if cell.kind == "markdown")
    return [
        line
        for text in texts
        for line in re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        if line.startswith("#")
    ]


# ---- form ----------------------------------------------------------------------------------------------


@lessons
def test_headings_are_numbered_and_end_with_exercises_and_solutions(path: Path) -> None:
    title, *others = headings(path)
    sections = [line for line in others if line.startswith("## ")]
    assert title.startswith(f"# {int(path.stem[:2])} · ")
    assert not [line for line in others if line.startswith("# ")]
    tail = ["## Solutions"] if "exercises" in path.stem else ["## Exercises", "## Solutions"]
    assert sections[-len(tail) :] == tail
    numbers = [line.split()[1] for line in sections[: -len(tail)]]
    assert numbers == [f"{number}." for number in range(1, len(numbers) + 1)]


@lessons
def test_the_first_cell_says_what_is_learnt_and_what_is_needed(path: Path) -> None:
    first = cells_of(path)[0].source
    if "exercises" not in path.stem:
        assert "\nYou will\n- " in first
        assert re.search(r"^You need .*Time: about \d+ minutes\.", first, re.MULTILINE | re.DOTALL)


@lessons
def test_solutions_and_pictures_are_folded(path: Path) -> None:
    """In a notebook by `source_hidden`, on a page by the tag."""
    for cell in cells_of(path):
        drawn = "plt.show()" in cell.source and "def " not in cell.source
        if cell.kind == "code" and ("solution" in cell.tags or drawn):
            assert cell.folded, cell.source
            assert "hide-input" in cell.tags, cell.source


@lessons
def test_solutions_come_last_and_every_exercise_has_one(path: Path) -> None:
    cells = cells_of(path)
    where = next(place for place, cell in enumerate(cells) if "## Solutions" in cell.source)
    assert all(("solution" in cell.tags) == (place > where) for place, cell in enumerate(cells))
    asked = re.findall(r"^def (check_\d+)", "\n".join(cell.source for cell in cells[:where]), re.MULTILINE)
    solved = re.findall(r"\b(check_\d+)\(", "\n".join(cell.source for cell in cells[where:]))
    assert asked
    assert asked == solved


# ---- as pages of the site ------------------------------------------------------------------------------


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes them."""
    monkeypatch.syspath_prepend(LESSONS.parent / "docs")
    return importlib.import_module("lesson_pages")


@lessons
def test_a_page_says_what_its_notebook_says(path: Path, pages: Any, tmp_path: Path) -> None:
    """Code and headings are the same. Solutions are folded with their output, links lead within the site."""
    page = tmp_path / path.name
    page.write_text(pages.lesson(path), encoding="utf-8")
    assert headings(page) == headings(path)
    assert [c.source for c in cells_of(page) if c.kind == "code"] == [
        c.source for c in cells_of(path) if c.kind == "code"
    ]
    for cell in cells_of(page):
        assert ("hide-cell" in cell.tags) == ("solution" in cell.tags)
        assert not {"hide-cell", "hide-input"} <= set(cell.tags)
        assert "](../docs/" not in cell.source
    assert f"notebooks/{path.name}>`" in cells_of(page)[0].source
    imported = set(re.findall(r"^from pipeplan\.\S+ import", "\n".join(c.source for c in cells_of(path)), re.M))
    assert cells_of(page)[0].source.count("](../code/") == len(imported)


def test_pages_of_lessons_that_are_gone_are_removed(pages: Any, tmp_path: Path) -> None:
    (tmp_path / "00-gone.ipynb").touch()
    pages.write_all(tmp_path)
    assert {path.name for path in tmp_path.glob("*.ipynb")} == {path.name for path in PATHS}
    assert [path.stem for path in PATHS] == re.findall(
        r"^\d\d-.*$", (tmp_path / "index.md").read_text("utf-8"), re.M
    )


def test_the_table_of_the_course_has_a_row_for_each_lesson_with_its_minutes() -> None:
    rows = re.findall(
        r"^\| \[(\d\d) .*\]\((.*)\) \|.*\| (\d+) \|$", (LESSONS / "README.md").read_text("utf-8"), re.M
    )
    assert [name for _, name, _ in rows] == [path.name for path in PATHS]
    for number, name, minutes in rows:
        assert name.startswith(number)
        told = re.search(r"Time: about (\d+) minutes", cells_of(LESSONS / name)[0].source)
        assert told is None or told[1] == minutes, name


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module that all lessons import."""
    pytest.importorskip("IPython", reason="the extra docs has it")
    monkeypatch.syspath_prepend(LESSONS)
    monkeypatch.delitem(sys.modules, "course", raising=False)
    with mpl.rc_context():
        mpl.use("agg")
        yield importlib.import_module("course")


def test_pictures_of_lessons_follow_the_page_light_or_dark(course: Any) -> None:
    figure, axes = course.plt.subplots()
    course.draw_bar(axes, 0, 0, 1, 1, course.FORWARD, ("F1",))
    axes.axhline(0, color="black", label="a line")
    axes.plot([0], [0], "ko")
    axes.set_title("a title")
    axes.legend()
    svg = course.on_the_page(figure)
    course.plt.close(figure)
    assert "prefers-color-scheme: dark" in svg
    assert "@font-face { font-family: 'DejaVu Sans'; src: url(data:" in svg, "words need no font of the viewer"
    drawn = svg.partition("</style>")[2]
    assert re.findall(r'style="[^"]*fill: currentColor[^"]*"[^>]*>([^<]*)<', drawn)[-2:] == ["a title", "a line"]
    assert not re.search(r"(?:stroke|fill): (?:#ffffff|white)", drawn), "a patch that is white on a dark page"
    assert not re.search(r"stroke: (?:#000000|black)", drawn), "a line that is black on a dark page"
    assert not re.search(r'<use [^>]*style="stroke: ', drawn), "a marker that is black on a dark page"
    assert "fill: currentColor; stroke: currentColor" in drawn, "markers are drawn in the ink"
    (bar,) = re.findall(r'id="PolyCollection_1">\s*<defs>\s*<path [^>]*?style="([^"]*)"', drawn)
    assert "fill" not in bar, "a bar keeps its colour"


# ---- exercises -----------------------------------------------------------------------------------------


def names(source: str) -> tuple[set[str], set[str]]:
    """What the code gives a name to at its top level, and the names that it takes from there."""

    def taken(table: symtable.SymbolTable) -> set[str]:
        from_top = table.get_type() == "module"
        own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (from_top or s.is_global())}
        return own.union(*map(taken, table.get_children()))

    table = symtable.symtable(source, "cell", "exec")
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}, taken(table)


def needed_for(path: Path, code: str) -> Iterator[str]:
    """The cells before the solutions that `code` needs, in order: the last ones that give its names, and so on."""
    wanted, kept = names(code)[1], []
    for cell in reversed([cell for cell in cells_of(path) if cell.kind == "code" and "solution" not in cell.tags]):
        given, used = names(cell.source)
        if given & wanted:
            wanted = (wanted - given) | used
            kept.append(cell.source)
    return reversed(kept)


def solution_of(path: Path, exercise: str) -> str:
    """The cell that solves it."""
    return next(c.source for c in cells_of(path) if "solution" in c.tags and f"{exercise}(" in c.source)


@cache
def room_of(path: Path) -> dict[str, Any]:
    """The names that the exercises of a lesson need, made once."""
    tried = [
        f"{exercise.check}({wrong})" for exercise in EXERCISES if exercise.path == path for wrong in exercise.wrong
    ]
    solutions = [cell.source for cell in cells_of(path) if "solution" in cell.tags]
    room: dict[str, Any] = {"__name__": "__main__"}
    for source in needed_for(path, "\n".join((*solutions, *tried))):
        exec(compile(source, path.name, "exec"), room)
    return room


@dataclass(frozen=True)
class Exercise:
    name: str
    wrong: tuple[str, ...]

    @property
    def path(self) -> Path:
        return next(path for path in PATHS if path.stem.startswith(f"{int(self.name.partition('.')[0]):02}"))

    @property
    def check(self) -> str:
        return f"check_{self.name.partition('.')[2]}"


WRONG: dict[str, list[str]] = tomllib.loads(
    (LESSONS.parent / "tests/problems/wrong_answers.toml").read_text("utf-8")
)

EXERCISES = [Exercise(name, wrong) for name, wrong in WRONG.items()]


def test_every_exercise_is_tried() -> None:
    asked = {
        f"{int(path.stem[:2])}.{number}"
        for path in PATHS
        for cell in cells_of(path)
        for number in re.findall(r"^def check_(\d+)", cell.source, re.MULTILINE)
    }
    assert asked == set(WRONG)
    assert all(len(exercise.wrong) >= 2 for exercise in EXERCISES)


@lessons
def test_a_check_says_what_shape_of_answer_it_asks_for(path: Path) -> None:
    """In its decorator, as in the call that its cell proposes."""
    text = "\n".join(cell.source for cell in cells_of(path) if "solution" not in cell.tags)
    asked = re.findall(r"^@asks\((.*)\)\ndef (check_\d+)", text, re.MULTILINE)
    proposed = re.findall(r"^# (check_\d+)\((.*)\)$", text, re.MULTILINE)
    assert [(check, ast.literal_eval(example)) for example, check in asked] == proposed


@pytest.mark.parametrize(("example", "answer", "words"), [
    ("lambda a, b: ...", 5, "expected a function of a, b, got 5"),
    ("lambda a, b: ...", lambda a: a, "expected a function of a, b, got another function; missing|too many"),
    ("lambda a, b: ...", lambda a, b: ..., "expected a value of your function, got Ellipsis"),
    ("...", ..., "expected a number, got Ellipsis"),
    ("...", "12", "expected a number, got '12'"),
    ("[..., ...]", 3, "expected several answers, got 3"),
    ('"..."', 3, "expected a text, got 3"),
    ("(lambda a: ..., lambda a: ...)", (1, 2), "expected a function of a, got 1"),
])  # fmt: skip
def test_an_answer_of_another_shape_is_refused_in_a_sentence(
    course: Any, example: str, answer: Any, words: str
) -> None:
    @course.asks(example)
    def check_1(given: Any) -> None:
        for function in given if isinstance(given, tuple) else (given,):
            function(1, 2)

    with pytest.raises(AssertionError, match=words):
        check_1(answer)


def test_an_answer_that_no_check_can_try_is_refused_in_a_sentence(course: Any) -> None:
    """A memory below 0, or a function that gives a text where numbers are compared: no error of Python is shown."""

    @course.asks("lambda a: ...")
    def check_1(given: Any) -> None:
        assert given(1) <= 2

    @course.asks("...")
    def check_2(given: Any) -> None:
        raise ValueError("memory is negative\nand more")

    hint = r"; are its kind and its size what the exercise asks for\?$"
    with pytest.raises(AssertionError, match="expected an answer that can be tried, got your function" + hint):
        check_1(lambda a: "s")
    with pytest.raises(AssertionError, match=r"expected an answer that can be tried, got -3" + hint):
        check_2(-3)
    with pytest.raises(AssertionError, match=r"expected a value of your function, got ZeroDivisionError \(.*\)$"):
        check_1(lambda a: 1 / 0)


def test_a_whole_number_is_right_however_it_is_written(course: Any) -> None:
    @course.asks("...")
    def check_1(given: Any) -> int:
        return list(range(30)).index(range(30)[given])

    @course.asks("[..., ...]")
    def check_2(given: Any) -> list[int]:
        return [range(30)[number] for number in given]

    for whole in (27, 27.0, np.float64(27), np.int32(27), Fraction(27)):
        assert check_1(whole) == 27
        assert check_2([whole, 1.0]) == [27, 1]
    assert check_2(np.array([27.0, 1.0])) == [27, 1]
    for odd in (27.5, math.nan, math.inf, True, "27", 27j, None, [], {}):
        with pytest.raises(AssertionError, match="expected"):
            check_1(odd)


def test_a_notebook_shows_the_sentence_and_not_the_lines_of_the_check(
    course: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """They hold the solution."""
    shell = importlib.import_module("IPython.core.interactiveshell").InteractiveShell()
    cell = "from course import asks, agree\n@asks('...')\ndef check_1(given):\n"
    shell.run_cell(
        cell + "    secret = 6 * 7\n    assert given > 0 and given == secret, 'x: expected the answer'\n"
    )
    for answer in ("3", "-3", "'s'", "None", "[]"):
        assert not shell.run_cell(f"check_1({answer})").success
    told = capsys.readouterr().out
    assert told.count("Not yet: ") == 5
    for shown in ("secret", "assert", "Traceback", "Error", "course.py"):
        assert shown not in told, told


def nothing(*arguments: Any) -> None:
    """A function of the reader's that has no `return`."""


# Answers of odd kinds and sizes, of which no check may show more than a sentence; every fourth is tried on each.
ODD: tuple[Any, ...] = (
    *(None, -3, 0, 2.5, 1j, math.nan, math.inf, True, "many", "", [], {}, (), [None], ["x", 3], object()),
    *(nothing, lambda *a: "s", lambda *a: math.nan, lambda *a: [], lambda *a: -3, lambda *a: object()),
)


def numbers_in(text: str) -> set[float]:
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(e, id=e.name, marks=pytest.mark.xdist_group(f"lesson {e.name.partition('.')[0]}"))
        for e in EXERCISES
    ],
)
def test_an_exercise_takes_its_solution_and_refuses_wrong_answers(
    exercise: Exercise, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint says something, and is not the answer. Odd answers get a sentence, and 27.0 is as right as 27."""
    monkeypatch.chdir(LESSONS)
    monkeypatch.syspath_prepend(LESSONS)
    mpl.use("agg")
    solution = solution_of(exercise.path, exercise.check)
    room = dict(room_of(exercise.path))
    answers: list[Any] = []
    names: list[str] = []
    check = room[exercise.check]

    def listening(*answer: Any, **more: Any) -> Any:
        answers.extend((*answer, *more.values()))
        names.extend(more)
        return check(*answer, **more)

    room[exercise.check] = listening
    exec(compile(solution, exercise.path.name, "exec"), room)
    assert "right" in capsys.readouterr().out
    room[exercise.check] = check
    for wrong in exercise.wrong:
        with pytest.raises(AssertionError) as refused:
            exec(f"{exercise.check}({wrong})", room)
        assert_hint(str(refused.value), wrong, answers)
    for odd in ODD[::4]:
        given, named = [odd] * (len(answers) - len(names)), dict.fromkeys(names, odd)
        refusal = refusal_of(lambda given=given, named=named: check(*given, **named))
        if refusal is not None:
            assert type(refusal).__name__ == "NotYetRightError"
            assert refusal.__cause__ is refusal.__context__ is None, "the lines of the check would be shown"
            assert not re.search(r"Traceback|\w+Error\b", str(refusal)), refusal
            assert_hint(str(refusal), odd, answers)
    if answers and all(type(answer) is int for answer in answers):
        floats = [float(answer) for answer in answers]
        check(*floats[: len(given)], **dict(zip(names, floats[len(given) :], strict=True)))


def refusal_of(call: Callable[[], Any]) -> AssertionError | None:
    try:
        call()
    except AssertionError as error:
        return error
    return None


def assert_hint(hint: str, wrong: object, answers: list[Any]) -> None:
    """It says what was expected, and holds none of the right answers."""
    assert re.search(r": expected .+, got .+", hint, re.DOTALL), f"the hint for {wrong} is only: {hint}"
    for answer in answers:
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            assert float(answer) not in numbers_in(hint), f"the hint for {wrong} has the answer: {hint}"
        elif isinstance(answer, list | tuple | set):
            assert str(answer) not in hint, f"the hint for {wrong} has the answer: {hint}"
