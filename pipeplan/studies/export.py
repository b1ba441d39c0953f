"""The model that a formulation builds, as an MPS or LP file for other solvers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..formulations.contract import Formulation, NativeOnlyError, Problem, Refuted
from ..formulations.plugins import mistake_in
from ..instances.base.errors import InputError, PipeplanError, UsageError
from ..planners.run.choose import Method, choose

SUFFIXES = (".mps", ".lp")


def check_export(path: str) -> None:
    """Refuse a suffix that names no format of ours."""
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
    """Write the linear model that the formulation builds for `problem`, without any cut-off."""
    from ..planners.backends.compiler import compile_pyomo
    from ..planners.backends.files import write_model

    check_export(path)
    method = choose(problem, formulation, planner, solver, options or {})
    try:
        model = compile_pyomo(_build(problem, method).model)
    except PipeplanError:
        raise
    except Exception as error:
        if not method.is_plugin:
            raise
        raise UsageError(mistake_in(method.name, method.entry.module, error)) from error
    write_model(model, path)


def _build(problem: Problem, method: Method) -> Any:
    if method.formulation is None:
        raise UsageError(f"Planner {method.planner.name!r} has no model to write; choose a --formulation.")
    formulation: Formulation = method.formulation.load()
    formulation.check(problem, method.options)
    try:
        built = formulation.build(problem, method.options, native=False)
    except NativeOnlyError as error:
        held = "which no .mps or .lp file can hold"
        raise UsageError(
            f"{method.name} is a model for CP-SAT alone, {held}; drop --export-model{error.instead}."
        ) from None
    if isinstance(built, Refuted):
        raise InputError(
            "problem", f"has no plan ({built.reason})", "there is no model to write; change the problem"
        )
    return built
