"""What integer solvers read of every model that others solve, too: rows in decimals, each exactly or called rounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
from problems.nasty import KINDS, nasty, scaled
from problems.schedules import random_schedule

from pipeplan.formulations.contract import BuiltModel, NativeModel, NativeOnlyError
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.registry import Problem
from pipeplan.planners.backends import MatrixModel
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.backends.scaling import EXACT_DIGITS, IntegerForm, choose_grids, decimal, integer_form
from pipeplan.planners.run.choose import resolve_options

SEEDS = range(12)
NATIVE = {"cp-beaumont", "cp-graphpipe", "cp-schedule", "cp-periodic"}


def problems(kind: str) -> Iterator[Problem]:
    """Schedules in times of 0.1 to 0.4; of other kinds, whatever has led a method astray."""
    for seed in SEEDS:
        if kind == "schedule":
            yield scaled(random_schedule(2, 3, 2, seed), -1)
        else:
            drawn = (nasty(name, seed) for name in KINDS)
            yield from (problem for problem in drawn if problem.kind == kind)


def models(entry: Entry) -> Iterator[tuple[MatrixModel, IntegerForm]]:
    """Of the problems that it takes, for each of its objectives."""
    formulation = entry.load()
    for problem in problems(entry.problem_kind):
        for objective in entry.objectives or (None,):
            options = resolve_options(entry, {} if objective is None else {"objective": objective})
            try:
                formulation.check(problem, options)
                built = formulation.build(problem, options, native=False)
                if isinstance(built, BuiltModel) and not isinstance(built.model, NativeModel):
                    model = compile_pyomo(built.model, grids=built.grids, grid_loss=built.grid_loss)
                    yield model, integer_form(model)
            except (NativeOnlyError, UsageError, InputError):
                continue


def spoiled_rows(model: MatrixModel, form: IntegerForm) -> int:
    """Rows whose whole numbers are not those that were written, or so many that a float does not keep them apart."""
    steps, spoiled = choose_grids(model).steps, 0
    for i, row in enumerate(form.rows):
        columns, coefficients = model.row(i)
        pairs = [
            (row.coefficients[n], decimal(a) * steps[j])
            for n, (j, a) in enumerate(zip(columns, coefficients, strict=True))
        ]
        pairs += [
            (whole, decimal(side))
            for whole, side in ((row.lower, model.row_lower[i]), (row.upper, model.row_upper[i]))
            if math.isfinite(side)
        ]
        ratios = {Fraction(whole) / number for whole, number in pairs if number}
        spoiled += len(ratios) > 1 or any(abs(whole) >= EXACT_DIGITS for whole, _ in pairs)
    return spoiled


@pytest.mark.parametrize("name", sorted(set(FORMULATIONS) - NATIVE))
def test_rows_in_decimals_are_exact_or_called_rounded(name: str) -> None:
    seen = 0
    for model, form in models(FORMULATIONS[name]):
        assert spoiled_rows(model, form) <= form.rounded_rows
        if FORMULATIONS[name].problem_kind == "schedule":
            assert form.rounded_rows == 0, "times are whole steps"
        seen += 1
    assert seen, "this test reads nothing"
