"""How problems, plans and results are shown; here what an interpreter and a notebook show of them
(`instances/base/kind.py` says when).

Everything else is imported only where it is used: the command line imports modules of this folder before it knows
what is asked. To show values of another type, add it to `_face`."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError
from ..instances.base.kind import AnyPlan, Displayed, Picture
from ..instances.base.result import History, Result
from ..instances.lookup import packaged_by_hash
from ..instances.registry import Problem

if TYPE_CHECKING:
    from ..studies.compare.comparison import Comparison
    from ..studies.configure.answer import Answer
    from .views import PlanView

# The most lines below the first one, in an interpreter.
MOST_FACTS = 2
# The most characters of a plan's decisions in a line.
LONGEST_FACT = 100

# Head and rows of a table.
Cells = tuple[Sequence[str], Sequence[Sequence[str]]]
# The file of a picture; None: it is not written.
Place = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Face:
    """How one value is shown."""

    head: str
    facts: Mapping[str, str]
    """Facts by name, the most important first."""
    show: Callable[[], None]
    """Prints all of it."""
    tables: Callable[[], Iterable[Cells]] = tuple
    draw: Callable[[str | os.PathLike[str]], None] | None = None


def _face(value: object) -> Face:
    from ..studies.compare.comparison import Comparison
    from ..studies.configure.answer import Answer

    if isinstance(value, Result):
        return _face_of_result(value)
    if isinstance(value, Comparison):
        return _face_of_comparison(value)
    if isinstance(value, AnyPlan):
        return _face_of_plan(value)
    return _face_of_answer(value) if isinstance(value, Answer) else _face_of_problem(value)


def brief(value: Displayed) -> str:
    """Three lines: what it is, and what matters most of it."""
    face = _face(value)
    return "\n".join([face.head, *(f"  {name}: {text}" for name, text in list(face.facts.items())[:MOST_FACTS])])


def html(value: Displayed) -> str:
    """The same line, all facts and tables as HTML, without styles, so that those of a notebook hold; of a plan its
    picture as well."""
    from .page import tag, to_html

    def table(rows: Iterable[Sequence[tuple[str, str]]]) -> Any:
        return tag(
            "table", None, *(tag("tr", None, *(tag(name, None, cell) for name, cell in row)) for row in rows)
        )

    face = _face(value)
    parts = [tag("p", None, tag("b", None, face.head))]
    parts.append(table([("th", name), ("td", text)] for name, text in face.facts.items()))
    for names, lines in face.tables():
        parts.append(
            table([[("th", name) for name in names], *([("td", cell) for cell in line] for line in lines)])
        )
    picture = drawn(face.draw, None).svg if face.draw and isinstance(value, AnyPlan) else ""
    return to_html(tag("div", None, *parts)).partition("\n")[2] + picture[picture.find("<svg") :]


def show(value: Displayed) -> None:
    """Print what `plan show`, `plan solve`, `plan compare` and `plan configure` print."""
    _face(value).show()


def plot(value: Displayed, path: Place) -> Picture:
    """The picture that the command would draw."""
    draw = _face(value).draw
    assert draw is not None, "asked of results and comparisons"
    return drawn(draw, path)


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


# ---- problems, comparisons and configurations ------------------------------------------------------------


def _face_of_problem(problem: Any) -> Face:
    from .views import module_of

    def show() -> None:
        from .terminal import draw_instance

        draw_instance(problem)

    facts = {name: str(text) for name, text in module_of(problem).facts(problem).items()}
    return Face(f"{type(problem).__name__} {problem.name}", facts, show)


def _face_of_comparison(comparison: Comparison) -> Face:
    from ..studies.compare.table import profile
    from .comparison import draw_comparison, parts_of, state
    from .pictures import write_profile

    runs = comparison.expanded.runs
    instances, methods = (dict.fromkeys(getattr(run, name) for run in runs) for name in ("instance", "method"))
    return Face(
        f"{comparison.expanded.title}: {state(comparison)}",
        {"instances": ", ".join(instances), "methods": ", ".join(methods)},
        partial(draw_comparison, comparison),
        lambda: [(part.head, part.rows) for part in parts_of(comparison).values() if part.rows],
        lambda path: write_profile(profile(comparison.table()), path),
    )


def latex(comparison: Comparison) -> str:
    """The comparison's tables for a paper, in LaTeX."""
    from . import comparison as tables

    return tables.latex(comparison)


