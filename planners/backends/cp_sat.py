"""CP-SAT through ortools: matrix models in whole numbers, and native models that are built here, in the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from ...formulations.contract import NativeModel
from ...formulations.plugins import blaming, import_from_here
from ...instances.base.errors import InputError
from ...instances.base.result import StartOutcome, Stop, WarmStart
from ..options import SolveOptions
from .model import Floats, MatrixModel
from .records import Answer
from .scaling import IntegerForm, integer_form
from .session import Session, Start, completion_seconds

# CP-SAT's bound before it has one.
NO_BOUND = 2**62
ONLY_ROUNDED = "CP-SAT's last solution holds for rounded numbers only; choose highs or scip for this model"
# By how many seconds CP-SAT's clock may be before ours.
CLOCK_SLACK_S = 0.1
# In place of CP-SAT's own limit of 10 GB: the parent watches the memory.
UNLIMITED_MEMORY_MB = 10**6


@dataclass(frozen=True)
class _Program:
    """A CpModel with the way back: columns in order, solution to numbers, integer bound to true bound."""

    model: cp_model.CpModel
    columns: Sequence[Any]
    point: Callable[[Sequence[int]], Floats]
    value: Callable[[float, Floats], float]
    """(integer objective, point) -> true objective."""
    bound: Callable[[float], float]
    holds: Callable[[Floats], bool]
    """Is the point a solution for the true numbers, too?"""
    constant: float | None = None
    """The objective where there is nothing to minimise."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """CP-SAT parameters that the model's builder asks for."""


class Driver:
    """The two ways into CP-SAT; both end in the same search."""

    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        form = integer_form(model)
        if any(low > high for low, high in zip(form.lower, form.upper, strict=True)):
            return Answer(Stop.INFEASIBLE)
        program = _from_form(form, model)
        for j, value in () if start is None else zip(*(each.tolist() for each in start.given()), strict=True):
            upwards = not model.integer[j] and model.costs[j] > 0
            program.model.add_hint(program.columns[j], form.hint(j, value, upwards))
        answer = _Search(program, options, session).run()
        return replace(answer, message="; ".join(filter(None, (answer.message, _price(form)))))

    def solve_native(
        self, native: NativeModel, options: SolveOptions, start: Mapping[str, float] | None, session: Session
    ) -> Answer:
        if session.out_of_time():
            return Answer(Stop.TIME, message="there was no time to build the model")
        with blaming(native.builder, native.builder.partition(":")[0]):
            program, names = _from_builder(native)
        session.tell_names(names)
        warm = WarmStart() if start is None else _assess_native(program, names, options, start, session)
        answer = _Search(program, options, session).run()
        proto = program.model.proto
        size = {"rows": len(proto.constraints), "columns": len(proto.variables)}
        return replace(answer, size=size, warm_start=warm)


# ---- models --------------------------------------------------------------------------------------------


def _from_form(form: IntegerForm, model: MatrixModel) -> _Program:
    program = cp_model.CpModel()
    columns = [program.new_int_var(low, high, "") for low, high in zip(form.lower, form.upper, strict=True)]
    for row in form.rows:
        if row.lower > row.upper:
            program.add_bool_or([])  # rounding outwards left nothing: no solution
            continue
        expression = cp_model.LinearExpr.weighted_sum([columns[j] for j in row.columns], row.coefficients)
        program.add_linear_constraint(expression, row.lower, row.upper)
    priced = [j for j, cost in enumerate(form.costs) if cost]
    if priced:
        program.minimize(
            cp_model.LinearExpr.weighted_sum([columns[j] for j in priced], [form.costs[j] for j in priced])
        )
    return _Program(
        program,
        columns,
        form.point,
        lambda integer, point: model.objective(point),
        form.true_bound,
        model.is_feasible,
        None if priced else form.offset,
    )


