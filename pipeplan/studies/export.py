"""The model that a formulation builds, as an MPS or LP file for other solvers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formulations.contract import BuiltModel, Formulation, NativeOnlyError, Problem, Refuted
from ..formulations.plugins import mistake_in
from ..instances.base.errors import InputError, PipeplanError, UsageError
from ..instances.base.json_file import write_text_atomically
from ..planners.registry import default_formulation
from ..planners.run.choose import Method, choose

if TYPE_CHECKING:
    from ..planners.backends.model import MatrixModel

SUFFIXES = (".mps", ".lp")
# The meaning of a row or column of which the model says nothing.
UNSAID = "not said: `doc=` of the component in the model would say it"
# The most terms of the objective on the page beside the file.
MOST_TERMS = 6


def check_export(path: str) -> None:
    """Refuse a file whose suffix names no format that we write."""
    if Path(path).suffix not in SUFFIXES:
        raise UsageError(
            f"A model is written as .mps or .lp, not as {Path(path).suffix or path!r}; change the file's name."
        )


def export_model(
    problem: Problem,
    path: str,
    *,
    formulation: str | None = None,
    planner: str | None = None,
    solver: str = "auto",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write the linear model that the formulation builds for `problem`, without any cut-off, and beside it a page on
    the meaning of its rows and columns."""
    from ..planners.backends.files import write_model
    from ..planners.backends.model import compile_pyomo

    check_export(path)
    method = choose(problem, formulation, planner, solver, options or {})
    try:
        built = _build(problem, method)
        model = compile_pyomo(built.model)
    except PipeplanError:
        raise
    except Exception as error:
        if not method.is_plugin:
            raise
        raise UsageError(mistake_in(method.name, method.entry.module, error)) from error
    write_model(model, path)
    write_text_atomically(f"{path}.md", _page(problem, built, model, path, method))


def _page(problem: Problem, built: BuiltModel, model: MatrixModel, path: str, method: Method) -> str:
    """What the file says: its objective, each group of columns and rows as the model tells it, the numbers in names."""
    from ..planners.backends.files import as_written

    written = as_written(model, Path(path).suffix)
    words = {part.name: part.doc for part in built.model.component_objects()}
    costs = {name: cost for name, cost in zip(model.column_names, model.costs.tolist(), strict=True) if cost}
    terms = [f"{cost:g} {name}" for name, cost in list(costs.items())[:MOST_TERMS]]
    terms += ["..."] * (len(costs) > MOST_TERMS) + [f"{model.offset:g}"] * bool(model.offset)
    name = method.name if method.is_plugin else built.model.name.strip("'")  # Pyomo puts quotes around a comma
    unit = problem.time_unit or "the units of time of the problem"
    lines = [
        f"# {Path(path).name} in words",
        "",
        f"The model `{name}` of {problem.name}: {written.rows} rows and {written.columns} columns, "
        f"{int(written.integer.sum())} of them whole numbers.",
        f"Objective: minimise {' + '.join(terms)}, in {unit}.",
        "",
        "A best plan is a solution of this file; a plan may be missing where another one is at least as good. The rows "
        "that `plan solve -v` counts are those of the program that a solver was given: it asks for nothing worse than "
        "the best plan that was known, and CP-SAT may have a program of its own.",
        "",
        *_groups("columns", model.column_names, written.column_names, words, "constant, which is 1"),
        "",
        *_groups("rows", model.row_names, written.row_names, words, "holds columns of no other row"),
        "",
        "Numbers of equations, (T7) or `eq_7`, are those of the model's page among the models on paper, which keep the "
        "paper's numbers where it has some. Indices stand in brackets.",
        "",
        "## Numbers in names",
        "",
        *(built.key() if built.key is not None else _parts(problem)),
    ]
    return "\n".join(lines) + "\n"


def _groups(
    what: str, names: Sequence[str], written: Sequence[str], words: Mapping[str, str | None], added: str
) -> Iterator[str]:
    """A line for each block of rows or columns: their number, the name of the first in the file, and the meaning."""
    yield f"| {what} | number | the first one in the file | meaning |"
    yield "| --- | --- | --- | --- |"
    in_file: dict[str, list[str]] = {}
    for name, own in zip_longest(names, written):
        in_file.setdefault("" if name is None else name.partition("[")[0], []).append(own)
    for block, own in in_file.items():
        meaning = (words.get(block) or UNSAID) if block else added
        yield f"| {block or '-'} | {len(own)} | {own[0]} | {meaning} |"


def _parts(problem: Any) -> Iterator[str]:
    """The nodes, layers or blocks of a problem in the order of their numbers."""
    if isinstance(getattr(problem, "layers", None), int):
        yield f"layers 1 to {problem.layers}, as in the report"
        return
    for kind in ("nodes", "layers", "blocks"):
        for number, part in enumerate(getattr(problem, kind, ())):
            yield f"{kind[:-1]} {number}: {part.id}"


def _build(problem: Problem, method: Method) -> Any:
    """The model of the method's formulation; refused where it has none, or none that a file can hold."""
    if method.formulation is None:
        remedy = "drop --export-model" if default_formulation(problem.kind) is None else "choose a --formulation"
        raise UsageError(f"Planner {method.planner.name!r} has no model to write; {remedy}.")
    formulation: Formulation = method.formulation.load()
    formulation.check(problem, method.options)
    try:
        built = formulation.build(problem, method.options, native=False)
    except NativeOnlyError as error:
        reason = "which no .mps or .lp file can hold"
        raise UsageError(
            f"{method.name} is a model for CP-SAT alone, {reason}; drop --export-model{error.instead}."
        ) from None
    if isinstance(built, Refuted):
        raise InputError(
            "problem", f"has no plan ({built.reason})", "there is no model to write; change the problem"
        )
    return built