def _face_of_answer(answer: Answer) -> Face:
    from .views.training import best_in_words, counted_in_words, draw_answer

    facts = {}
    if answer.report is not None:
        facts = {"best": next(iter(best_in_words(answer))), "counted": counted_in_words(answer)}
    return Face(f"Answer for {answer.problem.name}", facts, partial(draw_answer, answer))


# ---- results ---------------------------------------------------------------------------------------------


NO_PLAN = "The result has no plan that the referee accepts; result.found and result.messages say why."


def _face_of_result(result: Result) -> Face:
    from .answer import run_facts
    from .views import view_of_result

    def show() -> None:
        from .terminal import draw_result

        problem = subject_of(result)
        draw_result(problem, result, view_of_result(problem, result), named=True)

    def tables() -> Iterator[Cells]:
        """Devices or stages, where there is a plan and its problem is at hand."""
        with suppress(UsageError):
            yield _cells(_view(result))

    def draw(path: str | os.PathLike[str]) -> None:
        from .pictures import draw_view

        draw_view(_view(result), path)

    facts = run_facts(result, result.problem.get("time_unit"))
    head = f"Result for {result.problem.get('name')}: {facts.pop('found')}, {facts.pop('objective')}"
    rest = f"bound {facts.pop('bound')}, gap {facts.pop('gap')}, stop {facts.pop('stop')}, {facts.pop('seconds')}"
    facts = {facts.pop("method"): rest, "scope": facts.pop("scope", "nothing is proven"), **facts}
    return Face(head, facts, show, tables, draw)


def _face_of_plan(plan: Any) -> Face:
    """Its decisions as data; where it is known for what it was judged, and holds, a table with loads and a picture."""
    from ..planners.referee import rule, rules_of
    from .console import put
    from .pictures import draw_view
    from .views import view_of
    from .words import several, singular

    decisions = {name: value for name, value in plan.to_json().items() if name != "kind"}
    counts = [several(len(own), singular(name)) for name, own in decisions.items() if own and isinstance(own, list)]
    head = f"{type(plan).__name__}: {', '.join(counts)}"
    facts = {name: textwrap.shorten(str(own), LONGEST_FACT, placeholder=" ...") for name, own in decisions.items()}
    show = partial(put, head, *facts.values())
    problem, rules = (None, None) if plan.judged is None else (plan.judged[0], rules_of(*plan.judged))
    if problem is None or rules is None or rule(problem, plan, rules).value is None:
        return Face(head, facts, show)
    view = view_of(problem, plan, rules)
    return Face(head, {problem.name: view.headline}, show, lambda: [_cells(view)], partial(draw_view, view))


def _cells(view: PlanView) -> Cells:
    columns = columns_of(view)
    return list(columns), list(zip(*columns.values(), strict=True))


def columns_of(view: PlanView) -> dict[str, list[str]]:
    """A column of text by title for each thing that is told of a device or a stage."""
    return view.tables[0].columns(view.tables[0].rows, view.memory_unit)


def columns(result: Result) -> dict[str, list[str]]:
    """The columns of a result's plan."""
    return columns_of(_view(result))


def _view(result: Result) -> PlanView:
    """The view of a result's plan, in units that suit it."""
    from .views import view_of_result

    view = view_of_result(subject_of(result), result)
    if view is None:
        raise UsageError(NO_PLAN)
    return view


def loads(result: Result) -> dict[str, float]:
    """The load of each device or stage, in the problem's units."""
    return {row.title: row.load for row in _plain_view(result).tables[0].rows}


def memory(result: Result) -> dict[str, float | None]:
    """The memory that each device or stage holds, in the problem's units; None: the view does not say."""
    return {row.title: row.memory_held for row in _plain_view(result).tables[0].rows}


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
    from .views import module_of

    problem = subject_of(result)
    if result.plan is None or not result.verified:
        raise UsageError(NO_PLAN)
    return module_of(problem).view(problem, result.plan, rules_of(problem, result.options))