def _price(form: IntegerForm) -> str:
    """What scaling has cost, in words for the report."""
    words = []
    if form.rounded_rows:
        words.append(f"{form.rounded_rows} rows were rounded outwards to whole numbers")
    if form.loss:
        words.append(f"continuous columns were put on grids and the bound lowered by {form.loss:.3g} for it")
    return "; ".join(words)


def _from_builder(native: NativeModel) -> tuple[_Program, tuple[str, ...]]:
    module, _, function = native.builder.partition(":")
    built = getattr(import_from_here(module), function)(native.payload)
    scale, offset, loss = built.scale, built.offset, getattr(built, "loss", 0.0)
    priced = built.model.has_objective()
    program = _Program(
        built.model,
        list(built.variables.values()),
        lambda numbers: np.asarray(numbers, dtype=np.float64),
        lambda integer, point: integer / scale + offset,
        lambda bound: bound / scale + offset - loss,
        lambda point: True,
        None if priced else offset - loss,
        getattr(built, "parameters", {}),
    )
    return program, tuple(built.variables)


def _assess_native(
    program: _Program, names: Sequence[str], options: SolveOptions, start: Mapping[str, float], session: Session
) -> WarmStart:
    """Solve with every hinted variable held: what comes out has the given values, or there is no such solution."""
    by_name = dict(zip(names, program.columns, strict=True))
    unknown = next((name for name in start if name not in by_name), None)
    if unknown is not None:
        raise InputError("start", f"names the unknown variable {unknown!r}", "name variables of the model")
    program.model.clear_hints()  # type: ignore[no-untyped-call]
    for name, value in start.items():
        program.model.add_hint(by_name[name], round(value))
    quiet = session.subtask(completion_seconds(session))
    fixed = {**options.native, "fix_variables_to_their_hinted_value": True}
    answer = _Search(program, replace(options, log_path=None, native=fixed), quiet).run()
    if answer.x is None or answer.objective is None:
        return WarmStart(StartOutcome.REJECTED)
    session.found(answer.x, answer.objective, source="start")
    program.model.clear_hints()  # type: ignore[no-untyped-call]
    for column, value in zip(program.columns, answer.x.tolist(), strict=True):
        program.model.add_hint(column, round(value))
    return WarmStart(StartOutcome.ACCEPTED, value=answer.objective)


# ---- the search ----------------------------------------------------------------------------------------


