"""What an interpreter and a notebook show of problems and results (`instances/base/kind.py` says when)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError
from ..instances.base.kind import Displayed, Picture
from ..instances.base.result import History, Result
from ..instances.lookup import packaged_by_hash
from ..instances.registry import Problem
from .view import PlanView, module_of, view_of_result

if TYPE_CHECKING:
    from ..studies.compare.comparison import Comparison
    from ..studies.configure.answer import Answer

# The most lines below the first one, in an interpreter.
MOST_FACTS = 2

# Head and rows of a table.
Cells = tuple[Sequence[str], Sequence[Sequence[str]]]
# The file of a picture; None: it is not written.
Place = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Face:
    """How values of one type are shown."""

    told: Callable[[Any], tuple[str, Mapping[str, str]]]
    """Gives a line, and facts by name, the most important first."""
    show: Callable[[Any], None]
    tables: Callable[[Any], Iterable[Cells]] = lambda value: ()
    draw: Callable[[Any, str | os.PathLike[str]], None] | None = None


def _face(value: object) -> Face:
    from ..studies.compare.comparison import Comparison
    from ..studies.configure.answer import Answer

    faces: dict[type, Face] = {
        Result: Face(_of_result, _show_result, _tables_of_result, _draw_result),
        Comparison: Face(_of_comparison, _show_comparison, _tables_of_comparison, _draw_comparison),
        Answer: Face(_of_answer, _show_answer),
    }
    return faces.get(type(value), Face(_of_problem, _show_problem))


def brief(value: Displayed) -> str:
    """Three lines: what it is, and what matters most of it."""
    head, facts = _face(value).told(value)
    return "\n".join([head, *(f"  {name}: {text}" for name, text in list(facts.items())[:MOST_FACTS])])


def html(value: Displayed) -> str:
    """The same line, all facts and tables as HTML, without styles, so that those of a notebook hold."""
    from .page import tag, to_html

    face = _face(value)
    head, facts = face.told(value)
    rows = [tag("tr", None, tag("th", None, name), tag("td", None, text)) for name, text in facts.items()]
    parts = [tag("p", None, tag("b", None, head)), tag("table", None, *rows)]
    for names, lines in face.tables(value):
        title = tag("tr", None, *(tag("th", None, name) for name in names))
        parts.append(
            tag("table", None, title, *(tag("tr", None, *(tag("td", None, c) for c in line)) for line in lines))
        )
    return to_html(tag("div", None, *parts)).partition("\n")[2]


def show(value: Displayed) -> None:
    """Print what `plan show`, `plan solve`, `plan compare` and `plan configure` print."""
    _face(value).show(value)


def plot(value: Displayed, path: Place) -> Picture:
    """The picture that the command would draw."""
    draw = _face(value).draw
    assert draw is not None, "asked of results and comparisons"
    return drawn(partial(draw, value), path)


def plot_history(history: History, path: Place) -> Picture:
    """Incumbent and bound over time."""
    from .pictures import draw_history

    return drawn(partial(draw_history, history), path)


def drawn(draw: Callable[[str | os.PathLike[str]], None], path: Place) -> Picture:
    """What the function draws, as a picture; also written to the file where one is named."""
    if path is not None:
        draw(path)
    with TemporaryDirectory() as folder:
        place = Path(folder) / "picture.svg"
        draw(place)
        return Picture(place.read_text("utf-8"))


# ---- problems --------------------------------------------------------------------------------------------


def _of_problem(problem: Problem) -> tuple[str, Mapping[str, str]]:
    facts = {name: str(text) for name, text in module_of(problem).facts(problem).items()}
    return f"{type(problem).__name__} {problem.name}", facts


def _show_problem(problem: Problem) -> None:
    from .terminal import draw_instance
    from .view import about

    draw_instance(problem, about(problem))


# ---- comparisons and configurations ----------------------------------------------------------------------


def _of_comparison(comparison: Comparison) -> tuple[str, Mapping[str, str]]:
    from .comparison import state

    runs = comparison.expanded.runs
    instances, methods = (dict.fromkeys(getattr(run, name) for run in runs) for name in ("instance", "method"))
    facts = {"instances": ", ".join(instances), "methods": ", ".join(methods)}
    return f"{comparison.expanded.title}: {state(comparison)}", facts


def _show_comparison(comparison: Comparison) -> None:
    from .comparison import draw_comparison

    draw_comparison(comparison)


def _tables_of_comparison(comparison: Comparison) -> Iterator[Cells]:
    from .comparison import parts_of

    yield from ((part.head, part.rows) for part in parts_of(comparison).values() if part.rows)


def latex(comparison: Comparison) -> str:
    """The comparison's tables for a paper, in LaTeX."""
    from . import comparison as tables

    return tables.latex(comparison)


def _draw_comparison(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    from ..studies.compare.table import profile
    from .pictures import write_profile

    write_profile(profile(comparison.table()), path)


def _of_answer(answer: Answer) -> tuple[str, Mapping[str, str]]:
    from .configurations import best_in_words, counted_in_words

    facts = {}
    if answer.report is not None:
        facts = {"best": next(iter(best_in_words(answer))), "counted": counted_in_words(answer)}
    return f"Answer for {answer.problem.name}", facts


def _show_answer(answer: Answer) -> None:
    from .configurations import draw_answer

    draw_answer(answer)


# ---- results ---------------------------------------------------------------------------------------------


def _of_result(result: Result) -> tuple[str, Mapping[str, str]]:
    from .answer import run_facts

    facts = run_facts(result, result.problem.get("time_unit"))
    head = f"Result for {result.problem.get('name')}: {facts.pop('found')}, {facts.pop('objective')}"
    rest = f"bound {facts.pop('bound')}, gap {facts.pop('gap')}, stop {facts.pop('stop')}, {facts.pop('seconds')}"
    return head, {facts.pop("method"): rest, "scope": facts.pop("scope", "nothing is proven"), **facts}


def _show_result(result: Result) -> None:
    from .terminal import draw_result

    problem = subject_of(result)
    draw_result(problem, result, view_of_result(problem, result), named=True)


def _tables_of_result(result: Result) -> Iterator[Cells]:
    """Devices or stages, where there is a plan and its problem is at hand."""
    try:
        view = view_of_result(subject_of(result), result)
    except UsageError:
        return
    if view is not None:
        table = view.tables[0]
        columns = table.columns(table.rows, view.memory_unit)
        yield list(columns), list(zip(*columns.values(), strict=True))


def _draw_result(result: Result, path: str | os.PathLike[str]) -> None:
    from .pictures import draw_view

    view = view_of_result(subject_of(result), result)
    if view is None:
        raise UsageError(NO_PLAN)
    draw_view(view, path)


def loads(result: Result) -> dict[str, float]:
    """The load of each device or stage, in the problem's units."""
    return {row.title: row.load for row in _plain_view(result).tables[0].rows}


def memory(result: Result) -> dict[str, float | None]:
    """The memory that each device or stage holds, in the problem's units; None: the view does not say."""
    return {row.title: row.memory_held for row in _plain_view(result).tables[0].rows}


NO_PLAN = "The result has no plan that the referee accepts; result.found and result.messages say why."


def subject_of(result: Result) -> Problem:
    """The problem of a result; one that was read from a file is about a packaged instance, or brings it along."""
    if result.subject is not None:
        return result.subject
    if "whole" in result.problem:
        from ..instances.base.json_file import dump_json
        from ..instances.files import problem_from_text

        return problem_from_text(dump_json(result.problem["whole"]))
    try:
        return packaged_by_hash(result.problem)
    except UsageError:
        raise UsageError(
            "A file of a result does not hold the problem; give it, as in result.about(problem).show()."
        ) from None


def _plain_view(result: Result) -> PlanView:
    """The view of a result's plan, with times in the units of the problem."""
    from ..planners.referee import rules_of

    problem = subject_of(result)
    if result.plan is None or not result.verified:
        raise UsageError(NO_PLAN)
    return module_of(problem).view(problem, result.plan, rules_of(problem, result.options))