class _Search(cp_model.CpSolverSolutionCallback):
    """One run. It watches the gap itself: CP-SAT measures it on scaled numbers, and in its own way below 1."""

    def __init__(self, program: _Program, options: SolveOptions, session: Session) -> None:
        super().__init__()
        self.program = program
        self.options = options
        self.session = session
        self.solver = cp_model.CpSolver()
        self.indices = [column.index for column in program.columns]
        self.incumbent: float | None = None
        self.reached_gap = False

    def run(self) -> Answer:
        _configure(self.solver, self.options, self.session, self.program.parameters)
        self.solver.best_bound_callback = self._on_bound
        with ExitStack() as stack:
            if self.options.log_path is not None:
                log = stack.enter_context(open(self.options.log_path, "w", encoding="utf-8"))
                self.solver.log_callback = lambda line: print(line, file=log, flush=True)
            stack.enter_context(self.session.when_stopped(self.solver.stop_search))
            status = self.solver.solve(self.program.model, self)
        return self._answer(status)

    # ---- while it runs ---------------------------------------------------------------------------------

    def on_solution_callback(self) -> None:
        x = self._point(self.response_proto.solution)
        value = self.program.value(self.objective_value, x)
        if self.program.holds(x):
            self.session.found(x, value, source="cp-sat")
            self.incumbent = value if self.incumbent is None else min(value, self.incumbent)
        self._on_bound(self.best_objective_bound)

    def _on_bound(self, integer_bound: float) -> None:
        bound = self._true_bound(integer_bound)
        self.session.progress(bound)
        value = self.session.best_value if self.session.best_value is not None else self.incumbent
        if value is None or bound is None or bound > value:
            return
        options = self.options
        if value - bound <= max(options.abs_gap, options.rel_gap * abs(value)):
            self.reached_gap = True
            self.solver.stop_search()

    def _true_bound(self, integer_bound: float) -> float | None:
        if self.program.constant is not None:
            return self.program.constant
        return self.program.bound(integer_bound) if abs(integer_bound) < NO_BOUND else None

    def _point(self, solution: Any) -> Floats:
        numbers = list(solution)
        return self.program.point([numbers[i] for i in self.indices])

    # ---- at the end ------------------------------------------------------------------------------------

    def _answer(self, status: Any) -> Answer:
        solver, message = self.solver, ""
        if status == cp_model.MODEL_INVALID:
            return Answer(Stop.ERROR, message=f"CP-SAT refused the model: {solver.solution_info()}")
        counts = {"branches": solver.num_branches, "conflicts": solver.num_conflicts}
        if status == cp_model.OPTIMAL:
            stop = Stop.PROVEN
        elif status == cp_model.INFEASIBLE:
            return Answer(Stop.INFEASIBLE, counts=counts)
        else:
            stop, message = self._why_unfinished()
        response = solver.response_proto
        bound = self._true_bound(solver.best_objective_bound)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Answer(stop, bound=bound, nodes=solver.num_branches, message=message, counts=counts)
        x = self._point(response.solution)
        if not self.program.holds(x):
            return Answer(Stop.COMPLETED, bound=bound, message=ONLY_ROUNDED, counts=counts)
        value = self.program.value(solver.objective_value, x)
        return Answer(stop, x, value, bound, solver.num_branches, message, counts=counts)

    def _why_unfinished(self) -> tuple[Stop, str]:
        if self.reached_gap:
            return Stop.GAP, ""
        if self.session.stop.is_set():
            return Stop.INTERRUPTED, ""
        left = self.session.solver_seconds_left()
        if left is not None and (left < CLOCK_SLACK_S or not self.options.native):
            return Stop.TIME, ""  # the only limit that we give: its clock may be a little before ours
        if self.options.native:
            return Stop.TIME, "CP-SAT stopped at a limit of the native options"
        return Stop.ERROR, "CP-SAT stopped without saying why"


def _configure(
    solver: cp_model.CpSolver, options: SolveOptions, session: Session, wanted: Mapping[str, Any]
) -> None:
    parameters = solver.parameters
    parameters.relative_gap_limit = 0.0
    parameters.absolute_gap_limit = 0.0
    # In releases up to 9.15 one presolve rule sums coefficients in 32 bits and then drops enforcement
    # literals wrongly (google/or-tools issue 5293): false proofs, met on our own models. This turns it off.
    parameters.presolve_inclusion_work_limit = 0
    # Another rule, for times that are the largest of several, calls small feasible models of ours infeasible.
    parameters.auto_detect_greater_than_at_least_one_of = False
    parameters.random_seed = options.seed % (2**31)
    parameters.catch_sigint_signal = False
    parameters.max_memory_in_mb = UNLIMITED_MEMORY_MB
    parameters.log_search_progress = options.log_path is not None
    parameters.log_to_stdout = False
    if options.threads is not None:
        parameters.num_workers = options.threads
    left = session.solver_seconds_left()
    if left is not None:
        parameters.max_time_in_seconds = left
    for name, value in wanted.items():
        if isinstance(value, (list, tuple)):
            getattr(parameters, name).extend(value)
        else:
            setattr(parameters, name, value)
    for name, value in options.native.items():
        _set_native(parameters, name, value)


def _set_native(parameters: Any, name: str, value: Any) -> None:
    if name.startswith("_") or not hasattr(parameters, name) or callable(getattr(parameters, name)):
        raise InputError(f"native.{name}", "is not a parameter of CP-SAT", "correct its name")
    try:
        setattr(parameters, name, value)
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"native.{name}", f"cannot be {value!r} in CP-SAT", "give a value of the type that this parameter takes"
        ) from error
